//! A connection for a single call.

use std::error::Error;
use std::future::poll_fn;

use bytes::Bytes;
use h2::client as http2;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::target::{Protocol, Target};
use super::tls::Tls;
use super::{CallError, CallResult};

/// Flow-control windows of a stream and of its connection: an answer shall not wait for us to allow it.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 1 << 26;

/// Largest answer that is taken.
pub(super) const MAX_ANSWER: usize = 1 << 30;

/// Why an exchange came to no end.
pub(super) type Lost = Box<dyn Error + Send + Sync>;

/// A whole answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) chunks: SmallVec<[Bytes; 1]>,
    pub(super) trailers: Option<HeaderMap>,
    length: usize,
}

impl Answer {
    fn new(head: http::response::Parts) -> Self {
        Self { status: head.status, headers: head.headers, ..Self::default() }
    }

    fn add(&mut self, chunk: Bytes) -> Result<(), Lost> {
        self.length += chunk.len();
        if self.length > MAX_ANSWER {
            return Err(format!("the answer is larger than {MAX_ANSWER} bytes").into());
        }
        self.chunks.push(chunk);
        Ok(())
    }

    /// The body in one piece.
    pub(super) fn body(&self) -> Bytes {
        match &self.chunks[..] {
            [one] => one.clone(),
            several => several.concat().into(),
        }
    }
}

/// Takes requests for one connection.
pub(super) enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Bytes>),
}

impl Sender {
    /// Sends a request and reads its answer to the end.
    pub(super) async fn exchange(&mut self, request: Request<Bytes>) -> Result<Answer, Lost> {
        match self {
            Sender::Http1(sender) => exchange_http1(sender, request).await,
            Sender::Http2(sender) => exchange_http2(sender, request).await,
        }
    }
}

async fn exchange_http1(sender: &mut http1::SendRequest<Full<Bytes>>, request: Request<Bytes>) -> Result<Answer, Lost> {
    sender.ready().await?;
    let (head, mut body) = sender.send_request(request.map(Full::new)).await?.into_parts();
    let mut answer = Answer::new(head);
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame?.into_data() {
            answer.add(chunk)?;
        }
    }
    Ok(answer)
}

async fn exchange_http2(sender: &mut http2::SendRequest<Bytes>, request: Request<Bytes>) -> Result<Answer, Lost> {
    poll_fn(|context| sender.poll_ready(context)).await?;
    let (head, message) = request.into_parts();
    let (response, mut sending) = sender.send_request(Request::from_parts(head, ()), false)?;
    sending.send_data(message, true)?;
    let (head, mut body) = response.await?.into_parts();
    let mut answer = Answer::new(head);
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        answer.add(chunk)?;
    }
    answer.trailers = body.trailers().await?;
    Ok(answer)
}

/// Opens one connection. Its task ends when the last sender is gone.
pub(super) async fn connect(target: &Target) -> CallResult<Sender> {
    let tls = Tls::new(target)?;
    let made: Result<Sender, Lost> = async {
        let stream = TcpStream::connect(&target.authority).await?;
        stream.set_nodelay(true)?;
        match tls {
            None => handshake(target.protocol, stream).await,
            Some(tls) => {
                let stream = TlsConnector::from(tls.config).connect(tls.name, stream).await?;
                handshake(target.protocol, stream).await
            }
        }
    }
    .await;
    made.map_err(|why| {
        CallError::Transport(format!("cannot connect to {}: {why}; is the server running?", target.authority))
    })
}

/// What a connection runs over.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

async fn handshake(protocol: Protocol, stream: impl Stream) -> Result<Sender, Lost> {
    match protocol {
        Protocol::Http => connect_http1(stream).await,
        Protocol::Grpc => connect_http2(stream).await,
    }
}

async fn connect_http1(stream: impl Stream) -> Result<Sender, Lost> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(Sender::Http1(sender))
}

async fn connect_http2(stream: impl Stream) -> Result<Sender, Lost> {
    let mut builder = http2::Builder::new();
    builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW).enable_push(false);
    let (requests, connection) = builder.handshake(stream).await?;
    tokio::spawn(connection);
    Ok(Sender::Http2(requests))
}
