//! What one run of load is asked to do, as Python hands it over.

use std::time::Duration;

use serde::Deserialize;

use super::target::{Protocol, Target};
use super::{CallError, CallResult};

/// A closed loop: each of `concurrency` clients sends its next request when its last one was answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub target: String,
    /// Path of every request: `/package.Service/Method`, or an HTTP path.
    pub path: String,
    pub concurrency: usize,
    /// Connections that the clients share; over HTTP/1.1 each client needs one of its own.
    pub connections: usize,
    /// Load before the measurement starts.
    pub warmup_s: f64,
    /// Length of the measurement; `None` when only `requests` ends it.
    pub duration_s: Option<f64>,
    /// Requests to measure; `None` when only `duration_s` ends it.
    pub requests: Option<u64>,
    /// Time limit of one request, connecting included.
    pub timeout_s: f64,
    /// Threads that send: more than one only where one cannot outrun the server.
    pub threads: usize,
}

impl Plan {
    /// The target, when everything else makes sense as well.
    pub fn check(&self) -> CallResult<Target> {
        let target = Target::parse(&self.target)?;
        let problem = if self.concurrency == 0 || self.connections == 0 || self.threads == 0 {
            "concurrency, connections and threads are at least 1"
        } else if self.connections > self.concurrency {
            "a connection without a client would idle: give at most as many connections as concurrency"
        } else if target.protocol == Protocol::Http && self.connections < self.concurrency {
            "HTTP/1.1 carries one request at a time: give as many connections as concurrency, or use gRPC"
        } else if self.duration_s.is_none() && self.requests.is_none() {
            "give a duration, a number of requests, or both"
        } else if self.requests == Some(0) || self.duration_s.is_some_and(|seconds| seconds <= 0.0) {
            "nothing would be measured: duration and requests are more than 0"
        } else if self.timeout_s <= 0.0 {
            "the time limit of a request is more than 0"
        } else if [self.warmup_s, self.timeout_s, self.duration_s.unwrap_or(0.0)].into_iter().any(is_no_time) {
            "times are between 0 and 1000000 seconds"
        } else {
            return Ok(target);
        };
        Err(CallError::Usage(problem.into()))
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_s)
    }
}

fn is_no_time(seconds: f64) -> bool {
    !(0.0..=1e6).contains(&seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(changes: &str) -> Plan {
        let mut plan = serde_json::json!({
            "target": "grpc://h:1", "path": "/s/M", "concurrency": 4, "connections": 2, "warmup_s": 0.0,
            "duration_s": 1.0, "requests": null, "timeout_s": 1.0, "threads": 1,
        });
        let changes: serde_json::Map<_, _> = serde_json::from_str(changes).unwrap();
        plan.as_object_mut().unwrap().extend(changes);
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn plans_that_make_no_sense_are_refused() {
        assert!(plan("{}").check().is_ok());
        for changes in [
            r#"{"concurrency": 0}"#,
            r#"{"connections": 5}"#,
            r#"{"target": "http://h:1"}"#,
            r#"{"duration_s": null}"#,
            r#"{"duration_s": 0}"#,
            r#"{"requests": 0}"#,
            r#"{"timeout_s": -1}"#,
            r#"{"warmup_s": 1e30}"#,
        ] {
            assert!(plan(changes).check().is_err(), "{changes}");
        }
    }
}
