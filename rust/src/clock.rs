//! Time is handed in, so that policies and queues run under a hand-moved clock in tests.

use std::time::Instant;

/// Where an owner reads the time. Policies never do: they are given `now`.
pub trait Clock: Send + Sync {
    /// The current monotonic time.
    fn now(&self) -> Instant;
}

/// The machine's monotonic clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock(parking_lot::Mutex<Instant>);

impl Default for ManualClock {
    fn default() -> Self {
        Self(parking_lot::Mutex::new(Instant::now()))
    }
}

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: std::time::Duration) {
        *self.0.lock() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        *self.0.lock()
    }
}
