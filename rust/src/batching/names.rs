//! Whether the names of a request's inputs are those of its signature, in the words of TensorFlow Serving.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::model::TensorSpec;

/// Checks the names sent; a name may be left out when its input has a default.
pub fn check(specs: &[TensorSpec], sent: BTreeSet<&str>) -> Result<()> {
    let wanted: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let defaults: BTreeSet<&str> =
        specs.iter().filter(|spec| spec.default.is_some()).map(|spec| spec.name.as_str()).collect();
    if sent.len() > wanted.len() || (sent.len() < wanted.len() && defaults.is_empty()) {
        return Err(wrong_count(&sent, &wanted));
    }
    let missing = specs.iter().find(|spec| !sent.contains(spec.name.as_str()) && spec.default.is_none());
    if let Some(spec) = missing {
        return Err(Error::bad_input(format!(
            "Signature input alias: {}(feed name: {}) not found in request and no default value provided. Inputs \
             expected to be in the request {{{}}}, or default input alias set: {}",
            spec.name,
            spec.tensor,
            list(&wanted),
            list(&defaults),
        )));
    }
    if !sent.is_subset(&wanted) {
        let used = &sent & &wanted;
        return Err(Error::bad_input(format!(
            "Inputs contains invalid name. Used request inputs: {}, request input: {}",
            list(&used),
            list(&sent)
        )));
    }
    Ok(())
}

fn wrong_count(sent: &BTreeSet<&str>, wanted: &BTreeSet<&str>) -> Error {
    Error::bad_input(format!(
        "input size does not match signature: {}!={} len({{{}}}) != len({{{}}}). Sent extra: {{{}}}. \
         Missing but required: {{{}}}.",
        sent.len(),
        wanted.len(),
        list(sent),
        list(wanted),
        list(&(sent - wanted)),
        list(&(wanted - sent)),
    ))
}

fn list(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batching::testing::{floats, spec};
    use crate::tensor::DType;

    #[test]
    fn each_mistake_has_its_words() {
        let size = |what: &str| format!("input size does not match signature: {what}");
        let absent = "not found in request and no default value provided. Inputs expected to be in the request";
        let table: [(&[&str], &[&str], String); 9] = [
            (&["a", "b"], &[], String::new()),
            (&["a"], &[], size("1!=2 len({a}) != len({a,b}). Sent extra: {}. Missing but required: {b}.")),
            (
                &["a", "b", "c"],
                &[],
                size("3!=2 len({a,b,c}) != len({a,b}). Sent extra: {c}. Missing but required: {}."),
            ),
            (
                &["a", "b", "c"],
                &["b"],
                size("3!=2 len({a,b,c}) != len({a,b}). Sent extra: {c}. Missing but required: {}."),
            ),
            (
                &["a", "c"],
                &[],
                format!("Signature input alias: b(feed name: b:0) {absent} {{a,b}}, or default input alias set: "),
            ),
            (
                &["b"],
                &["b"],
                format!("Signature input alias: a(feed name: a:0) {absent} {{a,b}}, or default input alias set: b"),
            ),
            (&["a"], &["b"], String::new()),
            (&[], &["a", "b"], String::new()),
            (&["a", "c"], &["b"], "Inputs contains invalid name. Used request inputs: a, request input: a,c".into()),
        ];
        for (sent, defaults, expected) in table {
            let specs = ["a", "b"].map(|name| TensorSpec {
                default: defaults.contains(&name).then(|| floats(&[], &[1.0])),
                ..spec(name, DType::Float, None)
            });
            let message = check(&specs, sent.iter().copied().collect()).err().map(|error| error.message);
            assert_eq!(message.unwrap_or_default(), expected, "{sent:?} {defaults:?}");
        }
    }
}
