//! Accepts connections and keeps each within its bounds until it ends.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::body::Sent;
use super::state::{ConnectionTicket, State};
use super::{http2, rest};
use crate::error::Error;
use crate::events::{Event, Events};

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2, for gRPC.
    Grpc,
    /// HTTP/1.1, for REST.
    Http,
}

/// Rest after a failed accept: it is out of descriptors, and trying again at once would only burn CPU.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// Most header bytes of one HTTP/1 request.
const MOST_HEADER_BYTES: usize = 64 * 1024;

/// Accepts until told to stop, then lets the connections end what they have begun.
pub async fn serve(
    listener: TcpListener,
    protocol: Protocol,
    state: Arc<State>,
    events: Arc<Events>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                // Over the bound the stream is dropped here, which closes it.
                let Some(ticket) = state.connect() else { continue };
                tokio::spawn(connection(stream, protocol, Arc::clone(&state), stop.clone(), ticket));
            }
            Err(error) => {
                events.push(Event::Log(30, format!("cannot accept a connection: {error}")));
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    protocol: Protocol,
    state: Arc<State>,
    stop: watch::Receiver<bool>,
    _ticket: ConnectionTicket,
) {
    let _ = stream.set_nodelay(true);
    let watched = Arc::new(Watched::default());
    let io = WatchedIo { stream, watched: Arc::clone(&watched) };
    let patience = state.client_timeout();
    let serving = async {
        match protocol {
            Protocol::Grpc => http2::serve(io, state, stop).await,
            Protocol::Http => serve_http1(io, state, stop).await,
        }
    };
    tokio::select! {
        () = serving => {}
        () = stalled(&watched, patience) => {}
    }
}

async fn serve_http1(io: WatchedIo, state: Arc<State>, mut stop: watch::Receiver<bool>) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(state.client_timeout())
        .max_buf_size(MOST_HEADER_BYTES)
        .pipeline_flush(true);
    let service = service_fn(move |request| answer(Arc::clone(&state), request));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Sent>, Infallible> {
    let response = super::guarded(&state, rest::call(Arc::clone(&state), request)).await;
    let response = response.unwrap_or_else(|| rest::refusal(&Error::internal(super::PANICKED)));
    Ok(response.map(Sent::from))
}

/// What is known of a connection's progress.
#[derive(Debug, Default)]
struct Watched {
    /// Moves whenever the client takes bytes.
    progress: AtomicUsize,
    /// Whether bytes wait for the client to take them.
    blocked: AtomicBool,
    /// Whether the client has ever sent anything.
    spoke: AtomicBool,
}

/// Ends when a client has not taken its answers, or has not said a word, for one `patience` at least and two at most.
async fn stalled(watched: &Watched, patience: Duration) {
    let mut before = None;
    loop {
        tokio::time::sleep(patience).await;
        let waiting = watched.blocked.load(Ordering::Relaxed) || !watched.spoke.load(Ordering::Relaxed);
        let progress = waiting.then(|| watched.progress.load(Ordering::Relaxed));
        if progress.is_some() && progress == before {
            return;
        }
        before = progress;
    }
}

/// A stream that notes whether it moves.
struct WatchedIo {
    stream: TcpStream,
    watched: Arc<Watched>,
}

impl WatchedIo {
    fn note<T>(&self, poll: &Poll<T>) {
        if poll.is_ready() {
            self.watched.progress.fetch_add(1, Ordering::Relaxed);
        }
        self.watched.blocked.store(poll.is_pending(), Ordering::Relaxed);
    }
}

impl AsyncRead for WatchedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if poll.is_ready() {
            self.watched.spoke.store(true, Ordering::Relaxed);
        }
        poll
    }
}

impl AsyncWrite for WatchedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(&poll);
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.note(&poll);
        poll
    }
}
