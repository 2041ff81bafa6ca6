//! What is known of models, as JSON: their list, the states of their versions, their signatures.

use serde_json::{Map, Value, json};

use super::route::{Action, Route};
use crate::error::{Code, Result};
use crate::frontends::state::State;
use crate::model::{Signature, TensorSpec};
use crate::routes::{Listed, Status};

pub fn describe(state: &State, route: &Route) -> Result<Value> {
    match route.action {
        Action::List => Ok(list(&state.routes.list())),
        Action::Metadata => metadata(state, route),
        _ => state.routes.statuses(&route.model, &route.choice).map(|statuses| status(&statuses)),
    }
}

/// Each model as its own status says it, with its name and labels.
fn list(models: &[Listed]) -> Value {
    let entry = |model: &Listed| {
        let label = |(label, version): (&String, &i64)| (label.clone(), version.to_string().into());
        let mut entry = json!({ "name": model.name });
        entry["model_version_status"] = status(&model.statuses)["model_version_status"].take();
        entry["version_labels"] = Value::Object(model.labels.iter().map(label).collect());
        entry
    };
    json!({ "models": models.iter().map(entry).collect::<Vec<_>>() })
}

fn status(statuses: &[Status]) -> Value {
    let entry = |status: &Status| {
        json!({
            "version": status.version.to_string(),
            "state": state_name(status.state),
            "status": {
                "error_code": Code::from_number(status.code).map_or("OK", Code::name),
                "error_message": status.message,
            },
        })
    };
    json!({ "model_version_status": statuses.iter().map(entry).collect::<Vec<_>>() })
}

fn state_name(state: i32) -> &'static str {
    match state {
        10 => "START",
        20 => "LOADING",
        30 => "AVAILABLE",
        40 => "UNLOADING",
        50 => "END",
        _ => "UNKNOWN",
    }
}

fn metadata(state: &State, route: &Route) -> Result<Value> {
    let lease = state.routes.resolve(&route.model, &route.choice)?;
    let mut signatures = Map::new();
    for endpoint in lease.version().endpoints() {
        signatures.insert(endpoint.signature.name.clone(), signature_json(&endpoint.signature));
    }
    Ok(json!({
        "model_spec": {
            "name": route.model,
            "signature_name": "",
            "version": lease.version().number.to_string(),
        },
        "metadata": { "signature_def": { "signature_def": signatures } },
    }))
}

fn signature_json(signature: &Signature) -> Value {
    let map = |specs: &[TensorSpec]| -> Map<String, Value> {
        specs.iter().map(|spec| (spec.name.clone(), tensor_json(spec))).collect()
    };
    json!({
        "inputs": map(&signature.inputs),
        "outputs": map(&signature.outputs),
        "method_name": signature.method_name,
        "defaults": {},
    })
}

fn tensor_json(spec: &TensorSpec) -> Value {
    let dim = |size: &i64| json!({ "size": size.to_string(), "name": "" });
    json!({
        "dtype": format!("DT_{}", spec.dtype.name().to_ascii_uppercase()),
        "tensor_shape": {
            "dim": spec.shape.iter().flatten().map(dim).collect::<Vec<_>>(),
            "unknown_rank": spec.shape.is_none(),
        },
        "name": spec.tensor,
    })
}
