//! The data plane of Poise.
//!
//! Imports go one way: `python → {server, loadgen} → {frontends, workers} → batching → {tensor,
//! model, error, config, clock}`. Only `python/` knows that an interpreter exists.

pub mod batching;
pub mod calls;
pub mod clock;
pub mod config;
pub mod error;
pub mod events;
pub mod frontends;
pub mod loadgen;
pub mod model;
pub mod protojson;
pub mod routes;
pub mod server;
mod sockets;
pub mod telemetry;
pub mod tensor;
pub mod tfrecord;
pub mod workers;

#[cfg(feature = "python")]
mod python;
