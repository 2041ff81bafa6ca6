//! Time to read and to write JSON of TensorFlow Serving's predict API: `cargo bench -p poise-core --bench json`.
//!
//! Each case is repeated in rounds; the median round is reported, so that a busy moment of the machine does not show.

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use poise_core::frontends::tfs::json::{Format, Style, parse_predict, write_predict};
use poise_core::model::{Signature, TensorSpec};
use poise_core::tensor::{DType, Tensor};

const ROUNDS: usize = 31;

fn report(case: &str, bytes: usize, repeat: usize, mut run: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..repeat).for_each(|_| run());
            start.elapsed().as_secs_f64() / repeat as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let median = rounds[ROUNDS / 2];
    println!("{case:<44} {:>9.2} us {:>7.0} MB/s", median * 1e6, bytes as f64 / median / 1e6);
}

fn signature(dtype: DType) -> Signature {
    Signature {
        name: "serving_default".into(),
        method_name: "tensorflow/serving/predict".into(),
        inputs: vec![TensorSpec::new("x", dtype, None)],
        outputs: vec![],
        batched: true,
        check_shapes: true,
    }
}

/// Numbers in 0..1 that look random (xorshift).
fn numbers() -> impl Iterator<Item = f64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    })
}

fn body(rows: usize, text: impl Fn(f64) -> String) -> Bytes {
    let items: Vec<String> = numbers().take(rows * 64).map(text).collect();
    let rows: Vec<String> = items.chunks(64).map(|row| format!("[{}]", row.join(", "))).collect();
    format!(r#"{{"instances": [{}]}}"#, rows.join(", ")).into()
}

fn read(case: &str, dtype: DType, rows: usize, text: impl Fn(f64) -> String) {
    let (body, signature) = (body(rows, text), signature(dtype));
    report(&format!("read {dtype} {rows} x 64, {case}"), body.len(), 20_000 / rows, || {
        black_box(parse_predict(black_box(&body), |_| Ok(&signature)).expect("valid"));
    });
}

fn write(case: &str, rows: usize, number: impl Fn(f64) -> f32) {
    let bytes: Vec<u8> = numbers().take(rows * 64).flat_map(|value| number(value).to_le_bytes()).collect();
    let tensor = Tensor::fixed(DType::Float, [rows, 64].as_slice().into(), bytes.into()).expect("fits");
    let write = || write_predict(Format::Row, Style::default(), &[("y", black_box(&tensor))]).expect("valid");
    report(&format!("write float {rows} x 64, {case}"), write().len(), 10_000 / rows, || {
        black_box(write());
    });
}

fn main() {
    for rows in [1, 64] {
        read("4 digits", DType::Float, rows, |value| format!("{value:.4}"));
        read("shortest float", DType::Float, rows, |value| (value as f32).to_string());
        read("shortest double", DType::Float, rows, |value| value.to_string());
        read("4 digits", DType::Double, rows, |value| format!("{value:.4}"));
        read("shortest double", DType::Double, rows, |value| value.to_string());
        read("up to 10 digits", DType::Int64, rows, |value| ((value * 4e9) as i64).to_string());
        write("any", rows, |value| value as f32);
        write("4 digits", rows, |value| (value * 1e4).round() as f32 / 1e4);
    }
}
