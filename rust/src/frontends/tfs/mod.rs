//! TensorFlow Serving's APIs.

pub mod grpc;
pub mod json;
pub mod predict;
pub mod rest;
pub mod wire;
