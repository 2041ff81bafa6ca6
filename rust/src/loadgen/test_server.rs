//! A tiny server for the tests of this folder, in threads of its own.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use super::target::Protocol;
use crate::frontends::tfs::wire::{Elements, Frame, Spec, decode_request, encode_response};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Answers with what came.
    Echo,
    /// Answers a PredictRequest with its inputs as outputs.
    Predict,
    Refuse,
    Silent,
    /// Drops the first connection at its first request, and echoes after that.
    HangUpOnce,
}

struct State {
    protocol: Protocol,
    behaviour: Behaviour,
    requests: AtomicU64,
    connections: AtomicUsize,
    bodies: Mutex<HashSet<Bytes>>,
}

pub(super) struct TestServer {
    address: SocketAddr,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

impl TestServer {
    pub(super) fn start(protocol: Protocol, behaviour: Behaviour) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            protocol,
            behaviour,
            requests: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            bodies: Mutex::default(),
        });
        runtime.spawn(accept(listener, state.clone()));
        Self { address, state, runtime: Some(runtime) }
    }

    pub(super) fn target(&self) -> String {
        let scheme = if self.state.protocol == Protocol::Grpc { "grpc" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// An address where nobody listens.
    pub(super) fn unused_target() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("grpc://{}", listener.local_addr().unwrap())
    }

    pub(super) fn requests(&self) -> u64 {
        self.state.requests.load(SeqCst)
    }

    pub(super) fn connections(&self) -> usize {
        self.state.connections.load(SeqCst)
    }

    pub(super) fn distinct_bodies(&self) -> usize {
        self.state.bodies.lock().len()
    }

    pub(super) fn wait_for_requests(&self, count: u64) {
        while self.requests() < count {
            std::thread::yield_now();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let index = state.connections.fetch_add(1, SeqCst);
        let state = state.clone();
        tokio::spawn(async move {
            let io = TokioIo::new(stream);
            let service = service_fn(|request| answer(request, state.clone(), index));
            // How a connection ends is the client's business.
            let _ = match state.protocol {
                Protocol::Http => http1::Builder::new().serve_connection(io, service).await,
                Protocol::Grpc => http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await,
            };
        });
    }
}

type Reply = Response<BoxBody<Bytes, Infallible>>;

async fn answer(request: Request<Incoming>, state: Arc<State>, connection: usize) -> Result<Reply, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    state.requests.fetch_add(1, SeqCst);
    state.bodies.lock().insert(body.clone());
    match state.behaviour {
        Behaviour::Silent => std::future::pending().await,
        Behaviour::Refuse => Ok(refuse(state.protocol)),
        Behaviour::HangUpOnce if connection == 0 => panic!("hanging up, as asked"),
        Behaviour::Predict => Ok(reply(state.protocol, predict(&body))),
        Behaviour::Echo | Behaviour::HangUpOnce => Ok(reply(state.protocol, body)),
    }
}

fn reply(protocol: Protocol, body: Bytes) -> Reply {
    if protocol == Protocol::Http {
        return Response::new(Full::new(body).boxed());
    }
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
    Response::new(Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers)))).boxed())
}

fn refuse(protocol: Protocol) -> Reply {
    let builder = Response::builder();
    let (builder, body) = match protocol {
        Protocol::Http => (builder.status(503), "not now"),
        Protocol::Grpc => (builder.header("grpc-status", "14").header("grpc-message", "not now, sp%C3%A4ter"), ""),
    };
    builder.body(Full::new(Bytes::from_static(body.as_bytes())).boxed()).unwrap()
}

fn predict(body: &Bytes) -> Bytes {
    let request = decode_request(&body.slice(5..), 1 << 20).unwrap();
    let outputs: Vec<_> = request.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let spec = Spec { name: &request.model.name, version: request.model.version, ..Spec::default() };
    encode_response(&spec, &outputs, Elements::Typed, Frame::Grpc).unwrap().concat().into()
}
