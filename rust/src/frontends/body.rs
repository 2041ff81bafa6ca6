//! Bodies in and out: read within bounds of size and time, written as the chunks they are made of.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Reads a whole request body. A body that came in one piece is not copied.
pub async fn read(state: &State, ticket: &mut RequestTicket, body: Incoming) -> Result<Bytes> {
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

async fn collect(most: usize, ticket: &mut RequestTicket, mut body: Incoming) -> Result<Bytes> {
    let announced = body.size_hint().lower();
    if announced > most as u64 {
        return Err(too_large(announced, most));
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Error::new(Code::Cancelled, Reason::Cancelled, format!("the request body ended early: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        total += data.len();
        if total > most {
            return Err(too_large(total as u64, most));
        }
        ticket.hold(data.len())?;
        if total == data.len() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(total.max(usize::try_from(announced).unwrap_or(0)));
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn too_large(bytes: u64, most: usize) -> Error {
    let message = format!("the request has {bytes} bytes or more; max_message_bytes is {most}");
    Error::new(Code::ResourceExhausted, Reason::TooLarge, message)
}

/// Answers of one connection that have been made and not yet taken.
#[derive(Debug, Default)]
pub struct Outstanding {
    pub answers: AtomicUsize,
    /// Moves whenever something of an answer is taken.
    pub progress: AtomicUsize,
}

/// A response body.
pub struct Answer {
    content: Content,
    outstanding: Option<Arc<Outstanding>>,
}

enum Content {
    /// The chunks of one message, then the trailers if there are any.
    Chunks(SmallVec<[Bytes; 1]>, usize, Option<HeaderMap>),
    /// Messages as they come; trailers when there will be no more.
    Stream(mpsc::Receiver<Bytes>, Option<HeaderMap>),
}

impl Answer {
    pub fn empty() -> Self {
        Self::chunks(SmallVec::new(), None)
    }

    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::chunks(smallvec::smallvec![bytes.into()], None)
    }

    pub fn chunks(chunks: SmallVec<[Bytes; 1]>, trailers: Option<HeaderMap>) -> Self {
        Self { content: Content::Chunks(chunks, 0, trailers), outstanding: None }
    }

    pub fn stream(messages: mpsc::Receiver<Bytes>, trailers: HeaderMap) -> Self {
        Self { content: Content::Stream(messages, Some(trailers)), outstanding: None }
    }

    /// Counts the answer as outstanding on its connection until it is taken or dropped. Streams are not counted: they
    /// are quiet by nature.
    pub fn watched(mut self, outstanding: &Arc<Outstanding>) -> Self {
        if matches!(self.content, Content::Chunks(..)) {
            outstanding.answers.fetch_add(1, Ordering::Relaxed);
            self.outstanding = Some(Arc::clone(outstanding));
        }
        self
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(outstanding) = &self.outstanding {
            outstanding.answers.fetch_sub(1, Ordering::Relaxed);
            outstanding.progress.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(outstanding) = &self.outstanding {
            outstanding.progress.fetch_add(1, Ordering::Relaxed);
        }
        let frame = match &mut self.content {
            Content::Chunks(chunks, next, trailers) => match chunks.get_mut(*next) {
                Some(chunk) => {
                    *next += 1;
                    Some(Frame::data(std::mem::take(chunk)))
                }
                None => trailers.take().map(Frame::trailers),
            },
            Content::Stream(messages, trailers) => match messages.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(message)) => Some(Frame::data(message)),
                Poll::Ready(None) => trailers.take().map(Frame::trailers),
            },
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Chunks(chunks, next, None) if *next >= chunks.len())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Chunks(chunks, next, None) => {
                SizeHint::with_exact(chunks[*next..].iter().map(|chunk| chunk.len() as u64).sum())
            }
            _ => SizeHint::default(),
        }
    }
}
