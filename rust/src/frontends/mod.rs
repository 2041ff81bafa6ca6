//! Wire protocols: wire ↔ tensors, and nothing else.

pub mod body;
pub mod grpc;
pub mod health;
pub mod listener;
pub mod proto;
pub mod rest;
pub mod state;
pub mod tfs;
