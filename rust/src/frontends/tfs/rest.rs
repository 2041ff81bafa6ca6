//! TensorFlow Serving's REST API.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};

use super::json::{parse_predict, write_predict};
use super::predict::Predict;
use crate::batching::endpoint::Endpoint;
use crate::batching::version::Lease;
use crate::error::{Code, Error, Result};
use crate::frontends::state::State;
use crate::model::{DEFAULT_SIGNATURE, Signature, TensorSpec};
use crate::routes::Choice;
use crate::telemetry::Api;

/// What a URL under `/v1` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub model: String,
    pub choice: Choice,
    pub action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Predict,
    Status,
    Metadata,
}

/// Reads a URL: `/v1/models/{name}[/versions/{n}|/labels/{label}]`, then `:predict` to post, or `/metadata` or nothing
/// to get. Everything else is a malformed request, as in TensorFlow Serving.
pub fn route(method: &Method, path: &str) -> Result<Route> {
    let malformed = || Error::bad_input(format!("Malformed request: {method} {path}"));
    let rest = path.get(4..).ok_or_else(malformed)?;
    let (resource, verb) = match (method, rest.rsplit_once(':')) {
        (&Method::POST, Some((resource, "predict"))) => (resource, Action::Predict),
        (&Method::GET, None) => match rest.strip_suffix("/metadata") {
            Some(resource) => (resource, Action::Metadata),
            None => (rest, Action::Status),
        },
        _ => return Err(malformed()),
    };
    let parts: Vec<&str> = resource.split('/').collect();
    if !parts[0].eq_ignore_ascii_case("models") {
        return Err(malformed());
    }
    let (name, choice) = match parts[1..] {
        [] | [""] if verb == Action::Status => return Err(Error::bad_input("Missing model name in request.")),
        [name] => (name, Choice::Latest),
        [name, kind, version] if kind.eq_ignore_ascii_case("versions") => {
            (name, specific(version).ok_or_else(malformed)??)
        }
        [name, kind, label] if kind.eq_ignore_ascii_case("labels") && !label.is_empty() => {
            (name, Choice::Label(decode(label)?))
        }
        _ => return Err(malformed()),
    };
    if name.is_empty() {
        return Err(malformed());
    }
    Ok(Route { model: decode(name)?, choice, action: verb })
}

/// A version number; `None` when it is not digits, an error when it is too large.
fn specific(digits: &str) -> Option<Result<Choice>> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let too_large = |_| Error::bad_input(format!("Failed to convert version: {digits} to numeric."));
    Some(digits.parse().map(Choice::Specific).map_err(too_large))
}

/// Percent-decoding of one path segment.
fn decode(segment: &str) -> Result<String> {
    let malformed = || Error::bad_input(format!("malformed percent-encoding in {segment}"));
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let (hex, tail) = rest.split_at_checked(2).ok_or_else(malformed)?;
            let hex = std::str::from_utf8(hex).map_err(|_| malformed())?;
            bytes.push(u8::from_str_radix(hex, 16).map_err(|_| malformed())?);
            rest = tail;
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

/// The endpoint that a request has found, held open.
struct Target {
    lease: Lease,
    endpoint: Arc<Endpoint>,
}

impl Deref for Target {
    type Target = Signature;

    fn deref(&self) -> &Signature {
        &self.endpoint.signature
    }
}

fn find(state: &State, route: &Route, signature: &str) -> Result<Target> {
    let name = if signature.is_empty() { DEFAULT_SIGNATURE } else { signature };
    let lease = state.routes.resolve(&route.model, &route.choice)?;
    let endpoint = lease.endpoint(name).cloned().ok_or_else(|| no_signature(name))?;
    Ok(Target { lease, endpoint })
}

/// `POST …:predict`.
pub async fn predict(state: &State, route: &Route, body: Bytes, deadline: Option<Instant>) -> Result<Vec<u8>> {
    let arrived = Instant::now();
    let parsed = parse_predict(&body, |signature| find(state, route, signature));
    let (target, format, inputs) =
        parsed.inspect_err(|error| state.telemetry.refused(Api::TfsRest, error.code, error.reason.label()))?;
    let Target { lease, endpoint } = &target;
    let predict = Predict { lease, endpoint, api: Api::TfsRest, arrived, deadline };
    let (wanted, answer) = predict.run(Ok(inputs), endpoint.select(&[])).await?;
    write_predict(format, &predict.named(&wanted, &answer))
}

fn no_signature(name: &str) -> Error {
    Error::bad_input(format!("Serving signature name: \"{name}\" not found in signature def"))
}

/// `GET …`: status or metadata as JSON.
pub fn describe(state: &State, route: &Route) -> Result<Vec<u8>> {
    let value = match route.action {
        Action::Metadata => metadata(state, route)?,
        _ => status(state, route)?,
    };
    serde_json::to_vec(&value).map_err(|error| Error::internal(error.to_string()))
}

fn status(state: &State, route: &Route) -> Result<Value> {
    let statuses = state.routes.statuses(&route.model, &route.choice)?;
    let entry = |status: &crate::routes::Status| {
        json!({
            "version": status.version.to_string(),
            "state": state_name(status.state),
            "status": {
                "error_code": Code::from_number(status.code).map_or("OK", Code::name),
                "error_message": status.message,
            },
        })
    };
    Ok(json!({ "model_version_status": statuses.iter().map(entry).collect::<Vec<_>>() }))
}

fn state_name(state: i32) -> &'static str {
    match state {
        10 => "START",
        20 => "LOADING",
        30 => "AVAILABLE",
        40 => "UNLOADING",
        50 => "END",
        _ => "UNKNOWN",
    }
}

fn metadata(state: &State, route: &Route) -> Result<Value> {
    let lease = state.routes.resolve(&route.model, &route.choice)?;
    let mut signatures = Map::new();
    for endpoint in lease.version().endpoints() {
        signatures.insert(endpoint.signature.name.clone(), signature_json(&endpoint.signature));
    }
    Ok(json!({
        "model_spec": {
            "name": route.model,
            "signature_name": "",
            "version": lease.version().number.to_string(),
        },
        "metadata": { "signature_def": { "signature_def": signatures } },
    }))
}

fn signature_json(signature: &Signature) -> Value {
    let map = |specs: &[TensorSpec]| -> Map<String, Value> {
        specs.iter().map(|spec| (spec.name.clone(), tensor_json(spec))).collect()
    };
    json!({
        "inputs": map(&signature.inputs),
        "outputs": map(&signature.outputs),
        "method_name": signature.method_name,
        "defaults": {},
    })
}

fn tensor_json(spec: &TensorSpec) -> Value {
    let dim = |size: &i64| json!({ "size": size.to_string(), "name": "" });
    json!({
        "dtype": format!("DT_{}", spec.dtype.name().to_ascii_uppercase()),
        "tensor_shape": {
            "dim": spec.shape.iter().flatten().map(dim).collect::<Vec<_>>(),
            "unknown_rank": spec.shape.is_none(),
        },
        "name": spec.tensor,
    })
}
