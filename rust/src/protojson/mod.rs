//! Protobuf messages, in text or binary, as JSON of plain values: how configuration files of TensorFlow Serving and
//! the heads of SavedModels reach Python, which needs no protobuf for them.
//!
//! Field names are those of the `.proto` files. Unset fields are left out, 64-bit integers are numbers, wrapper
//! messages their values, enums names, bytes base64. `Any` becomes the fields of the message in it with `@type`
//! before them, or `value` in base64 when that message is not one of ours.

mod json;
mod text;

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

/// Most bytes of a text; far beyond any configuration.
pub const LONGEST_TEXT: usize = 16 << 20;
/// How deep messages may lie in each other. Readers call themselves once for each level.
const DEEPEST: usize = 64;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let descriptors = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin")).as_ref();
    DescriptorPool::decode(descriptors).expect("descriptors that the build made")
});

/// The JSON of a message in protobuf's text format. The error says where in the text it is, what was expected, and for
/// an unknown field what it may have meant.
pub fn text_to_json(message: &str, text: &str) -> Result<String, String> {
    let parsed = text::parse(descriptor(message)?, text);
    let parsed = parsed.map_err(|error| format!("Error parsing text-format {message}: {error}"))?;
    Ok(json::from_message(&parsed)?.to_string())
}

/// The JSON of a serialized message. Fields that we do not know are left out.
pub fn binary_to_json(message: &str, data: &[u8]) -> Result<String, String> {
    let decoded = DynamicMessage::decode(descriptor(message)?, data);
    let decoded = decoded.map_err(|error| format!("{} bytes are no {message}: {error}", data.len()))?;
    Ok(json::from_message(&decoded)?.to_string())
}

/// All messages and services that we know.
pub fn descriptors() -> &'static DescriptorPool {
    &POOL
}

fn descriptor(name: &str) -> Result<MessageDescriptor, String> {
    POOL.get_message_by_name(name).ok_or_else(|| format!("no message {name} is known; expected a full name"))
}

#[cfg(test)]
mod tests;
