//! Bodies that are no JSON, or not of the form that a request has.

use super::*;

#[test]
fn bodies_that_are_not_json() {
    check(
        &[("x", DType::Int32)],
        &[
            ("", "JSON Parse error: The document is empty"),
            (" \n", "JSON Parse error: The document is empty"),
            ("\u{feff}", "JSON Parse error: The document is empty"),
            ("instances = [1, 2]", "JSON Parse error: Invalid value. at offset: 0"),
            (r#"{"instances": [1,]}"#, "JSON Parse error: Invalid value. at offset: 17"),
            (r#"{"instances": nul}"#, "JSON Parse error: Invalid value. at offset: 14"),
            (r#"{"instances": [nan]}"#, "JSON Parse error: Invalid value. at offset: 15"),
            (r#"{"instances": [.5]}"#, "JSON Parse error: Invalid value. at offset: 15"),
            (r#"{"instances": [+5]}"#, "JSON Parse error: Invalid value. at offset: 15"),
            (r#"{"instances": [1.]}"#, "JSON Parse error: Miss fraction part in number. at offset: 17"),
            (r#"{"instances": [1e]}"#, "JSON Parse error: Miss exponent in number. at offset: 17"),
            (r#"{"instances": [01]}"#, "JSON Parse error: Missing a comma or ] after an array element. at offset: 16"),
            (r#"{"instances": [1"#, "JSON Parse error: Missing a comma or ] after an array element. at offset: 16"),
            (r#"{"a": 1"#, "JSON Parse error: Missing a comma or } after an object member. at offset: 7"),
            (r#"{"a": {"b": 1]}"#, "JSON Parse error: Missing a comma or } after an object member. at offset: 13"),
            (r#"{"a": 1,}"#, "JSON Parse error: Missing a name for object member. at offset: 8"),
            ("{", "JSON Parse error: Missing a name for object member. at offset: 1"),
            (r#"{"a" 1}"#, "JSON Parse error: Missing a colon after a name of object member. at offset: 5"),
            (r#"{"a": "b"#, "JSON Parse error: Missing a closing quotation mark in string. at offset: 8"),
            ("{\"a\": \"\n\"}", "JSON Parse error: Invalid encoding in string. at offset: 7"),
            (r#"{"a": "\x"}"#, "JSON Parse error: Invalid escape character in string. at offset: 7"),
            (r#"{"a": "\u12g4"}"#, "JSON Parse error: Incorrect hex digit after \\u escape in string. at offset: 7"),
            (r#"{"a": "\ud800x"}"#, "JSON Parse error: The surrogate pair in string is invalid. at offset: 7"),
            (r#"{"a": "\udc00"}"#, "JSON Parse error: The surrogate pair in string is invalid. at offset: 7"),
            ("[1, 2]", "JSON Value: [1, 2] Is not object"),
        ],
    );
}

#[test]
fn signature_names_that_are_no_strings_come_first() {
    let text = "not formatted correctly. 'signature_name' key must be a string value.";
    for body in [r#"{"signature_name": 5}"#, r#"{"signature_name": 100, "instances": 1, "inputs": 2}"#] {
        check(&[("x", DType::Int32)], &[(body, &format!("JSON Value: {body} {text}"))]);
    }
    let deep = format!(r#"{{"signature_name": {}{}, "instances": [1]}}"#, "[".repeat(500_000), "]".repeat(500_000));
    let message = refused(&[("x", DType::Int32)], deep).message;
    assert!(message.starts_with(r#"JSON Value: {"signature_name": [["#), "{message}");
    assert!(message.ends_with(&format!("[... {text}")) && message.len() < 400, "{message}");
}

#[test]
fn echoes_are_cut_between_characters() {
    for pad in 0..4 {
        let body = format!(r#"{{"{}": "{}"}}"#, "p".repeat(pad), "😀".repeat(100));
        let message = refused(&[("x", DType::Int32)], format!("[{body}]")).message;
        assert!(message.contains("😀... Is not object") && message.len() < 300, "{message}");
    }
}
