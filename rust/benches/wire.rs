//! Time to read and write Predict's messages: `cargo bench --bench wire`. Best of several rounds, on one core.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use poise_core::frontends::tfs::wire::{Elements, Frame, Spec, decode_request, encode_request, encode_response};
use poise_core::tensor::{DType, Tensor};

const ROUNDS: usize = 20;
const LIMIT: usize = 64 << 20;

/// The time of one call, from the fastest of several rounds: what the others add is the machine's, not ours.
fn best(name: &str, calls: u32, mut call: impl FnMut()) {
    let mut fastest = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        fastest = fastest.min(start.elapsed());
    }
    println!("{name:<44}{:>10.0} ns", fastest.as_secs_f64() * 1e9 / f64::from(calls));
}

fn tensor(dtype: DType, dims: &[usize], byte: u8) -> Tensor {
    let size = dtype.size().expect("a dtype of fixed size") * dims.iter().product::<usize>();
    Tensor::fixed(dtype, dims.into(), vec![byte; size].into()).expect("data that fits")
}

fn request(tensor: &Tensor, elements: Elements) -> Bytes {
    let spec = Spec { name: "ranker", version: None, label: None, signature: "" };
    encode_request(&spec, &[("x", tensor)], &[], elements, Frame::Bare).expect("a small request").concat().into()
}

fn decode(name: &str, tensor: &Tensor, elements: Elements) {
    let body = request(tensor, elements);
    best(name, 20_000, || {
        black_box(decode_request(black_box(&body), LIMIT).expect("a valid request"));
    });
}

fn encode(name: &str, tensor: &Tensor) {
    let spec = Spec { name: "ranker", version: Some(1), label: None, signature: "serving_default" };
    best(name, 20_000, || {
        let outputs = [("y", black_box(tensor))];
        black_box(encode_response(&spec, &outputs, Elements::Typed, Frame::Grpc).expect("a small answer"));
    });
}

fn main() {
    let floats = tensor(DType::Float, &[1, 64], 1);
    decode("decode float[1,64], float_val", &floats, Elements::Typed);
    decode("decode float[1,64], tensor_content", &floats, Elements::Content);
    decode("decode int64[1,64], int64_val", &tensor(DType::Int64, &[1, 64], 1), Elements::Typed);
    decode("decode float[1,224,224,3], float_val", &tensor(DType::Float, &[1, 224, 224, 3], 1), Elements::Typed);
    encode("encode float[1,1]", &tensor(DType::Float, &[1, 1], 1));
    encode("encode float[1,1000]", &tensor(DType::Float, &[1, 1000], 1));
    encode("encode int64[1,64]", &tensor(DType::Int64, &[1, 64], 1));
    encode("encode float[64,1024], shared", &tensor(DType::Float, &[64, 1024], 1));
}
