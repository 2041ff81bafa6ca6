//! `POST …:predict`.

use std::ops::Deref;
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use super::{Posted, binary, counted, signed};
use crate::batching::endpoint::Endpoint;
use crate::batching::version::Lease;
use crate::error::{Error, Result};
use crate::frontends::body::Answer;
use crate::frontends::percent;
use crate::frontends::rest::json;
use crate::frontends::rest::wishes::BINARY;
use crate::frontends::tfs::json::{Format, is_predict, parse_predict, write_predict};
use crate::frontends::tfs::predict::Predict;
use crate::model::{DEFAULT_SIGNATURE, Signature};
use crate::telemetry::Api;
use crate::tensor::Tensor;

/// Which signature raw tensors are for.
const SIGNATURE: &str = "poise-signature";
/// What raw inputs are, and what raw outputs.
const INPUTS: &str = "poise-inputs";
const OUTPUTS: &str = "poise-outputs";

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

fn find(posted: &Posted<'_>, signature: &str) -> Result<Target> {
    let name = if signature.is_empty() { DEFAULT_SIGNATURE } else { signature };
    let lease = posted.state.routes.resolve(&posted.route.model, &posted.route.choice)?;
    let endpoint = lease.endpoint(name).cloned().ok_or_else(|| no_signature(name))?;
    Ok(Target { lease, endpoint })
}

fn no_signature(name: &str) -> Error {
    Error::bad_input(format!("Serving signature name: \"{name}\" not found in signature def"))
}

pub async fn answer(posted: &Posted<'_>) -> Result<Response<Answer>> {
    let (target, format, inputs) = counted(posted.state, &posted.route.model, read(posted))?;
    let Target { lease, endpoint } = &target;
    let Posted { arrived, deadline, wishes, .. } = *posted;
    let recorder = Some(&posted.state.recorder);
    let timing = &posted.timing;
    let predict = Predict { lease, endpoint, api: Api::TfsRest, recorder, arrived, deadline, timing };
    let (wanted, answer) = predict.run(Ok(inputs), endpoint.select(&[])).await?;
    let outputs = predict.named(&wanted, &answer);
    let response = if wishes.binary { raw(&outputs)? } else { json(write_predict(format, wishes.style, &outputs)?) };
    Ok(signed(response, &posted.route.model, lease.version().number, &target.name))
}

fn read(posted: &Posted<'_>) -> Result<(Target, Format, Vec<Tensor>)> {
    if !is_raw(posted) {
        return parse_predict(&posted.body, |signature| find(posted, signature));
    }
    let signature = posted.headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let target = find(posted, &percent::decode(signature)?)?;
    let described = posted.headers.get(INPUTS).map(|value| value.as_bytes());
    let inputs = binary::read(&target, described, &posted.body, posted.state.settings.max_message_bytes)?;
    let inputs = target.endpoint.arrange(inputs)?;
    Ok((target, Format::Column, inputs))
}

/// Whether a body is raw tensors. TensorFlow Serving takes JSON of any Content-Type, and so do we: of that of raw bytes
/// when no header describes it.
fn is_raw(posted: &Posted<'_>) -> bool {
    let said = posted.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(BINARY.as_bytes()));
    said && (posted.headers.contains_key(INPUTS) || !is_predict(&posted.body))
}

fn raw(outputs: &[(&str, &Tensor)]) -> Result<Response<Answer>> {
    let (chunks, described) = binary::write(outputs)?;
    let described = HeaderValue::from_str(&described).map_err(|error| Error::internal(error.to_string()))?;
    let mut response = Response::new(Answer::chunks(chunks, None));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(BINARY));
    response.headers_mut().insert(OUTPUTS, described);
    Ok(response)
}
