//! Bodies that are understood.

use super::*;
use crate::error::Reason;

#[test]
fn rows_of_one_input_are_stacked() {
    let (format, tensors) = parse(&signature(&[("x", DType::Int32)]), r#"{"instances": [[1,2],[3,4],[5,6]]}"#).unwrap();
    assert_eq!(format, Format::Row);
    assert_eq!(tensors[0].shape(), &[3, 2]);
    assert_eq!(ints(&tensors[0]), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn any_depth_is_skipped_where_nobody_looks() {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let tensor = one(DType::Int32, format!(r#"{{"deep": {deep}, "instances": [[1,2],[3,4],[5,6]]}}"#));
    assert_eq!(tensor.shape(), &[3, 2]);
    let objects = format!("{}1{}", r#"{"a":["#.repeat(250_000), "]}".repeat(250_000));
    one(DType::Int32, format!(r#"{{"instances": [1], "deep": {objects}}}"#));
}

#[test]
fn integers_and_decimals_mix_in_floats() {
    assert_eq!(floats(&one(DType::Float, r#"{"instances": [1, 2.0, -3e0]}"#)), [1.0, 2.0, -3.0]);
    assert_eq!(doubles(&one(DType::Double, r#"{"instances": [1, 2.0, -3e0]}"#)), [1.0, 2.0, -3.0]);
}

#[test]
fn an_integer_and_the_same_decimal_are_the_same_float() {
    let tensor = one(DType::Float, r#"{"instances": [1435774380, 1435774380.0]}"#);
    assert_eq!(floats(&tensor), [1435774380.0, 1435774380.0]);
}

#[test]
fn doubles_beyond_a_float_become_infinite_or_zero() {
    let tensor = one(DType::Float, r#"{"instances": [1.797e308, -1.797e308, 2.2e-308, -2.2e-308]}"#);
    assert_eq!(floats(&tensor), [f32::INFINITY, f32::NEG_INFINITY, 0.0, 0.0]);
    assert!(floats(&tensor)[3].is_sign_negative());
}

#[test]
fn a_body_ends_where_its_slice_ends() {
    let buffer = Bytes::from_static(br#"{"instances": [1, 2]}, 3]}"#);
    let signature = signature(&[("x", DType::Int32)]);
    for end in 0..buffer.len() {
        let parsed = parse_predict(&buffer.slice(..end), |_| Ok(&signature));
        assert_eq!(parsed.is_ok(), end >= 21, "{end}");
    }
}

#[test]
fn what_follows_the_first_value_is_not_looked_at() {
    assert_eq!(ints(&one(DType::Int32, r#"{"instances": [1]} , what?"#)), [1]);
}

#[test]
fn a_byte_order_mark_and_spaces_are_skipped() {
    assert_eq!(ints(&one(DType::Int32, "\u{feff} \r\n\t{ \"instances\" : [ 1 , 2 ] }")), [1, 2]);
}

#[test]
fn of_equal_keys_the_first_counts() {
    assert_eq!(ints(&one(DType::Int32, r#"{"instances": [1], "instances": "two"}"#)), [1]);
    assert_eq!(ints(&one(DType::Int32, r#"{"inputs": {"x": [1], "x": "two"}}"#)), [1]);
    assert_eq!(ints(&one(DType::Int32, r#"{"instances": [{"x": 1, "x": "two"}]}"#)), [1]);
}

#[test]
fn keys_may_be_written_with_escapes() {
    assert_eq!(ints(&one(DType::Int32, r#"{"\u0069nputs": {"\u0078": [1]}}"#)), [1]);
}

#[test]
fn binary_strings_are_decoded() {
    let flat = one(DType::String, r#"{"instances": [{"b64": "aGVsbG8="}, {"b64": "d29ybGQ="}]}"#);
    assert_eq!((flat.shape(), strings(&flat)), (&[2][..], vec![&b"hello"[..], b"world"]));
    let nested = one(DType::String, r#"{"instances": [[{"b64": "aGVsbG8="}], [{"b64": "d29ybGQ="}]]}"#);
    assert_eq!((nested.shape(), strings(&nested)), (&[2, 1][..], vec![&b"hello"[..], b"world"]));
    let named = one(DType::String, r#"{"instances": [{"x": [[{"b64": "aGVsbG8="}], [{"b64": "d29ybGQ"}]]}]}"#);
    assert_eq!((named.shape(), strings(&named)), (&[1, 2, 1][..], vec![&b"hello"[..], b"world"]));
    let bytes = one(DType::String, r#"{"inputs": { "b64" : "\u002F/8A" }}"#);
    assert_eq!((bytes.shape(), strings(&bytes)), (&[][..], vec![&b"\xff\xff\0"[..]]));
}

#[test]
fn strings_are_unescaped() {
    let tensor = one(DType::String, r#"{"inputs": ["", "a b", "q\"\u00e9\ud83d\ude00", "π"]}"#);
    let expected = ["", "a b", "q\"é😀", "π"].map(str::as_bytes);
    assert_eq!(strings(&tensor), expected);
}

#[test]
fn strings_are_bytes_to_the_model_whatever_their_encoding() {
    assert_eq!(strings(&one(DType::String, b"{\"inputs\": [\"\xff\"]}")), [b"\xff"]);
}

#[test]
fn named_rows_fill_several_inputs() {
    let inputs = [("i", DType::Int32), ("s", DType::String), ("f", DType::Float), ("d", DType::Double)];
    let body = r#"{"instances": [
        {"i": [[1,2],[3,4],[5,6]], "s": ["foo","bar"], "f": [1.0, NaN], "d": [NaN]},
        {"d": [2.0], "f": [2.0, Infinity], "s": ["foo","bar"], "i": [[7,8],[9,0],[1,2]]}
    ]}"#;
    let (format, tensors) = parse(&signature(&inputs), body).unwrap();
    assert_eq!(format, Format::Row);
    // In the order of their names: d f i s.
    let shapes: Vec<_> = tensors.iter().map(Tensor::shape).collect();
    assert_eq!(shapes, [&[2, 1][..], &[2, 2], &[2, 3, 2], &[2, 2]]);
    assert!(doubles(&tensors[0])[0].is_nan());
    assert_eq!(doubles(&tensors[0])[1], 2.0);
    assert!(floats(&tensors[1])[1].is_nan());
    assert_eq!(floats(&tensors[1])[2..], [2.0, f32::INFINITY]);
    assert_eq!(ints(&tensors[2]), [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]);
    assert_eq!(strings(&tensors[3]), [b"foo", b"bar", b"foo", b"bar"]);
}

#[test]
fn a_column_is_named_or_bare() {
    for body in [r#"{"inputs": {"x": [[[1,2],[3,4],[5,6]]]}}"#, r#"{"inputs": [[[1,2],[3,4],[5,6]]]}"#] {
        let (format, tensors) = parse(&signature(&[("x", DType::Int32)]), body).unwrap();
        assert_eq!((format, tensors[0].shape()), (Format::Column, &[1, 3, 2][..]));
    }
}

#[test]
fn columns_may_have_any_rank_and_other_keys() {
    let inputs = [("i", DType::Int32), ("s", DType::String), ("f", DType::Float)];
    let body =
        r#"{"inputs": {"f": [1.0, 2.0], "other": {"a": [1]}, "i": [[[1,2],[3,4],[5,6]]], "s": {"b64": "aGVsbG8="}}}"#;
    let (format, tensors) = parse(&signature(&inputs), body).unwrap();
    assert_eq!(format, Format::Column);
    let shapes: Vec<_> = tensors.iter().map(Tensor::shape).collect();
    assert_eq!(shapes, [&[2][..], &[1, 3, 2], &[]]);
    assert_eq!(strings(&tensors[2]), [b"hello"]);
}

#[test]
fn an_object_is_a_map_of_names_unless_it_is_binary_data() {
    let inputs = signature(&[("b64", DType::String)]);
    let scalar = |body| parse(&inputs, body).unwrap().1.remove(0);
    assert_eq!(strings(&scalar(r#"{"inputs": {"b64": ["text"]}}"#)), [b"text"]);
    assert_eq!(strings(&scalar(r#"{"inputs": {"b64": "dGV4dA"}}"#)), [b"text"]);
    assert_eq!(strings(&scalar(r#"{"inputs": {"b64": "text", "more": 1}}"#)), [b"text"]);
}

#[test]
fn lists_may_be_empty() {
    let shape = |body| one(DType::Float, body).shape().to_vec();
    assert_eq!(shape(r#"{"inputs": []}"#), [0]);
    assert_eq!(shape(r#"{"inputs": [[], [ ]]}"#), [2, 0]);
    assert_eq!(shape(r#"{"instances": [[[],[]]]}"#), [1, 2, 0]);
}

#[test]
fn a_signature_without_inputs_is_called_by_an_empty_object() {
    let (format, tensors) = parse(&signature(&[]), r#"{"inputs": {}}"#).unwrap();
    assert_eq!((format, tensors.len()), (Format::Column, 0));
}

#[test]
fn the_signature_is_looked_up_once_by_its_name() {
    let found = signature(&[("x", DType::Int32)]);
    for (body, expected) in [
        (r#"{"signature_name": "s\u0031", "inputs": 1}"#, "s1"),
        (r#"{"inputs": 1, "signature_name": "", "signature_name": 2}"#, ""),
        (r#"{"inputs": 1}"#, ""),
    ] {
        let mut asked = Vec::new();
        let lookup = |name: &str| {
            asked.push(name.to_owned());
            Ok(&found)
        };
        parse_predict(&Bytes::from_static(body.as_bytes()), lookup).unwrap();
        assert_eq!(asked, [expected]);
    }
}

#[test]
fn an_unknown_signature_is_reported_before_the_tensors_and_after_the_syntax() {
    let unknown = || Error::new(Code::NotFound, Reason::NotFound, "no such model");
    let error = |body: &'static str| {
        let lookup = |_: &str| -> Result<&Signature> { Err(unknown()) };
        parse_predict(&Bytes::from_static(body.as_bytes()), lookup).unwrap_err()
    };
    assert_eq!(error("{}"), unknown());
    assert_eq!(error(r#"{"inputs": 1, "instances": 2}"#), unknown());
    assert_eq!(error("{").code, Code::InvalidArgument);
    assert_eq!(error(r#"{"signature_name": 5}"#).code, Code::InvalidArgument);
}
