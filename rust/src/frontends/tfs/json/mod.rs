//! The JSON dialect of TensorFlow Serving's REST API: bodies of `:predict` to tensors and back.
//!
//! Texts of errors are TensorFlow Serving's. Requests take two passes and no tree of values: a scan that finds the
//! body valid and notes where the few keys of interest are, then a typed read straight into the tensors' bytes.

mod base64;
mod cursor;
mod decimal;
mod elements;
mod examples;
mod half;
mod integer;
mod nested;
mod number;
mod pretty;
mod request;
mod response;
mod results;
mod rows;
mod scan;
mod scanner;
mod text;

#[cfg(test)]
mod tests;

pub use examples::{Examples, parse_examples};
pub use pretty::indent;
pub use request::{is_predict, parse_predict};
pub use response::{write_error, write_predict};
pub use results::{write_classes, write_values};

/// How rows are laid out, in a request and so in its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `instances`, `predictions`: a list of rows, each with a value for every tensor.
    Row,
    /// `inputs`, `outputs`: tensors, each with a value for every row.
    Column,
}

/// Forms of an answer that clients may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Numbers that JSON has no word for are null.
    pub null: bool,
    /// All strings as base64.
    pub base64: bool,
}
