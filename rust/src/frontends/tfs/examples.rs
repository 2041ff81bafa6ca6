//! Inputs of Classify, Regress and MultiInference: serialized `tensorflow.Example`s, which models parse themselves.

use bytes::{Bytes, BytesMut};

use crate::error::{Error, Result};
use crate::frontends::proto::tensorflow::serving::{Input, input::Kind};

/// The examples of an input, each with the context that all share in front: where both have a feature, the later one,
/// which is the example's, counts.
pub fn examples(input: Option<Input>) -> Result<Vec<Bytes>> {
    let examples = match input.and_then(|input| input.kind) {
        Some(Kind::ExampleList(list)) => list.examples,
        Some(Kind::ExampleListWithContext(list)) => with_context(&list.context, list.examples),
        None => Vec::new(),
    };
    if examples.is_empty() {
        return Err(Error::bad_input("Input is empty."));
    }
    Ok(examples)
}

/// Two serialized messages in a row are one: that is how protobuf merges.
pub fn with_context(context: &Bytes, examples: Vec<Bytes>) -> Vec<Bytes> {
    if context.is_empty() {
        return examples;
    }
    let merged = |example: Bytes| {
        let mut bytes = BytesMut::with_capacity(context.len() + example.len());
        bytes.extend_from_slice(context);
        bytes.extend_from_slice(&example);
        bytes.freeze()
    };
    examples.into_iter().map(merged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontends::proto::tensorflow::serving::{ExampleList, ExampleListWithContext};

    fn list(examples: &[&'static str]) -> Vec<Bytes> {
        examples.iter().map(|text| Bytes::from_static(text.as_bytes())).collect()
    }

    #[test]
    fn the_context_stands_in_front_of_each_example() {
        let plain = Kind::ExampleList(ExampleList { examples: list(&["a", ""]) });
        assert_eq!(examples(Some(Input { kind: Some(plain) })).unwrap(), list(&["a", ""]));
        let shared = ExampleListWithContext { examples: list(&["a", "", "b"]), context: "c".into() };
        let shared = Input { kind: Some(Kind::ExampleListWithContext(shared)) };
        assert_eq!(examples(Some(shared)).unwrap(), list(&["ca", "c", "cb"]));
    }

    #[test]
    fn no_examples_are_refused_in_every_form() {
        let only_context = ExampleListWithContext { examples: vec![], context: "c".into() };
        let forms = [
            None,
            Some(Input { kind: None }),
            Some(Input { kind: Some(Kind::ExampleList(ExampleList::default())) }),
            Some(Input { kind: Some(Kind::ExampleListWithContext(only_context)) }),
        ];
        for form in forms {
            assert_eq!(examples(form).unwrap_err().message, "Input is empty.");
        }
    }
}
