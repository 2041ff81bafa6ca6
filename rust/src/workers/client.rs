//! The worker's end of a channel: waits for batches, hands back outputs, beats. Knows no Python.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::process::{Signal, getpid, kill_process};

use super::arena::{Growing, Segment};
use super::channel;
use super::message::{
    Beat, Done, Failed, FromServer, FromWorker, LONGEST, LoadFailed, Ready, Run, ServerSays, TensorPlace, WorkerSays,
};
use crate::batching::gather::ALIGNMENT;
use crate::error::Code;
use crate::tensor::DType;

/// How often a worker shows that it is alive: thrice before its silence is taken for its end.
const BEAT: Duration = Duration::from_secs(3);
/// How long a process whose server is gone may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// What came from the server.
pub enum Incoming {
    Run(Run, Arc<Segment>),
    /// Nothing within the time.
    Nothing,
    /// There will be no more.
    Closed,
}

/// One worker's end.
pub struct Client {
    socket: Arc<OwnedFd>,
    inbox: Mutex<Inbox>,
    outputs: Mutex<[Growing; 2]>,
}

struct Inbox {
    buffer: Vec<u8>,
    inputs: [Option<Arc<Segment>>; 2],
    closed: bool,
    timeout: Duration,
}

impl Client {
    /// Takes over the worker's descriptor. With `exit_with_server` the process ends when the server is gone, even in
    /// the middle of a batch.
    pub fn new(socket: OwnedFd, exit_with_server: bool) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, false)?;
        let socket = Arc::new(socket);
        let beating = Arc::clone(&socket);
        std::thread::Builder::new().name("poise-beat".into()).spawn(move || beat(&beating, exit_with_server))?;
        let inbox = Inbox { buffer: vec![0; LONGEST], inputs: [None, None], closed: false, timeout: Duration::ZERO };
        Ok(Self { socket, inbox: Mutex::new(inbox), outputs: Mutex::default() })
    }

    pub fn ready(&self, signatures: String) -> io::Result<()> {
        self.say(WorkerSays::Ready(Ready { signatures, pid: std::process::id() }), None)
    }

    pub fn fail_load(&self, message: String) -> io::Result<()> {
        self.say(WorkerSays::LoadFailed(LoadFailed { message: cut(message) }), None)
    }

    /// Waits for the next message.
    pub fn next(&self, timeout: Duration) -> io::Result<Incoming> {
        let mut inbox = self.inbox.lock();
        if inbox.closed {
            return Ok(Incoming::Closed);
        }
        if inbox.timeout != timeout {
            // A timeout of zero would mean none at all.
            let limit = timeout.max(Duration::from_millis(1));
            sockopt::set_socket_timeout(&*self.socket, sockopt::Timeout::Recv, Some(limit))?;
            inbox.timeout = timeout;
        }
        let (len, descriptor) = match channel::receive(&*self.socket, &mut inbox.buffer) {
            Ok(packet) => packet,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(Incoming::Nothing);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => (0, None),
            Err(error) => return Err(error),
        };
        let message = FromServer::decode(&inbox.buffer[..len]).map_err(io::Error::other)?;
        match message.says {
            Some(ServerSays::Run(run)) => inbox.run(run, descriptor),
            Some(ServerSays::Close(_)) | None => {
                inbox.closed = true;
                Ok(Incoming::Closed)
            }
        }
    }

    /// Sends the outputs of a batch: `write` copies them into the segment that it is given.
    pub fn complete(
        &self,
        id: u64,
        slot: u32,
        outputs: Vec<TensorPlace>,
        interpreter_wait: Duration,
        write: impl FnOnce(&Segment, &[TensorPlace]),
    ) -> io::Result<()> {
        let len = outputs.last().map_or(0, |place| place.offset + place.len);
        let (segment, new) = self.outputs.lock()[slot as usize % 2].reserve(len as usize)?;
        write(&segment, &outputs);
        let interpreter_wait_ns = interpreter_wait.as_nanos() as u64;
        self.say(WorkerSays::Done(Done { id, outputs, interpreter_wait_ns }), new.then_some(&*segment))
    }

    /// Says that a batch failed; `rows` are those at fault, if known.
    pub fn fail(&self, id: u64, code: Code, message: String, rows: Vec<u64>) -> io::Result<()> {
        let (code, message) = (code as u32, cut(message));
        self.say(WorkerSays::Failed(Failed { id, code, message, rows, dropped: false }), None)
    }

    /// Says that a batch was dropped unended.
    pub fn drop_batch(&self, id: u64) -> io::Result<()> {
        let message = "the worker dropped the batch".into();
        self.say(
            WorkerSays::Failed(Failed { id, code: Code::Internal as u32, message, rows: vec![], dropped: true }),
            None,
        )
    }

    /// Says good-bye; the server sees the end of the channel.
    pub fn close(&self) {
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }

    fn say(&self, says: WorkerSays, segment: Option<&Segment>) -> io::Result<()> {
        say(&self.socket, says, segment)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inbox {
    fn run(&mut self, run: Run, descriptor: Option<OwnedFd>) -> io::Result<Incoming> {
        let slot = run.slot as usize % 2;
        if let Some(descriptor) = descriptor {
            self.inputs[slot] = Some(Segment::open(descriptor)?);
        }
        let segment = self.inputs[slot].clone();
        let segment = segment.ok_or_else(|| io::Error::other("a batch came before its memory"))?;
        Ok(Incoming::Run(run, segment))
    }
}

/// Where outputs of these sizes go in a segment: (index, dtype, shape, bytes) each.
pub fn layout(outputs: Vec<(u32, DType, Vec<u64>, usize)>) -> Vec<TensorPlace> {
    let mut end = 0;
    let place = |(index, dtype, shape, len): (u32, DType, Vec<u64>, usize)| {
        let offset = usize::next_multiple_of(end, ALIGNMENT);
        end = offset + len;
        TensorPlace { index, dtype: dtype as u32, shape, offset: offset as u64, len: len as u64 }
    };
    outputs.into_iter().map(place).collect()
}

fn say(socket: &OwnedFd, says: WorkerSays, segment: Option<&Segment>) -> io::Result<()> {
    let packet = FromWorker { says: Some(says) }.encode_to_vec();
    channel::send(socket, &packet, segment.map(Segment::descriptor))
}

/// Error texts are bounded: a model may put a whole tensor into one.
fn cut(mut message: String) -> String {
    const MOST: usize = 4096;
    if message.len() > MOST {
        let end = (0..=MOST).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...TRUNCATED");
    }
    message
}

/// Shows now and then that the process runs; ends with the channel.
fn beat(socket: &OwnedFd, exit_with_server: bool) {
    let interval = rustix::event::Timespec { tv_sec: BEAT.as_secs() as i64, tv_nsec: 0 };
    loop {
        let mut ends = [PollFd::new(socket, PollFlags::RDHUP)];
        match poll(&mut ends, Some(&interval)) {
            Ok(0) => {
                let _ = say(socket, WorkerSays::Beat(Beat {}), None);
            }
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    if exit_with_server {
        std::thread::sleep(GRACE);
        // The loop did not notice: the model hangs, or runs for nobody. No exit handlers: they might hang too.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
