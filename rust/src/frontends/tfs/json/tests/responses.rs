//! Tensors and errors as text.

use super::super::{Style, write_error, write_predict};
use super::*;
use crate::error::Reason;

fn tensor(dtype: DType, shape: &[usize], bytes: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Tensor {
    let bytes: Vec<u8> = bytes.into_iter().flat_map(|item| item.as_ref().to_vec()).collect();
    Tensor::fixed(dtype, shape.into(), bytes.into()).unwrap()
}

fn int_tensor(shape: &[usize], items: &[i32]) -> Tensor {
    tensor(DType::Int32, shape, items.iter().map(|item| item.to_le_bytes()))
}

fn float_tensor(shape: &[usize], items: &[f32]) -> Tensor {
    tensor(DType::Float, shape, items.iter().map(|item| item.to_le_bytes()))
}

fn double_tensor(shape: &[usize], items: &[f64]) -> Tensor {
    tensor(DType::Double, shape, items.iter().map(|item| item.to_le_bytes()))
}

fn string_tensor(shape: &[usize], items: &[&'static str]) -> Tensor {
    Tensor::strings(shape.into(), items.iter().map(|item| Bytes::from_static(item.as_bytes())).collect()).unwrap()
}

fn write(format: Format, outputs: &[(&str, &Tensor)]) -> String {
    String::from_utf8(write_predict(format, Style::default(), outputs).unwrap()).unwrap()
}

/// The text of one output in columns, without what is around it.
fn column(name: &str, tensor: &Tensor) -> String {
    let text = write(Format::Column, &[(name, tensor)]);
    text.strip_prefix(r#"{"outputs":"#).and_then(|text| text.strip_suffix('}')).unwrap().into()
}

fn message(format: Format, outputs: &[(&str, &Tensor)]) -> String {
    let error = write_predict(format, Style::default(), outputs).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    error.message.into_owned()
}

#[test]
fn one_output_is_written_bare() {
    let cube = int_tensor(&[2, 3, 2], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]);
    let text = "[[[1,2],[3,4],[5,6]],[[7,8],[9,0],[1,2]]]";
    assert_eq!(write(Format::Row, &[("y", &cube)]), format!(r#"{{"predictions":{text}}}"#));
    assert_eq!(write(Format::Column, &[("y", &cube)]), format!(r#"{{"outputs":{text}}}"#));
    let list = int_tensor(&[5], &[1, -2, 3, i32::MIN, i32::MAX]);
    assert_eq!(write(Format::Row, &[("y", &list)]), r#"{"predictions":[1,-2,3,-2147483648,2147483647]}"#);
    assert_eq!(column("y", &int_tensor(&[], &[7])), "7");
}

#[test]
fn strings_of_bytes_are_written_as_base64() {
    let words = string_tensor(&[2, 2], &["hello", "world", "tf", "serving"]);
    let text = r#"[[{"b64":"aGVsbG8="},{"b64":"d29ybGQ="}],[{"b64":"dGY="},{"b64":"c2VydmluZw=="}]]"#;
    assert_eq!(column("str_tensor_bytes", &words), text);
    assert_eq!(column("str_tensor", &words), r#"[["hello","world"],["tf","serving"]]"#);
    assert_eq!(column("y", &string_tensor(&[], &["a\"\\\n\u{1}é"])), r#""a\"\\\n\u0001é""#);
}

#[test]
fn bytes_that_are_no_text_are_refused_or_base64() {
    let binary = Tensor::strings([1].as_slice().into(), vec![Bytes::from_static(b"\xff\0")]).unwrap();
    assert!(message(Format::Row, &[("y", &binary)]).starts_with("Tensor name: y holds bytes that are not UTF-8 text"));
    assert_eq!(column("y_bytes", &binary), r#"[{"b64":"/wA="}]"#);
    let style = Style { base64: true, ..Style::default() };
    let text = write_predict(Format::Row, style, &[("y", &binary)]).unwrap();
    assert_eq!(text, br#"{"predictions":[{"b64":"/wA="}]}"#);
}

#[test]
fn floats_are_as_short_as_reads_back() {
    let floats = float_tensor(&[6], &[9000000.0, 999999.0, 0.5, 0.0003, 0.00003, 555557.5]);
    assert_eq!(column("y", &floats), "[9e+06,999999.0,0.5,0.0003,3e-05,555557.5]");
    let floats = float_tensor(&[6], &[1.0 / 3.0, 16777216.0, -0.0, 0.0, 1e10, 1.5e-7]);
    assert_eq!(column("y", &floats), "[0.333333343,16777216.0,-0.0,0.0,1e+10,1.5e-07]");
    let doubles = double_tensor(&[5], &[1.0 / 3.0, 0.1, 1e100, 123456789.0, 1e-5]);
    assert_eq!(column("y", &doubles), "[0.33333333333333331,0.1,1e+100,123456789.0,1e-05]");
}

#[test]
fn floats_that_are_not_finite_are_bare_words() {
    let floats = float_tensor(&[2, 2], &[f32::NAN, f32::INFINITY, 3.0, f32::NEG_INFINITY]);
    assert_eq!(column("y", &floats), "[[NaN,Infinity],[3.0,-Infinity]]");
    assert_eq!(column("y", &double_tensor(&[1], &[-f64::NAN])), "[NaN]");
}

#[test]
fn or_null_on_request() {
    let style = Style { null: true, ..Style::default() };
    let floats = float_tensor(&[4], &[f32::NAN, f32::INFINITY, -0.0, f32::NEG_INFINITY]);
    let half = tensor(DType::Half, &[2], [[0x00, 0x7C], [0x00, 0x3C]]);
    let text = write_predict(Format::Column, style, &[("f", &floats), ("h", &half)]).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), r#"{"outputs":{"f":[null,null,-0.0,null],"h":[null,1.0]}}"#);
}

#[test]
fn every_dtype_but_complex_is_written() {
    let cases = [
        (DType::Int8, vec![0x80], "-128"),
        (DType::UInt8, vec![0xFF], "255"),
        (DType::Int16, vec![0, 0x80], "-32768"),
        (DType::UInt16, vec![0xFF, 0xFF], "65535"),
        (DType::UInt32, vec![0xFF; 4], "4294967295"),
        (DType::Int64, i64::MIN.to_le_bytes().to_vec(), "-9223372036854775808"),
        (DType::UInt64, vec![0xFF; 8], "18446744073709551615"),
        (DType::Bool, vec![1], "true"),
        (DType::Bool, vec![0], "false"),
        (DType::Half, vec![0x00, 0xC1], "-2.5"),
        (DType::Half, vec![0x01, 0x00], "5.96046448e-08"),
        (DType::BFloat16, vec![0x80, 0x3F], "1.0"),
    ];
    for (dtype, bytes, expected) in cases {
        assert_eq!(column("y", &tensor(dtype, &[], [bytes])), expected);
    }
    for (dtype, size) in [(DType::Complex64, 8), (DType::Complex128, 16)] {
        let text = format!("Failed to write JSON value for tensor type: {dtype}");
        assert_eq!(message(Format::Column, &[("y", &tensor(dtype, &[1], [vec![0; size]]))]), text);
    }
}

#[test]
fn several_outputs_are_written_by_name() {
    let double = double_tensor(&[2], &[1.0, 2.0]);
    let float = float_tensor(&[2, 1], &[3.0, 4.5]);
    let int = int_tensor(&[2, 3, 2], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]);
    let words = string_tensor(&[2, 2], &["a", "b", "c", "d"]);
    let bytes = string_tensor(&[2, 2], &["hello", "world", "tf", "serving"]);
    let outputs = [("d", &double), ("f", &float), ("i", &int), ("s", &words), ("s_bytes", &bytes)];
    assert_eq!(
        write(Format::Row, &outputs),
        concat!(
            r#"{"predictions":[{"d":1.0,"f":[3.0],"i":[[1,2],[3,4],[5,6]],"s":["a","b"],"#,
            r#""s_bytes":[{"b64":"aGVsbG8="},{"b64":"d29ybGQ="}]},"#,
            r#"{"d":2.0,"f":[4.5],"i":[[7,8],[9,0],[1,2]],"s":["c","d"],"#,
            r#""s_bytes":[{"b64":"dGY="},{"b64":"c2VydmluZw=="}]}]}"#
        )
    );
    assert_eq!(
        write(Format::Column, &outputs),
        concat!(
            r#"{"outputs":{"d":[1.0,2.0],"f":[[3.0],[4.5]],"i":[[[1,2],[3,4],[5,6]],[[7,8],[9,0],[1,2]]],"#,
            r#""s":[["a","b"],["c","d"]],"s_bytes":[[{"b64":"aGVsbG8="},{"b64":"d29ybGQ="}],"#,
            r#"[{"b64":"dGY="},{"b64":"c2VydmluZw=="}]]}}"#
        )
    );
}

#[test]
fn no_rows_are_an_empty_list() {
    let (flat, wide) = (int_tensor(&[0], &[]), int_tensor(&[0, 3], &[]));
    assert_eq!(write(Format::Row, &[("y", &wide)]), r#"{"predictions":[]}"#);
    assert_eq!(write(Format::Row, &[("a", &flat), ("b", &wide)]), r#"{"predictions":[]}"#);
    assert_eq!(column("y", &int_tensor(&[2, 0, 3], &[])), "[[],[]]");
    assert_eq!(column("y", &int_tensor(&[2, 2, 0], &[])), "[[[],[]],[[],[]]]");
}

#[test]
fn rows_need_a_common_dimension() {
    let (none, single, pair) = (int_tensor(&[0], &[]), int_tensor(&[1], &[1]), int_tensor(&[2], &[1, 2]));
    let text = message(Format::Row, &[("x", &pair), ("y", &single)]);
    assert_eq!(text, "Tensor name: y has inconsistent batch size: 1 expecting: 2");
    let text = message(Format::Row, &[("x", &none), ("y", &single)]);
    assert_eq!(text, "Tensor name: y has inconsistent batch size: 1 expecting: 0");
    let text = message(Format::Row, &[("y", &int_tensor(&[], &[1]))]);
    assert_eq!(text, "Tensor name: y has no shape information ");
    assert_eq!(write(Format::Column, &[("x", &pair), ("y", &single)]), r#"{"outputs":{"x":[1,2],"y":[1]}}"#);
    assert_eq!(message(Format::Row, &[]), "Cannot convert empty tensor map to JSON");
    assert_eq!(message(Format::Column, &[]), "Cannot convert empty tensor map to JSON");
}

#[test]
fn errors_are_valid_json_with_the_message_first() {
    let text = String::from_utf8(write_error(&Error::bad_input(r#"Bad key: "key""#))).unwrap();
    assert_eq!(text, r#"{"error":"Bad key: \"key\"","code":"INVALID_ARGUMENT","reason":"bad_input"}"#);
    let error = Error::new(Code::Unavailable, Reason::QueueFull, "line\none");
    let read: serde_json::Value = serde_json::from_slice(&write_error(&error)).unwrap();
    assert_eq!(read, serde_json::json!({"error": "line\none", "code": "UNAVAILABLE", "reason": "queue_full"}));
}
