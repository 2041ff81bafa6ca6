//! A version with the server's ends of its channels, and workers of both kinds: honest ones and liars.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use poise_core::batching::version::{Holdings, Version};
use poise_core::batching::{Answer, Answered, Stages, gather};
use poise_core::clock::SystemClock;
use poise_core::config::BatchSettings;
use poise_core::error::{Code, Error};
use poise_core::events::{Event, Events};
use poise_core::model::Signature;
use poise_core::telemetry::Telemetry;
use poise_core::tensor::{DType, Data, Tensor};
use poise_core::workers::arena::Segment;
use poise_core::workers::channel;
use poise_core::workers::client::{Client, Incoming, layout};
use poise_core::workers::driver::{Surroundings, drive};
use poise_core::workers::message::{FromServer, FromWorker, LONGEST, Ready, Run, ServerSays, TensorPlace, WorkerSays};
use prost::Message;
use rustix::net::SendFlags;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

pub type Outcome = Result<Answer, Error>;
pub type Call = tokio::task::JoinHandle<Result<Answered, Error>>;

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const SIGNATURES: &str = r#"[
    {"name": "floats", "method_name": "predict", "batched": true,
     "inputs": [{"name": "x", "dtype": "float", "shape": null}],
     "outputs": [{"name": "y", "dtype": "float", "shape": null}]},
    {"name": "texts", "method_name": "predict", "batched": true,
     "inputs": [{"name": "x", "dtype": "string", "shape": null}],
     "outputs": [{"name": "y", "dtype": "string", "shape": null}]}]"#;

pub fn settings() -> BatchSettings {
    BatchSettings {
        enable_batching: true,
        max_batch_size: 16,
        batch_timeout_micros: 0,
        allowed_batch_sizes: vec![],
        max_enqueued_batches: 64,
        max_enqueued_bytes: 64 << 20,
        pad_variable_length_inputs: false,
        enable_large_batch_splitting: false,
        max_execution_batch_size: 0,
        isolate_failures: true,
        retry_lost_batches: false,
        max_run_s: 20.0,
    }
}

/// One version and the server's ends of its workers.
pub struct World {
    pub version: Arc<Version>,
    events: Arc<Events>,
    pub telemetry: Arc<Telemetry>,
    pub detach: Arc<Notify>,
    runtime: Runtime,
}

impl World {
    pub fn new(settings: BatchSettings) -> Self {
        let telemetry = Telemetry::new(true);
        let version = Version::new("m", 1, settings, Arc::clone(&telemetry), Arc::new(SystemClock));
        version.describe(Signature::list_from_json(SIGNATURES).unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { version, events: Arc::default(), telemetry, detach: Arc::default(), runtime }
    }

    /// The worker's end of a new channel.
    pub fn attach(&self) -> OwnedFd {
        let _inside = self.runtime.enter();
        let (ours, theirs) = channel::pair().unwrap();
        let (events, telemetry) = (Arc::clone(&self.events), Arc::clone(&self.telemetry));
        let around = Surroundings { worker: 7, events, telemetry, detach: Arc::clone(&self.detach) };
        self.runtime.spawn(drive(ours, Arc::clone(&self.version), around));
        theirs
    }

    /// A request; it is queued when this returns.
    pub fn ask(&self, signature: &str, input: Tensor) -> Call {
        let before = self.version.holdings();
        let lease = self.version.lease().unwrap();
        let endpoint = Arc::clone(lease.endpoint(signature).unwrap());
        let call = self.runtime.spawn(async move {
            let checked = endpoint.check(vec![input])?;
            lease.run(&endpoint, checked, endpoint.select(&[])?, None).await
        });
        let until = Instant::now() + PATIENCE;
        while !call.is_finished() && self.version.holdings().rows == before.rows && self.version.holdings().running == 0
        {
            assert!(Instant::now() < until, "the request was never queued");
            thread::yield_now();
        }
        call
    }

    /// What happens meanwhile reaches the server all at once.
    pub fn pause(&self, act: impl FnOnce()) {
        let ((stopped, stop), (resume, resumed)) = (mpsc::channel(), mpsc::channel::<()>());
        self.runtime.spawn(async move {
            stopped.send(()).unwrap();
            let _ = resumed.recv();
        });
        stop.recv().unwrap();
        act();
        drop(resume);
    }

    pub fn outcome(&self, call: Call) -> Outcome {
        self.ended(call).map(|answered| answered.answer)
    }

    /// Where the time of an answered request went.
    pub fn stages(&self, call: Call) -> Stages {
        self.ended(call).unwrap().stages
    }

    fn ended(&self, call: Call) -> Result<Answered, Error> {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, call).await }).expect("an outcome").unwrap()
    }

    /// The next event but readiness.
    pub fn event(&self) -> Event {
        event(|timeout| self.events.pull(timeout))
    }

    pub fn why_lost(&self) -> String {
        match self.event() {
            Event::WorkerLost(7, why) => why,
            other => panic!("expected a lost worker: {other:?}"),
        }
    }

    pub fn assert_nothing_held(&self) {
        assert_eq!(self.version.holdings(), Holdings::default());
    }
}

pub fn event(pull: impl Fn(Duration) -> Vec<Event>) -> Event {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let news = pull(Duration::from_millis(100)).into_iter().find(|event| !matches!(event, Event::WorkerReady(..)));
        if let Some(event) = news {
            return event;
        }
    }
    panic!("nothing happened");
}

pub fn floats(shape: &[usize], value: f32) -> Tensor {
    let count = shape.iter().product();
    Tensor::fixed(DType::Float, shape.into(), value.to_le_bytes().repeat(count).into()).unwrap()
}

pub fn first(answer: &Answer) -> f32 {
    let Data::Fixed(bytes) = answer[0].data() else { panic!("floats") };
    f32::from_le_bytes(bytes[..4].try_into().unwrap())
}

/// What a model does with a batch.
pub enum Reply {
    Echo,
    Fail(Vec<u64>),
    Drop,
}

/// A worker of its own thread; ends when it is told to, and says how many batches it ran.
pub fn work(socket: OwnedFd, model: impl Fn(&Run, &[u8]) -> Reply + Send + 'static) -> JoinHandle<usize> {
    thread::spawn(move || {
        let client = Client::new(socket, false).unwrap();
        client.ready(SIGNATURES.into()).unwrap();
        let mut runs = 0;
        loop {
            match client.next(Duration::from_millis(100)).unwrap() {
                Incoming::Closed => return runs,
                Incoming::Nothing => {}
                Incoming::Run(run, segment) => {
                    runs += 1;
                    reply(&client, &run, &segment, &model);
                }
            }
        }
    })
}

pub fn reply(client: &Client, run: &Run, segment: &Segment, model: &impl Fn(&Run, &[u8]) -> Reply) {
    let input = &run.inputs[0];
    assert_eq!(input.offset % gather::ALIGNMENT as u64, 0);
    let bytes = segment.read(input.offset as usize, input.len as usize).expect("inputs inside their segment");
    match model(run, &bytes) {
        Reply::Fail(rows) => client.fail(run.id, Code::InvalidArgument, "bad row".into(), rows).unwrap(),
        Reply::Drop => client.drop_batch(run.id).unwrap(),
        Reply::Echo => {
            let dtype = DType::from_number(input.dtype.into()).unwrap();
            let places = layout(vec![(0, dtype, input.shape.clone(), bytes.len())]);
            let write = |segment: &Segment, places: &[TensorPlace]| segment.write(places[0].offset as usize, &bytes);
            client.complete(run.id, run.slot, places, Duration::ZERO, write).unwrap();
        }
    }
}

/// A worker that says what it likes.
pub struct Liar {
    pub socket: OwnedFd,
}

impl Liar {
    pub fn new(world: &World) -> Self {
        Self { socket: world.attach() }
    }

    pub fn ready(self) -> Self {
        self.say(WorkerSays::Ready(Ready { signatures: SIGNATURES.into(), pid: 0 }));
        self
    }

    pub fn say(&self, says: WorkerSays) {
        channel::send(&self.socket, &FromWorker { says: Some(says) }.encode_to_vec(), None).unwrap();
    }

    pub fn say_with(&self, says: WorkerSays, file: impl AsFd) {
        let packet = FromWorker { says: Some(says) }.encode_to_vec();
        channel::send(&self.socket, &packet, Some(file.as_fd())).unwrap();
    }

    pub fn say_bytes(&self, bytes: &[u8]) {
        rustix::net::send(&self.socket, bytes, SendFlags::empty()).unwrap();
    }

    pub fn batch(&self) -> Run {
        let mut buffer = vec![0; LONGEST];
        let (len, _) = channel::receive(&self.socket, &mut buffer).unwrap();
        match FromServer::decode(&buffer[..len]).unwrap().says {
            Some(ServerSays::Run(run)) => run,
            other => panic!("expected a batch: {other:?}"),
        }
    }
}
