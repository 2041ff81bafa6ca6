//! gRPC's own health service: the whole server under the empty name and those of its services, and each model under its
//! own name.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tokio::sync::mpsc;

use super::grpc::{Call, Reply, frame};
use super::proto::grpc::health::v1::health_check_response::ServingStatus;
use super::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse};
use super::state::State;
use crate::error::{Code, Error, Reason, Result};

/// Names that answer with the server's readiness. TensorFlow Serving registers the short ones.
const SERVICES: [&str; 5] = [
    "",
    "ModelService",
    "PredictionService",
    "tensorflow.serving.ModelService",
    "tensorflow.serving.PredictionService",
];

fn service(call: &Call) -> Result<String> {
    HealthCheckRequest::decode(call.message.clone())
        .map(|request| request.service)
        .map_err(|error| Error::bad_input(format!("not a HealthCheckRequest: {error}")))
}

/// The server is well when it is ready, a model when it has a version that serves.
fn status(state: &State, service: &str) -> ServingStatus {
    let well = if SERVICES.contains(&service) { Some(*state.ready.borrow()) } else { state.routes.serves(service) };
    match well {
        Some(true) => ServingStatus::Serving,
        Some(false) => ServingStatus::NotServing,
        None => ServingStatus::ServiceUnknown,
    }
}

/// How a service or a model is, now.
pub fn check(call: &Call) -> Reply {
    match status(&call.state, &service(call)?) {
        ServingStatus::ServiceUnknown => Err(Error::new(Code::NotFound, Reason::NotFound, "unknown service")),
        status => Ok(frame(&HealthCheckResponse { status: status as i32 })),
    }
}

/// How a service or a model is, now and whenever that changes.
pub fn watch(call: &Call) -> Result<mpsc::Receiver<Bytes>> {
    let (messages, stream) = mpsc::channel(1);
    tokio::spawn(tell(Arc::clone(&call.state), service(call)?, messages));
    Ok(stream)
}

async fn tell(state: Arc<State>, service: String, messages: mpsc::Sender<Bytes>) {
    let (mut ready, mut changes) = (state.ready.subscribe(), state.routes.changes.subscribe());
    let mut told = None;
    loop {
        ready.mark_unchanged();
        changes.mark_unchanged();
        let now = status(&state, &service);
        if told.replace(now) != Some(now) {
            let message = joined(&HealthCheckResponse { status: now as i32 });
            if messages.send(message).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = ready.changed() => if changed.is_err() { return },
            changed = changes.changed() => if changed.is_err() { return },
            () = messages.closed() => return,
        }
    }
}

fn joined(message: &HealthCheckResponse) -> Bytes {
    frame(message).into_iter().next().unwrap_or_default()
}
