//! The requests under way on one HTTP/2 connection.

use std::collections::VecDeque;

use bytes::Bytes;

use super::outcome::Outcome;
use super::stages::Stages;

#[derive(Debug)]
pub struct Stream {
    pub token: u32,
    pub status: u16,
    pub grpc_status: Option<Outcome>,
    pub stages: Stages,
    /// What of the body has not been written.
    pub unsent: Bytes,
    /// How much of it the peer takes.
    pub window: i64,
}

impl Stream {
    /// What the fields of the answer say, once it has ended.
    pub fn outcome(&self) -> Outcome {
        match (self.status, self.grpc_status) {
            (200, Some(outcome)) => outcome,
            (200, None) => Outcome::UNKNOWN, // no gRPC server, or one that forgot to say how it went
            (_, Some(outcome)) if outcome != Outcome::OK => outcome,
            (status, _) => Outcome(status.clamp(100, 999)),
        }
    }
}

/// Streams under way, by number. New numbers only grow, so that they are a window that moves along.
#[derive(Debug, Default)]
pub struct Streams {
    /// Place 0 is stream 2 × `gone` + 1, and each next one 2 more.
    places: VecDeque<Option<Stream>>,
    gone: usize,
    open: usize,
}

impl Streams {
    pub fn open(&self) -> usize {
        self.open
    }

    /// Takes a stream up and returns its number.
    pub fn add(&mut self, stream: Stream) -> u32 {
        self.places.push_back(Some(stream));
        self.open += 1;
        (2 * (self.gone + self.places.len()) - 1) as u32
    }

    fn place(&mut self, id: u32) -> Option<&mut Option<Stream>> {
        let index = (id as usize / 2).checked_sub(self.gone).filter(|_| id % 2 == 1)?;
        self.places.get_mut(index)
    }

    pub fn get(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id)?.as_mut()
    }

    pub fn remove(&mut self, id: u32) -> Option<Stream> {
        let stream = self.place(id)?.take()?;
        self.open -= 1;
        while matches!(self.places.front(), Some(None)) {
            self.places.pop_front();
            self.gone += 1;
        }
        Some(stream)
    }

    /// Removes one of the streams with a number above `last`.
    pub fn pop_last_above(&mut self, last: u32) -> Option<Stream> {
        let top = self.gone + self.places.len();
        let found = (self.gone..top).rev().map(|place| (2 * place + 1) as u32).take_while(|id| *id > last);
        let found = found.into_iter().find(|id| self.places[*id as usize / 2 - self.gone].is_some());
        self.remove(found?)
    }

    pub fn each(&mut self, change: impl FnMut(&mut Stream)) {
        self.places.iter_mut().flatten().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(token: u32) -> Stream {
        let (grpc_status, stages) = (None, Stages::default());
        Stream { token, status: 0, grpc_status, stages, unsent: Bytes::new(), window: 0 }
    }

    #[test]
    fn streams_are_found_by_number_while_they_last() {
        let mut streams = Streams::default();
        assert_eq!([streams.add(stream(10)), streams.add(stream(11)), streams.add(stream(12))], [1, 3, 5]);
        assert_eq!(streams.remove(3).unwrap().token, 11);
        assert!(streams.remove(3).is_none() && streams.get(2).is_none() && streams.get(7).is_none());
        assert_eq!(streams.remove(1).unwrap().token, 10);
        assert!(streams.get(1).is_none());
        assert_eq!((streams.get(5).unwrap().token, streams.open(), streams.places.len()), (12, 1, 1));
        assert_eq!(streams.add(stream(13)), 7);
    }

    #[test]
    fn those_above_a_number_are_taken_from_the_end() {
        let mut streams = Streams::default();
        (0..4).for_each(|token| _ = streams.add(stream(token)));
        streams.remove(5);
        let tokens: Vec<_> = std::iter::from_fn(|| streams.pop_last_above(1)).map(|stream| stream.token).collect();
        assert_eq!((tokens, streams.open()), (vec![3, 1], 1));
        assert_eq!(streams.pop_last_above(0).unwrap().token, 0);
        assert!(streams.pop_last_above(0).is_none());
    }
}
