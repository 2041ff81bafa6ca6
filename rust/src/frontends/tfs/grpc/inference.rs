//! `PredictionService.Classify`, `Regress` and `MultiInference`.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{counted, decode, effective, model_ref, resolve};
use crate::batching::version::Lease;
use crate::error::{Code, Error, Reason, Result};
use crate::frontends::grpc::{Call, Reply, frame};
use crate::frontends::proto::tensorflow::serving as pb;
use crate::frontends::proto::tensorflow::serving::inference_result::Result as TaskResult;
use crate::frontends::tfs::examples::examples;
use crate::frontends::tfs::inference::{self, Asked, CLASSIFY, Class, REGRESS};
use crate::frontends::tfs::wire::ModelRef;
use crate::telemetry::Api;

/// Tasks of one call: each runs its signature over all of the examples.
const MOST_TASKS: usize = 64;

pub async fn classify(call: Call) -> Reply {
    let request: pb::ClassificationRequest = decode(&call)?;
    let model = model_ref(request.model_spec);
    let (lease, examples) = counted(&call.state, &model.name, begin(&call, &model, request.input))?;
    let asked = asked(&call, &lease, &model);
    let classes = inference::classify(&asked, examples).await?;
    let model_spec = Some(effective(&model.name, &lease, asked.signature()));
    Ok(frame(&pb::ClassificationResponse { result: Some(classification(classes)), model_spec }))
}

pub async fn regress(call: Call) -> Reply {
    let request: pb::RegressionRequest = decode(&call)?;
    let model = model_ref(request.model_spec);
    let (lease, examples) = counted(&call.state, &model.name, begin(&call, &model, request.input))?;
    let asked = asked(&call, &lease, &model);
    let values = inference::regress(&asked, examples).await?;
    let model_spec = Some(effective(&model.name, &lease, asked.signature()));
    Ok(frame(&pb::RegressionResponse { result: Some(regression(values)), model_spec }))
}

/// Every task on the same version; they run at the same time, and results come in the order of the tasks.
pub async fn multi(call: Call) -> Reply {
    let request: pb::MultiInferenceRequest = decode(&call)?;
    let tasks: Vec<(ModelRef, String)> =
        request.tasks.into_iter().map(|task| (model_ref(task.model_spec), task.method_name)).collect();
    let ready = check_tasks(&tasks).and_then(|model| begin(&call, model, request.input));
    let model = tasks.first().map_or("", |(model, _)| &model.name);
    let (lease, examples) = counted(&call.state, model, ready)?;
    counted(&call.state, model, check_signatures(&tasks, &lease))?;
    let results = try_join_all(tasks.iter().map(|task| run_task(&call, &lease, task, examples.clone()))).await?;
    Ok(frame(&pb::MultiInferenceResponse { results }))
}

fn begin(call: &Call, model: &ModelRef, input: Option<pb::Input>) -> Result<(Lease, Vec<Bytes>)> {
    let lease = resolve(&call.state, model)?;
    Ok((lease, examples(input)?))
}

fn asked<'a>(call: &'a Call, lease: &'a Lease, model: &'a ModelRef) -> Asked<'a> {
    let (arrived, deadline) = (call.arrived, call.deadline);
    Asked { lease, signature: &model.signature, api: Api::TfsGrpc, arrived, deadline, timing: &call.timing }
}

/// The model that all tasks name.
fn check_tasks(tasks: &[(ModelRef, String)]) -> Result<&ModelRef> {
    let Some((first, _)) = tasks.first() else {
        return Err(Error::bad_input("ModelSpec has no name specified."));
    };
    if tasks.len() > MOST_TASKS {
        return Err(Error::bad_input(format!("{} tasks in one call; at most {MOST_TASKS} are run", tasks.len())));
    }
    let mut seen = HashSet::new();
    for (model, method) in tasks {
        if model.name.is_empty() {
            return Err(Error::bad_input("Found ModelSpec with an empty model name."));
        }
        if model.name != first.name {
            let message = "All ModelSpecs in a MultiInferenceRequest must access the same model name.";
            return Err(Error::bad_input(message));
        }
        if (model.version, &model.label) != (first.version, &first.label) {
            let message = "All ModelSpecs in a MultiInferenceRequest must access the same version of the model.";
            return Err(Error::bad_input(message));
        }
        let signature = resolved(model);
        if !seen.insert(signature) {
            return Err(Error::bad_input(format!("Duplicate evaluation of signature: {signature}")));
        }
        if method != CLASSIFY && method != REGRESS {
            let message = format!("Unsupported signature method_name: {method}");
            return Err(Error::new(Code::Unimplemented, Reason::Unsupported, message));
        }
    }
    Ok(first)
}

fn check_signatures(tasks: &[(ModelRef, String)], lease: &Lease) -> Result<()> {
    match tasks.iter().map(|(model, _)| resolved(model)).find(|name| lease.endpoint(name).is_none()) {
        Some(name) => Err(Error::bad_input(format!("Requested signature not found in model graph: {name}"))),
        None => Ok(()),
    }
}

fn resolved(model: &ModelRef) -> &str {
    if model.signature.is_empty() { crate::model::DEFAULT_SIGNATURE } else { &model.signature }
}

async fn run_task(
    call: &Call,
    lease: &Lease,
    (model, method): &(ModelRef, String),
    examples: Vec<Bytes>,
) -> Result<pb::InferenceResult> {
    let asked = asked(call, lease, model);
    let result = if method == CLASSIFY {
        TaskResult::ClassificationResult(classification(inference::classify(&asked, examples).await?))
    } else {
        TaskResult::RegressionResult(regression(inference::regress(&asked, examples).await?))
    };
    Ok(pb::InferenceResult { model_spec: Some(effective(&model.name, lease, asked.signature())), result: Some(result) })
}

fn classification(rows: Vec<Vec<Class>>) -> pb::ClassificationResult {
    let class = |Class { label, score }| pb::Class { label, score };
    let row = |row: Vec<Class>| pb::Classifications { classes: row.into_iter().map(class).collect() };
    pb::ClassificationResult { classifications: rows.into_iter().map(row).collect() }
}

fn regression(values: Vec<f32>) -> pb::RegressionResult {
    pb::RegressionResult { regressions: values.into_iter().map(|value| pb::Regression { value }).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, version: Option<i64>, signature: &str, method: &str) -> (ModelRef, String) {
        let (name, signature) = (name.into(), signature.into());
        (ModelRef { name, version, signature, present: true, ..ModelRef::default() }, method.into())
    }

    #[test]
    fn tasks_must_go_together() {
        let good = || task("m", None, "a", CLASSIFY);
        let table = [
            (vec![good(), task("m", None, "", REGRESS)], ""),
            (vec![], "ModelSpec has no name specified."),
            (vec![good(), task("", None, "b", CLASSIFY)], "Found ModelSpec with an empty model name."),
            (vec![good(), task("n", None, "b", CLASSIFY)], "must access the same model name."),
            (vec![good(), task("m", Some(2), "b", CLASSIFY)], "must access the same version of the model."),
            (vec![good(), task("m", None, "a", REGRESS)], "Duplicate evaluation of signature: a"),
            (
                vec![task("m", None, "", REGRESS), task("m", None, "serving_default", REGRESS)],
                "Duplicate evaluation of signature: serving_default",
            ),
            (
                vec![task("m", None, "a", "tensorflow/serving/predict")],
                "Unsupported signature method_name: tensorflow/serving/predict",
            ),
            (
                (0..=MOST_TASKS).map(|number| task("m", None, &format!("s{number}"), REGRESS)).collect(),
                "65 tasks in one call; at most 64 are run",
            ),
        ];
        for (tasks, expected) in table {
            let message = check_tasks(&tasks).err().map(|error| error.message).unwrap_or_default();
            assert!(message.ends_with(expected) && message.is_empty() == expected.is_empty(), "{message}");
        }
    }
}
