//! Wire protocols: wire ↔ tensors, and nothing else.

pub mod body;
pub mod compression;
pub mod frame;
pub mod grpc;
pub mod health;
pub mod http2;
pub mod listener;
pub mod local;
pub mod percent;
pub mod proto;
pub mod recorder;
pub mod reflection;
pub mod rest;
pub mod state;
pub mod tfs;
pub mod timing;
pub mod tls;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// What a client is told when the server failed under its request.
const PANICKED: &str = "the server failed while it answered this request";

/// Runs one request; a panic costs that request its answer (`None`) and nothing else.
async fn guarded<T>(state: &state::State, request: impl Future<Output = T>) -> Option<T> {
    let mut request = pin!(request);
    let caught = std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| request.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    });
    let outcome = caught.await;
    if outcome.is_none() {
        state.telemetry.panicked();
    }
    outcome
}
