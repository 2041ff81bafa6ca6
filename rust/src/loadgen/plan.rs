//! What a session of load is asked to do, as Python hands it over.

use std::time::Duration;

use serde::Deserialize;

use super::target::{Protocol, Target};
use super::{CallError, CallResult};

/// What is sent over which connections. When it is sent, and which request each time, is fed later.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub target: String,
    pub requests: Vec<WireRequest>,
    pub mode: Mode,
    /// Connections that requests share. Over HTTP/1.1 each carries one request at a time.
    pub connections: usize,
    /// Time limit of one request from the moment it is due.
    pub timeout_s: f64,
    /// Threads that send: more than one only where one cannot outrun the server.
    pub threads: usize,
}

/// All of a request but its body.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireRequest {
    pub method: String,
    /// `/package.Service/Method`, or an HTTP path with its query.
    pub path: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Mode {
    /// Requests are sent at their times; beyond so many due and under way they are dropped and counted.
    Open { max_in_flight: Option<usize> },
    /// Each of so many clients sends its next request when its last one has ended.
    Closed { concurrency: usize },
}

impl Plan {
    /// The target, when everything else makes sense as well.
    pub fn check(&self) -> CallResult<Target> {
        let target = Target::parse(&self.target)?;
        let fewest = match self.mode {
            Mode::Open { max_in_flight } => max_in_flight.unwrap_or(usize::MAX),
            Mode::Closed { concurrency } => concurrency,
        };
        let closed = matches!(self.mode, Mode::Closed { .. });
        let problem = if self.threads == 0 || self.connections < self.threads || fewest < self.threads {
            "there is at least one thread, and for each a connection and a request under way"
        } else if closed && self.connections > fewest {
            "a connection without a client would idle: give at most as many connections as concurrency"
        } else if closed && target.protocol == Protocol::Http && self.connections < fewest {
            "HTTP/1.1 carries one request at a time: give as many connections as concurrency, or use gRPC"
        } else if !(1e-6..=1e6).contains(&self.timeout_s) {
            "the time limit of a request is between a microsecond and 1000000 seconds"
        } else {
            return Ok(target);
        };
        Err(CallError::Usage(problem.into()))
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(changes: &str) -> Plan {
        let mut plan = serde_json::json!({
            "target": "grpc://h:1", "requests": [{"method": "POST", "path": "/s/M", "headers": [["a", "b"]]}],
            "mode": {"closed": {"concurrency": 4}}, "connections": 2, "timeout_s": 1.0, "threads": 1,
        });
        let changes: serde_json::Map<_, _> = serde_json::from_str(changes).unwrap();
        plan.as_object_mut().unwrap().extend(changes);
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        for changes in ["{}", r#"{"mode": {"open": {"max_in_flight": null}}, "target": "https://h:1"}"#] {
            assert!(plan(changes).check().is_ok(), "{changes}");
        }
        for changes in [
            r#"{"mode": {"closed": {"concurrency": 0}}}"#,
            r#"{"mode": {"open": {"max_in_flight": 0}}}"#,
            r#"{"connections": 5}"#,
            r#"{"threads": 3}"#,
            r#"{"threads": 0}"#,
            r#"{"target": "http://h:1"}"#,
            r#"{"target": "h:1"}"#,
            r#"{"timeout_s": -1}"#,
            r#"{"timeout_s": 1e30}"#,
        ] {
            assert!(plan(changes).check().is_err(), "{changes}");
        }
    }
}
