//! `POST …:predict`.

use std::ops::Deref;
use std::sync::Arc;

use http::Response;

use super::{Posted, counted, signed};
use crate::batching::endpoint::Endpoint;
use crate::batching::version::Lease;
use crate::error::{Error, Result};
use crate::frontends::body::Answer;
use crate::frontends::rest::json;
use crate::frontends::tfs::json::{parse_predict, write_predict};
use crate::frontends::tfs::predict::Predict;
use crate::model::{DEFAULT_SIGNATURE, Signature};
use crate::telemetry::Api;

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
    let parsed = parse_predict(&posted.body, |signature| find(posted, signature));
    let (target, format, inputs) = counted(posted.state, parsed)?;
    let Target { lease, endpoint } = &target;
    let Posted { arrived, deadline, .. } = *posted;
    let predict = Predict { lease, endpoint, api: Api::TfsRest, arrived, deadline };
    let (wanted, answer) = predict.run(Ok(inputs), endpoint.select(&[])).await?;
    let body = write_predict(format, posted.wishes.style, &predict.named(&wanted, &answer))?;
    Ok(signed(json(body), &posted.route.model, lease.version().number, &target.name))
}
