//! Connections: making them, sharing them, making them again.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::target::{Protocol, Target};
use super::{CallError, CallResult};

pub(super) type Body = Full<Bytes>;

/// Takes requests for one connection.
pub(super) enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Sender {
    pub(super) async fn send(&mut self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        match self {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => sender.send_request(request).await,
        }
    }

    /// Whether a request given up half-way leaves the connection usable for the next.
    pub(super) fn survives_cancellation(&self) -> bool {
        matches!(self, Sender::Http2(_))
    }
}

/// Opens one connection. Its task ends when the last sender is gone.
pub(super) async fn connect(target: &Target) -> CallResult<Sender> {
    let failed = |error: &dyn std::fmt::Display| {
        CallError::Transport(format!("cannot connect to {}: {error}; is the server running?", target.authority))
    };
    let stream = TcpStream::connect(&target.authority).await.map_err(|error| failed(&error))?;
    stream.set_nodelay(true).map_err(|error| failed(&error))?;
    let io = TokioIo::new(stream);
    match target.protocol {
        Protocol::Http => {
            let (sender, connection) = http1::handshake(io).await.map_err(|error| failed(&error))?;
            tokio::spawn(connection);
            Ok(Sender::Http1(sender))
        }
        Protocol::Grpc => {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), io).await.map_err(|error| failed(&error))?;
            tokio::spawn(connection);
            Ok(Sender::Http2(sender))
        }
    }
}

/// A connection that several clients use, and open again when it is lost.
pub(super) struct Link {
    target: Target,
    shared: Mutex<Option<http2::SendRequest<Body>>>,
}

impl Link {
    pub(super) fn new(target: Target) -> Self {
        Self { target, shared: Mutex::new(None) }
    }

    /// A sender: for HTTP/2 the common one while it lives, for HTTP/1.1 always one's own.
    pub(super) async fn sender(&self) -> CallResult<Sender> {
        if self.target.protocol == Protocol::Http {
            return connect(&self.target).await;
        }
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(Sender::Http2(sender.clone()));
        }
        let sender = connect(&self.target).await?;
        if let Sender::Http2(sender) = &sender {
            *shared = Some(sender.clone());
        }
        Ok(sender)
    }
}
