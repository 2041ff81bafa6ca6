//! The server's end of a channel: asks the version for batches, hands them over, takes what comes back.
//!
//! One task of the I/O runtime a worker, no thread. A worker that dies, hangs, falls silent or speaks nonsense is given
//! up: its batches end, an event tells the supervisor, and the channel closes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;
use rustix::net::{Shutdown, shutdown};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::arena::{Growing, Segment};
use super::channel;
use super::message::{Close, Done, Failed, FromServer, FromWorker, LONGEST, Run, ServerSays, TensorPlace, WorkerSays};
use super::outputs;
use crate::batching::policy::Need;
use crate::batching::version::{Next, Version};
use crate::batching::{Batch, Timing, gather};
use crate::config::seconds;
use crate::error::{Code, Error, Reason};
use crate::events::{Event, Events};
use crate::telemetry::Telemetry;

/// A worker beats every three seconds; after this long without a sign it is given up.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes of a copy that would keep an I/O thread's other tasks waiting.
const LARGE_COPY: u64 = 1 << 20;

/// How a worker's time ended.
enum End {
    Closed,
    Lost(String),
    LoadFailed(String),
}

/// What the driver needs from around it.
pub struct Surroundings {
    pub worker: u64,
    pub events: Arc<Events>,
    pub telemetry: Arc<Telemetry>,
    /// Rung when the worker is to be given up.
    pub detach: Arc<Notify>,
}

struct Running {
    batch: Box<Batch>,
    slot: usize,
    sent: Instant,
}

struct Driver {
    socket: AsyncFd<OwnedFd>,
    version: Arc<Version>,
    around: Surroundings,
    inputs: [Growing; 2],
    outputs: [Option<Arc<Segment>>; 2],
    /// In the order in which the worker runs them.
    running: VecDeque<Running>,
    /// When the first of them began to run.
    since: Instant,
    heard: Option<Instant>,
    ready: bool,
    closing: bool,
    buffer: Vec<u8>,
}

/// Serves one worker until its end. The descriptor is the server's end of the channel.
pub async fn drive(socket: OwnedFd, version: Arc<Version>, around: Surroundings) {
    let (worker, events, telemetry) = (around.worker, Arc::clone(&around.events), Arc::clone(&around.telemetry));
    version.count_worker(1);
    // Deprecated for types that may lie about their descriptor; an OwnedFd cannot, and the successor is unsafe.
    #[allow(deprecated)]
    let end = match AsyncFd::new(socket) {
        Err(error) => End::Lost(error.to_string()),
        Ok(socket) => {
            let mut driver = Driver::new(socket, Arc::clone(&version), around);
            let end = driver.serve().await;
            driver.give_up(&end);
            end
        }
    };
    version.count_worker(-1);
    telemetry.worker_gone(worker);
    events.push(match end {
        End::Closed => Event::WorkerClosed(worker),
        End::LoadFailed(message) => Event::WorkerFailed(worker, message),
        End::Lost(why) => {
            telemetry.worker_lost();
            Event::WorkerLost(worker, why)
        }
    });
}

impl Driver {
    fn new(socket: AsyncFd<OwnedFd>, version: Arc<Version>, around: Surroundings) -> Self {
        Self {
            socket,
            version,
            around,
            inputs: Default::default(),
            outputs: Default::default(),
            running: VecDeque::new(),
            since: Instant::now(),
            heard: None,
            ready: false,
            closing: false,
            buffer: vec![0; LONGEST],
        }
    }

    async fn serve(&mut self) -> End {
        let version = Arc::clone(&self.version);
        let detach = Arc::clone(&self.around.detach);
        loop {
            let changes = version.changes();
            let wake = match self.feed() {
                Ok(wake) => wake,
                Err(end) => return end,
            };
            let limit = self.patience();
            let until = [wake, limit].into_iter().flatten().min();
            tokio::select! {
                packet = receive(&self.socket, &mut self.buffer) => {
                    if let Err(end) = self.take(packet) {
                        return end;
                    }
                }
                () = changes => {
                    // A request has come. Those that are readable now come before the batch is formed, or each
                    // would run alone.
                    tokio::task::yield_now().await;
                }
                () = sleep_or_wait(until) => {
                    if limit.is_some_and(|limit| Instant::now() >= limit) {
                        return End::Lost(self.why_impatient());
                    }
                }
                () = detach.notified() => return End::Lost("detached".into()),
            }
        }
    }

    /// Hands over batches while the worker can take more. Returns when to ask again.
    fn feed(&mut self) -> Result<Option<Instant>, End> {
        while self.ready && !self.closing && self.running.len() < 2 {
            let need = if self.running.is_empty() { Need::Idle } else { Need::Ahead };
            match self.version.next(need) {
                Next::Batch(batch) => self.dispatch(batch)?,
                Next::WaitUntil(time) => return Ok(Some(time)),
                Next::Sleep => break,
                Next::Close => {
                    self.closing = true;
                    self.since = Instant::now();
                    self.send(ServerSays::Close(Close {}), None).map_err(|error| no_messages(&error))?;
                }
            }
        }
        Ok(None)
    }

    fn dispatch(&mut self, batch: Box<Batch>) -> Result<(), End> {
        let slot = self.running.front().map_or(0, |running| 1 - running.slot);
        let prepared = gather::plan(&batch).and_then(|(places, len)| {
            let (segment, new) = self.inputs[slot].reserve(len).map_err(|error| out_of_memory(&error))?;
            Ok((places, len, segment, new))
        });
        let (places, len, segment, new) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                batch.fail(error, &[]);
                return Ok(());
            }
        };
        copying(len as u64, || gather::gather(&batch, &places, &mut &*segment));
        let message = run_message(&batch, slot, &places);
        let sent = Instant::now();
        if self.running.is_empty() {
            self.since = sent;
        }
        match self.send(ServerSays::Run(message), new.then_some(&*segment)) {
            Err(error) if is_gone(&error) => {
                batch.put_back();
                Err(no_messages(&error))
            }
            outcome => {
                self.running.push_back(Running { batch, slot, sent });
                outcome.map_err(|error| no_messages(&error))
            }
        }
    }

    fn send(&self, says: ServerSays, segment: Option<&Segment>) -> io::Result<()> {
        let packet = FromServer { says: Some(says) }.encode_to_vec();
        channel::send(self.socket.get_ref(), &packet, segment.map(Segment::descriptor))
    }

    /// When this worker is given up unless it does something. How long it may take to close is the supervisor's affair.
    fn patience(&self) -> Option<Instant> {
        let silent = self.heard.map(|heard| heard + SILENCE);
        let hung = (!self.running.is_empty()).then(|| self.since + self.max_run());
        [silent, hung].into_iter().flatten().min()
    }

    fn max_run(&self) -> Duration {
        seconds(self.version.settings.max_run_s)
    }

    fn why_impatient(&self) -> String {
        if !self.running.is_empty() && Instant::now() >= self.since + self.max_run() {
            return format!("hung: a batch ran longer than max_run_s = {}", self.version.settings.max_run_s);
        }
        "silent: it no longer beats".into()
    }

    fn take(&mut self, packet: io::Result<(usize, Option<OwnedFd>)>) -> Result<(), End> {
        let (len, descriptor) = packet.map_err(|error| End::Lost(format!("its channel broke: {error}")))?;
        if len == 0 {
            return Err(if self.closing { End::Closed } else { End::Lost("ended".into()) });
        }
        self.heard = Some(Instant::now());
        let message = FromWorker::decode(&self.buffer[..len]).map_err(|error| nonsense(&error.to_string()))?;
        match message.says {
            Some(WorkerSays::Beat(_)) => Ok(()),
            Some(WorkerSays::Ready(ready)) if !self.ready => {
                self.ready = true;
                self.version.count_serving(1);
                self.around.telemetry.worker_ready(
                    self.around.worker,
                    &self.version.model,
                    self.version.number,
                    ready.pid,
                );
                self.around.events.push(Event::WorkerReady(self.around.worker, ready.signatures));
                Ok(())
            }
            Some(WorkerSays::LoadFailed(failed)) if !self.ready => Err(End::LoadFailed(failed.message)),
            Some(WorkerSays::Done(done)) => self.done(done, descriptor),
            Some(WorkerSays::Failed(failed)) => self.failed(failed),
            _ => Err(nonsense("a message that does not fit its state")),
        }
    }

    fn done(&mut self, done: Done, descriptor: Option<OwnedFd>) -> Result<(), End> {
        let (Running { batch, slot, .. }, timing) = self.finish(done.id)?;
        if let Some(descriptor) = descriptor {
            let segment = Segment::open(descriptor).map_err(|error| nonsense(&error.to_string()));
            self.outputs[slot] = Some(match segment {
                Ok(segment) => segment,
                Err(end) => {
                    batch.lost(worker_lost("nonsense"));
                    return Err(end);
                }
            });
        }
        let timing = Timing { interpreter_wait: Duration::from_nanos(done.interpreter_wait_ns), ..timing };
        let len = done.outputs.iter().fold(0, |sum: u64, place| sum.saturating_add(place.len));
        copying(len, || match outputs::read(&batch, &done.outputs, self.outputs[slot].as_deref()) {
            Ok(tensors) => batch.complete(tensors, timing),
            Err(error) => batch.fail(error, &[]),
        });
        Ok(())
    }

    fn failed(&mut self, failed: Failed) -> Result<(), End> {
        let (running, _) = self.finish(failed.id)?;
        if failed.dropped {
            self.around.telemetry.batch_dropped();
        }
        let code = u8::try_from(failed.code).ok().and_then(Code::from_number).unwrap_or(Code::Internal);
        let reason = if code == Code::InvalidArgument { Reason::BadInput } else { Reason::ModelFailed };
        let rows: Vec<usize> = failed.rows.iter().map(|row| *row as usize).collect();
        running.batch.fail(Error::new(code, reason, failed.message), &rows);
        Ok(())
    }

    /// The batch that the worker says it has ended, always the first, and what it took.
    fn finish(&mut self, id: u64) -> Result<(Running, Timing), End> {
        match self.running.pop_front() {
            Some(running) if running.batch.id == id => {
                let now = Instant::now();
                let began = std::mem::replace(&mut self.since, now);
                let since_sent = |time: Instant| time.saturating_duration_since(running.sent);
                let timing = Timing { took: since_sent(now), ahead: since_sent(began), ..Timing::default() };
                Ok((running, timing))
            }
            Some(other) => {
                self.running.push_front(other);
                Err(nonsense("the answer to a batch that it was not given"))
            }
            None => Err(nonsense("an answer though it was given no batch")),
        }
    }

    /// Ends what the worker leaves behind: the batch that it was running, and the one that it never came to.
    fn give_up(&mut self, end: &End) {
        if self.ready {
            self.version.count_serving(-1);
        }
        let why = match end {
            End::Closed => "closed",
            End::Lost(why) | End::LoadFailed(why) => why,
        };
        self.hear_out();
        if let Some(running) = self.running.pop_front() {
            running.batch.lost(worker_lost(why));
        }
        for ahead in self.running.drain(..) {
            ahead.batch.put_back();
        }
    }

    /// Takes what the worker has said until now. From here on it can say nothing more, and a worker that cannot say
    /// that it has ended a batch ends itself: so the first batch that is left is the one that it runs.
    fn hear_out(&mut self) {
        if self.running.len() < 2 || shutdown(self.socket.get_ref(), Shutdown::Both).is_err() {
            return;
        }
        while !self.running.is_empty() {
            let packet = channel::receive(self.socket.get_ref(), &mut self.buffer);
            if self.take(packet).is_err() {
                return;
            }
        }
    }
}

fn run_message(batch: &Batch, slot: usize, places: &[gather::Place]) -> Run {
    let place = |(index, place): (usize, &gather::Place)| TensorPlace {
        index: index as u32,
        dtype: place.dtype as u32,
        shape: place.shape.iter().map(|dim| *dim as u64).collect(),
        offset: place.offset as u64,
        len: place.len as u64,
    };
    Run {
        id: batch.id,
        slot: slot as u32,
        endpoint: batch.endpoint.index as u32,
        rows: batch.executed_rows as u64,
        wanted: batch.wanted.iter().map(|index| u32::from(*index)).collect(),
        inputs: places.iter().enumerate().map(place).collect(),
    }
}

async fn receive(socket: &AsyncFd<OwnedFd>, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    loop {
        let mut guard = socket.readable().await?;
        if let Ok(packet) = guard.try_io(|socket| channel::receive(socket.get_ref(), buffer)) {
            return packet;
        }
    }
}

async fn sleep_or_wait(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

/// Copies `len` bytes; if they are many, another thread looks after the other tasks of this one meanwhile.
fn copying(len: u64, copy: impl FnOnce()) {
    if len > LARGE_COPY { tokio::task::block_in_place(copy) } else { copy() }
}

/// Whether a message was not sent because there is nobody at the other end.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

fn no_messages(error: &io::Error) -> End {
    End::Lost(format!("its channel does not take messages: {error}"))
}

fn nonsense(what: &str) -> End {
    End::Lost(format!("broke the protocol: {what}"))
}

fn out_of_memory(error: &io::Error) -> Error {
    Error::new(Code::ResourceExhausted, Reason::Internal, format!("no memory for the batch: {error}"))
}

fn worker_lost(why: &str) -> Error {
    let reason = if why.starts_with("hung") { Reason::WorkerHung } else { Reason::WorkerLost };
    Error::new(Code::Internal, reason, format!("the worker was lost while it ran this request: {why}"))
}
