//! Waiting for sockets, with limits in nanoseconds.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;

/// What a wake-up from another thread is told as.
const WAKE: u64 = u64::MAX;
/// Most events taken at once.
const EVENTS: usize = 256;

/// Sockets and what to wait for in each. A socket is named by a number of the caller's.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
}

/// Ends the wait of a [`Poll`] from another thread.
#[derive(Debug)]
pub struct Waker(OwnedFd);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    pub index: usize,
    pub readable: bool,
    pub writable: bool,
}

impl Waker {
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    pub fn wake(&self) {
        // It fails only when it is full, and then it wakes anyway.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Poll {
    pub fn new(waker: &Waker) -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &waker.0, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        Ok(Poll { epoll })
    }

    pub fn add(&self, socket: impl AsFd, index: usize, writable: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(index as u64), interest(writable))?)
    }

    pub fn change(&self, socket: impl AsFd, index: usize, writable: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(index as u64), interest(writable))?)
    }

    /// Waits until something is ready, at most so many nanoseconds, and hands over what is.
    pub fn wait(&self, limit_ns: i64, waker: &Waker, ready: &mut Vec<Ready>) -> io::Result<()> {
        // epoll itself may round to milliseconds, so it is only asked what is ready already.
        if limit_ns > 0 {
            let limit = Timespec { tv_sec: limit_ns / 1_000_000_000, tv_nsec: limit_ns % 1_000_000_000 };
            match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&limit)) {
                Ok(0) | Err(Errno::INTR) => return Ok(()),
                other => other?,
            };
        }
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        let (events, _) = epoll::wait(&self.epoll, &mut buffer[..], Some(&now))?;
        for event in events {
            if event.data.u64() == WAKE {
                waker.clear();
                continue;
            }
            let has = |flags| { event.flags }.intersects(flags);
            let lost = has(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            let (readable, writable) = (has(epoll::EventFlags::IN) || lost, has(epoll::EventFlags::OUT) || lost);
            ready.push(Ready { index: event.data.u64() as usize, readable, writable });
        }
        Ok(())
    }
}

fn interest(writable: bool) -> epoll::EventFlags {
    if writable { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_ready_is_told_and_waking_ends_the_wait() {
        let waker = Waker::new().unwrap();
        let poll = Poll::new(&waker).unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        poll.add(&far, 5, false).unwrap();
        let mut ready = Vec::new();
        poll.wait(1_000, &waker, &mut ready).unwrap();
        assert_eq!(ready, []);
        near.write_all(b"x").unwrap();
        poll.wait(i64::MAX, &waker, &mut ready).unwrap();
        assert_eq!(ready, [Ready { index: 5, readable: true, writable: false }]);
        poll.change(&far, 6, true).unwrap();
        ready.clear();
        poll.wait(0, &waker, &mut ready).unwrap();
        assert_eq!(ready, [Ready { index: 6, readable: true, writable: true }]);
        drop(far);
        waker.wake();
        ready.clear();
        poll.wait(i64::MAX, &waker, &mut ready).unwrap();
        assert_eq!(ready, []);
    }
}
