//! A server whose answers take known times, for tests of the load generator: what it reports is compared with what this
//! server did.
//!
//! It reads no request beyond its end and answers all alike: over HTTP/2 without TLS with an empty gRPC message and
//! status 0, over HTTP/1.1 with `{}`. One thread serves all connections; its timers count nanoseconds.

mod http1;
mod http2;
mod peer;
mod script;
mod serve;

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

pub use script::Script;

use crate::sockets::listen_on;

/// Answers beyond this number are given but not recorded: 128 MiB of memory.
const MAX_RECORDED: usize = 1 << 23;

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2 with prior knowledge.
    Grpc,
    /// HTTP/1.1.
    Http,
}

/// One answer: when the last byte of its request was read and when it was written, CLOCK_MONOTONIC in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    pub read: i64,
    pub written: i64,
}

/// A request that has ended and waits for its answer. Over HTTP/1.1 the stream is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    stream: u32,
    read: i64,
}

/// Bytes to send, and when the requests that they answer were read.
#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    reads: Vec<i64>,
}

/// What a client did that ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Broken(&'static str);

/// A server on a port of its own of the loopback address.
pub struct KnownServer {
    address: SocketAddr,
    record: Arc<Mutex<Vec<Answered>>>,
    wake: Arc<OwnedFd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl KnownServer {
    pub fn start(protocol: Protocol, script: Script) -> std::io::Result<Self> {
        let listener = listen_on("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let record = Arc::default();
        let mut serving = serve::Serve::new(listener, protocol, script, Arc::clone(&record), Arc::clone(&wake))?;
        let thread = std::thread::Builder::new().name("poise-known".into()).spawn(move || serving.run())?;
        Ok(Self { address, record, wake, thread: Mutex::new(Some(thread)) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All answers so far, in the order in which they were written.
    pub fn record(&self) -> Vec<Answered> {
        self.record.lock().clone()
    }

    /// Ends the thread and all connections. Idempotent.
    pub fn stop(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // The counter of a descriptor that nobody reads has room for this one addition.
            let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
            let _ = thread.join();
        }
    }
}

impl Drop for KnownServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for KnownServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownServer").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use http::HeaderMap;

    use super::*;
    use crate::loadgen::client::{PREDICT, call_grpc};
    use crate::loadgen::target::Target;

    fn start(protocol: Protocol, delays: &[i64]) -> KnownServer {
        KnownServer::start(protocol, Script::new(delays.to_vec(), Vec::new()).unwrap()).unwrap()
    }

    #[test]
    fn an_independent_client_gets_an_empty_grpc_message() {
        let server = start(Protocol::Grpc, &[2_000_000]);
        let target = Target::parse(&format!("grpc://{}", server.address())).unwrap();
        for body in [0, 100_000] {
            let answer =
                call_grpc(&target, PREDICT, &vec![0; body], &HeaderMap::new(), Duration::from_secs(5)).unwrap();
            assert!(answer.is_empty());
        }
        let record = server.record();
        assert_eq!(record.len(), 2);
        assert!(record.iter().all(|answered| answered.written - answered.read >= 2_000_000), "{record:?}");
    }

    #[test]
    fn http_requests_share_a_connection_and_each_takes_its_own_delay() {
        let server = start(Protocol::Http, &[0, 3_000_000]);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        for _ in 0..4 {
            stream.write_all(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").unwrap();
            let mut answer = [0; http1::ANSWER.len()];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, http1::ANSWER);
        }
        let slow: Vec<_> = server.record().iter().map(|answered| answered.written - answered.read).collect();
        assert!(slow[1] >= 3_000_000 && slow[3] >= 3_000_000, "{slow:?}");
    }

    #[test]
    fn a_stopped_server_closes_its_connections_and_keeps_its_record() {
        let server = start(Protocol::Http, &[]);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; http1::ANSWER.len()]).unwrap();
        server.stop();
        server.stop();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(server.record().len(), 1);
    }

    #[test]
    fn what_is_not_http_loses_its_connection() {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let server = start(protocol, &[]);
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(&[b'x'; 1 << 17]).unwrap();
            let mut rest = Vec::new();
            // A reset is as good an end as any: bytes were left unread.
            let _ = stream.read_to_end(&mut rest);
            assert!(server.record().is_empty());
        }
    }
}
