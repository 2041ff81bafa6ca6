//! What a URL of TensorFlow Serving's REST API asks for.

use http::Method;

use crate::error::{Error, Result};
use crate::frontends::percent::decode;
use crate::routes::Choice;

/// A URL under `/v1` with its verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Empty where the whole server is meant.
    pub model: String,
    pub choice: Choice,
    pub action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Predict,
    Classify,
    Regress,
    Status,
    Metadata,
    /// Of every model.
    List,
    ReadConfig,
    WriteConfig,
    Load,
    Unload,
    Reload,
    Record,
}

impl Action {
    /// What stands behind the colon of a URL to post to.
    fn posted(verb: &str) -> Option<Self> {
        Some(match verb {
            "predict" => Self::Predict,
            "classify" => Self::Classify,
            "regress" => Self::Regress,
            "load" => Self::Load,
            "unload" => Self::Unload,
            "reload" => Self::Reload,
            "record" => Self::Record,
            _ => return None,
        })
    }

    /// Whether this is an order to the server, not a question to a model.
    pub fn is_admin(self) -> bool {
        self.of_a_model() || self == Self::WriteConfig
    }

    /// Whether this is about a model as a whole, not about one version of it.
    fn of_a_model(self) -> bool {
        matches!(self, Self::Load | Self::Unload | Self::Reload | Self::Record)
    }
}

/// Reads a URL: `/v1/models/{name}[/versions/{n}|/labels/{label}]`, then `:predict` or its like to post, or
/// `/metadata` or nothing to get; `/v1/models`; `/v1/config`. Everything else is a malformed request, as in TensorFlow
/// Serving. HEAD asks for what GET does.
pub fn route(method: &Method, path: &str) -> Result<Route> {
    let malformed = || Error::bad_input(format!("Malformed request: {method} {path}"));
    let (get, post) = (matches!(*method, Method::GET | Method::HEAD), *method == Method::POST);
    let rest = path.get(4..).ok_or_else(malformed)?;
    if let Some(action) = about_the_server(rest, get, post) {
        return Ok(Route { model: String::new(), choice: Choice::Latest, action });
    }
    let (resource, action) = match rest.rsplit_once(':') {
        Some((resource, verb)) if post => (resource, Action::posted(verb).ok_or_else(malformed)?),
        None if get => match rest.strip_suffix("/metadata") {
            Some(resource) if resource.contains('/') => (resource, Action::Metadata),
            _ => (rest, Action::Status),
        },
        _ => return Err(malformed()),
    };
    let mut parts = resource.split('/');
    if !parts.next().is_some_and(|first| first.eq_ignore_ascii_case("models")) {
        return Err(malformed());
    }
    let parts: Vec<&str> = parts.collect();
    if parts == [""] && get {
        return Err(Error::bad_input("Missing model name in request."));
    }
    let (name, choice) = named(&parts).ok_or_else(malformed)??;
    if action.of_a_model() && choice != Choice::Latest {
        return Err(malformed());
    }
    Ok(Route { model: decode(name)?, choice, action })
}

fn about_the_server(rest: &str, get: bool, post: bool) -> Option<Action> {
    match rest.to_ascii_lowercase().as_str() {
        "models" if get => Some(Action::List),
        "config" if get => Some(Action::ReadConfig),
        "config" if post => Some(Action::WriteConfig),
        _ => None,
    }
}

/// The model, not yet decoded, and which version of it; `None` when it is not told in this form.
fn named<'a>(parts: &[&'a str]) -> Option<Result<(&'a str, Choice)>> {
    let (name, choice) = match *parts {
        [name] => (name, Ok(Choice::Latest)),
        [name, kind, version] if kind.eq_ignore_ascii_case("versions") => (name, specific(version)?),
        [name, kind, label] if kind.eq_ignore_ascii_case("labels") && is_plain(label) => {
            (name, decode(label).map(Choice::Label))
        }
        _ => return None,
    };
    is_plain(name).then(|| choice.map(|choice| (name, choice)))
}

/// Whether a name has no character that would have to be percent-encoded in it.
fn is_plain(segment: &str) -> bool {
    !segment.is_empty() && !segment.contains(':')
}

/// A version number; `None` when it is not digits, an error when it is too large.
fn specific(digits: &str) -> Option<Result<Choice>> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let too_large = |_| Error::bad_input(format!("Failed to convert version: {digits} to numeric."));
    Some(digits.parse().map(Choice::Specific).map_err(too_large))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Result<Route> {
        let (method, path) = line.split_once(' ').unwrap();
        route(&method.parse().unwrap(), path)
    }

    #[test]
    fn urls_name_a_model_a_version_and_an_action() {
        use Action::*;
        let stable = || Choice::Label("stable".into());
        let table = [
            ("GET /v1/models", "", Choice::Latest, List),
            ("GET /v1/config", "", Choice::Latest, ReadConfig),
            ("POST /v1/config", "", Choice::Latest, WriteConfig),
            ("GET /v1/models/m", "m", Choice::Latest, Status),
            ("HEAD /v1/models/m", "m", Choice::Latest, Status),
            ("GET /v1/models/m/versions/07", "m", Choice::Specific(7), Status),
            ("GET /v1/models/m/labels/stable", "m", stable(), Status),
            ("GET /v1/models/m/metadata", "m", Choice::Latest, Metadata),
            ("GET /v1/models/metadata", "metadata", Choice::Latest, Status),
            ("GET /V1/MODELS/m/Versions/1/metadata", "m", Choice::Specific(1), Metadata),
            ("GET /v1/models/m/labels/stable/metadata", "m", stable(), Metadata),
            ("POST /v1/models/m:predict", "m", Choice::Latest, Predict),
            ("POST /v1/models/m/versions/9223372036854775807:regress", "m", Choice::Specific(i64::MAX), Regress),
            ("POST /v1/models/m/LABELS/stable:classify", "m", stable(), Classify),
            ("POST /v1/models/m/labels/a%2Fb%3A%20c:predict", "m", Choice::Label("a/b: c".into()), Predict),
            ("POST /v1/models/modelname%21%23%24%5B%5D%2F%3A:predict", "modelname!#$[]/:", Choice::Latest, Predict),
            ("POST /v1/models/m:load", "m", Choice::Latest, Load),
            ("POST /v1/models/m:unload", "m", Choice::Latest, Unload),
            ("POST /v1/models/m:reload", "m", Choice::Latest, Reload),
            ("POST /v1/models/m:record", "m", Choice::Latest, Record),
        ];
        for (line, model, choice, action) in table {
            assert_eq!(found(line).unwrap(), Route { model: model.into(), choice, action }, "{line}");
        }
    }

    #[test]
    fn everything_else_is_malformed() {
        let table = [
            "GET /v1/foo",
            "GET /v1/",
            "POST /v1/models",
            "PUT /v1/models",
            "HEAD /v1/models/m:predict",
            "GET /v1/models/m:predict",
            "GET /v1/models/m/",
            "GET /v1/models/m/METADATA",
            "POST /v1/models/m",
            "POST /v1/models/:predict",
            "POST /v1/models/m:PREDICT",
            "POST /v1/models/m:",
            "POST /v1/models/a:b:predict",
            "POST /v1/models/m/version/50:predict",
            "POST /v1/models/m/versions/HELLO:predict",
            "POST /v1/models/m/versions/:predict",
            "POST /v1/models/m/versions/-1:predict",
            "POST /v1/models/m/label/x:predict",
            "POST /v1/models/m/labels/:predict",
            "POST /v1/models/m/labels/a:b:predict",
            "POST /v1/models/m/versions/1/labels/x:predict",
            "POST /v1/models/m/versions/1:load",
            "POST /v1/models/m/labels/x:unload",
            "GET /v1/models/m:load",
            "DELETE /v1/config",
            "DELETE /v1/models/m",
            "PATCH /v1/models/m:predict",
        ];
        for line in table {
            assert_eq!(found(line).unwrap_err().message, format!("Malformed request: {line}"));
        }
    }

    #[test]
    fn some_mistakes_have_their_own_words() {
        let table = [
            ("GET /v1/models/", "Missing model name in request."),
            (
                "POST /v1/models/m/versions/18446744073709551615:predict",
                "Failed to convert version: 18446744073709551615 to numeric.",
            ),
            ("GET /v1/models/m%2", "malformed percent-encoding in m%2"),
            ("GET /v1/models/m/labels/%ff", "malformed percent-encoding in %ff"),
        ];
        for (line, message) in table {
            assert_eq!(found(line).unwrap_err().message, message, "{line}");
        }
    }
}
