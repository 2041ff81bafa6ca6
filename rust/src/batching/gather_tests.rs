use smallvec::smallvec;

use super::*;
use crate::batching::testing::{
    World, answer, floats, gathered, half_plus_two, inputs, settings, spec, strings, values,
};
use crate::config::BatchSettings;
use crate::model::Signature;

fn padding() -> BatchSettings {
    BatchSettings { pad_variable_length_inputs: true, ..settings() }
}

/// A world of one signature with one string input.
fn string_world(settings: BatchSettings) -> World {
    let signature = Signature { inputs: vec![spec("s", DType::String, None)], ..half_plus_two("first", true) };
    World::with_signatures(settings, vec![signature])
}

/// The strings of one input as a worker reads them.
fn read_strings(place: &Place, memory: &[u8]) -> Vec<String> {
    let count: usize = place.shape.iter().product();
    let bytes = &memory[place.offset..place.offset + place.len];
    let mut at = count * 8;
    let mut items = Vec::new();
    for entry in bytes[..count * 8].chunks_exact(8) {
        let len = u64::from_le_bytes(entry.try_into().unwrap()) as usize;
        items.push(String::from_utf8(bytes[at..at + len].to_vec()).unwrap());
        at += len;
    }
    assert_eq!(at, bytes.len(), "no byte is left over");
    items
}

#[test]
fn inputs_lie_aligned_one_behind_the_other() {
    let inputs = vec![spec("a", DType::UInt8, None), spec("b", DType::String, None), spec("c", DType::Double, None)];
    let world = World::with_signatures(settings(), vec![Signature { inputs, ..half_plus_two("first", true) }]);
    let request = |byte: u8, text: &'static str| {
        let a = Tensor::fixed(DType::UInt8, smallvec![1, 3], vec![byte; 3].into()).unwrap();
        let c = Tensor::fixed(DType::Double, smallvec![1], f64::from(byte).to_le_bytes().to_vec().into()).unwrap();
        world.call_with("first", vec![a, strings(&[1], &[text]), c], &[], None)
    };
    let _calls = [request(1, "one"), request(2, ""), request(3, "three")];
    let (places, memory) = gathered(&world.batch());
    let table: [(&[usize], usize, usize); 3] = [(&[3, 3], 0, 9), (&[3], 64, 24 + 8), (&[3], 128, 24)];
    for (place, (shape, offset, len)) in places.iter().zip(table) {
        assert_eq!((&place.shape[..], place.offset, place.len), (shape, offset, len));
    }
    assert_eq!(memory[..9], [1, 1, 1, 2, 2, 2, 3, 3, 3]);
    assert_eq!(read_strings(&places[1], &memory), ["one", "", "three"]);
    assert_eq!(memory[128..152], [1.0_f64, 2.0, 3.0].map(f64::to_le_bytes).concat());
}

#[test]
fn rows_are_padded_with_their_own_first_element_and_cropped_back() {
    let world = World::new(BatchSettings { max_batch_size: 2, ..padding() });
    let small = world.call("first", floats(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]));
    let large = world.call("first", floats(&[1, 3, 3], &[5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0]));
    let batch = world.batch();
    let (places, memory) = gathered(&batch);
    assert_eq!(places[0].shape[..], [2, 3, 3]);
    let first = floats(&[9], &[1.0, 2.0, 1.0, 3.0, 4.0, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(Data::Fixed(memory[..36].to_vec().into()), *first.data());
    answer(batch);
    let small = small.outcome().unwrap();
    assert_eq!((small[1].shape(), values(&small[1])), (&[1, 2, 2][..], vec![2.5, 3.0, 3.5, 4.0]));
    assert_eq!(large.numbers(), [4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5]);
    world.assert_nothing_held();
}

#[test]
fn every_dimension_grows_to_the_largest_of_the_batch() {
    let world = World::new(BatchSettings { max_batch_size: 30, ..padding() });
    let zeros = |shape: &[usize]| world.call("first", floats(shape, &vec![0.0; shape.iter().product()]));
    let calls = [zeros(&[10, 20, 30]), zeros(&[20, 50, 15])];
    let batch = world.batch();
    assert_eq!(gathered(&batch).0[0].shape[..], [30, 50, 30]);
    answer(batch);
    let shapes = calls.map(|call| call.outcome().unwrap()[0].shape().to_vec());
    assert_eq!(shapes, [vec![10, 20, 30], vec![20, 50, 15]]);
}

#[test]
fn strings_are_padded_with_their_own_first_one() {
    let world = string_world(padding());
    let _calls = [
        world.call("first", strings(&[2, 2], &["aa", "b", "c", "d"])),
        world.call("first", strings(&[1, 3], &["e", "f", "g"])),
    ];
    let (places, memory) = gathered(&world.batch());
    assert_eq!(read_strings(&places[0], &memory), ["aa", "b", "aa", "c", "d", "aa", "e", "f", "g"]);
}

#[test]
fn strings_of_padding_rows_repeat() {
    let world = string_world(BatchSettings { allowed_batch_sizes: vec![4, 10], ..settings() });
    let _call = world.call("first", strings(&[2, 1], &["long", "s"]));
    let (places, memory) = gathered(&world.batch());
    assert_eq!(read_strings(&places[0], &memory), ["long", "s", "long", "long"]);
}

#[test]
fn empty_rows_are_padded_with_zeros() {
    let world = World::new(padding());
    let empty = world.call("first", floats(&[1, 0], &[]));
    let full = world.call("first", floats(&[1, 2], &[3.0, 4.0]));
    let batch = world.batch();
    let (_, memory) = gathered(&batch);
    assert_eq!(Data::Fixed(memory.into()), *floats(&[4], &[0.0, 0.0, 3.0, 4.0]).data());
    answer(batch);
    assert_eq!(empty.outcome().unwrap()[1].shape(), [1, 0]);
    assert_eq!(full.numbers(), [3.5, 4.0]);

    let strings = string_world(padding());
    let _calls =
        [strings.call("first", self::strings(&[1, 0], &[])), strings.call("first", self::strings(&[1, 1], &["a"]))];
    let (places, memory) = gathered(&strings.batch());
    assert_eq!(read_strings(&places[0], &memory), ["", "a"]);
}

#[test]
fn rows_without_elements_take_no_memory() {
    let world = World::new(settings());
    let calls = [world.call("first", floats(&[2, 0], &[])), world.call("first", floats(&[1, 0], &[]))];
    let batch = world.batch();
    let (places, memory) = gathered(&batch);
    assert_eq!((&places[0].shape[..], memory.len()), (&[3, 0][..], 0));
    answer(batch);
    assert_eq!(calls.map(|call| call.outcome().unwrap()[1].shape().to_vec()), [[2, 0], [1, 0]]);
}

#[test]
fn parts_of_a_request_are_gathered_from_where_they_start() {
    let world = World::new(BatchSettings { max_batch_size: 2, enable_large_batch_splitting: true, ..settings() });
    let call = world.call("first", floats(&[5, 1], &[0.0, 1.0, 2.0, 3.0, 4.0]));
    let gathered: Vec<Vec<f32>> = world.batches().iter().map(inputs).collect();
    assert_eq!(gathered, [vec![0.0, 1.0], vec![2.0, 3.0], vec![4.0]]);
    drop(call);
}

#[test]
fn outputs_keep_the_dimensions_that_no_input_had() {
    let outputs = vec![spec("fixed", DType::Float, Some(&[-1, 3])), spec("free", DType::Float, None)];
    let world = World::with_signatures(padding(), vec![Signature { outputs, ..half_plus_two("first", true) }]);
    let call = world.call("first", floats(&[1, 2], &[0.0; 2]));
    let _longer = world.call("first", floats(&[1, 3], &[0.0; 3]));
    let free = floats(&[2, 4, 3], &[0.0; 24]);
    world.batch().complete(vec![floats(&[2, 3], &[0.0; 6]), free], Default::default());
    let answer = call.outcome().unwrap();
    assert_eq!(answer[0].shape(), [1, 3], "the signature fixes it, though it has the padded size");
    assert_eq!(answer[1].shape(), [1, 4, 3], "not of the padded size, or not on the same axis");
}

#[test]
fn requests_that_are_too_large_together_run_apart() {
    let world = World::new(padding());
    let long = world.call("first", floats(&[1, 40_000, 1], &vec![1.0; 40_000]));
    let wide = world.call("first", floats(&[1, 1, 40_000], &vec![1.0; 40_000]));
    let batch = world.batch();
    let error = plan(&batch).unwrap_err();
    assert_eq!(error.reason, Reason::TooLarge);
    batch.fail(error, &[]);
    assert_eq!(world.serve(), 2);
    assert_eq!((long.numbers().len(), wide.numbers().len()), (40_000, 40_000));
}

#[test]
fn sizes_that_overflow_are_refused() {
    const LONG: usize = 1 << 19;
    let inputs: Vec<_> = ["a", "b", "c", "d"].map(|name| spec(name, DType::Complex128, None)).into();
    let settings = BatchSettings { max_enqueued_bytes: usize::MAX, ..padding() };
    let world = World::with_signatures(settings, vec![Signature { inputs, ..half_plus_two("first", true) }]);
    let bytes = bytes::Bytes::from(vec![0; LONG * 16]);
    let call = |shape: [usize; 4]| {
        let input = Tensor::fixed(DType::Complex128, shape.as_slice().into(), bytes.clone()).unwrap();
        world.call_with("first", vec![input; 4], &[], None)
    };
    let _calls = [[1, LONG, 1, 1], [1, 1, LONG, 1], [1, 1, 1, LONG]].map(call);
    assert_eq!(plan(&world.batch()).unwrap_err().reason, Reason::TooLarge);
}
