//! Which versions are published now, and what status calls answer about all of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;

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

/// Names of versions, chosen by whoever runs the server.
pub type Labels = BTreeMap<String, i64>;

#[derive(Clone, Default)]
struct Model {
    /// Ascending.
    published: Vec<Arc<Version>>,
    /// Newest version first.
    statuses: Vec<Status>,
    labels: Labels,
}

/// One model as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    /// Newest version first.
    pub statuses: Vec<Status>,
    pub labels: Labels,
}

/// Read by every request without a lock, replaced as a whole by the few writers.
#[derive(Default)]
pub struct Routes {
    models: ArcSwap<HashMap<String, Model>>,
    writing: Mutex<()>,
    /// Moves whenever the table is replaced; watched by health streams.
    pub changes: watch::Sender<()>,
}

impl Routes {
    fn change(&self, model: &str, change: impl FnOnce(&mut Model)) {
        let _writing = self.writing.lock();
        let mut models = HashMap::clone(&self.models.load());
        let entry = models.entry(model.to_owned()).or_default();
        change(entry);
        if entry.published.is_empty() && entry.statuses.is_empty() && entry.labels.is_empty() {
            models.remove(model);
        }
        self.models.store(Arc::new(models));
        self.changes.send_replace(());
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

    /// Replaces a model's labels.
    pub fn set_labels(&self, model: &str, labels: Labels) {
        self.change(model, |entry| entry.labels = labels);
    }

    /// Every model that has versions or once had, by name.
    pub fn list(&self) -> Vec<Listed> {
        let models = self.models.load();
        let listed = |(name, model): (&String, &Model)| Listed {
            name: name.clone(),
            statuses: model.statuses.clone(),
            labels: model.labels.clone(),
        };
        let mut list: Vec<Listed> = models.iter().map(listed).collect();
        list.sort_by(|one, other| one.name.cmp(&other.name));
        list
    }

    /// Whether a model has a version that serves; `None` when it is not known.
    pub fn serves(&self, model: &str) -> Option<bool> {
        self.models.load().get(model).map(|entry| !entry.published.is_empty())
    }

    /// The version that a label stands for.
    pub fn labelled(&self, model: &str, label: &str) -> Result<i64> {
        let models = self.models.load();
        let found = models.get(model).and_then(|entry| entry.labels.get(label)).copied();
        found.ok_or_else(|| Error::bad_input(format!("Unrecognized servable version label: {label}")))
    }

    /// The version that a request is for, held open until the lease is dropped.
    pub fn resolve(&self, model: &str, choice: &Choice) -> Result<Lease> {
        if model.is_empty() {
            return Err(Error::bad_input("ModelSpec has no name specified."));
        }
        if let Choice::Label(label) = choice {
            return self.resolve(model, &Choice::Specific(self.labelled(model, label)?));
        }
        // A version found closed was replaced a moment ago: the table has the new one.
        for _ in 0..3 {
            let models = self.models.load();
            let published = models.get(model).map_or(&[][..], |entry| &entry.published);
            let version = match choice {
                Choice::Latest => published.last(),
                Choice::Specific(number) => published.iter().find(|version| version.number == *number),
                Choice::Label(_) => None,
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

    /// The states of every version of a model, or of the one that is asked for, newest first.
    pub fn statuses(&self, model: &str, choice: &Choice) -> Result<Vec<Status>> {
        let version = match choice {
            Choice::Latest => None,
            Choice::Specific(number) => Some(*number),
            Choice::Label(label) => Some(self.labelled(model, label)?),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn label(name: &str) -> Choice {
        Choice::Label(name.into())
    }

    #[test]
    fn labels_stand_for_versions_and_are_replaced_as_a_whole() {
        let routes = Routes::default();
        let status = |version| Status { version, state: 30, code: 0, message: String::new() };
        routes.set_status("m", vec![status(2), status(1)]);
        routes.set_labels("m", Labels::from([("stable".into(), 1), ("canary".into(), 2), ("gone".into(), 3)]));
        assert_eq!(routes.statuses("m", &label("stable")).unwrap(), [status(1)]);
        assert_eq!(
            routes.resolve("m", &label("gone")).err().unwrap().message,
            "Servable not found for request: Specific(m, 3)"
        );
        routes.set_labels("m", Labels::from([("stable".into(), 2)]));
        assert_eq!(routes.statuses("m", &label("stable")).unwrap(), [status(2)]);
        for (model, unknown) in [("m", "canary"), ("other", "stable")] {
            let error = routes.statuses(model, &label(unknown)).unwrap_err();
            assert_eq!(error.message, format!("Unrecognized servable version label: {unknown}"));
            assert_eq!(error.code, Code::InvalidArgument);
        }
    }

    #[test]
    fn the_list_has_models_by_name_with_what_is_known_of_each() {
        let routes = Routes::default();
        routes.set_status("b", vec![Status { version: 1, state: 50, code: 13, message: "broken".into() }]);
        routes.set_labels("a", Labels::from([("stable".into(), 1)]));
        let list = routes.list();
        assert_eq!((routes.serves("b"), routes.serves("c")), (Some(false), None));
        assert_eq!(list.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((list[0].labels["stable"], list[1].statuses[0].message.as_str()), (1, "broken"));
        routes.set_labels("a", Labels::new());
        assert_eq!(routes.list().len(), 1);
    }
}
