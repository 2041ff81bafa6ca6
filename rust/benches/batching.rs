//! The batching core alone: no sockets, no model. `taskset -c 0 cargo bench --bench batching`
//!
//! One-row requests of 64 floats wait in many futures on one thread; a worker on the same thread forms batches, copies
//! them into memory, and answers. Best of several rounds, as the others add the machine's noise, not our work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use poise_core::batching::policy::Need;
use poise_core::batching::version::{Next, Version};
use poise_core::batching::{Batch, Timing, gather};
use poise_core::clock::SystemClock;
use poise_core::config::BatchSettings;
use poise_core::model::{Signature, TensorSpec};
use poise_core::telemetry::Telemetry;
use poise_core::tensor::{DType, Tensor};
use tokio::runtime::Builder;

const WIDTH: usize = 64;
const ROUNDS: usize = 10;
const REQUESTS: usize = 200_000;

/// Nanoseconds of a round by what they were spent on; the rest is what clients and the runtime take.
#[derive(Default, Clone, Copy)]
struct Spent {
    form: Duration,
    gather: Duration,
    complete: Duration,
    total: Duration,
}

fn settings() -> BatchSettings {
    BatchSettings {
        enable_batching: true,
        max_batch_size: 64,
        batch_timeout_micros: 0,
        allowed_batch_sizes: vec![],
        max_enqueued_batches: 64,
        max_enqueued_bytes: 256 << 20,
        pad_variable_length_inputs: false,
        enable_large_batch_splitting: false,
        max_execution_batch_size: 0,
        isolate_failures: true,
        retry_lost_batches: false,
        max_run_s: 60.0,
    }
}

fn version() -> Arc<Version> {
    let spec = |name: &str, width: usize| TensorSpec::new(name, DType::Float, Some(vec![-1, width as i64]));
    let signature = Signature {
        name: "serving_default".into(),
        method_name: "tensorflow/serving/predict".into(),
        inputs: vec![spec("x", WIDTH)],
        outputs: vec![spec("y", 1)],
        batched: true,
        check_shapes: true,
    };
    let version = Version::new("ranker", 1, settings(), Telemetry::new(true), Arc::new(SystemClock));
    version.describe(vec![signature]);
    version
}

/// One client: a request, its answer, the next request.
async fn client(version: Arc<Version>, requests: usize, body: Bytes) {
    for _ in 0..requests {
        let lease = version.lease().expect("an open version");
        let endpoint = lease.endpoint("serving_default").expect("the signature");
        let input = Tensor::fixed(DType::Float, [1, WIDTH].as_slice().into(), body.clone()).expect("data that fits");
        let checked = endpoint.check(vec![input]).expect("an input that fits");
        let wanted = endpoint.select(&[]).expect("all outputs");
        let answer = lease.run(endpoint, checked, wanted, None).await.expect("an answer");
        assert_eq!(answer.answer[0].shape(), [1, 1]);
    }
}

/// One worker: what the driver of a channel does, without the channel.
async fn worker(version: Arc<Version>, mut left: usize) -> Spent {
    let mut spent = Spent::default();
    let mut memory = vec![0; 64 * WIDTH * 4];
    while left > 0 {
        let changes = version.changes();
        let start = Instant::now();
        let Next::Batch(batch) = version.next(Need::Idle) else {
            changes.await;
            tokio::task::yield_now().await;
            continue;
        };
        let formed = Instant::now();
        let (places, _) = gather::plan(&batch).expect("a batch that fits");
        gather::gather(&batch, &places, &mut memory);
        let gathered = Instant::now();
        left -= batch.rows;
        answer(*batch);
        spent.form += formed - start;
        spent.gather += gathered - formed;
        spent.complete += gathered.elapsed();
        tokio::task::yield_now().await;
    }
    spent
}

fn answer(batch: Batch) {
    let rows = batch.executed_rows;
    let output = Tensor::fixed(DType::Float, [rows, 1].as_slice().into(), vec![0; rows * 4].into());
    batch.complete(vec![output.expect("data that fits")], Timing::default());
}

fn round(clients: usize) -> Spent {
    let version = version();
    let body = Bytes::from(vec![1; WIDTH * 4]);
    let requests = REQUESTS / clients;
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let start = Instant::now();
    let spent = runtime.block_on(async {
        let working = tokio::spawn(worker(Arc::clone(&version), requests * clients));
        for _ in 0..clients {
            tokio::spawn(client(Arc::clone(&version), requests, body.clone()));
        }
        working.await.expect("a worker that does not panic")
    });
    Spent { total: start.elapsed(), ..spent }
}

fn main() {
    println!("clients   requests/s   ns/request: form  gather  complete  clients and runtime");
    for clients in [1, 8, 64, 256, 1024] {
        let best = (0..ROUNDS).map(|_| round(clients)).min_by_key(|spent| spent.total).expect("rounds");
        let requests = REQUESTS / clients * clients;
        let each = |time: Duration| time.as_secs_f64() * 1e9 / requests as f64;
        let rest = best.total - best.form - best.gather - best.complete;
        let rate = requests as f64 / best.total.as_secs_f64();
        print!("{clients:>7} {rate:>12.0} {:>17.0}", each(best.form));
        println!(" {:>7.0} {:>9.0} {:>20.0}", each(best.gather), each(best.complete), each(rest));
    }
}
