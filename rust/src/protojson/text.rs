//! Protobuf's text format. The parser is prost-reflect's; what it lacks is here: bounds, lists without a colon before
//! them, and errors that say where and what instead.

use miette::Diagnostic;
use prost_reflect::{DynamicMessage, MessageDescriptor, text_format::ParseError};

use super::{DEEPEST, LONGEST_TEXT, POOL};

/// The message that a text describes.
pub fn parse(descriptor: MessageDescriptor, text: &str) -> Result<DynamicMessage, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > LONGEST_TEXT {
        return Err(format!("the text has {} bytes; expected at most {LONGEST_TEXT}", text.len()));
    }
    let text = prepare(text)?;
    DynamicMessage::parse_text_format(descriptor, &text).map_err(|error| describe(&error, &text))
}

/// Where a walk over a text is.
enum Within {
    Code,
    Comment,
    Quotes(char),
    Escape(char),
}

/// Refuses what is nested too deep, and gives `name [` the colon that protobuf's own parser does without.
fn prepare(text: &str) -> Result<String, String> {
    let mut prepared = String::with_capacity(text.len());
    let (mut within, mut depth) = (Within::Code, 0_usize);
    for (at, char) in text.char_indices() {
        within = match (within, char) {
            (Within::Comment, '\n') => Within::Code,
            (Within::Comment, _) => Within::Comment,
            (Within::Escape(quote), _) => Within::Quotes(quote),
            (Within::Quotes(quote), '\\') => Within::Escape(quote),
            (Within::Quotes(quote), _) if char != quote => Within::Quotes(quote),
            (Within::Code, '#') => Within::Comment,
            (Within::Code, '"' | '\'') => Within::Quotes(char),
            _ => Within::Code,
        };
        if matches!(within, Within::Code) {
            depth = nested(depth, char);
            if depth > DEEPEST {
                return Err(format!("{}: messages lie more than {DEEPEST} deep in each other", place(text, at)));
            }
            if char == '[' {
                add_colon(&mut prepared);
            }
        }
        prepared.push(char);
    }
    Ok(prepared)
}

fn nested(depth: usize, char: char) -> usize {
    match char {
        '{' | '<' | '[' => depth + 1,
        '}' | '>' | ']' => depth.saturating_sub(1),
        _ => depth,
    }
}

/// After a name a list begins. The colon takes the place of a blank where there is one, so that columns stay.
fn add_colon(before: &mut String) {
    let word = before.trim_end();
    if !word.ends_with(|char: char| char.is_ascii_alphanumeric() || char == '_') {
        return;
    }
    if before.ends_with(' ') {
        before.pop();
    }
    before.push(':');
}

fn describe(error: &ParseError, text: &str) -> String {
    let label = error.labels().and_then(|mut labels| labels.next());
    let at = label.map_or(text.len(), |label| label.offset());
    format!("{}: {}", place(text, at), advise(&error.to_string()))
}

/// What to do about it, where that is known. The parser tells what it met in words only.
fn advise(message: &str) -> String {
    let quoted: Vec<&str> = message.split('\'').skip(1).step_by(2).collect();
    match quoted[..] {
        [field, of] if message.starts_with("field") => match POOL.get_message_by_name(of) {
            Some(of) => format!("{message}; {}", suggest(field, of.fields().map(|field| field.name().to_owned()))),
            None => message.to_owned(),
        },
        [value, of] if message.starts_with("value") => match POOL.get_enum_by_name(of) {
            Some(of) => format!("{message}; {}", suggest(value, of.values().map(|value| value.name().to_owned()))),
            None => message.to_owned(),
        },
        _ if message.starts_with("expected '{' or '<'") => {
            format!("{message}; this field is a message: write it in braces, as in `name {{ value: 1 }}`")
        }
        _ => message.to_owned(),
    }
}

/// Names near the word, else all that there are.
fn suggest(word: &str, names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    match names.iter().min_by_key(|name| distance(word, name)) {
        Some(near) if distance(word, near) <= near.len().div_ceil(3) => format!("did you mean {near}?"),
        Some(_) => format!("expected one of {}", names.join(", ")),
        None => "it has no fields".into(),
    }
}

/// Letters to add, drop or replace to get from one to the other. Long words are no neighbours of ours.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, char) in one.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(char != *candidate);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()] + one.chars().count().saturating_sub(64)
}

/// Line and column of a byte, from one.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}")
}
