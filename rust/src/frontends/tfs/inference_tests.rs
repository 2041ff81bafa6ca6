use super::*;
use crate::tensor::Shape;

fn strings(shape: &[usize], items: &[&'static str]) -> Tensor {
    let items = items.iter().map(|item| Bytes::from_static(item.as_bytes())).collect();
    Tensor::strings(Shape::from_slice(shape), items).unwrap()
}

fn numbers(shape: &[usize], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::fixed(DType::Float, Shape::from_slice(shape), bytes.into()).unwrap()
}

fn signature(inputs: &[&str], outputs: &[&str]) -> Signature {
    let specs = |names: &[&str]| {
        let text = |name: &&str| format!(r#"{{"name": "{name}", "dtype": "float", "shape": [-1]}}"#);
        names.iter().map(text).collect::<Vec<_>>().join(",")
    };
    let text = format!(
        r#"[{{"name": "s", "method_name": "m", "batched": true, "inputs": [{}], "outputs": [{}]}}]"#,
        specs(inputs),
        specs(outputs)
    );
    Signature::list_from_json(&text).unwrap().remove(0)
}

fn class(label: &'static str, score: f32) -> Class {
    Class { label: label.into(), score }
}

#[test]
fn classes_have_a_label_a_score_or_both() {
    let labels = strings(&[2, 2], &["car", "bike", "bus", "car"]);
    let scores = numbers(&[2, 2], &[0.25, 0.5, 0.0, 1.0]);
    let both = classes(Some(&labels), Some(&scores), 2).unwrap();
    assert_eq!(both, [[class("car", 0.25), class("bike", 0.5)], [class("bus", 0.0), class("car", 1.0)]]);
    let named = classes(Some(&labels), None, 2).unwrap();
    assert_eq!(named[1], [class("bus", 0.0), class("car", 0.0)]);
    let scored = classes(None, Some(&scores), 2).unwrap();
    assert_eq!(scored[0], [class("", 0.25), class("", 0.5)]);
}

#[test]
fn what_a_classifier_gives_is_checked() {
    let good = || strings(&[2, 1], &["a", "b"]);
    let scores = || numbers(&[2, 1], &[1.0, 2.0]);
    let table = [
        (Some(strings(&[2], &["a", "b"])), None, "Expected Tensor shape: [batch_size num_classes] but got [2]"),
        (Some(scores()), None, "Expected classes Tensor of DT_STRING. Got: DT_FLOAT"),
        (None, Some(good()), "Expected scores Tensor of DT_FLOAT. Got: DT_STRING"),
        (Some(strings(&[1, 1], &["a"])), None, "Expected classes output batch size of 2. Got: 1"),
        (None, Some(numbers(&[3, 1], &[0.0; 3])), "Expected scores output batch size of 2. Got: 3"),
        (
            Some(good()),
            Some(numbers(&[2, 2], &[0.0; 4])),
            "Tensors class and score should match in dim_size(1). Got 1 vs. 2",
        ),
    ];
    for (labels, scores, expected) in table {
        assert_eq!(classes(labels.as_ref(), scores.as_ref(), 2).unwrap_err().message, expected);
    }
}

#[test]
fn what_a_regressor_gives_is_checked() {
    assert_eq!(regressions(&numbers(&[2], &[1.0, 2.0]), 2).unwrap(), [1.0, 2.0]);
    assert_eq!(regressions(&numbers(&[2, 1], &[1.0, 2.0]), 2).unwrap(), [1.0, 2.0]);
    let shape = "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got ";
    let table = [
        (numbers(&[], &[1.0]), format!("{shape}[]")),
        (numbers(&[2, 2], &[0.0; 4]), format!("{shape}[2,2]")),
        (numbers(&[3], &[0.0; 3]), "Input batch size did not match output batch size: 2 vs. 3".into()),
        (strings(&[2], &["a", "b"]), "Expected output Tensor of DT_FLOAT. Got: DT_STRING".into()),
    ];
    for (tensor, expected) in table {
        assert_eq!(regressions(&tensor, 2).unwrap_err().message, expected);
    }
}

#[test]
fn signatures_must_be_made_for_it() {
    let table = [
        (check_classify(&signature(&["inputs"], &["classes", "scores"])), ""),
        (check_classify(&signature(&["inputs"], &["scores"])), ""),
        (check_classify(&signature(&["inputs", "more"], &["scores"])), "Expected one input Tensor."),
        (check_classify(&signature(&["x"], &["scores"])), "No classification inputs found in SignatureDef: s (x:"),
        (check_classify(&signature(&["inputs"], &["a", "b", "c"])), "Expected one or two output Tensors, found 3"),
        (check_classify(&signature(&["inputs"], &["y"])), "Expected classification signature outputs to contain"),
        (check_regress(&signature(&["inputs"], &["outputs"])), ""),
        (check_regress(&signature(&["x"], &["outputs"])), "No regression inputs found in SignatureDef: s"),
        (check_regress(&signature(&["inputs"], &["outputs", "more"])), "Expected one output Tensor."),
        (check_regress(&signature(&["inputs"], &["y"])), "No regression outputs found in SignatureDef: s"),
    ];
    for (outcome, expected) in table {
        let message = outcome.err().map(|error| error.message).unwrap_or_default();
        assert!(message.starts_with(expected) && message.is_empty() == expected.is_empty(), "{message}");
    }
}
