//! A TCP connection that never blocks, with TLS over it or without.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use tokio_rustls::rustls::ClientConnection;

use super::super::tls::Tls;

pub struct Socket {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Socket {
    /// Connects, waiting for it, to the first of the addresses that answers.
    pub fn open(addresses: &[SocketAddr], tls: Option<&Tls>, limit: Duration) -> io::Result<Socket> {
        let mut last = io::Error::new(ErrorKind::NotFound, "it has no address");
        for address in addresses {
            match TcpStream::connect_timeout(address, limit) {
                Ok(tcp) => return Socket::new(tcp, tls),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Begins to connect; writing fails with `WouldBlock` until it is done.
    pub fn begin(address: SocketAddr, tls: Option<&Tls>) -> io::Result<Socket> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        match connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Socket::new(fd.into(), tls),
            Err(error) => Err(error.into()),
        }
    }

    fn new(tcp: TcpStream, tls: Option<&Tls>) -> io::Result<Socket> {
        tcp.set_nonblocking(true)?;
        tcp.set_nodelay(true)?;
        let tls = match tls {
            Some(Tls { config, name }) => {
                Some(Box::new(ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?))
            }
            None => None,
        };
        Ok(Socket { tcp, tls })
    }

    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }

    /// Reads what is there; 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.tcp.read(buffer) };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            if tls.read_tls(&mut self.tcp)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Whether [`read`](Self::read) may have more although the socket has nothing.
    pub fn holds_back(&self) -> bool {
        self.tls.is_some()
    }

    /// Writes as much as it can of `bytes`, which may be empty, and tells how much that was.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.tcp.write(bytes) };
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() {
            match tls.write_tls(&mut self.tcp) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                other => _ = other?,
            }
        }
        Ok(taken)
    }

    /// Whether the peer has agreed to whatever comes before the first request.
    pub fn is_ready(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Whether something that was written has not left.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}
