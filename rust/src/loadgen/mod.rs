//! Load on a server, and single calls to one. Knows the wires from the client's side; shares no state with a server
//! in the same process.
//!
//! `engine` sends load as `plan` says; `client` makes single calls over `link`.

mod answer;
pub mod client;
pub mod engine;
pub mod infer;
pub mod known;
mod link;
pub mod metadata;
pub mod plan;
pub mod target;
pub mod tls;

#[cfg(test)]
mod test_server;

/// Errors of a client: not those that a server sends, but those of reaching one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// What was asked makes no sense; the text says how to mend it.
    Usage(String),
    /// No answer came, and why.
    Transport(String),
    /// No answer came in time.
    Timeout(std::time::Duration),
    /// The server answered with an error: a gRPC code name or an HTTP status, and its text.
    Refused { code: String, message: String },
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::Usage(text) | CallError::Transport(text) => f.write_str(text),
            CallError::Timeout(limit) => write!(f, "no answer within {} s", limit.as_secs_f64()),
            CallError::Refused { code, message } => write!(f, "{code}: {message}"),
        }
    }
}

impl std::error::Error for CallError {}

pub type CallResult<T> = Result<T, CallError>;
