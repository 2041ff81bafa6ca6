//! What joins a worker to the server: small messages on a socket, tensors in memory that both sides map.

pub mod arena;
pub mod channel;
pub mod client;
pub mod driver;
pub mod message;
pub mod outputs;
