//! The engine of the load generator: threads that send requests at given times, or so many at once, and tell what came
//! of each. When to stop, and what of it counts, is decided elsewhere.
//!
//! `generator` is one thread's loop; `connection` joins a `socket` to a protocol (`http1`, `http2` on `frames` and
//! `hpack`), which know nothing of sockets and clocks. `fleet` starts threads and gathers their samples.

mod arrivals;
mod book;
mod connection;
mod fleet;
pub(super) mod frames;
mod generator;
mod hpack;
mod http1;
mod http2;
mod outcome;
mod poll;
mod pool;
mod request;
mod sample;
mod shared;
mod socket;
mod stages;
mod streams;

pub use fleet::{Fleet, Taken};
pub use outcome::Outcome;
pub use sample::Sample;

/// A request that came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ended {
    /// What the request was started with.
    token: u32,
    outcome: Outcome,
    stages: stages::Stages,
}
