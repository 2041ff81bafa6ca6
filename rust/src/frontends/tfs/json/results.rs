//! What `:classify` and `:regress` answer.

use super::decimal::{write_float, write_or_null};
use super::text::write_string;
use super::{Style, base64};
use crate::error::{Code, Error, Reason, Result};
use crate::frontends::tfs::inference::Class;

pub fn write_classes(style: Style, rows: &[Vec<Class>]) -> Result<Vec<u8>> {
    if rows.is_empty() {
        return Err(refused("Cannot convert empty ClassificationResults to JSON"));
    }
    let mut out = b"{\"results\":[".to_vec();
    separated(&mut out, rows, |out, row| {
        out.push(b'[');
        separated(out, row, |out, class| {
            out.push(b'[');
            write_label(out, style, &class.label)?;
            out.push(b',');
            write_score(out, style, class.score);
            out.push(b']');
            Ok(())
        })?;
        out.push(b']');
        Ok(())
    })?;
    out.extend_from_slice(b"]}");
    Ok(out)
}

pub fn write_values(style: Style, values: &[f32]) -> Result<Vec<u8>> {
    if values.is_empty() {
        return Err(refused("Cannot convert empty RegressionResults to JSON"));
    }
    let mut out = b"{\"results\":[".to_vec();
    separated(&mut out, values, |out, value| {
        write_score(out, style, *value);
        Ok(())
    })?;
    out.extend_from_slice(b"]}");
    Ok(out)
}

fn separated<T>(out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T) -> Result<()>) -> Result<()> {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item)?;
    }
    Ok(())
}

fn write_label(out: &mut Vec<u8>, style: Style, label: &[u8]) -> Result<()> {
    if style.base64 {
        base64::write(out, label);
        return Ok(());
    }
    let text = std::str::from_utf8(label);
    write_string(
        out,
        text.map_err(|_| refused("a label is not UTF-8 text: labels are sent as base64 with ?b64=true"))?,
    );
    Ok(())
}

fn write_score(out: &mut Vec<u8>, style: Style, score: f32) {
    if style.null { write_or_null(out, score) } else { write_float(out, score) }
}

fn refused(message: &'static str) -> Error {
    Error::new(Code::InvalidArgument, Reason::ModelOutput, message)
}
