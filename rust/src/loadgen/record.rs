//! What came of the measured requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

/// How one request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    /// With an error: a gRPC code name or an HTTP status.
    Refused(Cow<'static, str>),
    /// The connection could not be made, or broke.
    Transport,
    /// There was no answer within the time limit.
    Timeout,
}

impl Outcome {
    fn label(&self) -> Option<Cow<'static, str>> {
        match self {
            Outcome::Answered => None,
            Outcome::Refused(code) => Some(code.clone()),
            Outcome::Transport => Some("TRANSPORT".into()),
            Outcome::Timeout => Some("TIMEOUT".into()),
        }
    }
}

/// Nanoseconds from 1 µs to 10⁶ s at three significant digits; shorter ones count as 1 µs.
const LOWEST: u64 = 1_000;
const HIGHEST: u64 = 1_000_000_000_000_000;

/// Counts and latencies. Latencies are those of answers and of time-outs, which took the whole time limit: leaving
/// them out would make a server look faster the more requests it drops. Errors that come fast are left out, as they
/// would do the same.
#[derive(Debug)]
pub struct Record {
    requests: u64,
    answered: u64,
    errors: BTreeMap<Cow<'static, str>, u64>,
    latencies: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
    last_outcome: Option<Instant>,
}

impl Default for Record {
    fn default() -> Self {
        let mut latencies = Histogram::new_with_bounds(LOWEST, 60_000_000_000, 3).expect("constant, valid bounds");
        latencies.auto(true);
        let (errors, last_outcome) = (BTreeMap::new(), None);
        Self { requests: 0, answered: 0, errors, latencies, sum_ns: 0, max_ns: 0, last_outcome }
    }
}

impl Record {
    pub fn add(&mut self, sent: Instant, done: Instant, outcome: &Outcome) {
        self.requests += 1;
        self.last_outcome = self.last_outcome.max(Some(done));
        match outcome.label() {
            None => self.answered += 1,
            Some(label) => *self.errors.entry(label).or_default() += 1,
        }
        if matches!(outcome, Outcome::Answered | Outcome::Timeout) {
            self.add_latency(done - sent);
        }
    }

    fn add_latency(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(HIGHEST).min(HIGHEST);
        self.latencies.record(nanoseconds.max(LOWEST)).expect("it resizes up to HIGHEST");
        self.sum_ns += u128::from(nanoseconds);
        self.max_ns = self.max_ns.max(nanoseconds);
    }

    /// When the last outcome came.
    pub fn last_outcome(&self) -> Option<Instant> {
        self.last_outcome
    }

    pub fn report(&self, elapsed: Duration) -> Report {
        let buckets = self.latencies.iter_recorded();
        Report {
            requests: self.requests,
            answered: self.answered,
            errors: self.errors.clone(),
            elapsed_s: elapsed.as_secs_f64(),
            latency_ns: Latencies {
                sum: self.sum_ns as f64,
                max: self.max_ns,
                buckets: buckets.map(|each| (each.value_iterated_to(), each.count_at_value())).collect(),
            },
        }
    }
}

/// A record as Python reads it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Measured requests, however they ended.
    pub requests: u64,
    /// Those answered without an error.
    pub answered: u64,
    /// The others, by gRPC code name or HTTP status, `TRANSPORT` or `TIMEOUT`.
    pub errors: BTreeMap<Cow<'static, str>, u64>,
    /// Length of the measurement.
    pub elapsed_s: f64,
    pub latency_ns: Latencies,
}

/// Latencies as a histogram whose buckets are at most 0.1 % wide.
#[derive(Debug, Clone, Serialize)]
pub struct Latencies {
    pub sum: f64,
    pub max: u64,
    /// (highest value, count) of each bucket that is not empty, ascending.
    pub buckets: Vec<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_and_only_answers_and_time_outs_have_latencies() {
        let mut record = Record::default();
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        record.add(now, after(2), &Outcome::Answered);
        record.add(now, after(9), &Outcome::Timeout);
        record.add(now, after(1), &Outcome::Transport);
        record.add(now, after(1), &Outcome::Refused("UNAVAILABLE".into()));
        record.add(now, after(1), &Outcome::Refused("UNAVAILABLE".into()));
        let report = record.report(Duration::from_secs(1));
        assert_eq!((report.requests, report.answered), (5, 1));
        let errors: Vec<_> = report.errors.iter().map(|(code, count)| (code.as_ref(), *count)).collect();
        assert_eq!(errors, [("TIMEOUT", 1), ("TRANSPORT", 1), ("UNAVAILABLE", 2)]);
        assert_eq!((report.latency_ns.sum, report.latency_ns.max), (11e6, 9_000_000));
        let counts: Vec<_> = report.latency_ns.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 1]);
        assert!((2_000_000..2_002_000).contains(&report.latency_ns.buckets[0].0));
        assert_eq!(record.last_outcome(), Some(after(9)));
    }

    #[test]
    fn latencies_beyond_any_bound_are_kept() {
        let mut record = Record::default();
        let now = Instant::now();
        record.add(now, now + Duration::from_secs(600), &Outcome::Answered);
        record.add(now, now, &Outcome::Answered);
        let buckets = record.report(Duration::from_secs(1)).latency_ns.buckets;
        assert!(buckets[0].0 < 2_000 && buckets[1].0 >= 600_000_000_000);
    }
}
