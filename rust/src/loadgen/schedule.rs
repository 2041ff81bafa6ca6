//! What is sent when. A closed loop for now: a client asks for its next request when it is free.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::plan::Plan;

/// What a free client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send; the outcome counts if `measured`, and must then be told to [`ClosedLoop::answered`].
    Send { measured: bool },
    /// The run is over.
    Stop,
}

/// Warm-up, measurement, and cool-down: load goes on until the last measured request has its answer, so that none
/// of them meets an emptier server than the others did.
#[derive(Debug)]
pub struct ClosedLoop {
    start: Instant,
    end: Option<Instant>,
    limit: u64,
    /// Requests that asked to be measured.
    issued: AtomicU64,
    /// Measured requests without an answer.
    open: AtomicU64,
}

impl ClosedLoop {
    pub fn new(plan: &Plan, now: Instant) -> Self {
        let start = now + Duration::from_secs_f64(plan.warmup_s);
        Self {
            start,
            end: plan.duration_s.map(|seconds| start + Duration::from_secs_f64(seconds)),
            limit: plan.requests.unwrap_or(u64::MAX),
            issued: AtomicU64::new(0),
            open: AtomicU64::new(0),
        }
    }

    /// When the measurement starts.
    pub fn start(&self) -> Instant {
        self.start
    }

    pub fn next(&self, now: Instant) -> Next {
        if now < self.start {
            return Next::Send { measured: false };
        }
        if self.end.is_none_or(|end| now < end) && self.issued.load(Relaxed) < self.limit {
            self.open.fetch_add(1, Relaxed);
            if self.issued.fetch_add(1, Relaxed) < self.limit {
                return Next::Send { measured: true };
            }
            self.answered(); // somebody else took the last one
        }
        if self.open.load(Relaxed) == 0 { Next::Stop } else { Next::Send { measured: false } }
    }

    /// A measured request has its outcome.
    pub fn answered(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// Length of the measurement, given when the last measured answer came: as planned if time ended it, else until
    /// that answer.
    pub fn elapsed(&self, last_answer: Instant) -> Duration {
        match self.end {
            Some(end) if self.issued.load(Relaxed) < self.limit => end - self.start,
            _ => last_answer.saturating_duration_since(self.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Next = Next::Send { measured: true };
    const UNMEASURED: Next = Next::Send { measured: false };

    fn closed_loop(duration_s: Option<f64>, requests: Option<u64>) -> (ClosedLoop, impl Fn(f64) -> Instant) {
        let plan = Plan {
            target: "grpc://h:1".into(),
            path: "/".into(),
            concurrency: 2,
            connections: 1,
            warmup_s: 1.0,
            duration_s,
            requests,
            timeout_s: 1.0,
            threads: 1,
        };
        let now = Instant::now();
        (ClosedLoop::new(&plan, now), move |seconds| now + Duration::from_secs_f64(seconds))
    }

    #[test]
    fn only_what_is_sent_between_warm_up_and_end_is_measured() {
        let (schedule, at) = closed_loop(Some(2.0), None);
        assert_eq!(schedule.next(at(0.5)), UNMEASURED);
        assert_eq!(schedule.next(at(1.0)), MEASURED);
        assert_eq!(schedule.next(at(2.9)), MEASURED);
        schedule.answered();
        assert_eq!(schedule.next(at(3.0)), UNMEASURED, "one is still under way");
        schedule.answered();
        assert_eq!(schedule.next(at(3.1)), Next::Stop);
        assert_eq!(schedule.elapsed(at(3.5)), Duration::from_secs(2));
    }

    #[test]
    fn a_number_of_requests_is_met_exactly() {
        let (schedule, at) = closed_loop(None, Some(2));
        assert_eq!(schedule.next(at(1.0)), MEASURED);
        assert_eq!(schedule.next(at(1.0)), MEASURED);
        assert_eq!(schedule.next(at(1.0)), UNMEASURED);
        schedule.answered();
        schedule.answered();
        assert_eq!(schedule.next(at(1.2)), Next::Stop);
        assert_eq!(schedule.elapsed(at(1.5)), Duration::from_millis(500));
    }

    #[test]
    fn whichever_of_time_and_number_comes_first_ends_it() {
        let (schedule, at) = closed_loop(Some(2.0), Some(1));
        assert_eq!(schedule.next(at(1.0)), MEASURED);
        schedule.answered();
        assert_eq!(schedule.next(at(1.1)), Next::Stop);
        let (schedule, at) = closed_loop(Some(2.0), Some(1));
        assert_eq!(schedule.next(at(3.0)), Next::Stop);
    }
}
