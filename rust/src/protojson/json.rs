//! From messages to JSON.

use base64::prelude::{BASE64_STANDARD, Engine};
use prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, ReflectMessage, Value as Field};
use serde_json::{Map, Value, json};

use super::{DEEPEST, POOL};

type Outcome = Result<Value, String>;

/// The message as JSON.
pub fn from_message(message: &DynamicMessage) -> Outcome {
    from_nested(message, DEEPEST)
}

/// With so many levels left: an `Any` may hold another one, which no decoder counts.
fn from_nested(message: &DynamicMessage, levels: usize) -> Outcome {
    let levels = levels.checked_sub(1).ok_or_else(|| format!("messages lie more than {DEEPEST} deep in each other"))?;
    let descriptor = message.descriptor();
    match descriptor.full_name() {
        "google.protobuf.Any" => from_any(message, levels),
        name if is_wrapper(name) => {
            let value = message.get_field_by_number(1).ok_or_else(|| format!("{name} has no value"))?;
            from_value(&value, &descriptor.fields().next().map_or(Kind::Bool, |field| field.kind()), levels)
        }
        _ => Ok(Value::Object(fields(message, levels)?)),
    }
}

fn is_wrapper(name: &str) -> bool {
    name.strip_prefix("google.protobuf.").is_some_and(|name| name.ends_with("Value") && name != "Value")
}

fn fields(message: &DynamicMessage, levels: usize) -> Result<Map<String, Value>, String> {
    let value = |(field, value): (FieldDescriptor, &Field)| {
        Ok((field.name().to_owned(), from_value(value, &field.kind(), levels)?))
    };
    message.fields().map(value).collect()
}

fn from_value(value: &Field, kind: &Kind, levels: usize) -> Outcome {
    Ok(match value {
        Field::Bool(value) => json!(value),
        Field::I32(value) => json!(value),
        Field::I64(value) => json!(value),
        Field::U32(value) => json!(value),
        Field::U64(value) => json!(value),
        Field::F32(value) => from_float(f64::from(*value)),
        Field::F64(value) => from_float(*value),
        Field::String(value) => json!(value),
        Field::Bytes(value) => json!(BASE64_STANDARD.encode(value)),
        Field::EnumNumber(number) => kind.as_enum().map_or(json!(number), |of| from_enum(*number, of)),
        Field::Message(message) => from_nested(message, levels)?,
        Field::List(values) => values.iter().map(|value| from_value(value, kind, levels)).collect::<Result<_, _>>()?,
        Field::Map(entries) => {
            let kind = kind.as_message().map_or(Kind::Bool, |entry| entry.map_entry_value_field().kind());
            let mut entries: Vec<_> = entries.iter().map(|(key, value)| (from_key(key), value)).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0)); // equal messages are equal text
            let entry = |(key, value)| Ok::<_, String>((key, from_value(value, &kind, levels)?));
            Value::Object(entries.into_iter().map(entry).collect::<Result<_, _>>()?)
        }
    })
}

/// JSON has no number for these.
fn from_float(value: f64) -> Value {
    match value {
        _ if value.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        _ => json!(value),
    }
}

fn from_enum(number: i32, of: &EnumDescriptor) -> Value {
    of.get_value(number).map_or(json!(number), |value| json!(value.name()))
}

fn from_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

fn from_any(any: &DynamicMessage, levels: usize) -> Outcome {
    let part = |number| any.get_field_by_number(number).map(|value| value.into_owned());
    let (Some(Field::String(url)), Some(Field::Bytes(data))) = (part(1), part(2)) else {
        return Err("an Any needs a type and a value".into());
    };
    let name = url.rsplit('/').next().unwrap_or_default();
    let mut object = Map::from_iter([("@type".to_owned(), json!(url))]);
    let Some(descriptor) = POOL.get_message_by_name(name) else {
        object.insert("value".into(), json!(BASE64_STANDARD.encode(&data)));
        return Ok(Value::Object(object));
    };
    let inner = DynamicMessage::decode(descriptor, data);
    let inner = inner.map_err(|error| format!("the value of an Any is no {name}: {error}"))?;
    match from_nested(&inner, levels)? {
        Value::Object(fields) => object.extend(fields),
        other => {
            object.insert("value".into(), other);
        }
    }
    Ok(Value::Object(object))
}
