//! What a version of a model can be asked: its signatures and their typed inputs and outputs.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use crate::tensor::{DType, Tensor, show};

/// One named input or output. `shape` uses -1 for a dimension that may vary; `None` when even the rank may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    pub dtype: DType,
    pub shape: Option<Vec<i64>>,
    /// The tensor of the model's graph behind it.
    pub tensor: String,
    /// What an input is when a request leaves it out.
    pub default: Option<Tensor>,
}

impl TensorSpec {
    pub fn new(name: impl Into<String>, dtype: DType, shape: Option<Vec<i64>>) -> Self {
        let name = name.into();
        let tensor = format!("{name}:0");
        Self { name, dtype, shape, tensor, default: None }
    }

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
    tensor: Option<String>,
    /// Base64 of a serialized TensorProto.
    default: Option<String>,
}

/// What reads a serialized TensorProto: the wire's own affair, not that of this module.
type Decode<'a> = &'a dyn Fn(&Bytes) -> Result<Tensor, String>;

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
    /// positions. Defaults are left out: only who fills requests needs them. Errors say what is wrong with the text.
    pub fn list_from_json(text: &str) -> Result<Vec<Signature>, String> {
        Self::read(text, None)
    }

    /// The same with the defaults of inputs.
    pub fn list_with_defaults(text: &str, decode: Decode<'_>) -> Result<Vec<Signature>, String> {
        Self::read(text, Some(decode))
    }

    fn read(text: &str, decode: Option<Decode<'_>>) -> Result<Vec<Signature>, String> {
        let records: Vec<SignatureRecord> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let signatures =
            records.into_iter().map(|record| Signature::of(record, decode)).collect::<Result<Vec<_>, _>>()?;
        match repeated(signatures.iter().map(|signature| &signature.name)) {
            Some(name) => Err(format!("signature {name} is there twice")),
            None => Ok(signatures),
        }
    }
}

impl Signature {
    fn of(record: SignatureRecord, decode: Option<Decode<'_>>) -> Result<Self, String> {
        let within = |what: String| format!("signature {}: {what}", record.name);
        let inputs = specs(record.inputs, decode).map_err(within)?;
        let outputs = specs(record.outputs, None).map_err(within)?;
        let (name, method_name) = (record.name, record.method_name);
        Ok(Self { name, method_name, inputs, outputs, batched: record.batched, check_shapes: record.check_shapes })
    }
}

fn specs(records: Vec<SpecRecord>, decode: Option<Decode<'_>>) -> Result<Vec<TensorSpec>, String> {
    if records.len() > MOST_TENSORS {
        return Err(format!("{} tensors, more than {MOST_TENSORS}", records.len()));
    }
    let spec = |record: SpecRecord| {
        let dtype = DType::from_name(&record.dtype);
        let dtype = dtype.ok_or_else(|| format!("tensor {}: unknown dtype {}", record.name, record.dtype))?;
        let mut spec = TensorSpec::new(record.name, dtype, record.shape);
        spec.tensor = record.tensor.unwrap_or(spec.tensor);
        if let (Some(text), Some(decode)) = (record.default, decode) {
            spec.default = Some(default(&spec, &text, decode)?);
        }
        Ok(spec)
    };
    let mut specs = records.into_iter().map(spec).collect::<Result<Vec<_>, String>>()?;
    specs.sort_by(|one, other| one.name.cmp(&other.name));
    match repeated(specs.iter().map(|spec| &spec.name)) {
        Some(name) => Err(format!("tensor {name} is there twice")),
        None => Ok(specs),
    }
}

fn default(spec: &TensorSpec, text: &str, decode: Decode<'_>) -> Result<Tensor, String> {
    let of = |what: &dyn std::fmt::Display| format!("the default of tensor {}: {what}", spec.name);
    let proto = BASE64_STANDARD.decode(text).map_err(|error| of(&error))?;
    let tensor = decode(&proto.into()).map_err(|error| of(&error))?;
    if tensor.dtype() != spec.dtype || !spec.accepts(tensor.shape()) {
        let (want, got) = (spec.show_shape(), show(tensor.shape()));
        return Err(of(&format!("expected {} {want} but got {} {got}", spec.dtype, tensor.dtype())));
    }
    Ok(tensor)
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
    fn a_tensor_may_have_a_name_in_the_graph_and_a_default() {
        let text = GOOD.replace(r#""string", "#, r#""string", "tensor": "serve_x:0", "default": "aGk=", "#);
        let decode =
            |proto: &Bytes| Tensor::strings(smallvec::smallvec![], vec![proto.clone()]).map_err(|e| e.to_string());
        let [signature] = &Signature::list_with_defaults(&text, &decode).unwrap()[..] else { panic!("one") };
        let (x, y) = (&signature.inputs[0], &signature.inputs[1]);
        assert_eq!((x.tensor.as_str(), y.tensor.as_str()), ("serve_x:0", "y:0"));
        assert_eq!(x.default, Some(decode(&"hi".into()).unwrap()));
        assert_eq!(Signature::list_from_json(&text).unwrap()[0].inputs[0].default, None);
        let table = [
            (text.replace("aGk=", "?"), "the default of tensor x: Invalid symbol"),
            (text.replace("string", "int32"), "the default of tensor x: expected int32 unknown rank but got string []"),
        ];
        for (text, expected) in table {
            let error = Signature::list_with_defaults(&text, &decode).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
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
