//! Bodies in and out: read within bounds of size and time, written as the chunks they are made of.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use smallvec::SmallVec;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::state::{RequestTicket, State};
use crate::error::{Code, Error, Reason, Result};

/// Where a request body comes from, chunk by chunk.
pub trait Source {
    /// The next chunk, or what cut the body short.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, String>>> + Send;

    /// Whether all has come; may be false at the end too.
    fn ended(&self) -> bool;

    /// Bytes that will come, as far as the client has said.
    fn announced(&self) -> u64 {
        0
    }
}

impl Source for Incoming {
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        loop {
            match self.frame().await? {
                Err(error) => return Some(Err(error.to_string())),
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    Err(_trailers) => {}
                },
            }
        }
    }

    fn ended(&self) -> bool {
        self.is_end_stream()
    }

    fn announced(&self) -> u64 {
        self.size_hint().lower()
    }
}

/// Reads a whole request body. A body that came in one piece is not copied.
pub async fn read(state: &State, ticket: &mut RequestTicket, body: impl Source) -> Result<Bytes> {
    let limit = state.client_timeout();
    match timeout(limit, collect(state.settings.max_message_bytes, ticket, body)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::new(
            Code::DeadlineExceeded,
            Reason::Deadline,
            format!("the request was not sent within client_timeout_s = {}", state.settings.client_timeout_s),
        )),
    }
}

async fn collect(most: usize, ticket: &mut RequestTicket, mut body: impl Source) -> Result<Bytes> {
    let announced = body.announced();
    if announced > most as u64 {
        return Err(too_large(announced, most));
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut total = 0;
    while !body.ended() {
        let Some(chunk) = body.next().await else { break };
        let chunk = chunk.map_err(|error| {
            Error::new(Code::Cancelled, Reason::Cancelled, format!("the request body ended early: {error}"))
        })?;
        total += chunk.len();
        if total > most {
            return Err(too_large(total as u64, most));
        }
        ticket.hold(chunk.len())?;
        if total == chunk.len() {
            first = chunk;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&chunk);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn too_large(bytes: u64, most: usize) -> Error {
    let message = format!("the request has {bytes} bytes or more; max_message_bytes is {most}");
    Error::new(Code::ResourceExhausted, Reason::TooLarge, message)
}

/// A response body, and the trailers after it.
pub struct Answer {
    pub content: Content,
    pub trailers: Option<HeaderMap>,
}

/// What a response body is made of.
pub enum Content {
    /// The chunks of one message.
    Chunks(SmallVec<[Bytes; 1]>),
    /// Messages as they come.
    Stream(mpsc::Receiver<Bytes>),
}

impl Answer {
    pub fn empty() -> Self {
        Self::chunks(SmallVec::new(), None)
    }

    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::chunks(smallvec::smallvec![bytes.into()], None)
    }

    pub fn chunks(chunks: SmallVec<[Bytes; 1]>, trailers: Option<HeaderMap>) -> Self {
        Self { content: Content::Chunks(chunks), trailers }
    }

    pub fn stream(messages: mpsc::Receiver<Bytes>, trailers: HeaderMap) -> Self {
        Self { content: Content::Stream(messages), trailers: Some(trailers) }
    }

    /// Bytes of an answer that has them all.
    pub fn byte_len(&self) -> usize {
        match &self.content {
            Content::Chunks(chunks) => chunks.iter().map(Bytes::len).sum(),
            Content::Stream(_) => 0,
        }
    }

    /// The bytes of an answer that has them all.
    pub fn into_bytes(self) -> Bytes {
        let Content::Chunks(mut chunks) = self.content else { return Bytes::new() };
        match chunks.len() {
            0 | 1 => chunks.pop().unwrap_or_default(),
            _ => chunks.concat().into(),
        }
    }
}

/// The chunks of an answer on their way to an HTTP/1 client.
pub struct Sent {
    chunks: smallvec::IntoIter<[Bytes; 1]>,
    left: u64,
}

impl From<Answer> for Sent {
    fn from(answer: Answer) -> Self {
        let Content::Chunks(chunks) = answer.content else { return Answer::empty().into() };
        Self { left: chunks.iter().map(|chunk| chunk.len() as u64).sum(), chunks: chunks.into_iter() }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.find(|chunk| !chunk.is_empty());
        self.left -= chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
