//! What is told of workers: how many serve, and what memory their processes take when somebody asks.

use std::collections::HashMap;

use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::VersionLabels;

/// A worker that has loaded its model.
struct Serving {
    of: VersionLabels,
    pid: u32,
}

/// The workers that serve, by the data plane's number for them.
#[derive(Default)]
pub struct Workers {
    serving: Mutex<HashMap<u64, Serving>>,
    count: Family<VersionLabels, Gauge>,
    memory: Family<VersionLabels, Gauge>,
}

impl Workers {
    #[rustfmt::skip]
    pub fn register(&self, registry: &mut Registry) {
        registry.register("serving_workers", "Workers that have loaded the model; 0 while all of them are restarting", self.count.clone());
        registry.register("model_memory_bytes", "Resident memory of the worker processes, shared libraries included", self.memory.clone());
    }

    pub fn ready(&self, worker: u64, of: VersionLabels, pid: u32) {
        self.count.get_or_create(&of).inc();
        self.serving.lock().insert(worker, Serving { of, pid });
    }

    pub fn gone(&self, worker: u64) {
        if let Some(Serving { of, .. }) = self.serving.lock().remove(&worker) {
            self.count.get_or_create(&of).dec();
        }
    }

    /// Forgets a version that has ended.
    pub fn forget(&self, of: &VersionLabels) {
        if !self.serving.lock().values().any(|serving| serving.of == *of) {
            self.count.remove(of);
        }
    }

    /// Reads how much memory each version's processes take. Threads of the server have none of their own.
    pub fn measure(&self) {
        self.memory.clear();
        for Serving { of, pid } in self.serving.lock().values().filter(|serving| serving.pid != std::process::id()) {
            if let Some(bytes) = resident_bytes(*pid) {
                self.memory.get_or_create(of).inc_by(bytes);
            }
        }
    }
}

/// Resident memory of a process; `None` when it is gone.
fn resident_bytes(pid: u32) -> Option<i64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: i64 = statm.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_a_missing_one_has_none() {
        assert!(resident_bytes(std::process::id()).is_some_and(|bytes| bytes > 100_000));
        assert_eq!(resident_bytes(u32::MAX), None);
    }

    #[test]
    fn workers_are_counted_while_they_serve() {
        let workers = Workers::default();
        let of = VersionLabels { model: "m".into(), version: 1 };
        let count = || workers.count.get_or_create(&of).get();
        workers.ready(1, of.clone(), 1);
        workers.ready(2, of.clone(), std::process::id());
        assert_eq!(count(), 2);
        workers.gone(1);
        workers.gone(1);
        assert_eq!(count(), 1, "gone once");
        workers.measure();
        assert!(workers.memory.get(&of).is_none(), "a thread has no memory of its own");
        workers.forget(&of);
        assert_eq!(count(), 1, "still served");
        workers.gone(2);
        workers.forget(&of);
        assert!(workers.count.get(&of).is_none());
    }
}
