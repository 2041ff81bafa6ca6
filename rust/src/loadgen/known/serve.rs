//! The event loop: reads, waits for what is due, answers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};

use super::peer::Peer;
use super::{Answered, MAX_RECORDED, Pending, Protocol, Script};

const LISTENER: u64 = 0;
const TIMER: u64 = 1;
const WAKE: u64 = 2;
const FIRST_PEER: u64 = 3;

const MAX_PEERS: usize = 4096;
const EVENTS: usize = 256;
const READ: usize = 1 << 16;
const SECOND: i64 = 1_000_000_000;

/// (when, a number that keeps the order of equals, connection, request)
type Due = Reverse<(i64, usize, u64, Pending)>;

pub(super) struct Serve {
    epoll: OwnedFd,
    listener: TcpListener,
    timer: OwnedFd,
    protocol: Protocol,
    script: Script,
    record: Arc<Mutex<Vec<Answered>>>,
    peers: HashMap<u64, Peer>,
    next_peer: u64,
    due: BinaryHeap<Due>,
    /// Requests so far, and when the first was read.
    requests: usize,
    first: i64,
    /// What the timer is set to.
    armed: Option<i64>,
}

impl Serve {
    /// Whoever writes to `wake` ends `run`.
    pub fn new(
        listener: TcpListener,
        protocol: Protocol,
        script: Script,
        record: Arc<Mutex<Vec<Answered>>>,
        wake: Arc<OwnedFd>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // Once for each change, so that an `accept` that fails for want of descriptors is not tried again for ever.
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, &*wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            timer,
            protocol,
            script,
            record,
            peers: HashMap::new(),
            next_peer: FIRST_PEER,
            due: BinaryHeap::new(),
            requests: 0,
            first: 0,
            armed: None,
        })
    }

    /// Serves until it is woken.
    pub fn run(&mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let (mut buffer, mut ended, mut touched) = (vec![0; READ], Vec::new(), Vec::new());
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            touched.clear();
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    TIMER => self.armed = None,
                    WAKE => return,
                    peer => {
                        self.read(peer, &mut buffer, &mut ended);
                        touched.push(peer);
                    }
                }
            }
            self.answer_due(&mut ended, &mut touched);
            self.flush(&touched);
            if self.arm().is_err() {
                return;
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            let ready = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
            let added = ready.and_then(|()| {
                epoll::add(&self.epoll, &socket, EventData::new_u64(self.next_peer), flags).map_err(io::Error::from)
            });
            if added.is_ok() && self.peers.len() < MAX_PEERS {
                self.peers.insert(self.next_peer, Peer::new(socket, self.protocol));
                self.next_peer += 1;
            }
        }
    }

    fn read(&mut self, id: u64, buffer: &mut [u8], ended: &mut Vec<Pending>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if peer.read(buffer, monotonic, ended).is_err() {
            self.peers.remove(&id);
        }
        self.schedule(id, ended);
    }

    fn schedule(&mut self, peer: u64, ended: &mut Vec<Pending>) {
        for pending in ended.drain(..) {
            if self.requests == 0 {
                self.first = pending.read;
            }
            let due = self.script.due(self.requests, pending.read, self.first);
            self.due.push(Reverse((due, self.requests, peer, pending)));
            self.requests += 1;
        }
    }

    fn answer_due(&mut self, ended: &mut Vec<Pending>, touched: &mut Vec<u64>) {
        let now = monotonic();
        while let Some(Reverse((due, _, id, pending))) = self.due.peek().copied()
            && due <= now
        {
            self.due.pop();
            let Some(peer) = self.peers.get_mut(&id) else {
                continue;
            };
            if peer.answer(pending, now, ended).is_err() {
                self.peers.remove(&id);
            }
            self.schedule(id, ended);
            if touched.last() != Some(&id) {
                touched.push(id);
            }
        }
    }

    fn flush(&mut self, touched: &[u64]) {
        let mut record = self.record.lock();
        for id in touched {
            if let Some(peer) = self.peers.get_mut(id)
                && peer.flush(monotonic, &mut record).is_err()
            {
                self.peers.remove(id);
            }
        }
        record.truncate(MAX_RECORDED);
    }

    /// Sets the timer to what is due next.
    fn arm(&mut self) -> rustix::io::Result<()> {
        let Some(Reverse((due, ..))) = self.due.peek() else {
            return Ok(());
        };
        if self.armed != Some(*due) {
            self.armed = Some(*due);
            let it_value = Timespec { tv_sec: due / SECOND, tv_nsec: due % SECOND };
            let never_again = Timespec { tv_sec: 0, tv_nsec: 0 };
            let at = Itimerspec { it_interval: never_again, it_value };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at)?;
        }
        Ok(())
    }
}

fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * SECOND + now.tv_nsec
}
