//! TensorFlow Serving's REST API, and what goes beyond it on the same URLs.

mod admin;
mod binary;
mod describe;
mod infer;
mod predict;
mod record;
mod route;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use hyper::body::Incoming;
use serde_json::Value;

use self::route::{Action, Route, route};
use crate::error::{Error, Result};
use crate::frontends::body::Answer;
use crate::frontends::percent;
use crate::frontends::rest::wishes::Wishes;
use crate::frontends::rest::{json, read, timeout};
use crate::frontends::state::State;
use crate::frontends::timing::ServerTiming;
use crate::telemetry::Api;

/// A request that was posted, all of it read.
struct Posted<'a> {
    state: &'a State,
    route: &'a Route,
    headers: &'a HeaderMap,
    wishes: Wishes,
    body: Bytes,
    arrived: Instant,
    deadline: Option<Instant>,
    timing: ServerTiming,
}

/// Answers a request under `/v1`.
pub async fn answer(state: &Arc<State>, head: &Parts, body: Incoming, wishes: Wishes) -> Result<Response<Answer>> {
    let began = Instant::now();
    let route = route(&head.method, head.uri.path())?;
    match route.action {
        Action::List => return value(&describe::describe(state, &route)?),
        Action::Status | Action::Metadata => {
            let described = describe::describe(state, &route);
            let code = described.as_ref().err().map(|error| error.code);
            state.telemetry.described(&route.model, code, began.elapsed());
            return value(&described?);
        }
        Action::ReadConfig => return admin::config(state).await,
        _ => {}
    }
    let asked = timeout(&head.headers)?;
    let mut ticket = state.admit();
    let body = counted(state, &route.model, read(state, &mut ticket, head, body).await)?;
    let deadline = match route.action.is_admin() {
        true => asked.and_then(|limit| began.checked_add(limit)),
        false => state.rest_deadline(began, asked),
    };
    let (headers, arrived) = (&head.headers, Instant::now());
    let timing = ServerTiming::of(headers);
    let posted = Posted { state, route: &route, headers, wishes, body, arrived, deadline, timing };
    let mut response = match route.action {
        Action::Predict => predict::answer(&posted).await,
        Action::Classify | Action::Regress => infer::answer(&posted).await,
        Action::Record => record::answer(&posted).await,
        _ => admin::answer(&posted).await,
    }?;
    posted.timing.tell(response.headers_mut());
    Ok(response)
}

/// Counts a request that never reached an endpoint.
fn counted<T>(state: &State, model: &str, outcome: Result<T>) -> Result<T> {
    outcome.inspect_err(|error| state.telemetry.refused(Api::TfsRest, model, error))
}

fn value(value: &Value) -> Result<Response<Answer>> {
    serde_json::to_vec(value).map(json).map_err(|error| Error::internal(error.to_string()))
}

/// An answer that says who gave it.
fn signed(mut response: Response<Answer>, model: &str, version: i64, signature: &str) -> Response<Answer> {
    let headers = response.headers_mut();
    headers.insert("poise-version", HeaderValue::from(version));
    for (name, text) in [("poise-model", model), ("poise-signature", signature)] {
        if let Ok(text) = HeaderValue::from_str(&percent::encode(text.as_bytes())) {
            headers.insert(name, text);
        }
    }
    response
}
