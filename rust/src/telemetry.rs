//! What is counted, and under which names. Handles are cloned once per endpoint, so that a request pays for an
//! addition, not for a look-up.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::error::Code;

/// Seconds, from 50 µs to 30 s.
const SECONDS: [f64; 18] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0,
];
/// Rows of a batch.
const ROWS: [f64; 13] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

/// Labels of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndpointLabels {
    pub model: String,
    pub version: i64,
    pub signature: String,
}

/// Labels of one outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub model: String,
    pub version: i64,
    pub signature: String,
    pub api: String,
    pub code: String,
}

/// Labels of what never reached an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    pub api: String,
    pub code: String,
    pub reason: String,
}

/// Which wire a request came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Api {
    TfsGrpc = 0,
    TfsRest = 1,
}

impl Api {
    const ALL: [Api; 2] = [Api::TfsGrpc, Api::TfsRest];

    pub fn name(self) -> &'static str {
        match self {
            Api::TfsGrpc => "tfs_grpc",
            Api::TfsRest => "tfs_rest",
        }
    }
}

#[derive(Clone, Copy)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

type Histograms = Family<EndpointLabels, Histogram, Buckets>;

fn seconds() -> Histograms {
    Family::new_with_constructor(Buckets(&SECONDS))
}

fn rows() -> Histograms {
    Family::new_with_constructor(Buckets(&ROWS))
}

/// Every metric of one server.
pub struct Telemetry {
    registry: Mutex<Registry>,
    enabled: bool,
    /// How many live endpoints share each set of labels (a version may be loaded again before the old one is gone).
    owners: Mutex<HashMap<EndpointLabels, usize>>,
    requests: Family<RequestLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    latency: Histograms,
    queue_wait: Histograms,
    execution: Histograms,
    interpreter_wait: Histograms,
    batch_rows: Histograms,
    padding: Family<EndpointLabels, Counter>,
    reruns: Family<EndpointLabels, Counter>,
    withdrawn: Family<EndpointLabels, Counter>,
    queued_rows: Family<EndpointLabels, Gauge>,
    pub panics: Counter,
    pub dropped_batches: Counter,
    pub workers_lost: Counter,
    pub connections: Gauge,
    pub connections_refused: Counter,
}

/// The handles of one endpoint.
pub struct EndpointMetrics {
    enabled: bool,
    outcomes: [Counter; 2],
    labels: EndpointLabels,
    requests: Family<RequestLabels, Counter>,
    latency: Histogram,
    queue_wait: Histogram,
    execution: Histogram,
    interpreter_wait: Histogram,
    batch_rows: Histogram,
    padding: Counter,
    pub reruns: Counter,
    pub withdrawn: Counter,
    pub queued_rows: Gauge,
}

impl std::fmt::Debug for EndpointMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointMetrics").field("labels", &self.labels).finish_non_exhaustive()
    }
}

impl Telemetry {
    pub fn new(enabled: bool) -> Arc<Self> {
        let telemetry = Self {
            registry: Mutex::new(Registry::with_prefix("poise")),
            enabled,
            owners: Mutex::default(),
            requests: Family::default(),
            refusals: Family::default(),
            latency: seconds(),
            queue_wait: seconds(),
            execution: seconds(),
            interpreter_wait: seconds(),
            batch_rows: rows(),
            padding: Family::default(),
            reruns: Family::default(),
            withdrawn: Family::default(),
            queued_rows: Family::default(),
            panics: Counter::default(),
            dropped_batches: Counter::default(),
            workers_lost: Counter::default(),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
        };
        telemetry.register();
        Arc::new(telemetry)
    }

    #[rustfmt::skip]
    fn register(&self) {
        let registry = &mut self.registry.lock();
        registry.register("requests", "Requests answered, by outcome", self.requests.clone());
        registry.register("refused_requests", "Requests that never reached a model", self.refusals.clone());
        registry.register("request_latency_seconds", "From the whole request read to its answer made", self.latency.clone());
        registry.register("queue_wait_seconds", "From admission until the rows were taken into a batch", self.queue_wait.clone());
        registry.register("execution_seconds", "From a batch sent to its worker until its outputs came back", self.execution.clone());
        registry.register("interpreter_wait_seconds", "Time a worker waited for the interpreter before a batch", self.interpreter_wait.clone());
        registry.register("batch_size_rows", "Rows of real requests in an executed batch", self.batch_rows.clone());
        registry.register("padding_rows", "Rows added to reach an allowed batch size", self.padding.clone());
        registry.register("reruns", "Batches run again to find the request at fault", self.reruns.clone());
        registry.register("withdrawn_requests", "Requests that left the queue because of a deadline or a client that went", self.withdrawn.clone());
        registry.register("queued_rows", "Rows waiting now", self.queued_rows.clone());
        registry.register("panics", "Faults of the server caught while serving a request", self.panics.clone());
        registry.register("dropped_batches", "Batches that were never ended by their owner", self.dropped_batches.clone());
        registry.register("workers_lost", "Workers that ended, hung or broke the protocol", self.workers_lost.clone());
        registry.register("connections", "Connections open now", self.connections.clone());
        registry.register("refused_connections", "Connections closed on arrival because there were too many", self.connections_refused.clone());
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry.lock());
        text
    }

    /// Handles for one endpoint.
    pub fn endpoint(&self, labels: EndpointLabels) -> EndpointMetrics {
        *self.owners.lock().entry(labels.clone()).or_default() += 1;
        let ok = |api: Api| self.requests.get_or_create_owned(&request_labels(&labels, api, "OK"));
        EndpointMetrics {
            enabled: self.enabled,
            outcomes: Api::ALL.map(ok),
            requests: self.requests.clone(),
            latency: self.latency.get_or_create_owned(&labels),
            queue_wait: self.queue_wait.get_or_create_owned(&labels),
            execution: self.execution.get_or_create_owned(&labels),
            interpreter_wait: self.interpreter_wait.get_or_create_owned(&labels),
            batch_rows: self.batch_rows.get_or_create_owned(&labels),
            padding: self.padding.get_or_create_owned(&labels),
            reruns: self.reruns.get_or_create_owned(&labels),
            withdrawn: self.withdrawn.get_or_create_owned(&labels),
            queued_rows: self.queued_rows.get_or_create_owned(&labels),
            labels,
        }
    }

    /// Forgets the series of an endpoint that is gone, so that years of versions do not pile up.
    pub fn forget(&self, labels: &EndpointLabels) {
        let mut owners = self.owners.lock();
        if let Some(count) = owners.get_mut(labels) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            owners.remove(labels);
        }
        for histograms in [&self.latency, &self.queue_wait, &self.execution, &self.interpreter_wait, &self.batch_rows] {
            histograms.remove(labels);
        }
        for counters in [&self.padding, &self.reruns, &self.withdrawn] {
            counters.remove(labels);
        }
        self.queued_rows.remove(labels);
        for api in Api::ALL {
            for code in Code::ALL.map(Code::name).into_iter().chain(["OK"]) {
                self.requests.remove(&request_labels(labels, api, code));
            }
        }
    }

    /// Counts a request that reached no endpoint. Labels come from fixed lists, never from the client.
    pub fn refused(&self, api: Api, code: Code, reason: &'static str) {
        let labels = RefusalLabels { api: api.name().into(), code: code.name().into(), reason: reason.into() };
        self.refusals.get_or_create(&labels).inc();
    }
}

fn request_labels(labels: &EndpointLabels, api: Api, code: &str) -> RequestLabels {
    RequestLabels {
        model: labels.model.clone(),
        version: labels.version,
        signature: labels.signature.clone(),
        api: api.name().into(),
        code: code.into(),
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
                self.requests.get_or_create(&request_labels(&self.labels, api, code.name())).inc();
            }
        }
        self.latency.observe(seconds);
    }

    /// Rows of one request were taken into a batch.
    pub fn waited(&self, seconds: f64) {
        if self.enabled {
            self.queue_wait.observe(seconds);
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

    pub fn labels(&self) -> &EndpointLabels {
        &self.labels
    }
}
