//! Random tensors survive writing and reading; random text never does harm.

use proptest::prelude::*;

use super::super::{Style, write_predict};
use super::*;

/// A tensor of any dtype that JSON holds exactly, with any finite or infinite values but NaN.
fn tensors() -> impl Strategy<Value = Tensor> {
    let dtypes: Vec<DType> =
        DType::ALL.into_iter().filter(|dtype| !matches!(dtype, DType::Complex64 | DType::Complex128)).collect();
    let shape = proptest::collection::vec(1_usize..5, 1..4);
    (proptest::sample::select(dtypes), shape).prop_flat_map(|(dtype, shape)| {
        let count: usize = shape.iter().product();
        let size = dtype.size().unwrap_or(8);
        (Just(dtype), Just(shape), proptest::collection::vec(proptest::collection::vec(any::<u8>(), size), count))
            .prop_map(|(dtype, shape, items)| build(dtype, &shape, items))
    })
}

fn build(dtype: DType, shape: &[usize], mut items: Vec<Vec<u8>>) -> Tensor {
    if dtype == DType::String {
        let text = |item: Vec<u8>| Bytes::from(String::from_utf8_lossy(&item).into_owned());
        return Tensor::strings(shape.into(), items.into_iter().map(text).collect()).unwrap();
    }
    for item in &mut items {
        match dtype {
            DType::Bool => item[0] &= 1,
            // Without the top bit of the exponent there is no NaN.
            DType::Float | DType::Double | DType::Half | DType::BFloat16 => *item.last_mut().unwrap() &= 0xBF,
            _ => {}
        }
    }
    Tensor::fixed(dtype, shape.into(), items.concat().into()).unwrap()
}

fn bodies() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        r#"{"signature_name": "s", "instances": [[1.5, 2e3, NaN], [-Infinity, 0.1, 123456789012345678901]]}"#,
        r#"{"instances": [{"a": [[1,2],[3,4]], "b": "x\u00e9\ud83d\ude00"}, {"a": [[1,2],[3,4]], "b": {"b64": "aGVsbG8="}}]}"#,
        r#"{"inputs": {"a": [[[1,2],[3,4]],[[5,6],[7,8]]], "b": ["true", {"b64": "aA"}], "c": [true, null, false]}}"#,
        "\u{feff}{\"inputs\": {\"b64\": \"aGVsbG8=\"}} trailing",
        r#"{"inputs": [[[]],[[],[]]], "x": {"y": [{}, {"z": []}]}}"#,
    ])
    .prop_map(String::from)
}

fn try_all(body: &[u8]) {
    for dtype in DType::ALL {
        let _ = parse(&signature(&[("a", dtype)]), body);
        let _ = parse(&signature(&[("a", DType::Int32), ("b", dtype)]), body);
    }
    let _ = parse(&signature(&[]), body);
}

proptest! {
    #[test]
    fn tensors_survive_a_round_trip(tensor in tensors(), rows: bool) {
        let (format, names) = if rows { (Format::Row, ["predictions", "instances"]) } else { (Format::Column, ["outputs", "inputs"]) };
        let text = String::from_utf8(write_predict(format, Style::default(), &[("x", &tensor)]).unwrap()).unwrap();
        prop_assert_eq!(&one(tensor.dtype(), text.replacen(names[0], names[1], 1)), &tensor);
        let named = write_predict(format, Style::default(), &[("x", &tensor), ("y", &tensor)]).unwrap();
        let named = String::from_utf8(named).unwrap().replacen(names[0], names[1], 1);
        let (read, tensors) = parse(&signature(&[("x", tensor.dtype()), ("y", tensor.dtype())]), named).unwrap();
        prop_assert_eq!((read, &tensors[0], &tensors[1]), (format, &tensor, &tensor));
    }

    #[test]
    fn any_bytes_are_read_without_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        try_all(&body);
    }

    #[test]
    fn any_run_of_tokens_is_read_without_panic(
        tokens in proptest::collection::vec(
            proptest::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"b64\"", "\"inputs\":", "\"instances\":", "1", "-2.5",
                "1e5", "NaN", "-Inf", "true", "null", " ", "\"\\u0041\"", "\"", "\\",
            ]),
            0..30,
        ),
        key in proptest::sample::select(vec!["inputs", "instances"]),
    ) {
        try_all(tokens.concat().as_bytes());
        try_all(format!(r#"{{"{key}":{}}}"#, tokens.concat()).as_bytes());
    }

    #[test]
    fn damaged_json_is_read_without_panic(
        body in bodies(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0_u8..4, any::<u8>()), 1..6),
    ) {
        let mut body = body.into_bytes();
        for (place, edit, byte) in edits {
            let at = place.index(body.len());
            let byte = if byte < 128 { b"[]{},:\"\\0-.eEu x"[usize::from(byte % 16)] } else { byte };
            match edit {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                2 if body.len() > 1 => drop(body.remove(at)),
                _ => body.truncate(at.max(1)),
            }
        }
        try_all(&body);
    }

    #[test]
    fn what_another_parser_takes_is_taken(body in bodies(), cut in any::<proptest::sample::Index>(), byte in 0x20_u8..0x7F) {
        // Where the dialects agree: no NaN, and nothing behind the value.
        let mut body = body.replace("NaN", "0").replace("Infinity", "1").replace(" trailing", "").replace('\u{feff}', "").into_bytes();
        let at = cut.index(body.len());
        body[at] = byte;
        if let Ok(value) = serde_json::from_slice::<serde_json::Value>(&body) {
            let error = parse(&signature(&[("none", DType::Int32)]), &body).err();
            let syntax = error.as_ref().is_some_and(|error| error.message.starts_with("JSON Parse error"));
            prop_assert!(!syntax, "{value} {error:?}");
        }
    }
}
