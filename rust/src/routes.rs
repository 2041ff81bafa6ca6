//! Which versions are published now, and what status calls answer about all of them.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::batching::version::{Lease, Version};
use crate::error::{Code, Error, Reason, Result};

/// Which version a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The highest published.
    Latest,
    Specific(i64),
    Label(String),
}

/// The state of one version, as TensorFlow Serving reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    pub version: i64,
    /// A number of ModelVersionStatus.State.
    pub state: i32,
    /// A gRPC code number, 0 for OK.
    pub code: u8,
    pub message: String,
}

#[derive(Clone, Default)]
struct Model {
    /// Ascending.
    published: Vec<Arc<Version>>,
    /// Newest version first.
    statuses: Vec<Status>,
}

/// Read by every request without a lock, replaced as a whole by the few writers.
#[derive(Default)]
pub struct Routes {
    models: ArcSwap<HashMap<String, Model>>,
    writing: Mutex<()>,
}

impl Routes {
    fn change(&self, model: &str, change: impl FnOnce(&mut Model)) {
        let _writing = self.writing.lock();
        let mut models = HashMap::clone(&self.models.load());
        let entry = models.entry(model.to_owned()).or_default();
        change(entry);
        if entry.published.is_empty() && entry.statuses.is_empty() {
            models.remove(model);
        }
        self.models.store(Arc::new(models));
    }

    /// Routes requests to a version; one with the same number is replaced.
    pub fn publish(&self, version: Arc<Version>) {
        let model = Arc::clone(&version.model);
        self.change(&model, |entry| {
            entry.published.retain(|other| other.number != version.number);
            entry.published.push(version);
            entry.published.sort_by_key(|version| version.number);
        });
    }

    /// Stops routing to a version.
    pub fn withdraw(&self, version: &Arc<Version>) {
        self.change(&version.model, |entry| entry.published.retain(|other| !Arc::ptr_eq(other, version)));
    }

    /// What status calls answer; an empty list forgets the model.
    pub fn set_status(&self, model: &str, statuses: Vec<Status>) {
        self.change(model, |entry| entry.statuses = statuses);
    }

    /// The version that a request is for, held open until the lease is dropped.
    pub fn resolve(&self, model: &str, choice: &Choice) -> Result<Lease> {
        if model.is_empty() {
            return Err(Error::bad_input("ModelSpec has no name specified."));
        }
        // A version found closed was replaced a moment ago: the table has the new one.
        for _ in 0..3 {
            let models = self.models.load();
            let published = models.get(model).map_or(&[][..], |entry| &entry.published);
            let version = match choice {
                Choice::Latest => published.last(),
                Choice::Specific(number) => published.iter().find(|version| version.number == *number),
                Choice::Label(label) => {
                    return Err(Error::bad_input(format!("Unrecognized servable version label: {label}")));
                }
            };
            match version.map(Version::lease) {
                Some(Some(lease)) => return Ok(lease),
                Some(None) => {}
                None => break,
            }
        }
        Err(self.not_found(model, choice))
    }

    fn not_found(&self, model: &str, choice: &Choice) -> Error {
        let asked = match choice {
            Choice::Latest => format!("Latest({model})"),
            Choice::Specific(number) => format!("Specific({model}, {number})"),
            Choice::Label(label) => format!("Label({model}, {label})"),
        };
        let known = self.models.load().contains_key(model);
        let reason = if known { Reason::NotReady } else { Reason::NotFound };
        Error::new(Code::NotFound, reason, format!("Servable not found for request: {asked}"))
    }

    /// The states of every version of a model, or of one, newest first.
    pub fn statuses(&self, model: &str, version: Option<i64>) -> Result<Vec<Status>> {
        let models = self.models.load();
        let all = models.get(model).map_or(&[][..], |entry| &entry.statuses);
        let chosen: Vec<Status> =
            all.iter().filter(|status| version.is_none_or(|number| status.version == number)).cloned().collect();
        if chosen.is_empty() {
            let message = match version {
                Some(number) => format!("Could not find version {number} of model {model}"),
                None => format!("Could not find any versions of model {model}"),
            };
            return Err(Error::new(Code::NotFound, Reason::NotFound, message));
        }
        Ok(chosen)
    }
}
