//! What every frontend of one server shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;

use super::recorder::Recorder;
use crate::calls::Calls;
use crate::config::{ServerSettings, seconds};
use crate::error::{Code, Error, Reason, Result};
use crate::routes::Routes;
use crate::telemetry::Telemetry;

/// The owner of what is counted over all connections.
pub struct State {
    pub settings: ServerSettings,
    pub routes: Routes,
    pub telemetry: Arc<Telemetry>,
    pub calls: Calls,
    pub recorder: Recorder,
    /// What readiness answers; watched by health streams.
    pub ready: watch::Sender<bool>,
    held_bytes: AtomicUsize,
    requests: AtomicUsize,
    connections: AtomicUsize,
}

impl State {
    pub fn new(settings: ServerSettings, telemetry: Arc<Telemetry>, calls: Calls) -> Arc<Self> {
        Arc::new(Self {
            settings,
            routes: Routes::default(),
            telemetry,
            calls,
            recorder: Recorder::default(),
            ready: watch::Sender::new(false),
            held_bytes: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        })
    }

    /// Requests under way.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes of request bodies in memory.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Time that a client has to send a whole request, and to take a whole answer.
    pub fn client_timeout(&self) -> Duration {
        seconds(self.settings.client_timeout_s)
    }

    /// The deadline of a request: the client's own, or the server's default.
    pub fn deadline(&self, arrived: Instant, asked: Option<Duration>) -> Option<Instant> {
        deadline(arrived, asked, self.settings.default_timeout_s)
    }

    /// The same over REST, where the default may differ.
    pub fn rest_deadline(&self, arrived: Instant, asked: Option<Duration>) -> Option<Instant> {
        deadline(arrived, asked, self.settings.rest_timeout_s.unwrap_or(self.settings.default_timeout_s))
    }

    /// Asks Python about the server itself, if this server lets its clients do so.
    pub async fn ask(&self, name: &str, model: Option<&str>, body: Value, deadline: Option<Instant>) -> Result<String> {
        if !self.settings.admin {
            let message = format!("{name}: this server takes no orders from clients (admin = false)");
            return Err(Error::new(Code::PermissionDenied, Reason::Unsupported, message));
        }
        self.calls.ask(name, model, body, deadline).await
    }

    /// Counts a connection for as long as the ticket lives; `None` when there are too many.
    pub fn connect(self: &Arc<Self>) -> Option<ConnectionTicket> {
        let ticket = ConnectionTicket(Arc::clone(self));
        self.telemetry.connected();
        if self.connections.fetch_add(1, Ordering::Relaxed) < self.settings.max_connections {
            return Some(ticket);
        }
        self.telemetry.connection_refused();
        None
    }

    /// Counts a request, and the bytes of its body, for as long as the ticket lives.
    pub fn admit(self: &Arc<Self>) -> RequestTicket {
        self.requests.fetch_add(1, Ordering::Relaxed);
        RequestTicket { state: Arc::clone(self), bytes: 0 }
    }
}

/// Seconds of 0 mean that there is no limit unless the client asks for one.
fn deadline(arrived: Instant, asked: Option<Duration>, default_s: f64) -> Option<Instant> {
    let default = (default_s > 0.0).then(|| seconds(default_s));
    asked.or(default).and_then(|limit| arrived.checked_add(limit))
}

/// One open connection.
pub struct ConnectionTicket(Arc<State>);

impl Drop for ConnectionTicket {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.telemetry.disconnected();
    }
}

/// One request under way and the memory that its body takes.
pub struct RequestTicket {
    state: Arc<State>,
    bytes: usize,
}

impl RequestTicket {
    /// Accounts for more bytes of the body. Fails when all bodies together would take too much.
    pub fn hold(&mut self, bytes: usize) -> Result<()> {
        let held = self.state.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        let most = self.state.settings.max_body_bytes_held;
        // A first body may always pass, or a single large one could never be served.
        if held > 0 && held + bytes > most {
            let message = format!("the server holds {held} bytes of request bodies and max_body_bytes_held is {most}");
            let mut error = Error::new(Code::ResourceExhausted, Reason::QueueFull, message);
            error.retry_after = Some(Duration::from_secs(1));
            return Err(error);
        }
        Ok(())
    }
}

impl Drop for RequestTicket {
    fn drop(&mut self) {
        self.state.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.state.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
