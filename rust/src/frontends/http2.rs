//! HTTP/2 connections of gRPC clients, on the protocol's own crate.
//!
//! All calls of a connection live in its one task: a call costs no task of its own, and its answer no hand-over. That
//! is a third of the processor time of a small request (docs/decisions/0004).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use futures_util::stream::{FuturesUnordered, StreamExt};
use h2::server::{Builder, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::body::{Answer, Content, Source};
use super::grpc;
use super::state::State;
use crate::error::Error;

/// How long a connection goes without a ping, and how long the answer to one may take.
const PING: Duration = Duration::from_secs(60);
const PING_ANSWER: Duration = Duration::from_secs(20);
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Clients with large tensors may send them in few frames.
const LARGEST_FRAME: u32 = 1 << 20;
const MOST_HEADER_BYTES: u32 = 16 * 1024;

impl Source for RecvStream {
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        let chunk = match self.data().await? {
            Ok(chunk) => chunk,
            Err(error) => return Some(Err(error.to_string())),
        };
        // The bytes are accounted for elsewhere; the client may send as many again.
        let _ = self.flow_control().release_capacity(chunk.len());
        Some(Ok(chunk))
    }

    fn ended(&self) -> bool {
        self.is_end_stream()
    }
}

/// Serves one connection until it ends, or is told to stop and has answered what it has begun.
pub async fn serve<I>(io: I, state: Arc<State>, mut stop: watch::Receiver<bool>)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(state.settings.max_concurrent_streams)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(LARGEST_FRAME)
        .max_header_list_size(MOST_HEADER_BYTES);
    let Ok(Ok(mut connection)) = timeout(state.client_timeout(), builder.handshake(io)).await else { return };
    let mut alive = pin!(keep_alive(connection.ping_pong()));
    let mut calls = FuturesUnordered::new();
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            Some(()) = calls.next() => {}
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => calls.push(answer(Arc::clone(&state), request, respond)),
                Some(Err(_)) | None => return,
            },
            _ = stop.wait_for(|stop| *stop), if !stopping => {
                stopping = true;
                connection.graceful_shutdown();
            }
            () = &mut alive => return,
        }
    }
}

/// Ends when the client no longer answers pings.
async fn keep_alive(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(PING).await;
        match timeout(PING_ANSWER, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            _ => return,
        }
    }
}

/// Answers one request, unless its client goes first.
async fn answer(state: Arc<State>, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let patience = state.client_timeout();
    let response = {
        let call = pin!(super::guarded(&state, grpc::call(Arc::clone(&state), request)));
        let gone = pin!(std::future::poll_fn(|cx| respond.poll_reset(cx)));
        match futures_util::future::select(call, gone).await {
            Either::Left((response, _)) => response,
            Either::Right(_) => return,
        }
    };
    let response = response.unwrap_or_else(|| grpc::refusal(&Error::internal(super::PANICKED)));
    let _ = send(response, respond, patience).await;
}

async fn send(
    response: Response<Answer>,
    mut respond: SendResponse<Bytes>,
    patience: Duration,
) -> Result<(), h2::Error> {
    let (head, answer) = response.into_parts();
    let Answer { content, trailers } = answer;
    let head = Response::from_parts(head, ());
    let empty = matches!(&content, Content::Chunks(chunks) if chunks.is_empty());
    if empty && trailers.is_none() {
        respond.send_response(head, true)?;
        return Ok(());
    }
    let mut stream = respond.send_response(head, false)?;
    let last = trailers.is_none();
    match content {
        Content::Chunks(chunks) => {
            let count = chunks.len();
            for (index, chunk) in chunks.into_iter().enumerate() {
                send_chunk(&mut stream, chunk, last && index + 1 == count, patience).await?;
            }
        }
        Content::Stream(mut messages) => {
            while let Some(message) = messages.recv().await {
                send_chunk(&mut stream, message, false, patience).await?;
            }
        }
    }
    match trailers {
        Some(trailers) => stream.send_trailers(trailers),
        None => Ok(()),
    }
}

/// Sends a chunk as the client's window allows; one that takes nothing for `patience` is given up.
async fn send_chunk(
    stream: &mut SendStream<Bytes>,
    mut chunk: Bytes,
    last: bool,
    patience: Duration,
) -> Result<(), h2::Error> {
    loop {
        stream.reserve_capacity(chunk.len());
        let mut room = stream.capacity();
        if room == 0 && !chunk.is_empty() {
            let more = timeout(patience, std::future::poll_fn(|cx| stream.poll_capacity(cx))).await;
            room = match more {
                Ok(Some(room)) => room?,
                Ok(None) => return Err(Reason::CANCEL.into()),
                Err(_) => {
                    stream.send_reset(Reason::CANCEL);
                    return Err(Reason::CANCEL.into());
                }
            };
        }
        if room >= chunk.len() {
            return stream.send_data(chunk, last);
        }
        stream.send_data(chunk.split_to(room), false)?;
    }
}
