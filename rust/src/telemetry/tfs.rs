//! TensorFlow Serving's metrics, under its names, for dashboards that were made for it.
//!
//! Names, kinds, labels and buckets are its own, except that a label has the names of known models only, `unknown` for
//! any other. What it counts and Poise has nothing of is announced and stays empty.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::histogram::Histogram;
use super::labels::Api;
use super::tfs_page::{Page, escape};
use crate::error::Code;

/// Whom requests count for that name no model that there is.
const UNKNOWN: &str = "unknown";
/// Most models, paths, and sizes of batches that have series of their own.
const MOST: usize = 10_000;
pub(super) const CODES: usize = Code::ALL.len() + 1;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Method {
    Predict = 0,
    Classify = 1,
    Regress = 2,
    /// Status and metadata over REST.
    Describe = 3,
}

impl Method {
    pub(super) const ALL: [Method; 4] = [Method::Predict, Method::Classify, Method::Regress, Method::Describe];

    /// As gRPC's methods are called; what only REST has goes without a name.
    pub(super) fn over(self, api: Api) -> &'static str {
        match (self, api) {
            (Method::Predict, Api::TfsGrpc) => "Predict",
            (Method::Predict, Api::TfsRest) => "predict",
            (Method::Classify, Api::TfsGrpc) => "Classify",
            (Method::Classify, Api::TfsRest) => "classify",
            (Method::Regress, Api::TfsGrpc) => "Regress",
            (Method::Regress, Api::TfsRest) => "regress",
            (Method::Describe, _) => "",
        }
    }
}

pub(super) fn entrypoint(api: Api) -> &'static str {
    match api {
        Api::TfsGrpc => "GRPC",
        Api::TfsRest => "REST",
    }
}

fn latencies() -> Histogram {
    Histogram::exponential(10.0, 1.8, 33)
}

fn sizes() -> Histogram {
    Histogram::exponential(1.0, 2.0, 14)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What is counted of one model, all its versions together.
pub struct Model {
    /// By status, OK first.
    pub(super) requests: [AtomicU64; CODES],
    pub(super) logged: [AtomicU64; CODES],
    pub(super) latency: [[Histogram; 2]; 4],
    pub(super) runtime: [Histogram; 3],
}

impl Default for Model {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            requests: zeros(),
            logged: zeros(),
            latency: std::array::from_fn(|_| std::array::from_fn(|_| latencies())),
            runtime: std::array::from_fn(|_| latencies()),
        }
    }
}

impl Model {
    /// One request has its outcome. Only those that succeed have a latency there.
    pub fn request(&self, method: Method, api: Api, code: Option<Code>, took: Duration) {
        self.requests[code.map_or(0, |code| code as usize)].fetch_add(1, Ordering::Relaxed);
        if code.is_none() {
            self.latency[method as usize][api as usize].observe(micros(took));
        }
    }

    /// One request was run, its wait in the queue included.
    pub fn ran(&self, method: Method, took: Duration) {
        if let Some(histogram) = self.runtime.get(method as usize) {
            histogram.observe(micros(took));
        }
    }
}

#[derive(Default)]
pub(super) struct Loads {
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) micros: u64,
}

/// Every metric of TensorFlow Serving that there is something to say about.
pub struct Tfs {
    models: Mutex<BTreeMap<String, Arc<Model>>>,
    queuing: Histogram,
    runs: AtomicU64,
    input_sizes: Histogram,
    processed_sizes: Histogram,
    padding: Mutex<BTreeMap<usize, Histogram>>,
    loads: Mutex<BTreeMap<String, Loads>>,
}

impl Default for Tfs {
    fn default() -> Self {
        Self {
            models: Mutex::default(),
            queuing: Histogram::exponential(100.0, 1.2, 52),
            runs: AtomicU64::new(0),
            input_sizes: sizes(),
            processed_sizes: sizes(),
            padding: Mutex::default(),
            loads: Mutex::default(),
        }
    }
}

impl Tfs {
    /// The counts of a model that there is.
    pub fn model(&self, name: &str) -> Arc<Model> {
        let mut models = self.models.lock();
        let name = if models.len() < MOST || models.contains_key(name) { name } else { UNKNOWN };
        Arc::clone(models.entry(name.into()).or_default())
    }

    /// The counts for the name that a client has sent, which may be anything.
    pub fn asked_for(&self, name: &str) -> Arc<Model> {
        let known = self.models.lock().get(name).map(Arc::clone);
        known.unwrap_or_else(|| self.model(UNKNOWN))
    }

    /// Rows of one request have come to wait. TensorFlow Serving counts them once for each input.
    pub fn admitted(&self, rows: usize, inputs: usize) {
        self.input_sizes.observe_many(rows as u64, inputs as u64);
    }

    /// Rows of one request were taken into a batch.
    pub fn waited(&self, took: Duration) {
        self.queuing.observe(micros(took));
    }

    /// One batch was run with this many rows, `padding` of them added.
    pub fn executed(&self, rows: usize, padding: usize) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.processed_sizes.observe(rows as u64);
        let mut by_size = self.padding.lock();
        if by_size.len() < MOST || by_size.contains_key(&rows) {
            by_size.entry(rows).or_insert_with(sizes).observe(padding as u64);
        }
    }

    /// A version was loaded from this path, or was not.
    pub fn loaded(&self, path: &str, succeeded: bool, took: Duration) {
        let mut loads = self.loads.lock();
        if loads.len() >= MOST && !loads.contains_key(path) {
            return;
        }
        let loads = loads.entry(path.into()).or_default();
        *(if succeeded { &mut loads.succeeded } else { &mut loads.failed }) += 1;
        loads.micros += micros(took);
    }

    /// A request was recorded, or could not be.
    pub fn logged(&self, name: &str, code: Option<Code>) {
        self.asked_for(name).logged[code.map_or(0, |code| code as usize)].fetch_add(1, Ordering::Relaxed);
    }

    /// All of it in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut page = Page::default();
        let models: Vec<(String, Arc<Model>)> =
            self.models.lock().iter().map(|(name, model)| (escape(name), Arc::clone(model))).collect();
        page.counts("request_count", "status", &models, |model| &model.requests);
        page.latencies(&models);
        page.runtimes(&models);
        page.announce("request_example_counts", "histogram");
        page.announce("request_example_count_total", "counter");
        page.counts("request_log_count", "status_code", &models, |model| &model.logged);
        page.announce("model_warmup_latency", "histogram");
        page.announce("model_warmup_records_read", "counter");
        page.histogram("batching_session:queuing_latency", "thread_pool_name=\"\"", &self.queuing);
        page.counter("batching_session:wrapped_run_count", self.runs.load(Ordering::Relaxed));
        let name = page.announce("batching_session:padding_size", "histogram");
        for (rows, histogram) in self.padding.lock().iter() {
            histogram.write(&mut page.0, &name, &format!("execution_batch_size=\"{rows}\""));
        }
        page.histogram("batching_session:input_batch_size", "", &self.input_sizes);
        page.histogram("batching_session:processed_batch_size", "", &self.processed_sizes);
        page.loads(&self.loads.lock());
        page.0
    }
}

#[cfg(test)]
#[path = "tfs_tests.rs"]
mod tests;
