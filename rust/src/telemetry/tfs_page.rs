//! TensorFlow Serving's metrics as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::Histogram;
use super::labels::Api;
use super::tfs::{CODES, Loads, Method, Model, entrypoint};
use crate::error::Code;

/// The text while it is written. Writing to a String cannot fail.
#[derive(Default)]
pub struct Page(pub String);

impl Page {
    pub fn announce(&mut self, name: &str, kind: &str) -> String {
        self.announce_full(format!(":tensorflow:serving:{name}"), kind)
    }

    fn announce_full(&mut self, name: String, kind: &str) -> String {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        name
    }

    pub fn counter(&mut self, name: &str, value: u64) {
        let name = self.announce(name, "counter");
        if value > 0 {
            let _ = writeln!(self.0, "{name} {value}");
        }
    }

    pub fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let name = self.announce(name, "histogram");
        if !histogram.is_empty() {
            histogram.write(&mut self.0, &name, labels);
        }
    }

    pub fn counts(
        &mut self,
        name: &str,
        label: &str,
        models: &[(String, Arc<Model>)],
        of: impl Fn(&Model) -> &[AtomicU64; CODES],
    ) {
        let name = self.announce(name, "counter");
        for (model, counts) in models {
            let statuses = ["OK"].into_iter().chain(Code::ALL.map(Code::name));
            for (status, count) in statuses.zip(of(counts)) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let _ = writeln!(self.0, "{name}{{model_name=\"{model}\",{label}=\"{status}\"}} {count}");
                }
            }
        }
    }

    pub fn latencies(&mut self, models: &[(String, Arc<Model>)]) {
        let name = self.announce("request_latency", "histogram");
        for (model, counts) in models {
            for (method, api) in Method::ALL.into_iter().flat_map(|method| Api::ALL.map(|api| (method, api))) {
                let histogram = &counts.latency[method as usize][api as usize];
                if !histogram.is_empty() {
                    let (called, entry) = (method.over(api), entrypoint(api));
                    let labels = format!("model_name=\"{model}\",API=\"{called}\",entrypoint=\"{entry}\"");
                    histogram.write(&mut self.0, &name, &labels);
                }
            }
        }
    }

    pub fn runtimes(&mut self, models: &[(String, Arc<Model>)]) {
        let name = self.announce("runtime_latency", "histogram");
        for (model, counts) in models {
            for (method, histogram) in Method::ALL.iter().zip(&counts.runtime) {
                if !histogram.is_empty() {
                    let called = method.over(Api::TfsGrpc);
                    let labels = format!("model_name=\"{model}\",API=\"{called}\",runtime=\"TF1\"");
                    histogram.write(&mut self.0, &name, &labels);
                }
            }
        }
    }

    pub fn loads(&mut self, loads: &BTreeMap<String, Loads>) {
        let name = self.announce_full(":tensorflow:cc:saved_model:load_attempt_count".into(), "counter");
        for (path, loads) in loads {
            for (status, count) in [("success", loads.succeeded), ("fail", loads.failed)] {
                if count > 0 {
                    let path = escape(path);
                    let _ = writeln!(self.0, "{name}{{model_path=\"{path}\",status=\"{status}\"}} {count}");
                }
            }
        }
        let name = self.announce_full(":tensorflow:cc:saved_model:load_latency".into(), "counter");
        for (path, loads) in loads {
            let _ = writeln!(self.0, "{name}{{model_path=\"{}\"}} {}", escape(path), loads.micros);
        }
    }
}

/// A label's value between its quotes.
pub fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
