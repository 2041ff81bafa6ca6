//! Accepts connections and keeps each within its bounds until it ends.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::body::{Answer, Outstanding};
use super::state::{ConnectionTicket, State};
use super::{grpc, rest};
use crate::events::{Event, Events};

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2, for gRPC.
    Grpc,
    /// HTTP/1.1, for REST.
    Http,
}

/// How long an idle HTTP/2 connection goes without a ping, and how long its answer may take.
const PING: Duration = Duration::from_secs(60);
const PING_ANSWER: Duration = Duration::from_secs(20);
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
    let io = WatchedIo { stream: TokioIo::new(stream), watched: Arc::clone(&watched) };
    let patience = state.client_timeout();
    let serving = async {
        match protocol {
            Protocol::Grpc => serve_http2(io, state, &watched, stop).await,
            Protocol::Http => serve_http1(io, state, &watched, stop).await,
        }
    };
    tokio::select! {
        () = serving => {}
        () = stalled(&watched, patience) => {}
    }
}

async fn serve_http2(io: WatchedIo, state: Arc<State>, watched: &Arc<Watched>, mut stop: watch::Receiver<bool>) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_ANSWER)
        .max_concurrent_streams(state.settings.max_concurrent_streams)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_frame_size(1 << 20);
    let (calls, outstanding) = (Arc::clone(&state), Arc::clone(&watched.outstanding));
    let service = service_fn(move |request| guarded(Arc::clone(&calls), Arc::clone(&outstanding), request, grpc::call));
    let mut connection = pin!(builder.serve_connection(io, service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn serve_http1(io: WatchedIo, state: Arc<State>, watched: &Arc<Watched>, mut stop: watch::Receiver<bool>) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(state.client_timeout())
        .max_buf_size(MOST_HEADER_BYTES)
        .pipeline_flush(true);
    let (calls, outstanding) = (Arc::clone(&state), Arc::clone(&watched.outstanding));
    let service = service_fn(move |request| guarded(Arc::clone(&calls), Arc::clone(&outstanding), request, rest::call));
    let mut connection = pin!(builder.serve_connection(io, service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Answers one request; a panic costs that request its answer and nothing else.
async fn guarded<F>(
    state: Arc<State>,
    outstanding: Arc<Outstanding>,
    request: Request<Incoming>,
    call: fn(Arc<State>, Request<Incoming>) -> F,
) -> Result<Response<Answer>, Infallible>
where
    F: Future<Output = Response<Answer>>,
{
    let grpc = request.version() == http::Version::HTTP_2;
    let mut answering = pin!(call(Arc::clone(&state), request));
    let caught =
        std::future::poll_fn(|cx| match std::panic::catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        });
    let response = caught.await.unwrap_or_else(|| {
        state.telemetry.panics.inc();
        let error = crate::error::Error::internal("the server failed while it answered this request");
        if grpc { grpc::refusal(&error) } else { rest::refusal(&error) }
    });
    Ok(response.map(|answer| answer.watched(&outstanding)))
}

/// What is known of a connection's progress.
#[derive(Debug, Default)]
struct Watched {
    outstanding: Arc<Outstanding>,
    /// Whether bytes wait for the client to take them.
    blocked: AtomicBool,
    /// Whether the client has ever sent anything.
    spoke: AtomicBool,
}

/// Ends when a client has not taken its answers, or has not said a word, for a whole `patience`.
async fn stalled(watched: &Watched, patience: Duration) {
    let mut before = None;
    loop {
        tokio::time::sleep(patience).await;
        let waiting = watched.blocked.load(Ordering::Relaxed)
            || watched.outstanding.answers.load(Ordering::Relaxed) > 0
            || !watched.spoke.load(Ordering::Relaxed);
        let progress = waiting.then(|| watched.outstanding.progress.load(Ordering::Relaxed));
        if progress.is_some() && progress == before {
            return;
        }
        before = progress;
    }
}

/// A stream that notes whether it moves.
struct WatchedIo {
    stream: TokioIo<TcpStream>,
    watched: Arc<Watched>,
}

impl WatchedIo {
    fn note<T>(&self, poll: &Poll<T>) {
        match poll {
            Poll::Pending => self.watched.blocked.store(true, Ordering::Relaxed),
            Poll::Ready(_) => {
                self.watched.outstanding.progress.fetch_add(1, Ordering::Relaxed);
                self.watched.blocked.store(false, Ordering::Relaxed);
            }
        }
    }
}

impl Read for WatchedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if poll.is_ready() {
            self.watched.spoke.store(true, Ordering::Relaxed);
        }
        poll
    }
}

impl Write for WatchedIo {
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
