//! Calls from pages of other origins: what a browser asks first, and the headers that let it see the answers.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, ORIGIN,
};
use http::{HeaderMap, HeaderValue, Response};

use crate::error::{Error, Result};
use crate::frontends::body::Answer;

/// Answers OPTIONS, with or without the setting `cors`, as TensorFlow Serving does.
pub fn preflight(headers: &HeaderMap) -> Result<Response<Answer>> {
    let origin = headers.get(ORIGIN).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !["http://", "https://"].iter().any(|scheme| origin.contains(scheme)) {
        let message = format!("OPTIONS: expected an Origin of http:// or https:// but got {origin:?}");
        return Err(Error::bad_input(message));
    }
    let mut response = Response::new(Answer::empty());
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, OPTIONS"));
    Ok(response)
}

/// Lets pages of any origin see an answer. The first three headers are TensorFlow Serving's; the fourth is for ours.
pub fn allow(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
    let ours = "Poise-Model, Poise-Version, Poise-Signature, Poise-Outputs, Server-Timing, Retry-After, ETag";
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(ours));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_says_where_its_page_is_from() {
        let ask = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            origin.map(|origin| headers.insert(ORIGIN, HeaderValue::from_static(origin)));
            preflight(&headers).map(|response| response.status())
        };
        assert!(ask(Some("https://example.org")).is_ok());
        assert!(ask(Some("http://localhost:3000")).is_ok());
        assert!(ask(None).unwrap_err().message.ends_with("but got \"\""));
        assert!(ask(Some("null")).is_err());
    }
}
