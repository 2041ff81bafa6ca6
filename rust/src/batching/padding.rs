//! Padding of dimensions that differ between the requests of one batch, and cropping of what comes back.

use smallvec::{SmallVec, smallvec};

use super::endpoint::may_vary;
use super::queue::Piece;
use crate::model::Signature;
use crate::tensor::{Data, Shape, Tensor};
use bytes::{Bytes, BytesMut};

/// For each input, the largest size of each dimension in the batch (dim 0 is not padded and means nothing here).
pub type Extents = Vec<Shape>;

/// The dimensions to pad to; `None` when every request has them already.
pub fn extents(pieces: &[Piece]) -> Option<Extents> {
    let first = &pieces[0].pending.inputs;
    let mut extents: Extents = first.iter().map(|tensor| tensor.shape().into()).collect();
    let mut differ = false;
    for piece in &pieces[1..] {
        for (extent, tensor) in extents.iter_mut().zip(&piece.pending.inputs) {
            for (most, size) in extent.iter_mut().zip(tensor.shape()).skip(1) {
                differ |= *most != *size;
                *most = (*most).max(*size);
            }
        }
    }
    differ.then_some(extents)
}

/// One row of a padded tensor: where a run of real elements goes. Counted in elements.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    pub from: usize,
    pub to: usize,
    pub len: usize,
}

/// The runs that place a row of shape `inner` at the origin of a row of shape `outer` (both without dim 0).
pub fn runs(inner: &[usize], outer: &[usize]) -> Vec<Run> {
    let Some((&last, leading)) = inner.split_last() else { return vec![Run { from: 0, to: 0, len: 1 }] };
    let count: usize = leading.iter().product();
    let mut runs = Vec::with_capacity(count);
    let mut index: SmallVec<[usize; 6]> = smallvec![0; leading.len()];
    for number in 0..count {
        let to = index.iter().zip(outer).fold(0, |offset, (position, size)| offset * size + position);
        runs.push(Run { from: number * last, to: to * outer[outer.len() - 1], len: last });
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < leading[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    runs
}

/// Crops the rows of one output back to the size that this request would have got alone.
///
/// An output dimension is taken to follow an input's when it may vary, stands on the same axis and came back at the
/// padded size; other dimensions stay as they are.
pub fn crop(rows: Tensor, signature: &Signature, output: usize, extents: &Extents, inputs: &[Tensor]) -> Tensor {
    let mut shape: Shape = rows.shape().into();
    for axis in 1..shape.len() {
        if may_vary(&signature.outputs[output], axis)
            && let Some(size) = own_size(axis, shape[axis], signature, extents, inputs)
        {
            shape[axis] = size;
        }
    }
    if shape[..] == *rows.shape() { rows } else { copy_corner(&rows, shape) }
}

fn own_size(axis: usize, padded: usize, signature: &Signature, extents: &Extents, inputs: &[Tensor]) -> Option<usize> {
    let specs = signature.inputs.iter().zip(extents).zip(inputs);
    specs
        .filter(|((spec, extent), _)| may_vary(spec, axis) && extent.get(axis) == Some(&padded))
        .map(|(_, tensor)| tensor.shape()[axis])
        .next()
}

/// The corner at the origin of every row.
fn copy_corner(rows: &Tensor, shape: Shape) -> Tensor {
    let outer = &rows.shape()[1..];
    let plan = runs(&shape[1..], outer);
    let row_len: usize = outer.iter().product();
    let starts = (0..shape[0]).flat_map(|row| plan.iter().map(move |run| (row * row_len + run.to, run.len)));
    let cropped = match rows.data() {
        Data::Strings(items) => {
            let kept: Vec<Bytes> = starts.flat_map(|(at, len)| items[at..at + len].iter().cloned()).collect();
            Tensor::strings(shape, kept)
        }
        Data::Fixed(bytes) => {
            let size = rows.dtype().size().unwrap_or(1);
            let mut kept = BytesMut::new();
            for (at, len) in starts {
                kept.extend_from_slice(&bytes[at * size..(at + len) * size]);
            }
            Tensor::fixed(rows.dtype(), shape, kept.freeze())
        }
    };
    cropped.unwrap_or_else(|_| rows.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_place_rows_at_the_origin_of_larger_ones() {
        assert_eq!(runs(&[], &[]), vec![Run { from: 0, to: 0, len: 1 }]);
        assert_eq!(runs(&[2], &[5]), vec![Run { from: 0, to: 0, len: 2 }]);
        let plan = runs(&[2, 2], &[3, 4]);
        assert_eq!(plan, vec![Run { from: 0, to: 0, len: 2 }, Run { from: 2, to: 4, len: 2 }]);
        let plan: Vec<usize> = runs(&[2, 1, 3], &[2, 2, 4]).into_iter().map(|run| run.to).collect();
        assert_eq!(plan, vec![0, 8]);
        assert!(runs(&[0, 2], &[3, 4]).is_empty());
    }
}
