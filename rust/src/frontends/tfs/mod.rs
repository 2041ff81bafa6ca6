//! TensorFlow Serving's APIs.

pub mod examples;
pub mod grpc;
pub mod inference;
pub mod json;
pub mod predict;
pub mod rest;
pub mod warmup;
pub mod wire;
