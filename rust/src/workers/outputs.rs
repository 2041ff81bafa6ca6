//! What a worker says it computed, checked before it is believed.

use bytes::Bytes;

use super::arena::Segment;
use super::message::TensorPlace;
use crate::batching::Batch;
use crate::error::{Code, Error, Reason, Result};
use crate::tensor::{DType, Shape, Tensor, element_count, show};

/// The wanted outputs of a batch, copied out of the worker's segment, in the order of `batch.wanted`.
pub fn read(batch: &Batch, places: &[TensorPlace], segment: Option<&Segment>) -> Result<Vec<Tensor>> {
    batch
        .wanted
        .iter()
        .map(|index| {
            let spec = &batch.endpoint.signature.outputs[*index as usize];
            let bad = |what: String| {
                let message = format!("output {}: {what}", spec.name);
                Error::new(Code::Internal, Reason::ModelOutput, message)
            };
            let place = places.iter().find(|place| place.index == u32::from(*index));
            let place = place.ok_or_else(|| bad("the model did not return it".into()))?;
            let dtype = DType::from_number(place.dtype.into());
            let dtype = dtype.filter(|dtype| *dtype == spec.dtype).ok_or_else(|| {
                let got = dtype.map_or("an unknown type", DType::name);
                bad(format!("expected {} but the model returned {got}", spec.dtype))
            })?;
            let shape = shape(place).ok_or_else(|| bad("impossible shape".into()))?;
            let segment = segment.ok_or_else(|| bad("no memory was handed over".into()))?;
            tensor(dtype, shape, place, segment).map_err(|error| bad(error.message.into_owned()))
        })
        .collect()
}

fn shape(place: &TensorPlace) -> Option<Shape> {
    place.shape.iter().map(|dim| usize::try_from(*dim).ok()).collect()
}

fn tensor(dtype: DType, shape: Shape, place: &TensorPlace, segment: &Segment) -> Result<Tensor> {
    let range = (usize::try_from(place.offset), usize::try_from(place.len));
    let bytes = match range {
        (Ok(offset), Ok(len)) => segment.read(offset, len),
        _ => None,
    };
    let bytes = Bytes::from(bytes.ok_or_else(|| Error::internal("it lies outside the worker's memory"))?);
    if dtype == DType::String { strings(shape, &bytes) } else { Tensor::fixed(dtype, shape, bytes) }
}

/// Strings lie as a table of u64 lengths followed by their bytes.
pub fn strings(shape: Shape, bytes: &Bytes) -> Result<Tensor> {
    let count = element_count(&shape)?;
    let malformed = || Error::internal(format!("malformed strings of shape {}", show(&shape)));
    let table = count.checked_mul(8).filter(|table| *table <= bytes.len()).ok_or_else(malformed)?;
    let mut at = table;
    let mut items = Vec::with_capacity(count);
    for entry in bytes[..table].chunks_exact(8) {
        let len = u64::from_le_bytes(entry.try_into().map_err(|_| malformed())?);
        let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
        let end = end.filter(|end| *end <= bytes.len()).ok_or_else(malformed)?;
        items.push(bytes.slice(at..end));
        at = end;
    }
    Tensor::strings(shape, items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn strings_must_lie_inside_their_bytes() {
        let mut bytes = Vec::new();
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(b"hi");
        let good = strings(smallvec![2], &Bytes::from(bytes.clone())).unwrap();
        assert_eq!(good.data(), &crate::tensor::Data::Strings(vec![Bytes::from("hi"), Bytes::new()]));
        bytes[0] = 3;
        assert!(strings(smallvec![2], &Bytes::from(bytes.clone())).is_err());
        bytes[0..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(strings(smallvec![2], &Bytes::from(bytes)).is_err());
        assert!(strings(smallvec![2], &Bytes::from_static(b"short")).is_err());
    }
}
