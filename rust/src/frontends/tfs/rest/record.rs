//! `POST …:record`: the next requests of a model as a warm-up file.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use serde::Deserialize;

use super::Posted;
use crate::error::{Code, Error, Reason, Result};
use crate::frontends::body::Answer;
use crate::routes::Choice;

/// As many as a warm-up file may have.
const MOST_RECORDS: usize = 1000;
const LONGEST_S: f64 = 3600.0;

/// What a client asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Asked {
    records: usize,
    timeout_s: f64,
}

impl Default for Asked {
    fn default() -> Self {
        Self { records: 100, timeout_s: 60.0 }
    }
}

pub async fn answer(posted: &Posted<'_>) -> Result<Response<Answer>> {
    let (state, model) = (posted.state, &posted.route.model);
    if !state.settings.admin {
        let message = "record: this server takes no orders from clients (admin = false)";
        return Err(Error::new(Code::PermissionDenied, Reason::Unsupported, message));
    }
    let asked = parse(&posted.body)?;
    // Tells of a model that is not served; the lease goes at once, as recording keeps no version open.
    state.routes.resolve(model, &Choice::Latest)?;
    let file = state.recorder.record(model, asked.records, Duration::from_secs_f64(asked.timeout_s)).await?;
    let mut response = Response::new(Answer::full(file));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

fn parse(body: &[u8]) -> Result<Asked> {
    let body = if body.is_empty() { b"{}" } else { body };
    let asked: Asked = serde_json::from_slice(body)
        .map_err(|error| Error::bad_input(format!("record: expected {{\"records\": N, \"timeout_s\": T}}: {error}")))?;
    if !(1..=MOST_RECORDS).contains(&asked.records) {
        let got = asked.records;
        return Err(Error::bad_input(format!("records: expected 1 to {MOST_RECORDS} but got {got}")));
    }
    if !(asked.timeout_s > 0.0 && asked.timeout_s <= LONGEST_S) {
        let got = asked.timeout_s;
        return Err(Error::bad_input(format!("timeout_s: expected more than 0 and at most {LONGEST_S} but got {got}")));
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_has_defaults_and_bounds() {
        let asked = parse(b"").unwrap();
        assert_eq!((asked.records, asked.timeout_s), (100, 60.0));
        assert_eq!(parse(br#"{"records": 7, "timeout_s": 0.5}"#).unwrap().records, 7);
        for bad in [
            r#"{"records": 0}"#,
            r#"{"records": 1001}"#,
            r#"{"timeout_s": 0}"#,
            r#"{"timeout_s": 1e9}"#,
            "[",
            r#"{"x": 1}"#,
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
