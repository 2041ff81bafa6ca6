//! gRPC's own health service: the whole server under the empty name, a service under its own.

use bytes::Bytes;
use prost::Message;
use tokio::sync::mpsc;

use super::grpc::{Call, Reply, frame};
use super::proto::grpc::health::v1::health_check_response::ServingStatus;
use super::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse};
use crate::error::{Code, Error, Reason, Result};

/// Names that answer with the server's readiness. TensorFlow Serving registers the short ones.
const SERVICES: [&str; 5] = [
    "",
    "ModelService",
    "PredictionService",
    "tensorflow.serving.ModelService",
    "tensorflow.serving.PredictionService",
];

fn known(call: &Call) -> Result<bool> {
    let request = HealthCheckRequest::decode(call.message.clone())
        .map_err(|error| Error::bad_input(format!("not a HealthCheckRequest: {error}")))?;
    Ok(SERVICES.contains(&request.service.as_str()))
}

fn message(ready: bool) -> HealthCheckResponse {
    let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status as i32 }
}

/// Whether the server is ready, now.
pub fn check(call: &Call) -> Reply {
    if !known(call)? {
        return Err(Error::new(Code::NotFound, Reason::NotFound, "unknown service"));
    }
    Ok(frame(&message(*call.state.ready.borrow())))
}

/// Whether the server is ready, now and whenever that changes.
pub fn watch(call: &Call) -> Result<mpsc::Receiver<Bytes>> {
    let (messages, stream) = mpsc::channel(1);
    let known = known(call)?;
    let mut ready = call.state.ready.subscribe();
    tokio::spawn(async move {
        if !known {
            let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown as i32 };
            let _ = messages.send(joined(&unknown)).await;
            return messages.closed().await;
        }
        loop {
            let now = message(*ready.borrow_and_update());
            if messages.send(joined(&now)).await.is_err() {
                return;
            }
            tokio::select! {
                changed = ready.changed() => if changed.is_err() { return },
                () = messages.closed() => return,
            }
        }
    });
    Ok(stream)
}

fn joined(message: &HealthCheckResponse) -> Bytes {
    frame(message).into_iter().next().unwrap_or_default()
}
