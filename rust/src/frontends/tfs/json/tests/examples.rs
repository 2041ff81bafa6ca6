//! Cases of classification and regression.

use prost::Message;

use super::super::{Examples, Style, parse_examples, write_classes, write_values};
use super::*;
use crate::frontends::tfs::inference::Class;

/// The messages of `tensorflow.Example`, as far as they are looked at here.
#[derive(Clone, PartialEq, Message)]
struct Example {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}
#[derive(Clone, PartialEq, Message)]
struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: std::collections::BTreeMap<String, Feature>,
}
#[derive(Clone, PartialEq, Message)]
struct Feature {
    #[prost(message, optional, tag = "1")]
    bytes: Option<BytesList>,
    #[prost(message, optional, tag = "2")]
    floats: Option<FloatList>,
    #[prost(message, optional, tag = "3")]
    ints: Option<Int64List>,
}
#[derive(Clone, PartialEq, Message)]
struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    value: Vec<Vec<u8>>,
}
#[derive(Clone, PartialEq, Message)]
struct FloatList {
    #[prost(float, repeated, tag = "1")]
    value: Vec<f32>,
}
#[derive(Clone, PartialEq, Message)]
struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    value: Vec<i64>,
}

fn read(body: &str) -> Result<Examples> {
    parse_examples(&Bytes::copy_from_slice(body.as_bytes()), "classify")
}

/// Features by name, in words: floats with a point, bytes in quotes.
fn shown(example: &Bytes) -> String {
    let features = Example::decode(example.clone()).unwrap().features.unwrap();
    let feature = |(name, feature): (&String, &Feature)| {
        let words = feature
            .bytes
            .iter()
            .flat_map(|list| &list.value)
            .map(|item| format!("{:?}", String::from_utf8_lossy(item)));
        let floats = feature.floats.iter().flat_map(|list| &list.value).map(|value| format!("{value:?}"));
        let ints = feature.ints.iter().flat_map(|list| &list.value).map(i64::to_string);
        format!("{name}={}", words.chain(floats).chain(ints).collect::<Vec<_>>().join(","))
    };
    features.feature.iter().map(feature).collect::<Vec<_>>().join(" ")
}

#[test]
fn features_are_of_the_kind_of_their_first_value() {
    let body = r#"{"signature_name": "s", "examples": [
        {"names": ["foo", "bar"], "ratings": [8.0, 9.0], "age": 20}, {"names": ["baz"], "ratings": 6.0}, {}]}"#;
    let found = read(body).unwrap();
    assert_eq!((found.signature.as_str(), found.context.len()), ("s", 0));
    let shown: Vec<_> = found.examples.iter().map(shown).collect();
    assert_eq!(shown, [r#"age=20 names="foo","bar" ratings=8.0,9.0"#, r#"names="baz" ratings=6.0"#, ""]);
}

#[test]
fn context_bytes_and_special_numbers_are_read() {
    let body = r#"{"context": {"query": "pizza", "location": ["sfo"]}, "examples": [
        {"ratings": [8.0, 9.0, NaN, Infinity], "names": ["baz", {"b64": "aGVsbG8="}, "\u00e9"]},
        {"ratings": -Infinity, "intboolmix": [1, true, false], "empty": [], "big": [-9223372036854775808, 9223372036854775807]}]}"#;
    let found = read(body).unwrap();
    assert_eq!(shown(&found.context), r#"location="sfo" query="pizza""#);
    assert_eq!(shown(&found.examples[0]), r#"names="baz","hello","é" ratings=8.0,9.0,NaN,inf"#);
    let second = "big=-9223372036854775808,9223372036854775807 empty= intboolmix=1,1,0 ratings=-inf";
    assert_eq!(shown(&found.examples[1]), second);
}

#[test]
fn what_is_no_example_is_refused() {
    let features = [
        ("[10, null]", "Feature: names has element with unexpected JSON type: Null"),
        ("[10, 10.0]", "Unexpected element type in feature: names expecting type: int64"),
        (r#"[10, {"test": 10}]"#, "Feature: names has element with unexpected JSON type: Object"),
        ("[[10], 20]", "Feature: names has element with unexpected JSON type: Array"),
        ("[20, 18446744073709551603]", "Feature: names has uint64_t element. Only int64_t is supported."),
        (r#"["a", 1]"#, "Unexpected element type in feature: names expecting type: bytes"),
        ("[1.5, 1]", "Unexpected element type in feature: names expecting type: float"),
        (r#"{"b64": "*"}"#, "Unable to base64 decode"),
    ];
    for (value, expected) in features {
        let error = read(&format!(r#"{{"examples": [{{"names": {value}}}]}}"#)).unwrap_err();
        assert_eq!(error.message, expected, "{value}");
    }
    let bodies = [
        ("", "JSON Parse error: The document is empty"),
        (r#"{"signature_name": [], "examples": [{}]}"#, "'signature_name' key must be a string"),
        (r#"{"context": [], "examples": [{}]}"#, "Example must be JSON object but got JSON Array"),
        (r#"{"examples": {}}"#, "Expecting 'examples' value to be an list/array"),
        (r#"{"examples": []}"#, "'examples' value is an empty array"),
        (r#"{"examples": [[]]}"#, "Example must be JSON object but got JSON Array"),
        (r#"{"instances": [1]}"#, "When method is classify, key 'examples' is expected and was not found"),
    ];
    for (body, expected) in bodies {
        let error = read(body).unwrap_err();
        assert!(error.message.contains(expected), "{body}: {}", error.message);
    }
}

#[test]
fn classes_are_pairs_of_label_and_score() {
    let row = |scores: [f32; 3]| {
        let class = |(label, score): (&'static str, f32)| Class { label: label.into(), score };
        ["car", "bike", "bus"].into_iter().zip(scores).map(class).collect::<Vec<_>>()
    };
    let text = write_classes(Style::default(), &[row([0.2, 0.7, 0.1]), row([0.7, 0.1, 0.2])]).unwrap();
    let expected = r#"{"results":[[["car",0.2],["bike",0.7],["bus",0.1]],[["car",0.7],["bike",0.1],["bus",0.2]]]}"#;
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    let binary = [vec![Class { label: Bytes::from_static(b"\xff"), score: f32::NAN }]];
    let error = write_classes(Style::default(), &binary).unwrap_err();
    assert!(error.message.contains("?b64=true"));
    let text = write_classes(Style { null: true, base64: true }, &binary).unwrap();
    assert_eq!(text, br#"{"results":[[[{"b64":"/w=="},null]]]}"#);
}

#[test]
fn values_are_a_list() {
    let write = |values: &[f32]| String::from_utf8(write_values(Style::default(), values).unwrap()).unwrap();
    assert_eq!(write(&[0.2, 0.9, 1.0]), r#"{"results":[0.2,0.9,1.0]}"#);
    let special = [0.2, f32::INFINITY, 1.0, f32::NEG_INFINITY, f32::NAN];
    assert_eq!(write(&special), r#"{"results":[0.2,Infinity,1.0,-Infinity,NaN]}"#);
}

#[test]
fn no_results_are_refused() {
    let classes = write_classes(Style::default(), &[]).unwrap_err().message;
    assert_eq!(classes, "Cannot convert empty ClassificationResults to JSON");
    let values = write_values(Style::default(), &[]).unwrap_err().message;
    assert_eq!(values, "Cannot convert empty RegressionResults to JSON");
}
