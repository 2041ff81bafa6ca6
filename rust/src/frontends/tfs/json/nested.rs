//! Lists of lists as one tensor: the shape is that of the first elements, and all others must have it.

use smallvec::SmallVec;

use super::cursor::Cursor;
use super::elements::Elements;
use crate::error::{Error, Result};
use crate::tensor::Shape;

/// Dimensions that a tensor may have, as in TensorFlow.
const MAX_RANK: usize = 254;
/// A dimension whose first list is still open.
const OPEN: usize = usize::MAX;

/// Reads the value at `cursor`, then behind it, into `elements`; returns its shape.
pub(super) fn read(cursor: &mut Cursor, elements: &mut Elements) -> Result<Shape> {
    let first = elements.len();
    let mut walk = Walk { dims: Shape::new(), open: SmallVec::new(), rank: None };
    loop {
        walk.value(cursor, elements, first)?;
        if !walk.next_value(cursor)? {
            return Ok(walk.dims);
        }
    }
}

struct Walk {
    /// Sizes by level, as the first list of each level sets them when it ends.
    dims: Shape,
    /// Elements read so far of each list around the cursor.
    open: SmallVec<[usize; 4]>,
    /// Set by the first value that is no list, or the first list with nothing in it.
    rank: Option<usize>,
}

impl Walk {
    /// Takes the list's bracket or the run of elements at the cursor. In a list of nothing, the cursor is left at its end.
    #[inline]
    fn value(&mut self, cursor: &mut Cursor, elements: &mut Elements, first: usize) -> Result<()> {
        while cursor.peek() == b'[' {
            self.enter(cursor)?;
            if cursor.peek() == b']' {
                self.rank.get_or_insert(self.open.len());
                return Ok(());
            }
        }
        let level = self.open.len();
        let rank = *self.rank.get_or_insert(level);
        if level != rank {
            let echo = cursor.echo();
            let place = format!("found at incorrect level: {} in the JSON DOM. Expected at level: {rank}", level + 1);
            return Err(self.outermost(*cursor, format!("JSON Value: {echo} {place}")));
        }
        let before = elements.len();
        let ran = elements.run(cursor, level > 0);
        if let Some(count) = self.open.last_mut() {
            *count += elements.len() - before;
        }
        ran.map(|_| ()).map_err(|misfit| {
            let error = elements.misfit(misfit, cursor, elements.len() - first);
            self.size_mismatch(*cursor).unwrap_or(error)
        })
    }

    fn enter(&mut self, cursor: &mut Cursor) -> Result<()> {
        let level = self.open.len();
        if let Some(rank) = self.rank.filter(|rank| level >= *rank) {
            let message = format!("Encountered list at unexpected level: {level} expected < {rank}");
            return Err(self.outermost(*cursor, message));
        }
        if level == MAX_RANK {
            return Err(Error::bad_input(format!("Encountered list at level: {level}, where tensors have no more")));
        }
        cursor.step();
        self.open.push(0);
        if self.dims.len() == level {
            self.dims.push(OPEN);
        }
        Ok(())
    }

    /// From behind a value to the next of the same tensor; false, and behind all of it, when it was the last.
    #[inline]
    fn next_value(&mut self, cursor: &mut Cursor) -> Result<bool> {
        while let Some(size) = self.open.last().copied() {
            if cursor.next_item() {
                return Ok(true);
            }
            self.open.pop();
            let level = self.open.len();
            if self.dims[level] == OPEN {
                self.dims[level] = size;
            } else if self.dims[level] != size {
                return Err(self.outermost_behind(*cursor, self.wrong_size(level, size)));
            }
            if let Some(count) = self.open.last_mut() {
                *count += 1;
            }
        }
        Ok(false)
    }

    fn wrong_size(&self, level: usize, size: usize) -> String {
        let expected = self.dims[level];
        format!("Encountered list at unexpected size: {size} at level: {level} expected size: {expected}")
    }

    /// The error at the value at the cursor, unless a list around it is the greater trouble.
    #[cold]
    fn outermost(&self, cursor: Cursor, message: String) -> Error {
        self.size_mismatch(cursor).unwrap_or_else(|| Error::bad_input(message))
    }

    #[cold]
    fn outermost_behind(&self, cursor: Cursor, message: String) -> Error {
        self.size_mismatch_behind(cursor).unwrap_or_else(|| Error::bad_input(message))
    }

    #[cold]
    fn size_mismatch(&self, mut cursor: Cursor) -> Option<Error> {
        cursor.skip();
        self.size_mismatch_behind(cursor)
    }

    /// The error of the outermost list around the cursor, which is behind a value, that will have a wrong size when
    /// all of it is read. Errors are reported from outside in, but found as the text comes.
    fn size_mismatch_behind(&self, mut cursor: Cursor) -> Option<Error> {
        let mut outermost = None;
        for (level, size) in self.open.iter().enumerate().rev() {
            let mut size = size + 1;
            while cursor.next_item() {
                cursor.skip();
                size += 1;
            }
            if self.dims[level] != OPEN && self.dims[level] != size {
                outermost = Some(self.wrong_size(level, size));
            }
        }
        outermost.map(Error::bad_input)
    }
}
