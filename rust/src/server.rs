//! The composition root of the data plane: runtime, listeners, versions and the channels to their workers.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};

use crate::batching::version::{Holdings, Version};
use crate::calls::Calls;
use crate::clock::SystemClock;
use crate::config::{BatchSettings, ServerSettings};
use crate::error::Result;
use crate::events::{Event, Events};
use crate::frontends::listener::{self, Listen, Listening, Protocol};
use crate::frontends::state::State;
use crate::frontends::tls::Tls;
use crate::model::Signature;
use crate::routes::{Labels, Status};
use crate::sockets::{SocketFile, listen_on};
use crate::telemetry::Telemetry;
use crate::workers::{channel, driver};

/// How long clients have to close their connections when they are told to: who hears nothing is not waited for.
const PARTING: Duration = Duration::from_secs(1);
/// How often a drain looks whether the last request has ended.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// A server. Everything it starts ends with [`Server::close`], or when it is dropped.
pub struct Server {
    state: Arc<State>,
    events: Arc<Events>,
    runtime: Mutex<Option<Runtime>>,
    stop: watch::Sender<bool>,
    /// Since when no connection is accepted any more.
    stopping: OnceLock<Instant>,
    versions: Mutex<HashMap<u64, Arc<Version>>>,
    /// Retired versions that still have something to answer.
    retiring: Arc<Mutex<HashMap<u64, Arc<Version>>>>,
    workers: Mutex<HashMap<u64, Arc<Notify>>>,
    last_id: AtomicU64,
    socket_file: Mutex<Option<SocketFile>>,
}

fn closed() -> io::Error {
    io::Error::other("the server is closed")
}

impl Server {
    pub fn new(settings: ServerSettings) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.io_threads.max(1))
            .thread_name("poise-io")
            .enable_all()
            .build()?;
        let telemetry = Telemetry::of(&settings);
        let events: Arc<Events> = Arc::default();
        Ok(Self {
            state: State::new(settings, telemetry, Calls::new(Arc::clone(&events))),
            events,
            runtime: Mutex::new(Some(runtime)),
            stop: watch::Sender::new(false),
            stopping: OnceLock::new(),
            versions: Mutex::default(),
            retiring: Arc::default(),
            workers: Mutex::default(),
            last_id: AtomicU64::new(0),
            socket_file: Mutex::default(),
        })
    }

    /// Binds the listeners; returns their addresses, gRPC first.
    pub fn start(&self) -> io::Result<(Option<SocketAddr>, Option<SocketAddr>)> {
        let settings = &self.state.settings;
        let grpc_tls = Tls::new(settings, b"h2").map_err(io::Error::other)?;
        let http_tls = if settings.tls_http { Tls::new(settings, b"http/1.1") } else { Ok(None) };
        let http_tls = http_tls.map_err(io::Error::other)?;
        let grpc = settings.grpc.as_deref().map(listen_on).transpose()?;
        let http = settings.http.as_deref().map(listen_on).transpose()?;
        let unix = settings.grpc_socket.as_deref().map(SocketFile::new).transpose()?;
        let addresses = (
            grpc.as_ref().map(StdListener::local_addr).transpose()?,
            http.as_ref().map(StdListener::local_addr).transpose()?,
        );
        self.accept(grpc, TcpListener::from_std, Protocol::Grpc, grpc_tls.clone())?;
        self.accept(http, TcpListener::from_std, Protocol::Http, http_tls)?;
        if let Some((socket, file)) = unix {
            *self.socket_file.lock() = Some(file);
            self.accept(Some(socket), UnixListener::from_std, Protocol::LocalGrpc, grpc_tls)?;
        }
        Ok(addresses)
    }

    fn accept<S, L: Listen>(
        &self,
        socket: Option<S>,
        listen: impl FnOnce(S) -> io::Result<L>,
        protocol: Protocol,
        tls: Option<Arc<Tls>>,
    ) -> io::Result<()> {
        let Some(socket) = socket else { return Ok(()) };
        self.with_runtime(|runtime| {
            let _inside = runtime.enter();
            let (state, events) = (Arc::clone(&self.state), Arc::clone(&self.events));
            let with = Listening { protocol, tls, state, events, stop: self.stop.subscribe() };
            runtime.spawn(listener::serve(listen(socket)?, with));
            Ok(())
        })
    }

    fn with_runtime<T>(&self, act: impl FnOnce(&Runtime) -> io::Result<T>) -> io::Result<T> {
        act(self.runtime.lock().as_ref().ok_or_else(closed)?)
    }

    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A version that no request reaches yet; returns its handle.
    pub fn add_version(&self, model: &str, number: i64, batching: BatchSettings) -> u64 {
        let handle = self.next_id();
        let telemetry = Arc::clone(&self.state.telemetry);
        let version = Version::new(model, number, batching, telemetry, Arc::new(SystemClock));
        self.versions.lock().insert(handle, version);
        handle
    }

    fn version(&self, handle: u64) -> io::Result<Arc<Version>> {
        let found = self.versions.lock().get(&handle).cloned();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no version with handle {handle}")))
    }

    /// A channel for one more worker: its id, and the descriptor that the worker inherits.
    pub fn attach_worker(&self, handle: u64) -> io::Result<(u64, OwnedFd)> {
        let version = self.version(handle)?;
        let (ours, theirs) = channel::pair()?;
        let worker = self.next_id();
        let detach = Arc::new(Notify::new());
        self.workers.lock().insert(worker, Arc::clone(&detach));
        let around = driver::Surroundings {
            worker,
            events: Arc::clone(&self.events),
            telemetry: Arc::clone(&self.state.telemetry),
            detach,
        };
        self.with_runtime(|runtime| {
            runtime.spawn(driver::drive(ours, version, around));
            Ok(())
        })?;
        Ok((worker, theirs))
    }

    /// Gives a worker up; unknown ids are ignored.
    pub fn detach_worker(&self, worker: u64) {
        if let Some(detach) = self.workers.lock().remove(&worker) {
            detach.notify_one();
        }
    }

    /// Gives a version its signatures; those that a second worker brings change nothing.
    pub fn describe(&self, handle: u64, signatures: Vec<Signature>) -> io::Result<()> {
        self.version(handle)?.describe(signatures);
        Ok(())
    }

    /// Takes note that a version was loaded from this path, or was not, and how long that took.
    pub fn note_load(&self, handle: u64, path: &str, succeeded: bool, took: Duration) -> io::Result<()> {
        let version = self.version(handle)?;
        self.state.telemetry.loaded((&version.model, version.number), path, succeeded, took);
        Ok(())
    }

    /// Routes requests to a described version.
    pub fn publish(&self, handle: u64) -> io::Result<()> {
        let version = self.version(handle)?;
        if !version.is_described() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a version must be described before it is published",
            ));
        }
        self.state.routes.publish(version);
        Ok(())
    }

    /// Stops routing to a version; an event tells when its last request has been answered.
    pub fn retire(&self, handle: u64) -> io::Result<()> {
        let version = self.version(handle)?;
        self.versions.lock().remove(&handle);
        self.state.routes.withdraw(&version);
        version.retire();
        self.retiring.lock().insert(handle, Arc::clone(&version));
        let (events, retiring) = (Arc::clone(&self.events), Arc::clone(&self.retiring));
        self.with_runtime(|runtime| {
            runtime.spawn(async move {
                version.closed().await;
                retiring.lock().remove(&handle);
                events.push(Event::Retired(handle));
            });
            Ok(())
        })
    }

    /// What status calls answer.
    pub fn set_status(&self, model: &str, statuses: Vec<Status>) {
        self.state.telemetry.version_states(model, statuses.iter().map(|status| (status.version, status.state)));
        self.state.routes.set_status(model, statuses);
    }

    /// Replaces the labels of a model's versions.
    pub fn set_labels(&self, model: &str, labels: Labels) {
        self.state.routes.set_labels(model, labels);
    }

    /// Answers a call that came as an event.
    pub fn reply(&self, call: u64, outcome: Result<String>) {
        self.state.calls.reply(call, outcome);
    }

    /// What readiness answers.
    pub fn set_ready(&self, ready: bool) {
        self.state.ready.send_replace(ready);
    }

    /// What has happened; waits up to `timeout` for a first event.
    pub fn pull_events(&self, timeout: Duration) -> Vec<Event> {
        let events = self.events.pull(timeout);
        for event in &events {
            if let Event::WorkerLost(worker, _) | Event::WorkerFailed(worker, _) | Event::WorkerClosed(worker) = event {
                self.workers.lock().remove(worker);
            }
        }
        events
    }

    /// Every metric in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.state.telemetry.text()
    }

    /// What is held now, as JSON: all zero when nothing is under way.
    pub fn debug_state(&self) -> String {
        let mut versions: Vec<Arc<Version>> = self.versions.lock().values().cloned().collect();
        versions.extend(self.retiring.lock().values().cloned());
        let holdings: Holdings = versions.iter().map(|version| version.holdings()).sum();
        json!({
            "queued_rows": holdings.rows,
            "queued_bytes": holdings.bytes,
            "queues": holdings.queues,
            "reruns": holdings.again,
            "batches": holdings.running,
            "leases": holdings.leases,
            "requests": self.state.requests(),
            "body_bytes": self.state.held_bytes(),
            "connections": self.state.connections(),
            "workers": self.workers.lock().len(),
        })
        .to_string()
    }

    /// Stops accepting and waits for the requests under way; true when all have ended in time.
    ///
    /// A client may send on until it has read that its connection ends, and what it sends until then is answered.
    pub fn drain(&self, timeout: Duration) -> bool {
        self.stop.send_replace(true);
        let now = Instant::now();
        let (until, parted) = (now + timeout, *self.stopping.get_or_init(|| now) + PARTING);
        while self.state.requests() > 0 || (self.state.connections() > 0 && Instant::now() < parted) {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(DRAIN_LOOK);
        }
        true
    }

    /// Ends every task, thread and socket.
    pub fn close(&self) {
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        *self.socket_file.lock() = None;
        self.versions.lock().clear();
        self.retiring.lock().clear();
        self.workers.lock().clear();
        self.events.wake();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}
