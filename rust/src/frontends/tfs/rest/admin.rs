//! Calls about the server itself: its configuration, and loading, unloading and reloading a model.

use http::header::{CONTENT_TYPE, ETAG, IF_MATCH};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use super::Posted;
use super::route::Action;
use crate::error::{Code, Error, Result};
use crate::frontends::body::Answer;
use crate::frontends::rest;
use crate::frontends::state::State;
use crate::protojson::text_to_json;

const SERVER_CONFIG: &str = "tensorflow.serving.ModelServerConfig";
const MODEL_CONFIG: &str = "tensorflow.serving.ModelConfig";

/// `GET /v1/config`.
pub async fn config(state: &State) -> Result<Response<Answer>> {
    state.ask("get_config", None, Value::Null, None).await.map(tagged)
}

/// What is posted: a configuration, or an order about one model.
pub async fn answer(posted: &Posted<'_>) -> Result<Response<Answer>> {
    let Posted { state, route, deadline, .. } = *posted;
    let model = Some(route.model.as_str());
    let answer = match route.action {
        Action::Load => state.ask("load_model", model, body(posted, MODEL_CONFIG)?, deadline).await?,
        Action::Unload => state.ask("unload_model", model, Value::Null, deadline).await?,
        Action::Reload => state.ask("reload_model", model, Value::Null, deadline).await?,
        _ => return configure(posted).await,
    };
    Ok(rest::json(answer))
}

/// Replaces the configuration: by what is posted alone, or by what `GET /v1/config` answered, changed.
async fn configure(posted: &Posted<'_>) -> Result<Response<Answer>> {
    let expected = generation(posted.headers)?;
    let mut config = body(posted, SERVER_CONFIG)?;
    if config.is_null() {
        return Err(Error::bad_input(
            "expected a configuration, as JSON or in protobuf's text format, but got nothing",
        ));
    }
    let mut generation = expected;
    if let Some(inner) = config.get_mut("config").map(Value::take) {
        generation = generation.or(config.get("generation").and_then(Value::as_i64));
        config = inner;
    }
    let asked = json!({ "config": config, "generation": generation });
    match posted.state.ask("reload_config", None, asked, posted.deadline).await {
        Ok(answer) => Ok(tagged(answer)),
        Err(error) if error.code == Code::Aborted && expected.is_some() => {
            let mut response = rest::refusal(&error);
            *response.status_mut() = StatusCode::PRECONDITION_FAILED;
            Ok(response)
        }
        Err(error) => Err(error),
    }
}

/// The generation that a client believes in; `None` when any will do.
fn generation(headers: &HeaderMap) -> Result<Option<i64>> {
    let Some(value) = headers.get(IF_MATCH).filter(|value| *value != "*") else { return Ok(None) };
    let digits = value.to_str().ok().map(|text| text.trim().trim_matches('"'));
    let bad = || Error::bad_input(format!("If-Match: expected the ETag of an answer of /v1/config but got {value:?}"));
    digits.and_then(|digits| digits.parse().ok()).map(Some).ok_or_else(bad)
}

/// A body as JSON, whichever form of `message` it has; null when there is none.
fn body(posted: &Posted<'_>, message: &str) -> Result<Value> {
    let text = std::str::from_utf8(&posted.body).map_err(|error| Error::bad_input(format!("not UTF-8: {error}")))?;
    let said = posted.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    match text.trim_start().as_bytes().first() {
        None => Ok(Value::Null),
        Some(b'{') if !said => read_json(text),
        Some(_) => read_json(&text_to_json(message, text).map_err(Error::bad_input)?),
    }
}

fn read_json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Error::bad_input(format!("JSON Parse error: {error}")))
}

/// An answer with its generation as its tag.
fn tagged(text: String) -> Response<Answer> {
    let generation = read_json(&text).ok().and_then(|answer| answer.get("generation")?.as_i64());
    let tag = generation.and_then(|generation| HeaderValue::from_str(&format!("\"{generation}\"")).ok());
    let mut response = rest::json(text);
    if let Some(tag) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_stand_in_tags() {
        let of = |value: &'static str| generation(&HeaderMap::from_iter([(IF_MATCH, HeaderValue::from_static(value))]));
        assert_eq!(generation(&HeaderMap::new()).unwrap(), None);
        for (value, expected) in [("\"7\"", Some(7)), ("7", Some(7)), ("*", None)] {
            assert_eq!(of(value).unwrap(), expected);
        }
        for bad in ["", "W/\"7\"", "\"7\", \"8\"", "x"] {
            assert!(of(bad).unwrap_err().message.starts_with("If-Match: expected the ETag"), "{bad}");
        }
        assert_eq!(tagged(r#"{"generation": 3, "models": {}}"#.into()).headers()[ETAG], "\"3\"");
        assert!(!tagged("{}".into()).headers().contains_key(ETAG));
    }
}
