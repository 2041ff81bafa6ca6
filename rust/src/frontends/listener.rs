//! Accepts connections and keeps each within its bounds until it ends.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

use super::body::Sent;
use super::local::LocalIo;
use super::state::{ConnectionTicket, State};
use super::tls::Tls;
use super::{http2, rest};
use crate::error::Error;
use crate::events::{Event, Events};

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2, for gRPC.
    Grpc,
    /// The same from clients on this machine, which call us by a path.
    LocalGrpc,
    /// HTTP/1.1, for REST.
    Http,
}

/// Rest after a failed accept: it is out of descriptors, and trying again at once would only burn CPU.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// Most header bytes of one HTTP/1 request.
const MOST_HEADER_BYTES: usize = 64 * 1024;

/// What a listener speaks, and with whom it shares it.
#[derive(Clone)]
pub struct Listening {
    pub protocol: Protocol,
    pub tls: Option<Arc<Tls>>,
    pub state: Arc<State>,
    pub events: Arc<Events>,
    pub stop: watch::Receiver<bool>,
}

/// Where connections come from. Each kind of stream has code of its own: nothing is looked up for a read.
pub trait Listen: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Listen for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

/// Accepts until told to stop, then lets the connections end what they have begun.
pub async fn serve(listener: impl Listen, mut with: Listening) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.next() => accepted,
            _ = with.stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok(stream) => {
                // Over the bound the stream is dropped here, which closes it.
                let Some(ticket) = with.state.connect() else { continue };
                match &with.tls {
                    None => tokio::spawn(connection(stream, with.clone(), ticket)),
                    Some(tls) => tokio::spawn(secured(stream, Arc::clone(tls), with.clone(), ticket)),
                };
            }
            Err(error) => {
                with.events.push(Event::Log(30, format!("cannot accept a connection: {error}")));
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

/// A connection that begins with a handshake, which has to be over within the time for a request.
async fn secured<S>(stream: S, tls: Arc<Tls>, with: Listening, ticket: ConnectionTicket)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (acceptor, trouble) = tls.acceptor(Instant::now());
    if let Some(trouble) = trouble {
        with.events.push(Event::Log(40, format!("{trouble}; the certificates from before go on")));
    }
    match tokio::time::timeout(with.state.client_timeout(), acceptor.accept(stream)).await {
        Ok(Ok(stream)) => connection(stream, with, ticket).await,
        Ok(Err(error)) => with.events.push(Event::Log(10, format!("a TLS handshake failed: {error}"))),
        Err(_) => {}
    }
}

async fn connection<S>(stream: S, with: Listening, _ticket: ConnectionTicket)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watched = Arc::new(Watched::default());
    let io = WatchedIo { stream, watched: Arc::clone(&watched) };
    let patience = with.state.client_timeout();
    let serving = async {
        match with.protocol {
            Protocol::LocalGrpc => http2::serve(LocalIo::new(io), with.state, with.stop).await,
            Protocol::Grpc => http2::serve(io, with.state, with.stop).await,
            Protocol::Http => serve_http1(io, with.state, with.stop).await,
        }
    };
    tokio::select! {
        () = serving => {}
        () = stalled(&watched, patience) => {}
    }
}

async fn serve_http1<I>(io: I, state: Arc<State>, mut stop: watch::Receiver<bool>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
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
struct WatchedIo<S> {
    stream: S,
    watched: Arc<Watched>,
}

impl<S> WatchedIo<S> {
    fn note<T>(&self, poll: &Poll<T>) {
        if poll.is_ready() {
            self.watched.progress.fetch_add(1, Ordering::Relaxed);
        }
        self.watched.blocked.store(poll.is_pending(), Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if poll.is_ready() {
            self.watched.spoke.store(true, Ordering::Relaxed);
        }
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedIo<S> {
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
