//! Sockets that listen.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::{fs, path::Path};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

/// Connections that the kernel may hold before they are accepted.
const BACKLOG: i32 = 4096;

/// Binds `HOST:PORT` without sharing the port with another server.
pub fn listen_on(address: &str) -> io::Result<TcpListener> {
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no such host");
    for candidate in address.to_socket_addrs().map_err(explain)? {
        match listen_on_socket(candidate) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(explain(last))
}

fn listen_on_socket(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    // Lets a restarted server take its port back at once; it does not let two servers share one.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// The file of a Unix socket, removed with this.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl SocketFile {
    /// A socket at this path. One that a server has left there is replaced; one that is served, or another file, is not.
    pub fn new(path: &str) -> io::Result<(UnixListener, Self)> {
        let path = Path::new(path);
        let explain = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on the socket {}: {error}", path.display()))
        };
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(path) => {
                fs::remove_file(path).and_then(|()| UnixListener::bind(path))
            }
            bound => bound,
        };
        let listener = listener.map_err(explain)?;
        listener.set_nonblocking(true)?;
        Ok((listener, Self(path.to_owned())))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn is_abandoned(path: &Path) -> bool {
    let socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_nobody_serves_is_replaced() {
        let path = std::env::temp_dir().join(format!("poise-socket-{}", std::process::id()));
        let name = path.to_str().unwrap();
        let (first, file) = SocketFile::new(name).unwrap();
        assert!(SocketFile::new(name).unwrap_err().to_string().starts_with("cannot listen on the socket"));
        drop(first);
        let (_second, kept) = SocketFile::new(name).unwrap();
        std::mem::forget(file); // as after a crash
        drop(kept);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        assert!(SocketFile::new(name).is_err());
        fs::remove_file(&path).unwrap();
    }
}
