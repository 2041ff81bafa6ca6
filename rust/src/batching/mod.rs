//! Queues, batches and the policies over them. No sockets and no Python here.

#[cfg(test)]
mod accounting_tests;
pub mod batch;
#[cfg(test)]
mod conformance_tests;
pub mod endpoint;
pub mod gather;
mod lease;
mod names;
mod padding;
mod pending;
pub mod policy;
mod queue;
mod stages;
mod state;
#[cfg(test)]
mod testing;
pub mod version;

pub use batch::{Batch, Timing};
pub use pending::{Answer, Wanted};
pub use stages::{Answered, Stages};
