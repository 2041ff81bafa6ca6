//! What is counted, and under which names.

mod endpoint;
mod histogram;
mod labels;
mod text;
mod tfs;
mod tfs_page;
mod workers;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use self::endpoint::EndpointMetrics;
use self::endpoint::ForTfs;
pub use self::labels::{Api, EndpointLabels, RefusalLabels, RequestLabels, VersionLabels};
pub use self::tfs::Method;
use self::tfs::Tfs;
use self::workers::Workers;
use crate::config::ServerSettings;
use crate::error::{Code, Error};

/// Seconds, from 50 µs to 30 s.
const SECONDS: [f64; 18] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0,
];
/// Rows of a batch.
const ROWS: [f64; 13] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

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

/// Every metric of one server. When it is not enabled nothing is counted, and all stays zero.
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
    states: Family<VersionLabels, Gauge>,
    /// The versions of each model that have a state.
    known: Mutex<HashMap<String, Vec<i64>>>,
    load_seconds: Family<VersionLabels, Gauge<f64, std::sync::atomic::AtomicU64>>,
    panics: Counter,
    dropped_batches: Counter,
    workers_lost: Counter,
    connections: Gauge,
    refused_connections: Counter,
    workers: Workers,
    tfs: Option<Arc<Tfs>>,
}

impl Telemetry {
    /// Metrics of Poise alone.
    pub fn new(enabled: bool) -> Arc<Self> {
        Self::with(enabled, None)
    }

    pub fn of(settings: &ServerSettings) -> Arc<Self> {
        Self::with(settings.metrics, (settings.metrics && settings.tfs_metrics).then(Arc::default))
    }

    fn with(enabled: bool, tfs: Option<Arc<Tfs>>) -> Arc<Self> {
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
            states: Family::default(),
            known: Mutex::default(),
            load_seconds: Family::default(),
            panics: Counter::default(),
            dropped_batches: Counter::default(),
            workers_lost: Counter::default(),
            connections: Gauge::default(),
            refused_connections: Counter::default(),
            workers: Workers::default(),
            tfs,
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
        registry.register("version_state", "State of a version: 10 START, 20 LOADING, 30 AVAILABLE, 40 UNLOADING, 50 END", self.states.clone());
        registry.register("load_seconds", "How long the last load of a version took, whether it succeeded or not", self.load_seconds.clone());
        registry.register("panics", "Faults of the server caught while serving a request", self.panics.clone());
        registry.register("dropped_batches", "Batches that were never ended by their owner", self.dropped_batches.clone());
        registry.register("workers_lost", "Workers that ended, hung or broke the protocol", self.workers_lost.clone());
        registry.register("connections", "Connections open now", self.connections.clone());
        registry.register("refused_connections", "Connections closed on arrival because there were too many", self.refused_connections.clone());
        self.workers.register(registry);
    }

    /// Everything in OpenMetrics' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock();
        self.workers.measure();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// Everything, TensorFlow Serving's names among it if they are wanted, in Prometheus' text format 0.0.4.
    pub fn plain_text(&self) -> String {
        text::plain(&self.text()) + &self.tfs.as_ref().map(|tfs| tfs.text()).unwrap_or_default()
    }

    /// Handles for one endpoint, whose signature has this method.
    pub fn endpoint(&self, labels: EndpointLabels, method: Method) -> EndpointMetrics {
        *self.owners.lock().entry(labels.clone()).or_default() += 1;
        let answered = |api: Api| self.requests.get_or_create_owned(&RequestLabels::new(&labels, api, "OK"));
        EndpointMetrics {
            enabled: self.enabled,
            outcomes: Api::ALL.map(answered),
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
            tfs: self.tfs.as_ref().map(|tfs| ForTfs::new(tfs, &labels.model, method)),
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
                self.requests.remove(&RequestLabels::new(labels, api, code));
            }
        }
        self.workers.forget(&VersionLabels { model: labels.model.clone(), version: labels.version });
    }

    /// Counts a request that reached no endpoint. Labels come from fixed lists, never from the client; the model that it
    /// names is one if there is such a model.
    pub fn refused(&self, api: Api, model: &str, error: &Error) {
        if self.enabled {
            let (code, reason) = (error.code.name().into(), error.reason.label().into());
            self.refusals.get_or_create(&RefusalLabels { api: api.name().into(), code, reason }).inc();
        }
        if let Some(tfs) = &self.tfs {
            tfs.asked_for(model).request(Method::Predict, api, Some(error.code), Duration::ZERO);
        }
    }

    /// Counts a request over REST for the status or the metadata of a model, as TensorFlow Serving does.
    pub fn described(&self, model: &str, code: Option<Code>, took: Duration) {
        if let Some(tfs) = &self.tfs {
            tfs.asked_for(model).request(Method::Describe, Api::TfsRest, code, took);
        }
    }

    /// The states of all versions of a model; those of which nothing is known any more are forgotten.
    pub fn version_states(&self, model: &str, states: impl Iterator<Item = (i64, i32)>) {
        if let Some(tfs) = &self.tfs {
            tfs.model(model);
        }
        if !self.enabled {
            return;
        }
        let of = |version| VersionLabels { model: model.into(), version };
        let mut now = Vec::new();
        for (version, state) in states {
            self.states.get_or_create(&of(version)).set(state.into());
            now.push(version);
        }
        let mut known = self.known.lock();
        for version in known.remove(model).unwrap_or_default().into_iter().filter(|version| !now.contains(version)) {
            self.states.remove(&of(version));
            self.load_seconds.remove(&of(version));
        }
        if !now.is_empty() {
            known.insert(model.into(), now);
        }
    }

    /// A version was loaded from this path, or was not: how long that took.
    pub fn loaded(&self, (model, version): (&str, i64), path: &str, succeeded: bool, took: Duration) {
        if self.enabled {
            let labels = VersionLabels { model: model.into(), version };
            self.load_seconds.get_or_create(&labels).set(took.as_secs_f64());
        }
        if let Some(tfs) = &self.tfs {
            tfs.loaded(path, succeeded, took);
        }
    }

    /// A request was recorded for this model, or could not be.
    pub fn logged(&self, model: &str, code: Option<Code>) {
        if let Some(tfs) = &self.tfs {
            tfs.logged(model, code);
        }
    }

    /// A worker has loaded its model.
    pub fn worker_ready(&self, worker: u64, model: &str, version: i64, pid: u32) {
        if self.enabled {
            self.workers.ready(worker, VersionLabels { model: model.into(), version }, pid);
        }
    }

    /// A worker is gone, however it ended.
    pub fn worker_gone(&self, worker: u64) {
        self.workers.gone(worker);
    }

    /// A worker ended, hung or broke the protocol.
    pub fn worker_lost(&self) {
        self.count(&self.workers_lost);
    }

    /// A batch was not ended by its owner.
    pub fn batch_dropped(&self) {
        self.count(&self.dropped_batches);
    }

    /// A fault of the server was caught.
    pub fn panicked(&self) {
        self.count(&self.panics);
    }

    pub fn connection_refused(&self) {
        self.count(&self.refused_connections);
    }

    pub fn connected(&self) {
        if self.enabled {
            self.connections.inc();
        }
    }

    pub fn disconnected(&self) {
        if self.enabled {
            self.connections.dec();
        }
    }

    fn count(&self, counter: &Counter) {
        if self.enabled {
            counter.inc();
        }
    }
}
