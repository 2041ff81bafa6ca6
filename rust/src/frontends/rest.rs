//! HTTP/1.1: routes, error bodies and headers; what a model's route means is its API's affair.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::body::{self, Answer};
use super::state::State;
use super::tfs;
use crate::error::{Code, Error, Reason, Result};
use crate::telemetry::Api;

/// Answers one request of an HTTP client.
pub async fn call(state: Arc<State>, request: Request<Incoming>) -> Response<Answer> {
    match dispatch(state, request).await {
        Ok(response) => response,
        Err(error) => refusal(&error),
    }
}

async fn dispatch(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Answer>> {
    let path = request.uri().path();
    match path {
        "/healthz" => return plain(request.method(), StatusCode::OK, "ok\n".into()),
        "/readyz" => return readiness(&state, request.method()),
        "/metrics" => return metrics(&state, request.method()),
        _ => {}
    }
    if !path.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("/v1/")) {
        let message = format!("nothing at {path}: try /v1/models/NAME, /metrics, /readyz or /healthz");
        return Err(Error::new(Code::NotFound, Reason::NotFound, message));
    }
    let route = tfs::rest::route(request.method(), path)?;
    if request.method() == Method::GET {
        return tfs::rest::describe(&state, &route).map(json);
    }
    if request.headers().contains_key(http::header::CONTENT_ENCODING) {
        let message = "Content-Encoding: expected identity (none); compressed bodies are not accepted";
        return Err(Error::new(Code::InvalidArgument, Reason::Unsupported, message));
    }
    let mut ticket = state.admit();
    let deadline = state.deadline(Instant::now(), None);
    let bytes = body::read(&state, &mut ticket, request.into_body()).await;
    let bytes = bytes.inspect_err(|error| state.telemetry.refused(Api::TfsRest, error.code, error.reason.label()))?;
    tfs::rest::predict(&state, &route, bytes, deadline).await.map(json)
}

fn readiness(state: &State, method: &Method) -> Result<Response<Answer>> {
    let ready = *state.ready.borrow();
    let (status, text) =
        if ready { (StatusCode::OK, "ready\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready\n") };
    plain(method, status, text.into())
}

fn metrics(state: &State, method: &Method) -> Result<Response<Answer>> {
    let mut response = plain(method, StatusCode::OK, state.telemetry.text())?;
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

fn plain(method: &Method, status: StatusCode, text: String) -> Result<Response<Answer>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = Response::new(Answer::empty());
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    let mut response = Response::new(Answer::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(response)
}

fn json(body: impl Into<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::full(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error as an HTTP client sees it.
pub fn refusal(error: &Error) -> Response<Answer> {
    let mut response = json(tfs::json::write_error(error));
    let status = match error.reason {
        Reason::TooLarge => 413,
        Reason::Deadline if error.message.contains("client_timeout_s") => 408,
        _ => error.code.http_status(),
    };
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(after) = error.retry_after {
        let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
