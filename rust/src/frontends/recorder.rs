//! Records requests of a model into a warm-up file, while somebody asks for one. Otherwise a request costs one look at a
//! number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::Notify;

use super::tfs::wire::{self, Elements, Frame, Spec};
use crate::batching::endpoint::Endpoint;
use crate::error::{Code, Error, Reason, Result};
use crate::frontends::proto::tensorflow::serving as pb;
use crate::tensor::Tensor;
use crate::tfrecord;

/// Most recordings at once.
const MOST: usize = 8;
/// Most bytes of one.
pub const LARGEST: usize = 64 << 20;

/// The recordings under way.
#[derive(Default)]
pub struct Recorder {
    active: AtomicUsize,
    recordings: Mutex<Vec<Arc<Recording>>>,
}

struct Recording {
    model: String,
    records: usize,
    kept: Mutex<Kept>,
    full: Notify,
}

#[derive(Default)]
struct Kept {
    count: usize,
    file: Vec<u8>,
}

impl Recorder {
    /// Whether a request of the model is to be kept.
    pub fn wants(&self, model: &str) -> bool {
        self.active.load(Ordering::Relaxed) != 0 && self.recordings.lock().iter().any(|each| each.model == model)
    }

    /// Keeps a request that was answered; its inputs are in the order of the signature.
    pub fn keep(&self, model: &str, endpoint: &Endpoint, inputs: &[Tensor]) {
        let signature = &endpoint.signature;
        let named: Vec<_> = signature.inputs.iter().map(|spec| spec.name.as_str()).zip(inputs).collect();
        let spec = Spec { name: model, signature: &signature.name, ..Default::default() };
        let Ok(request) = wire::encode_request(&spec, &named, &[], Elements::Content, Frame::Bare) else { return };
        let record = log(request.concat().into());
        for recording in self.recordings.lock().iter().filter(|each| each.model == model) {
            recording.add(&record);
        }
    }

    /// The next requests of the model as a TFRecord file: so many, or as many as come in time and fit.
    pub async fn record(&self, model: &str, records: usize, limit: Duration) -> Result<Vec<u8>> {
        let recording = self.begin(model, records)?;
        let _until_left = Ending { recorder: self, recording: &recording };
        let _ = tokio::time::timeout(limit, recording.full.notified()).await;
        Ok(std::mem::take(&mut recording.kept.lock().file))
    }

    fn begin(&self, model: &str, records: usize) -> Result<Arc<Recording>> {
        let mut recordings = self.recordings.lock();
        if recordings.len() >= MOST {
            let message = format!("{MOST} recordings are under way already; wait for one to end");
            return Err(Error::new(Code::ResourceExhausted, Reason::QueueFull, message));
        }
        let recording =
            Arc::new(Recording { model: model.to_owned(), records, kept: Mutex::default(), full: Notify::new() });
        recordings.push(Arc::clone(&recording));
        self.active.store(recordings.len(), Ordering::Relaxed);
        Ok(recording)
    }
}

/// Ends a recording, also when its client has gone.
struct Ending<'a> {
    recorder: &'a Recorder,
    recording: &'a Arc<Recording>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut recordings = self.recorder.recordings.lock();
        recordings.retain(|each| !Arc::ptr_eq(each, self.recording));
        self.recorder.active.store(recordings.len(), Ordering::Relaxed);
    }
}

impl Recording {
    fn add(&self, record: &[u8]) {
        let mut kept = self.kept.lock();
        let fits = kept.file.len() + tfrecord::framed_len(record.len()) <= LARGEST;
        if fits && kept.count < self.records {
            tfrecord::append(&mut kept.file, record);
            kept.count += 1;
        }
        if !fits || kept.count == self.records {
            self.full.notify_one();
        }
    }
}

fn log(request: Bytes) -> Vec<u8> {
    let log = pb::prediction_log::LogType::PredictLog(pb::PredictLog { request });
    pb::PredictionLog { log_type: Some(log) }.encode_to_vec()
}
