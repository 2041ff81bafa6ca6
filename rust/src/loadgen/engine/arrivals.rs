//! When the next request is due.

use std::collections::VecDeque;

/// Send times that were made beforehand, in nanoseconds since the start of the session and ascending, and which
/// request is sent at each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    pub times: Vec<i64>,
    pub choices: Vec<u32>,
}

/// What one thread still has to send.
#[derive(Debug)]
pub enum Arrivals {
    /// Requests come at their times, whatever became of earlier ones.
    Open { segments: VecDeque<Segment>, next: usize },
    /// A request is sent when another one has ended; only choices matter, and they come in turn again and again.
    Closed { choices: Vec<u32>, turn: usize, waiting: VecDeque<Slot> },
}

/// One client of a closed loop, that wants to send at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub at: i64,
    /// The connection that it prefers.
    pub home: usize,
}

/// A request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    pub at: i64,
    pub choice: u32,
    pub home: Option<usize>,
}

impl Arrivals {
    pub fn open() -> Self {
        Arrivals::Open { segments: VecDeque::new(), next: 0 }
    }

    /// With so many clients, spread over the connections; they wait for the first segment.
    pub fn closed(clients: usize, connections: usize) -> Self {
        let waiting = (0..clients).map(|index| Slot { at: 0, home: index % connections }).collect();
        Arrivals::Closed { choices: Vec::new(), turn: 0, waiting }
    }

    /// Takes up more to send, at `now`.
    pub fn feed(&mut self, segment: Segment, now: i64) {
        match self {
            Arrivals::Open { segments, .. } => segments.push_back(segment),
            Arrivals::Closed { choices, turn, waiting } => {
                (*choices, *turn) = (segment.choices, 0);
                waiting.iter_mut().for_each(|slot| slot.at = slot.at.max(now));
            }
        }
    }

    /// A client of a closed loop is free again, and sends at `slot.at`.
    pub fn give_back(&mut self, slot: Slot) {
        if let Arrivals::Closed { waiting, .. } = self {
            waiting.push_back(slot);
        }
    }

    /// When the next one is due; `None` when nothing is to be sent for now.
    pub fn next_at(&self) -> Option<i64> {
        match self {
            Arrivals::Open { segments, next } => segments.front().and_then(|segment| segment.times.get(*next)).copied(),
            Arrivals::Closed { choices, waiting, .. } if !choices.is_empty() => {
                waiting.iter().map(|slot| slot.at).min()
            }
            Arrivals::Closed { .. } => None,
        }
    }

    /// The next request that is due by `now`.
    pub fn take(&mut self, now: i64) -> Option<Due> {
        match self {
            Arrivals::Open { segments, next } => loop {
                let segment = segments.front()?;
                if let Some((at, choice)) = segment.times.get(*next).zip(segment.choices.get(*next)) {
                    *next += usize::from(*at <= now);
                    return (*at <= now).then_some(Due { at: *at, choice: *choice, home: None });
                }
                segments.pop_front();
                *next = 0;
            },
            Arrivals::Closed { choices, turn, waiting } => {
                let choice = *choices.get(*turn)?;
                let index = waiting.iter().position(|slot| slot.at <= now)?;
                let slot = waiting.remove(index)?;
                *turn = (*turn + 1) % choices.len();
                Some(Due { at: slot.at, choice, home: Some(slot.home) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(times: &[i64]) -> Segment {
        Segment { times: times.to_vec(), choices: (0..times.len() as u32).collect() }
    }

    #[test]
    fn an_open_loop_plays_its_segments_in_order_and_on_time() {
        let mut arrivals = Arrivals::open();
        assert_eq!((arrivals.next_at(), arrivals.take(100)), (None, None));
        arrivals.feed(segment(&[10, 20]), 0);
        arrivals.feed(segment(&[30]), 0);
        assert_eq!((arrivals.take(9), arrivals.next_at()), (None, Some(10)));
        let taken: Vec<_> = std::iter::from_fn(|| arrivals.take(30)).map(|due| (due.at, due.choice)).collect();
        assert_eq!(taken, [(10, 0), (20, 1), (30, 0)]);
        arrivals.feed(segment(&[40]), 0);
        assert_eq!(arrivals.take(50).map(|due| due.at), Some(40));
    }

    #[test]
    fn a_closed_loop_starts_when_fed_and_sends_when_a_client_is_free() {
        let mut arrivals = Arrivals::closed(3, 2);
        assert_eq!((arrivals.next_at(), arrivals.take(5)), (None, None));
        arrivals.feed(segment(&[0, 0]), 5);
        let taken: Vec<_> = std::iter::from_fn(|| arrivals.take(5)).collect();
        let due = |choice, home| Due { at: 5, choice, home: Some(home) };
        assert_eq!(taken, [due(0, 0), due(1, 1), due(0, 0)]);
        arrivals.give_back(Slot { at: 90, home: 1 });
        arrivals.give_back(Slot { at: 8, home: 0 });
        assert_eq!((arrivals.next_at(), arrivals.take(7)), (Some(8), None));
        assert_eq!(arrivals.take(8), Some(Due { at: 8, choice: 1, home: Some(0) }));
        assert_eq!(arrivals.next_at(), Some(90));
    }
}
