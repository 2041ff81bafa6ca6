//! Bodies that are refused, and what is said of them.

use super::*;

const INT: [(&str, DType); 1] = [("x", DType::Int32)];
const TWO: [(&str, DType); 2] = [("a", DType::Int32), ("b", DType::Int32)];

#[test]
fn tensors_under_no_key_or_two() {
    check(
        &INT,
        &[
            (r#"{"x": [1]}"#, "Missing 'inputs' or 'instances' key"),
            (
                r#"{"instances": [1], "inputs": [2]}"#,
                r#"JSON Value: {"instances": [1], "inputs": [2]} Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "#,
            ),
            (r#"{"instances": 1}"#, r#"JSON Value: {"instances": 1} Expecting 'instances' to be an list/array"#),
            (r#"{"instances": []}"#, r#"JSON Value: {"instances": []} No values in 'instances' array"#),
        ],
    );
}

#[test]
fn rows_that_differ() {
    let row =
        |row, error| format!("Failed to process element: {row} of 'instances' list. Error: INVALID_ARGUMENT: {error}");
    check(
        &INT,
        &[
            (r#"{"instances": [[1,2],[3,4],[5,6,7]]}"#, &row(2, "Expecting tensor size: 2 but got: 3")),
            (r#"{"instances": [[1,2],[3,4],[[5,6]]]}"#, &row(2, "Expecting shape [2] but got: [1,2]")),
            (r#"{"instances": [1,[1]]}"#, &row(1, "Expecting shape [] but got: [1]")),
            (r#"{"instances": [[],[1]]}"#, &row(1, "Expecting tensor size: 0 but got: 1")),
            (r#"{"instances": [[1],{"x": [2]}]}"#, "Expecting value/list but got object at item 1 of input list"),
            (r#"{"instances": [{"x": [2]},[1]]}"#, "Expecting object but got list at item 1 of input list"),
        ],
    );
    let key = |row, key, error| {
        format!("Failed to process element: {row} key: {key} of 'instances' list. Error: INVALID_ARGUMENT: {error}")
    };
    check(
        &TWO,
        &[
            (
                r#"{"instances": [{"a":[1,2],"b":[[1]]},{"a":[1,2],"b":[1]}]}"#,
                &key(1, "b", "Expecting shape [1,1] but got: [1]"),
            ),
            (
                r#"{"instances": [{"a":[1,2],"b":[1]},{"a":[1,2,3],"b":[1]}]}"#,
                &key(1, "a", "Expecting tensor size: 2 but got: 3"),
            ),
        ],
    );
}

#[test]
fn rows_that_do_not_name_the_inputs() {
    check(
        &TWO,
        &[
            (
                r#"{"instances": [[1,2]]}"#,
                "instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map",
            ),
            (
                r#"{"instances": [{"a":1,"b":2,"c":3}]}"#,
                "Failed to process element: 0 key: c of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not have named input: c",
            ),
            (
                r#"{"instances": [{"a":1,"b":2},{"a":1}]}"#,
                r#"Failed to process element: 1 of 'instances' list. JSON object: {"a":1} keys must be equal to: a,b"#,
            ),
            (
                r#"{"instances": [{}]}"#,
                "Failed to process element: 0 of 'instances' list. JSON object: {} keys must be equal to: a,b",
            ),
        ],
    );
}

#[test]
fn columns_that_do_not_name_the_inputs() {
    check(
        &TWO,
        &[
            (
                r#"{"inputs": [1]}"#,
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map",
            ),
            (r#"{"inputs": {"a": [1]}}"#, "Missing named input: b in 'inputs' object."),
        ],
    );
    check(
        &[],
        &[
            (r#"{"inputs": [1]}"#, "Failed to get input map for signature: DEFAULT"),
            (r#"{"instances": [{}], "signature_name": "s"}"#, "Failed to get input map for signature: s"),
        ],
    );
}

#[test]
fn ragged_lists() {
    check(
        &INT,
        &[
            (
                r#"{"inputs": [[1],2]}"#,
                "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
            ),
            (r#"{"inputs": [1,[2]]}"#, "Encountered list at unexpected level: 1 expected < 1"),
            (r#"{"inputs": [[],[[]]]}"#, "Encountered list at unexpected size: 1 at level: 1 expected size: 0"),
            (r#"{"inputs": [[1,2],[3]]}"#, "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
            (
                r#"{"inputs": [[[1]],[[2],["a"]]]}"#,
                "Encountered list at unexpected size: 2 at level: 1 expected size: 1",
            ),
            (
                r#"{"inputs": [[[1,1],[1,1]],[[1],[2],[3]]]}"#,
                "Encountered list at unexpected size: 3 at level: 1 expected size: 2",
            ),
            (r#"{"inputs": [[1,2],["a",2]]}"#, r#"JSON Value: "a" Type: String is not of expected type: int32"#),
            (
                r#"{"instances": [[1,[2]]]}"#,
                "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: Encountered list at unexpected level: 1 expected < 1",
            ),
        ],
    );
    let deep = format!(r#"{{"inputs": {}{}}}"#, "[".repeat(500_000), "]".repeat(500_000));
    assert!(refused(&INT, deep).message.starts_with("Encountered list at level: 254"));
}

#[test]
fn values_of_another_type() {
    let type_error = |dtype: DType, value: &str, kind: &str| {
        let body = format!(r#"{{"inputs": [{value}]}}"#);
        let expected = format!("JSON Value: {value} Type: {kind} is not of expected type: {dtype}");
        assert_eq!(refused(&[("x", dtype)], &body).message, expected);
        let body = format!(r#"{{"instances": [{value}]}}"#);
        let message = refused(&[("b64", dtype)], &body).message;
        assert!(message.ends_with(&expected) || kind == "Object", "{message}");
    };
    let kinds =
        [("null", "Null"), ("false", "False"), ("true", "True"), (r#"{"a": 1}"#, "Object"), (r#""x""#, "String")];
    for dtype in DType::ALL {
        let complex = matches!(dtype, DType::Complex64 | DType::Complex128);
        for (value, kind) in kinds {
            let fits = match dtype {
                DType::Bool => matches!(kind, "True" | "False"),
                DType::String => matches!(kind, "String" | "Object"),
                _ => complex && kind != "Object",
            };
            if !fits {
                type_error(dtype, value, kind);
            }
        }
    }
    for dtype in [DType::Bool, DType::String] {
        type_error(dtype, "1", "Number");
    }
    for value in ["1.0", "1e2", "NaN", "-Infinity"] {
        type_error(DType::Int32, value, "Number");
        type_error(DType::UInt64, value, "Number");
    }
}

#[test]
fn strings_that_are_no_base64() {
    let form = |object: &str| format!("JSON Value: {object} not formatted correctly for base64 data");
    let inputs = [("x", DType::String)];
    check(
        &inputs,
        &[
            (r#"{"inputs": [{"b64": 1}]}"#, &form(r#"{"b64": 1}"#)),
            (r#"{"inputs": [{}]}"#, &form("{}")),
            (r#"{"inputs": [{"b64": "", "b64": ""}]}"#, &form(r#"{"b64": "", "b64": ""}"#)),
            (r#"{"inputs": [{"b64": "_+8="}]}"#, "Unable to base64 decode"),
            (r#"{"inputs": [{"b64": "a"}]}"#, "Unable to base64 decode"),
            (
                r#"{"inputs": [["a"], [{"b64": "?"}, "b"]]}"#,
                "Encountered list at unexpected size: 2 at level: 1 expected size: 1",
            ),
        ],
    );
}

#[test]
fn integers_out_of_range_name_their_element() {
    for (dtype, value) in [
        (DType::Int8, "300"),
        (DType::Int8, "-129"),
        (DType::UInt8, "256"),
        (DType::UInt8, "-1"),
        (DType::Int16, "32768"),
        (DType::UInt16, "65536"),
        (DType::Int32, "2147483648"),
        (DType::UInt32, "4294967296"),
        (DType::UInt32, "-1"),
        (DType::Int64, "9223372036854775808"),
        (DType::UInt64, "18446744073709551616"),
        (DType::UInt64, "-1"),
        (DType::UInt64, "99999999999999999999999999999999999999999999"),
    ] {
        let error =
            format!("JSON Value: {value} Type: Number is not of expected type: {dtype} (element 3 is out of range)");
        check(&[("x", dtype)], &[(&format!(r#"{{"inputs": [[1,2],[3,{value}]]}}"#), &error)]);
    }
}

#[test]
fn numbers_beyond_a_double() {
    for dtype in [DType::Float, DType::Double, DType::Half] {
        let message = "JSON Parse error: Number too big to be stored in double. at offset: 15 (element 1)";
        check(&[("x", dtype)], &[(r#"{"inputs": [1, -1e309]}"#, message)]);
    }
}

#[test]
fn complex_numbers_are_not_implemented() {
    let inputs = [("x", DType::Complex64)];
    let error = refused(&inputs, r#"{"inputs": [0]}"#);
    assert_eq!(error.code, Code::Unimplemented);
    assert_eq!(error.message, "Conversion of JSON Value: 0 to type: complex64");
    let error = refused(&inputs, r#"{"instances": [0]}"#);
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(error.message.ends_with("Error: UNIMPLEMENTED: Conversion of JSON Value: 0 to type: complex64"));
}
