//! The one copy in: request bytes into the memory that a worker sees.

use super::batch::Batch;
use super::padding::{Run, runs};
use super::queue::Piece;
use crate::error::{Code, Error, Reason, Result};
use crate::tensor::{DType, Data, Shape, Tensor, element_count};

/// Inputs start at multiples of this many bytes, so that models may use vector loads.
pub const ALIGNMENT: usize = 64;

/// Where batches are written to: the arena, or plain memory in tests.
pub trait Sink {
    /// Copies bytes to an offset. Out-of-range writes are a bug of the caller and must not corrupt memory.
    fn put(&mut self, offset: usize, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

/// One input of a batch as it lies in the arena.
///
/// Strings lie as a table of u64 lengths, one an element, followed by their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub dtype: DType,
    pub shape: Shape,
    pub offset: usize,
    pub len: usize,
}

/// Most memory that a batch may take because its requests were padded to each other's shapes. Two small requests, one
/// long and one wide, could otherwise ask for any amount; apart, they need little.
const MOST_PADDED: usize = 1 << 30;

/// Where each input of a batch goes, and how much memory all take.
pub fn plan(batch: &Batch) -> Result<(Vec<Place>, usize)> {
    let mut end = 0_usize;
    let mut places = Vec::with_capacity(batch.endpoint.signature.inputs.len());
    for (input, spec) in batch.endpoint.signature.inputs.iter().enumerate() {
        let shape = batch_shape(batch, input);
        let elements = element_count(&shape)?;
        let len = match spec.dtype.size() {
            Some(size) => elements * size,
            None => Rows::of(batch, input).fold(elements * 8, |sum, rows| sum.saturating_add(rows.string_bytes())),
        };
        let offset = end.next_multiple_of(ALIGNMENT);
        end = offset.checked_add(len).filter(|end| *end <= isize::MAX as usize).ok_or_else(too_large)?;
        places.push(Place { dtype: spec.dtype, shape, offset, len });
    }
    if batch.extents.is_some() && end > MOST_PADDED {
        return Err(too_large());
    }
    Ok((places, end))
}

fn too_large() -> Error {
    Error::new(Code::ResourceExhausted, Reason::TooLarge, "the inputs of the batch take too much memory")
}

fn batch_shape(batch: &Batch, input: usize) -> Shape {
    let mut shape: Shape = match &batch.extents {
        Some(extents) => extents[input].clone(),
        None => batch.pieces[0].pending.inputs[input].shape().into(),
    };
    if !batch.is_whole() {
        shape[0] = batch.executed_rows;
    }
    shape
}

/// Copies every input of a batch to its place.
pub fn gather(batch: &Batch, places: &[Place], sink: &mut impl Sink) {
    for (input, place) in places.iter().enumerate() {
        let rows = Rows::of(batch, input);
        match place.dtype.size() {
            None => gather_strings(rows, place, sink),
            Some(_) if batch.extents.is_none() => gather_rows(rows, place, sink),
            Some(size) => gather_padded(rows, place, size, sink),
        }
    }
}

fn gather_rows(rows: Rows<'_>, place: &Place, sink: &mut impl Sink) {
    let mut at = place.offset;
    for row in rows {
        if let Data::Fixed(bytes) = row.tensor.data() {
            let bytes = &bytes[row.range(bytes.len())];
            sink.put(at, bytes);
            at += bytes.len();
        }
    }
}

/// Each row is padded at its ends with the tensor's own first element, as TensorFlow Serving does.
fn gather_padded(rows: Rows<'_>, place: &Place, size: usize, sink: &mut impl Sink) {
    let outer = &place.shape[1..];
    let row_len: usize = outer.iter().product::<usize>() * size;
    let mut at = place.offset;
    for span in rows {
        let Data::Fixed(bytes) = span.tensor.data() else { continue };
        let plan = runs(&span.tensor.shape()[1..], outer);
        let fill = padding_row(bytes, size, row_len);
        for row in span.rows() {
            let source = &bytes[row.clone()];
            sink.put(at, &fill);
            for Run { from, to, len } in &plan {
                sink.put(at + to * size, &source[from * size..(from + len) * size]);
            }
            at += row_len;
        }
    }
}

fn padding_row(bytes: &[u8], size: usize, row_len: usize) -> Vec<u8> {
    match bytes.get(..size) {
        Some(first) => first.repeat(row_len / size),
        None => vec![0; row_len],
    }
}

fn gather_strings(rows: Rows<'_>, place: &Place, sink: &mut impl Sink) {
    let outer = place.shape.get(1..).unwrap_or(&[]);
    let row_len: usize = outer.iter().product();
    let (mut index, mut at) = (0, place.offset + place.shape.iter().product::<usize>() * 8);
    let mut put = |item: &[u8], sink: &mut dyn FnMut(usize, &[u8])| {
        sink(place.offset + index * 8, &(item.len() as u64).to_le_bytes());
        sink(at, item);
        index += 1;
        at += item.len();
    };
    let mut write = |offset: usize, bytes: &[u8]| sink.put(offset, bytes);
    for span in rows {
        for row in span.padded_strings(outer, row_len) {
            row.iter().for_each(|item| put(item, &mut write));
        }
    }
}

/// A run of rows of one request's tensor.
struct Span<'a> {
    tensor: &'a Tensor,
    start: usize,
    end: usize,
    whole: bool,
    outer: Option<&'a [usize]>,
}

impl<'a> Span<'a> {
    /// The part of `len` items or bytes that these rows take.
    fn range(&self, len: usize) -> std::ops::Range<usize> {
        if self.whole {
            return 0..len;
        }
        let row = len / self.tensor.rows().unwrap_or(1).max(1);
        self.start * row..self.end * row
    }

    /// The byte range of each row.
    fn rows(&self) -> impl Iterator<Item = std::ops::Range<usize>> + use<'a> {
        let row = self.tensor.byte_len() / self.tensor.rows().unwrap_or(1).max(1);
        (self.start..self.end).map(move |index| index * row..(index + 1) * row)
    }

    /// The strings row by row, each padded with the tensor's first string to `row_len` items.
    fn padded_strings(&self, outer: &[usize], row_len: usize) -> Vec<Vec<&'a [u8]>> {
        let Data::Strings(items) = self.tensor.data() else { return Vec::new() };
        let mine = &items[self.range(items.len())];
        let inner = self.tensor.shape().get(1..).unwrap_or(&[]);
        if self.whole || inner == outer {
            return vec![mine.iter().map(|item| &item[..]).collect()];
        }
        let (plan, own) = (runs(inner, outer), inner.iter().product::<usize>());
        let fill: &[u8] = items.first().map_or(&[], |item| &item[..]);
        let padded = (self.start..self.end).enumerate().map(|(row, _)| {
            let mut padded = vec![fill; row_len];
            for Run { from, to, len } in &plan {
                for offset in 0..*len {
                    padded[to + offset] = &mine[row * own + from + offset];
                }
            }
            padded
        });
        padded.collect()
    }

    /// Bytes of the strings of these rows, padding included.
    fn string_bytes(&self) -> usize {
        let Data::Strings(items) = self.tensor.data() else { return 0 };
        let own: usize = items[self.range(items.len())].iter().map(|item| item.len()).sum();
        let inner = self.tensor.shape().get(1..).unwrap_or(&[]);
        let outer = self.outer.unwrap_or(inner);
        let missing = outer.iter().product::<usize>() - inner.iter().product::<usize>();
        let fill = items.first().map_or(0, |item| item.len());
        own.saturating_add(missing.saturating_mul(self.end - self.start).saturating_mul(fill))
    }
}

/// The rows of one input in the order of the batch: those of the requests, then copies of a real one up to the size
/// that the model is run at.
struct Rows<'a> {
    pieces: std::slice::Iter<'a, Piece>,
    last: &'a Piece,
    padding: usize,
    input: usize,
    outer: Option<&'a [usize]>,
}

impl<'a> Rows<'a> {
    fn of(batch: &'a Batch, input: usize) -> Self {
        let last = batch.pieces.last().expect("a batch has pieces");
        let padding = batch.executed_rows - batch.rows;
        let outer = batch.extents.as_ref().map(|extents| &extents[input][1..]);
        Self { pieces: batch.pieces.iter(), last, padding, input, outer }
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Span<'a>;

    fn next(&mut self) -> Option<Span<'a>> {
        let (piece, start, end) = match self.pieces.next() {
            Some(piece) => (piece, piece.start, piece.end),
            None if self.padding > 0 => {
                self.padding -= 1;
                (self.last, self.last.start, self.last.start + 1)
            }
            None => return None,
        };
        let tensor = &piece.pending.inputs[self.input];
        Some(Span { tensor, start, end, whole: piece.pending.is_whole(), outer: self.outer })
    }
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
