//! The requests that are due or under way, and when their time is up.

use std::collections::VecDeque;

use slab::Slab;

use super::arrivals::Due;
use super::sample::NEVER;

#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub due: Due,
    pub issued: i64,
    pub sent: i64,
    /// Connection and stream, once it is on its way.
    pub place: Option<(usize, u32)>,
    serial: u64,
}

/// Entries by token. All have the same time limit and come in the order of their times, so that the first is the first
/// whose time is up.
#[derive(Debug)]
pub struct Book {
    entries: Slab<Entry>,
    deadlines: VecDeque<(i64, u32, u64)>,
    timeout_ns: i64,
    serial: u64,
}

impl Book {
    pub fn new(timeout_ns: i64) -> Self {
        Self { entries: Slab::new(), deadlines: VecDeque::new(), timeout_ns, serial: 0 }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn add(&mut self, due: Due, issued: i64) -> u32 {
        self.serial += 1;
        let token = self.entries.insert(Entry { due, issued, sent: NEVER, place: None, serial: self.serial }) as u32;
        self.deadlines.push_back((due.at.saturating_add(self.timeout_ns), token, self.serial));
        token
    }

    pub fn get(&mut self, token: u32) -> Option<&mut Entry> {
        self.entries.get_mut(token as usize)
    }

    pub fn remove(&mut self, token: u32) -> Option<Entry> {
        self.entries.try_remove(token as usize)
    }

    /// When the next one's time is up.
    pub fn next_deadline(&mut self) -> Option<i64> {
        while let Some((deadline, token, serial)) = self.deadlines.front() {
            if self.entries.get(*token as usize).is_some_and(|entry| entry.serial == *serial) {
                return Some(*deadline);
            }
            self.deadlines.pop_front(); // it ended in time
        }
        None
    }

    /// When the oldest one was due.
    pub fn oldest(&mut self) -> Option<i64> {
        self.next_deadline().map(|deadline| deadline.saturating_sub(self.timeout_ns))
    }

    /// One whose time is up; it is for the caller to [`remove`](Self::remove).
    pub fn expired(&mut self, now: i64) -> Option<u32> {
        self.next_deadline().filter(|deadline| *deadline <= now)?;
        self.deadlines.pop_front().map(|(_, token, _)| token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_still_under_way_expires() {
        let mut book = Book::new(100);
        let due = |at| Due { at, choice: 0, home: None };
        let first = book.add(due(1), 1);
        let second = book.add(due(2), 2);
        book.remove(first);
        let reused = book.add(due(50), 50);
        assert_eq!((reused, book.next_deadline(), book.len()), (first, Some(102), 2));
        assert_eq!(book.oldest(), Some(2));
        assert_eq!((book.expired(101), book.expired(102)), (None, Some(second)));
        book.remove(second);
        assert_eq!((book.expired(149), book.expired(150)), (None, Some(reused)));
    }
}
