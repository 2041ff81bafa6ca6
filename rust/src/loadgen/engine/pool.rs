//! The connections of one thread: which of them takes the next request, and what happens when one is lost.

use std::io;
use std::net::SocketAddr;

use super::super::tls::Tls;
use super::Ended;
use super::connection::Connection;
use super::poll::{Poll, Ready};
use super::request::Request;
use super::socket::Socket;

/// How long after a failure a connection is made anew.
const RETRY_NS: i64 = 100_000_000;
/// Bytes read at once.
const SCRATCH: usize = 1 << 17;

pub struct Pool {
    places: Vec<Place>,
    /// How many connections there are, and how many there shall be at least.
    live: usize,
    wanted: usize,
    address: SocketAddr,
    tls: Option<Tls>,
    grpc: bool,
    /// Where the search for a free connection begins.
    cursor: usize,
    /// Connections with something to write.
    dirty: Vec<usize>,
    scratch: Vec<u8>,
}

#[derive(Default)]
struct Place {
    connection: Option<Connection>,
    /// Not before this time is a new one made.
    retry_at: i64,
    dirty: bool,
    /// Whether the poll is asked for room to write.
    waits: bool,
}

impl Pool {
    /// With the connections that are open, and room for more, up to `limit`.
    pub fn new(open: Vec<Socket>, limit: usize, tls: Option<Tls>, grpc: bool) -> io::Result<Pool> {
        let first = open.first().ok_or_else(|| io::Error::other("a pool begins with a connection"))?;
        let address = first.peer()?;
        let wanted = open.len();
        let mut places: Vec<_> = open
            .into_iter()
            .map(|socket| Place { connection: Some(Connection::new(socket, grpc)), ..Place::default() })
            .collect();
        places.resize_with(limit.max(places.len()), Place::default);
        Ok(Pool {
            places,
            live: wanted,
            wanted,
            address,
            tls,
            grpc,
            cursor: 0,
            dirty: Vec::new(),
            scratch: vec![0; SCRATCH],
        })
    }

    /// Makes the connections known to the poll, and has their first words written.
    pub fn register(&mut self, poll: &Poll) -> io::Result<()> {
        for index in 0..self.places.len() {
            if let Some(connection) = &self.places[index].connection {
                poll.add(&connection.socket, index, false)?;
                self.soil(index);
            }
        }
        Ok(())
    }

    pub fn open(&self) -> usize {
        self.live
    }

    /// Whether every connection that there is may be used.
    pub fn is_ready(&self) -> bool {
        self.places.iter().flat_map(|place| &place.connection).all(Connection::is_ready)
    }

    /// A connection that takes a request now, the preferred one if it does.
    pub fn find(&mut self, home: Option<usize>) -> Option<usize> {
        if let Some(home) = home.filter(|home| self.capacity(*home) > 0) {
            return Some(home);
        }
        let count = self.places.len();
        let found = (0..count).map(|step| (self.cursor + step) % count).find(|index| self.capacity(*index) > 0)?;
        self.cursor = (found + 1) % count;
        Some(found)
    }

    fn capacity(&self, index: usize) -> usize {
        self.places[index].connection.as_ref().map_or(0, Connection::capacity)
    }

    /// Begins one more connection where there is room for one, and tells whether it did.
    pub fn grow(&mut self, now: i64, poll: &Poll) -> io::Result<bool> {
        let free = |place: &Place| place.connection.is_none() && place.retry_at <= now;
        let Some(index) = self.places.iter().position(free) else { return Ok(false) };
        let place = &mut self.places[index];
        place.retry_at = now + RETRY_NS;
        let connection = Connection::new(Socket::begin(self.address, self.tls.as_ref())?, self.grpc);
        poll.add(&connection.socket, index, true)?;
        (place.connection, place.waits) = (Some(connection), true);
        self.live += 1;
        self.soil(index);
        Ok(true)
    }

    /// Makes anew what was lost of the connections that there were at first.
    pub fn mend(&mut self, now: i64, poll: &Poll) -> io::Result<()> {
        while self.live < self.wanted && self.grow(now, poll)? {}
        Ok(())
    }

    /// When [`mend`](Self::mend) may be tried again; `None` when nothing is lost.
    pub fn retry_at(&self) -> Option<i64> {
        if self.live >= self.wanted {
            return None;
        }
        self.places.iter().filter(|place| place.connection.is_none()).map(|place| place.retry_at).min()
    }

    pub fn start(&mut self, index: usize, token: u32, request: &Request, same_fields: bool) -> u32 {
        self.soil(index);
        self.places[index].connection.as_mut().map_or(0, |connection| connection.start(token, request, same_fields))
    }

    pub fn cancel(&mut self, index: usize, stream: u32) {
        self.soil(index);
        if let Some(connection) = &mut self.places[index].connection {
            connection.cancel(stream);
            self.close_if_done(index);
        }
    }

    /// Notes that there is something to write.
    fn soil(&mut self, index: usize) {
        if !std::mem::replace(&mut self.places[index].dirty, true) {
            self.dirty.push(index);
        }
    }

    /// Writes what there is to write; `ended` are the requests of connections that were lost over it.
    pub fn flush(&mut self, now: i64, poll: &Poll, ended: &mut Vec<Ended>) {
        while let Some(index) = self.dirty.pop() {
            let place = &mut self.places[index];
            place.dirty = false;
            let Some(connection) = &mut place.connection else { continue };
            let flushed = connection.flush();
            let changed = |waits: bool| waits != place.waits;
            let result = match flushed {
                Ok(waits) if changed(waits) => {
                    place.waits = waits;
                    poll.change(&connection.socket, index, waits).map_err(|error| error.to_string())
                }
                Ok(_) => Ok(()),
                Err(lost) => Err(lost),
            };
            if result.is_err() {
                self.lose(index, now, ended);
            }
        }
    }

    /// Reads and writes as the poll says.
    pub fn serve(&mut self, ready: Ready, now: i64, ended: &mut Vec<Ended>) {
        let Some(connection) = self.places.get_mut(ready.index).and_then(|place| place.connection.as_mut()) else {
            return;
        };
        if ready.readable && connection.read(&mut self.scratch, ended).is_err() {
            return self.lose(ready.index, now, ended);
        }
        self.soil(ready.index);
        self.close_if_done(ready.index);
    }

    fn close_if_done(&mut self, index: usize) {
        // Closing a socket takes it out of the poll.
        let place = &mut self.places[index];
        if place.connection.as_ref().is_some_and(Connection::is_done) {
            (place.connection, place.waits, place.retry_at) = (None, false, 0);
            self.live -= 1;
        }
    }

    fn lose(&mut self, index: usize, now: i64, ended: &mut Vec<Ended>) {
        let place = &mut self.places[index];
        if let Some(mut connection) = place.connection.take() {
            connection.abandon(ended);
            self.live -= 1;
        }
        (place.waits, place.retry_at) = (false, now + RETRY_NS);
    }
}
