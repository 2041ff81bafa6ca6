//! What happens in the data plane, kept for Python to pull. Nothing here ever calls the interpreter.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Most log lines kept when nobody pulls; older ones are dropped first. The other kinds are bounded by the number of
/// workers and versions.
const MOST_LOGS: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A worker has loaded its model; its signatures as JSON.
    WorkerReady(u64, String),
    /// A worker could not load its model.
    WorkerFailed(u64, String),
    /// A worker's channel ended, fell silent, ran too long or spoke nonsense.
    WorkerLost(u64, String),
    /// A worker was told to close and did.
    WorkerClosed(u64),
    /// A retired version has answered its last request.
    Retired(u64),
    /// A call about the server itself that waits for a reply: its number, and JSON of what is asked.
    Call(u64, String),
    /// A line for the log, with a level of Python's `logging`.
    Log(u64, String),
}

/// A queue between the data plane and the one thread that pulls.
#[derive(Debug, Default)]
pub struct Events {
    queue: Mutex<VecDeque<Event>>,
    came: Condvar,
}

impl Events {
    pub fn push(&self, event: Event) {
        let mut queue = self.queue.lock();
        if matches!(event, Event::Log(..)) {
            let logs = queue.iter().filter(|event| matches!(event, Event::Log(..))).count();
            if logs >= MOST_LOGS
                && let Some(oldest) = queue.iter().position(|event| matches!(event, Event::Log(..)))
            {
                queue.remove(oldest);
            }
        }
        queue.push_back(event);
        self.came.notify_one();
    }

    /// Everything that has come; waits up to `timeout` for a first event.
    pub fn pull(&self, timeout: Duration) -> Vec<Event> {
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            self.came.wait_for(&mut queue, timeout);
        }
        queue.drain(..).collect()
    }

    /// Drops a call that nobody waits for any more, if it has not been pulled.
    pub fn forget_call(&self, id: u64) {
        self.queue.lock().retain(|event| !matches!(event, Event::Call(call, _) if *call == id));
    }

    /// Ends a wait in [`Events::pull`] at once.
    pub fn wake(&self) {
        self.came.notify_all();
    }
}
