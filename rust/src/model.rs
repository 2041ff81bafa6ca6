//! What a version of a model can be asked: its signatures and their typed inputs and outputs.

use serde::Deserialize;

use crate::tensor::{DType, show};

/// One named input or output. `shape` uses -1 for a dimension that may vary; `None` when even the rank may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    pub dtype: DType,
    pub shape: Option<Vec<i64>>,
}

impl TensorSpec {
    /// Whether a tensor of this shape may be given for this spec.
    pub fn accepts(&self, shape: &[usize]) -> bool {
        let Some(spec) = &self.shape else { return true };
        spec.len() == shape.len() && spec.iter().zip(shape).all(|(want, got)| *want < 0 || *want as u64 == *got as u64)
    }

    /// The shape as people read it: `[?,64]`, or `unknown rank`.
    pub fn show_shape(&self) -> String {
        let Some(spec) = &self.shape else { return "unknown rank".into() };
        let dims: Vec<String> = spec.iter().map(|dim| if *dim < 0 { "?".into() } else { dim.to_string() }).collect();
        format!("[{}]", dims.join(","))
    }

    /// One sentence on what was expected and what came.
    pub fn shape_mismatch(&self, got: &[usize]) -> String {
        format!("input {}: expected shape {} but got {}", self.name, self.show_shape(), show(got))
    }
}

/// One callable of a version. Inputs and outputs are sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    /// TensorFlow's method name, e.g. `tensorflow/serving/predict`.
    pub method_name: String,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    /// Whether dim 0 of every input and output counts rows, so that requests may share a batch.
    pub batched: bool,
    /// Whether inputs of other shapes than declared are refused before they queue; else the model judges them.
    pub check_shapes: bool,
}

/// The signature that answers when a request names none.
pub const DEFAULT_SIGNATURE: &str = "serving_default";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecRecord {
    name: String,
    dtype: String,
    shape: Option<Vec<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureRecord {
    name: String,
    method_name: String,
    batched: bool,
    #[serde(default = "yes")]
    check_shapes: bool,
    inputs: Vec<SpecRecord>,
    outputs: Vec<SpecRecord>,
}

fn yes() -> bool {
    true
}

/// Most inputs or outputs of a signature: their positions travel as small numbers.
const MOST_TENSORS: usize = 4096;

impl Signature {
    /// Reads the JSON in which signatures cross the border; both ends of a channel read the same text, and so agree on
    /// positions. Errors say what is wrong with it.
    pub fn list_from_json(text: &str) -> Result<Vec<Signature>, String> {
        let records: Vec<SignatureRecord> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let signatures = records.into_iter().map(Signature::try_from).collect::<Result<Vec<_>, _>>()?;
        match repeated(signatures.iter().map(|signature| &signature.name)) {
            Some(name) => Err(format!("signature {name} is there twice")),
            None => Ok(signatures),
        }
    }
}

impl TryFrom<SignatureRecord> for Signature {
    type Error = String;

    fn try_from(record: SignatureRecord) -> Result<Self, String> {
        let within = |what: String| format!("signature {}: {what}", record.name);
        let inputs = specs(record.inputs).map_err(within)?;
        let outputs = specs(record.outputs).map_err(within)?;
        let (name, method_name) = (record.name, record.method_name);
        Ok(Self { name, method_name, inputs, outputs, batched: record.batched, check_shapes: record.check_shapes })
    }
}

fn specs(records: Vec<SpecRecord>) -> Result<Vec<TensorSpec>, String> {
    if records.len() > MOST_TENSORS {
        return Err(format!("{} tensors, more than {MOST_TENSORS}", records.len()));
    }
    let spec = |record: SpecRecord| {
        let dtype = DType::from_name(&record.dtype);
        let dtype = dtype.ok_or_else(|| format!("tensor {}: unknown dtype {}", record.name, record.dtype))?;
        Ok(TensorSpec { name: record.name, dtype, shape: record.shape })
    };
    let mut specs = records.into_iter().map(spec).collect::<Result<Vec<_>, String>>()?;
    specs.sort_by(|one, other| one.name.cmp(&other.name));
    match repeated(specs.iter().map(|spec| &spec.name)) {
        Some(name) => Err(format!("tensor {name} is there twice")),
        None => Ok(specs),
    }
}

fn repeated<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"[{"name": "serving_default", "method_name": "m", "batched": true,
        "inputs": [{"name": "y", "dtype": "float", "shape": [-1, 2]}, {"name": "x", "dtype": "string", "shape": null}],
        "outputs": []}]"#;

    #[test]
    fn signatures_come_sorted_by_name() {
        let signatures = Signature::list_from_json(GOOD).unwrap();
        let names: Vec<&str> = signatures[0].inputs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["x", "y"]);
        assert!(signatures[0].inputs[1].accepts(&[7, 2]));
        assert!(!signatures[0].inputs[1].accepts(&[7, 3]));
        assert!(!signatures[0].inputs[1].accepts(&[7]));
        assert!(signatures[0].inputs[0].accepts(&[]));
        assert!(signatures[0].check_shapes);
    }

    #[test]
    fn a_model_may_have_no_signatures_and_may_judge_shapes_itself() {
        assert_eq!(Signature::list_from_json("[]").unwrap(), []);
        let text = GOOD.replace(r#""batched": true"#, r#""batched": true, "check_shapes": false"#);
        assert!(!Signature::list_from_json(&text).unwrap()[0].check_shapes);
    }

    #[test]
    fn mistakes_are_named() {
        let table = [
            (GOOD.replace("float", "flout"), "unknown dtype flout"),
            (GOOD.replace(r#""y""#, r#""x""#), "tensor x is there twice"),
            (GOOD.replace("batched", "batchd"), "unknown field"),
        ];
        for (text, expected) in table {
            let error = Signature::list_from_json(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
