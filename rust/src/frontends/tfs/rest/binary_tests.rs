use super::*;
use crate::error::Code;

fn signature(inputs: &[(&str, DType, Option<&[i64]>)]) -> Signature {
    let spec = |(name, dtype, shape): &(&str, DType, Option<&[i64]>)| {
        TensorSpec::new(*name, *dtype, shape.map(<[i64]>::to_vec))
    };
    Signature {
        name: "s".into(),
        method_name: String::new(),
        inputs: inputs.iter().map(spec).collect(),
        outputs: vec![],
        batched: true,
        check_shapes: true,
    }
}

fn strings(items: &[&str]) -> Vec<u8> {
    items.iter().flat_map(|item| [&(item.len() as u32).to_le_bytes()[..], item.as_bytes()].concat()).collect()
}

#[test]
fn a_lone_input_of_known_rows_needs_no_description() {
    type Case = (DType, &'static [i64], Vec<u8>, &'static [usize]);
    let table: [Case; 6] = [
        (DType::Float, &[-1, 2], vec![0; 24], &[3, 2]),
        (DType::Float, &[-1], vec![], &[0]),
        (DType::Int64, &[], vec![1; 8], &[]),
        (DType::UInt8, &[4, 3], vec![1; 12], &[4, 3]),
        (DType::String, &[-1], strings(&["a", "", "bcd"]), &[3]),
        (DType::String, &[-1, 2], strings(&["a", "b"]), &[1, 2]),
    ];
    for (dtype, spec, body, shape) in table {
        let body = Bytes::from(body);
        let inputs = read(&signature(&[("x", dtype, Some(spec))]), None, &body, 1 << 20).unwrap();
        assert_eq!((inputs[0].0.as_str(), inputs[0].1.shape(), inputs[0].1.dtype()), ("x", shape, dtype));
    }
}

#[test]
fn described_inputs_are_slices_of_the_body() {
    let signature = signature(&[("a", DType::Float, None), ("b", DType::String, None), ("c", DType::Bool, None)]);
    let body: Bytes = [&[1, 0, 7][..], &strings(&["one", "é"]), &2.5_f32.to_le_bytes()].concat().into();
    let described =
        br#"[{"name":"c","shape":[3]},{"name":"b","dtype":"string","shape":[2,1]},{"name":"a","shape":[]}]"#;
    let inputs = read(&signature, Some(described), &body, 1 << 20).unwrap();
    let [(_, c), (_, b), (_, a)] = &inputs[..] else { panic!("three") };
    assert_eq!(*c.data(), Data::Fixed(Bytes::from_static(&[1, 0, 1])));
    let Data::Strings(items) = b.data() else { panic!("strings") };
    assert_eq!((b.shape(), &items[0][..], items[1].as_ptr()), (&[2, 1][..], &b"one"[..], body[14..].as_ptr()));
    assert_eq!(*a.data(), Data::Fixed(body.slice(body.len() - 4..)));
}

#[test]
fn what_does_not_fit_is_named() {
    let one = signature(&[("x", DType::Float, Some(&[-1, 2]))]);
    let two = signature(&[("x", DType::Float, Some(&[-1])), ("y", DType::String, None)]);
    let table: [(&Signature, Option<&str>, Vec<u8>, &str); 11] = [
        (&one, None, vec![0; 9], "1 of the body's 9 bytes belong to no input"),
        (&two, None, vec![], "Poise-Inputs: expected this header"),
        (&signature(&[("x", DType::Float, None)]), None, vec![], "Poise-Inputs: expected this header"),
        (&signature(&[("x", DType::Float, Some(&[-1, -1]))]), None, vec![], "Poise-Inputs: expected this header"),
        (&one, Some("x"), vec![], "Poise-Inputs: expected JSON as in"),
        (&one, Some(r#"[{"name":"x","shape":[-1]}]"#), vec![], "Poise-Inputs: expected JSON as in"),
        (&one, Some(r#"[{"name":"z","shape":[1]}]"#), vec![], "Poise-Inputs: the signature has no input z"),
        (
            &one,
            Some(r#"[{"name":"x","dtype":"flout","shape":[1]}]"#),
            vec![],
            "input x: expected one of the dtypes float,",
        ),
        (
            &one,
            Some(r#"[{"name":"x","shape":[2,2]}]"#),
            vec![0; 15],
            "input x: float of shape [2,2] needs 16 bytes but 15 are left",
        ),
        (
            &two,
            Some(r#"[{"name":"y","shape":[4000000000]}]"#),
            vec![0; 15],
            "input y: 4000000000 strings need their lengths in 4 bytes each but 15 are left",
        ),
        (
            &two,
            Some(r#"[{"name":"y","shape":[1]}]"#),
            vec![9, 0, 0, 0, 1],
            "input y: the string at offset 0 ends behind the body",
        ),
    ];
    for (signature, described, body, expected) in table {
        let error = read(signature, described.map(str::as_bytes), &body.into(), 1 << 20).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.starts_with(expected), "{}", error.message);
    }
    let many = Bytes::from(vec![0; 400]);
    let error = read(&two, Some(br#"[{"name":"y","shape":[100]}]"#), &many, 99 * size_of::<Bytes>()).unwrap_err();
    assert_eq!(error.message, "input y: 100 strings in one request are too many");
}

#[test]
fn answers_are_described_in_ascii_and_not_copied() {
    let numbers = Tensor::fixed(DType::Half, [2].as_slice().into(), Bytes::from_static(&[1, 2, 3, 4])).unwrap();
    let words = Tensor::strings([1, 2].as_slice().into(), vec!["a".into(), "é".into()]).unwrap();
    let (chunks, header) = write(&[("y", &numbers), ("wörter😀", &words)]).unwrap();
    assert_eq!(chunks[1], strings(&["a", "é"]));
    let Data::Fixed(bytes) = numbers.data() else { panic!("numbers") };
    assert_eq!(chunks[0].as_ptr(), bytes.as_ptr());
    assert!(header.is_ascii());
    let read: serde_json::Value = serde_json::from_str(&header).unwrap();
    assert_eq!(
        read,
        serde_json::json!([
            {"name": "y", "dtype": "half", "shape": [2]},
            {"name": "wörter😀", "dtype": "string", "shape": [1, 2]},
        ])
    );
}
