//! HTTP/1.1: from a request to what answers it, error bodies, and what goes around every answer. What a model's route
//! means is its API's affair.

pub mod coding;
pub mod cors;
pub mod operations;
pub mod wishes;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use self::wishes::Wishes;
use super::body::{self, Answer};
use super::state::{RequestTicket, State};
use super::tfs;
use crate::error::{Code, Error, Reason, Result};

/// A client's time limit for its request.
const TIMEOUT: &str = "poise-timeout-ms";

/// Answers one request of an HTTP client.
pub async fn call(state: Arc<State>, request: Request<Incoming>) -> Response<Answer> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if let Some(answer) = operations::answer(&state, &head.method, path) {
        return coded(&head, answer);
    }
    if !path.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("/v1/")) {
        let message = format!("nothing at {path}: try /v1/models, /metrics, /readyz or /healthz");
        return refusal(&Error::new(Code::NotFound, Reason::NotFound, message));
    }
    let wishes = Wishes::of(&head);
    let pretty = wishes.as_ref().is_ok_and(|wishes| wishes.pretty);
    let outcome = match wishes {
        _ if head.method == Method::OPTIONS => cors::preflight(&head.headers),
        Ok(wishes) => tfs::rest::answer(&state, &head, body, wishes).await,
        Err(error) => Err(error),
    };
    let mut response = outcome.unwrap_or_else(|error| refusal(&error));
    if pretty && is_json(response.headers()) {
        response = response.map(|answer| Answer::full(tfs::json::indent(&answer.into_bytes())));
    }
    if state.settings.cors {
        cors::allow(response.headers_mut());
    }
    coded(&head, response)
}

fn coded(head: &Parts, response: Response<Answer>) -> Response<Answer> {
    coding::encoded(&head.headers, response).unwrap_or_else(|error| refusal(&error))
}

/// Reads a request's whole body, as it was before it was compressed.
pub async fn read(state: &State, ticket: &mut RequestTicket, head: &Parts, body: Incoming) -> Result<Bytes> {
    let sent = body::read(state, ticket, body).await?;
    let (address, length) = (sent.as_ptr(), sent.len());
    let body = coding::decoded(&head.headers, sent, state.settings.max_message_bytes)?;
    if (body.as_ptr(), body.len()) != (address, length) {
        ticket.hold(body.len())?;
    }
    Ok(body)
}

/// The time limit that a client sets by a header.
pub fn timeout(headers: &HeaderMap) -> Result<Option<Duration>> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let milliseconds = value.to_str().ok().and_then(|text| text.parse().ok()).map(Duration::from_millis);
    let bad = || Error::bad_input(format!("Poise-Timeout-Ms: expected whole milliseconds but got {value:?}"));
    milliseconds.ok_or_else(bad).map(Some)
}

pub fn json(body: impl Into<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::full(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
}

/// What is only read was written to.
fn not_allowed(method: &Method, path: &str) -> Response<Answer> {
    let message = format!("{path}: expected GET or HEAD but got {method}");
    let mut response = refusal(&Error::new(Code::Unimplemented, Reason::Unsupported, message));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// An error as an HTTP client sees it.
pub fn refusal(error: &Error) -> Response<Answer> {
    let mut response = json(tfs::json::write_error(error));
    let status = match error.reason {
        Reason::TooLarge => 413,
        Reason::Coding => 415,
        Reason::Deadline if error.message.contains("client_timeout_s") => 408,
        _ => error.code.http_status(),
    };
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if error.reason == Reason::Coding {
        response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(coding::KNOWN));
    }
    if let Some(after) = error.retry_after {
        let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_are_whole_milliseconds() {
        let limit = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TIMEOUT, HeaderValue::from_str(text).unwrap());
            timeout(&headers)
        };
        assert_eq!(timeout(&HeaderMap::new()).unwrap(), None);
        assert_eq!(limit("0").unwrap(), Some(Duration::ZERO));
        assert_eq!(limit("1500").unwrap(), Some(Duration::from_millis(1500)));
        for bad in ["", "-1", "1.5", "1s", "99999999999999999999"] {
            assert!(limit(bad).unwrap_err().message.starts_with("Poise-Timeout-Ms: expected whole milliseconds"));
        }
    }
}
