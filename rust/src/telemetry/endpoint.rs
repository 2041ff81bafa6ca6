//! What one endpoint counts. Its handles are cloned once, so that a request pays for additions, not for look-ups.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::labels::{Api, EndpointLabels, RequestLabels};
use super::tfs::{Method, Model, Tfs};
use crate::error::Code;

/// The handles of one endpoint.
pub struct EndpointMetrics {
    pub(super) enabled: bool,
    pub(super) labels: EndpointLabels,
    /// Answered requests, for each API.
    pub(super) outcomes: [Counter; 2],
    pub(super) requests: Family<RequestLabels, Counter>,
    pub(super) latency: Histogram,
    pub(super) queue_wait: Histogram,
    pub(super) execution: Histogram,
    pub(super) interpreter_wait: Histogram,
    pub(super) batch_rows: Histogram,
    pub(super) padding: Counter,
    pub(super) reruns: Counter,
    pub(super) withdrawn: Counter,
    pub(super) queued_rows: Gauge,
    pub(super) tfs: Option<ForTfs>,
}

/// Where the same is counted under the names of TensorFlow Serving.
pub(super) struct ForTfs {
    all: Arc<Tfs>,
    model: Arc<Model>,
    method: Method,
}

impl ForTfs {
    pub fn new(all: &Arc<Tfs>, model: &str, method: Method) -> Self {
        Self { all: Arc::clone(all), model: all.model(model), method }
    }
}

impl std::fmt::Debug for EndpointMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointMetrics").field("labels", &self.labels).finish_non_exhaustive()
    }
}

impl EndpointMetrics {
    /// One request has its outcome.
    pub fn request(&self, api: Api, code: Option<Code>, seconds: f64) {
        if !self.enabled {
            return;
        }
        match code {
            None => {
                self.outcomes[api as usize].inc();
            }
            Some(code) => {
                self.requests.get_or_create(&RequestLabels::new(&self.labels, api, code.name())).inc();
            }
        }
        self.latency.observe(seconds);
        if let Some(tfs) = &self.tfs {
            tfs.model.request(tfs.method, api, code, Duration::try_from_secs_f64(seconds).unwrap_or_default());
        }
    }

    /// One request of this many inputs and rows was let in.
    pub fn admitted(&self, rows: usize, inputs: usize) {
        if let Some(tfs) = &self.tfs {
            tfs.all.admitted(rows, inputs);
        }
    }

    /// One request has its answer; `took` is asked for only where somebody wants to know.
    pub fn answered(&self, took: impl FnOnce() -> Duration) {
        if let Some(tfs) = &self.tfs {
            tfs.model.ran(tfs.method, took());
        }
    }

    /// Rows have come to wait, or (below zero) wait no more.
    pub fn queued(&self, rows: i64) {
        if self.enabled {
            self.queued_rows.inc_by(rows);
        }
    }

    /// Rows that wait now, as counted.
    pub fn queued_rows(&self) -> i64 {
        self.queued_rows.get()
    }

    /// Requests left the queue without being run.
    pub fn withdrew(&self, requests: u64) {
        if self.enabled {
            self.withdrawn.inc_by(requests);
        }
    }

    /// Rows of one request were taken into a batch.
    pub fn waited(&self, took: Duration) {
        if self.enabled {
            self.queue_wait.observe(took.as_secs_f64());
        }
        if let Some(tfs) = &self.tfs {
            tfs.all.waited(took);
        }
    }

    /// A part of a failed batch is run again.
    pub fn reran(&self) {
        if self.enabled {
            self.reruns.inc();
        }
    }

    /// One batch came back.
    pub fn executed(&self, rows: usize, padding: usize, seconds: f64, interpreter_wait: f64) {
        if self.enabled {
            self.batch_rows.observe(rows as f64);
            self.padding.inc_by(padding as u64);
            self.execution.observe(seconds);
            self.interpreter_wait.observe(interpreter_wait);
        }
    }

    /// That batch had the rows of its requests side by side.
    pub fn batched(&self, executed_rows: usize, padding: usize) {
        if let Some(tfs) = &self.tfs {
            tfs.all.executed(executed_rows, padding);
        }
    }

    pub fn labels(&self) -> &EndpointLabels {
        &self.labels
    }
}
