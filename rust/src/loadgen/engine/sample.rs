//! What came of one request.

use super::outcome::Outcome;
use super::stages::Stages;

/// In `sent`: the request never left.
pub const NEVER: i64 = -1;

/// Times are nanoseconds since the start of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When it was due. Its latency counts from here.
    pub scheduled: i64,
    /// When the generator got to it: later only because its thread did not run in time.
    pub issued: i64,
    /// When it was handed to a connection, or [`NEVER`].
    pub sent: i64,
    pub done: i64,
    /// Which of the prepared requests it was.
    pub choice: u32,
    pub outcome: Outcome,
    pub stages: Stages,
}
