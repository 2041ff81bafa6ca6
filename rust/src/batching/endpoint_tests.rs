#![allow(clippy::type_complexity)] // tables

use super::*;
use crate::batching::testing::{World, floats, half_plus_two, settings, spec, strings};
use crate::tensor::DType;

/// Two inputs, `a` float[?,2] and `b` string[?]; outputs `y` and `z`.
fn endpoint(pad: bool) -> Arc<Endpoint> {
    let signature = Signature {
        inputs: vec![spec("a", DType::Float, Some(&[-1, 2])), spec("b", DType::String, Some(&[-1]))],
        outputs: vec![spec("y", DType::Float, None), spec("z", DType::Float, None)],
        ..half_plus_two("two", true)
    };
    endpoint_of(signature, pad)
}

fn endpoint_of(signature: Signature, pad: bool) -> Arc<Endpoint> {
    let settings = BatchSettings { pad_variable_length_inputs: pad, ..settings() };
    let name = signature.name.clone();
    World::with_signatures(settings, vec![signature]).endpoint(&name)
}

fn any_shape(pad: bool) -> Arc<Endpoint> {
    endpoint_of(half_plus_two("any", true), pad)
}

fn zeros(shape: &[usize]) -> Tensor {
    floats(shape, &vec![0.0; shape.iter().product()])
}

#[test]
fn inputs_that_do_not_fit_are_refused_with_what_was_expected() {
    let table: [(&str, Vec<Tensor>, &str); 5] = [
        (
            "dtype",
            vec![strings(&[1, 2], &["", ""]), strings(&[1], &[""])],
            "Expects arg[0] to be float but string is provided (input a)",
        ),
        ("rank", vec![zeros(&[2]), strings(&[2], &["", ""])], "input a: expected shape [?,2] but got [2]"),
        ("dimension", vec![zeros(&[1, 3]), strings(&[1], &[""])], "input a: expected shape [?,2] but got [1,3]"),
        (
            "rows",
            vec![zeros(&[1, 2]), strings(&[2], &["", ""])],
            "Batching Run() input tensors must have equal 0th-dimension size",
        ),
        (
            "rows of which some are none",
            vec![zeros(&[1, 2]), strings(&[0], &[])],
            "Batching Run() input tensors must have equal 0th-dimension size",
        ),
    ];
    for (name, inputs, expected) in table {
        let error = endpoint(false).check(inputs).unwrap_err();
        assert_eq!((error.code, &*error.message), (crate::error::Code::InvalidArgument, expected), "{name}");
    }
}

#[test]
fn a_model_that_judges_shapes_itself_gets_them_and_rows_of_one_shape_still_meet() {
    let signature = Signature {
        inputs: vec![spec("x", DType::Float, Some(&[-1, 1]))],
        check_shapes: false,
        ..half_plus_two("lax", true)
    };
    let endpoint = endpoint_of(signature, false);
    for (shape, rows) in [(&[3, 1][..], Some(3)), (&[3], Some(3)), (&[2, 2], Some(2)), (&[], None)] {
        assert_eq!(endpoint.check(vec![zeros(shape)]).unwrap().rows, rows, "{shape:?}");
    }
    assert!(endpoint.check(vec![strings(&[1, 1], &[""])]).is_err());
}

#[test]
fn requests_that_cannot_share_a_batch_run_whole() {
    let table = [
        ("rows", any_shape(false), zeros(&[3, 2]), Some(3)),
        ("a scalar", any_shape(false), zeros(&[]), None),
        ("no rows", any_shape(false), zeros(&[0, 2]), None),
        ("rows without elements", any_shape(false), zeros(&[3, 0]), Some(3)),
        ("a signature without rows", endpoint_of(half_plus_two("alone", false), false), zeros(&[3, 2]), None),
    ];
    for (name, endpoint, input, rows) in table {
        let checked = endpoint.check(vec![input]).unwrap();
        assert_eq!(checked.rows, rows, "{name}");
        assert_eq!(checked.key.whole, rows.is_none(), "{name}");
        assert_eq!(endpoint.limit(&checked.key), if rows.is_some() { 10 } else { 1 }, "{name}");
    }
}

#[test]
fn requests_share_a_queue_when_they_differ_in_rows_at_most() {
    let table: [(&str, bool, &[usize], &[usize], bool); 8] = [
        ("rows", false, &[1, 2], &[9, 2], true),
        ("a dimension", false, &[1, 2], &[1, 3], false),
        ("dimensions that add up", false, &[1, 2, 3], &[1, 3, 2], false),
        ("rank", false, &[1, 2], &[1, 2, 1], false),
        ("a padded dimension", true, &[1, 2], &[1, 3], true),
        ("rank, padded", true, &[1, 2], &[1, 2, 1], false),
        ("whole ones do not join batches", false, &[], &[1], false),
        ("whole ones share a queue", false, &[], &[0, 7], true),
    ];
    for (name, pad, one, other, together) in table {
        let endpoint = any_shape(pad);
        let key = |shape: &[usize]| endpoint.check(vec![zeros(shape)]).unwrap().key;
        assert_eq!(key(one) == key(other), together, "{name}");
    }
}

#[test]
fn dimensions_that_the_signature_fixes_are_not_padded() {
    let signature =
        Signature { inputs: vec![spec("x", DType::Float, Some(&[-1, -1, 3]))], ..half_plus_two("fixed", true) };
    let endpoint = endpoint_of(signature, true);
    let key = |shape: &[usize]| endpoint.check(vec![zeros(shape)]).unwrap().key;
    assert_eq!(key(&[1, 2, 3]), key(&[4, 5, 3]));
}

#[test]
fn only_ranks_up_to_six_are_padded() {
    assert!(any_shape(true).check(vec![zeros(&[1, 1, 1, 1, 1, 1])]).is_ok());
    let error = any_shape(true).check(vec![zeros(&[1, 1, 1, 1, 1, 1, 1])]).unwrap_err();
    assert_eq!(error.message, "Only tensors with rank from 1 to 6 can be padded.");
    assert!(any_shape(false).check(vec![zeros(&[1, 1, 1, 1, 1, 1, 1])]).is_ok());
}

#[test]
fn named_inputs_come_in_the_order_of_the_signature() {
    let named = vec![("b".to_owned(), strings(&[1], &["s"])), ("a".to_owned(), zeros(&[1, 2]))];
    let inputs = endpoint(false).arrange(named).unwrap();
    assert_eq!(inputs.iter().map(Tensor::dtype).collect::<Vec<_>>(), [DType::Float, DType::String]);
}

#[test]
fn wrong_names_are_refused_and_what_is_sent_twice_counts_once() {
    let table: [(&[&str], &str); 4] = [
        (&["a"], "input size does not match signature: 1!=2"),
        (&["a", "b", "c"], "input size does not match signature: 3!=2"),
        (&["a", "c"], "Signature input alias: b(feed name: b:0) not found in request"),
        (&["a", "a"], "input size does not match signature: 1!=2 len({a}) != len({a,b})."),
    ];
    for (sent, expected) in table {
        let named = sent.iter().map(|name| ((*name).to_owned(), zeros(&[1, 2]))).collect();
        let error = endpoint(false).arrange(named).unwrap_err();
        assert!(error.message.starts_with(expected), "{sent:?}: {}", error.message);
    }
}

#[test]
fn inputs_left_out_take_their_defaults() {
    let with = |default: Tensor| {
        let k = TensorSpec { default: Some(default), ..spec("k", DType::Float, None) };
        endpoint_of(Signature { inputs: vec![k, spec("x", DType::Float, None)], ..half_plus_two("d", true) }, false)
    };
    let table: [(&str, Tensor, &[usize], Option<usize>); 6] = [
        ("a row is repeated", floats(&[1, 2], &[1.0, 2.0]), &[3, 2], Some(3)),
        ("rows enough stay", zeros(&[3, 2]), &[3, 2], Some(3)),
        ("other rows run alone", zeros(&[2, 2]), &[2, 2], None),
        ("a scalar runs alone", zeros(&[]), &[], None),
        ("no rows run alone", zeros(&[0]), &[0], None),
        ("much is not repeated", zeros(&[1, MOST_SPREAD / 8]), &[1, MOST_SPREAD / 8], None),
    ];
    for (what, default, shape, rows) in table {
        let endpoint = with(default);
        let inputs = endpoint.arrange(vec![("x".to_owned(), zeros(&[3]))]).unwrap();
        assert_eq!(inputs[0].shape(), shape, "{what}");
        assert_eq!(endpoint.check(inputs).unwrap().rows, rows, "{what}");
    }
    let sent = vec![("x".to_owned(), zeros(&[3])), ("k".to_owned(), zeros(&[3]))];
    assert_eq!(with(floats(&[1], &[1.0])).arrange(sent).unwrap(), [zeros(&[3]), zeros(&[3])]);
}

#[test]
fn outputs_are_selected_by_name() {
    let select = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        endpoint(false).select(&names).map(|wanted| wanted.to_vec()).map_err(|error| error.message.into_owned())
    };
    assert_eq!(select(&[]), Ok(vec![0, 1]));
    assert_eq!(select(&["z"]), Ok(vec![1]));
    assert_eq!(select(&["z", "y"]), Ok(vec![0, 1]));
    let unknown = "output tensor alias not found in signature: w Outputs expected to be in the set {y,z}.";
    assert_eq!(select(&["w"]), Err(unknown.into()));
    assert_eq!(select(&["y", "y"]), Err("duplicate output tensor alias: y".into()));
}
