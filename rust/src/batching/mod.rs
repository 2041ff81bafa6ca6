//! Queues, batches and the policies over them. No sockets and no Python here.

pub mod batch;
pub mod endpoint;
pub mod gather;
mod padding;
mod pending;
pub mod policy;
mod queue;
pub mod version;

pub use batch::{Batch, Timing};
pub use pending::{Answer, Wanted};
