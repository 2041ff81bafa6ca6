//! When a request is answered: a pure function of its number and of when it came.

/// Delays, taken in turn by the requests in the order in which they end, and windows in which nothing is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    delays: Vec<i64>,
    freezes: Vec<(i64, i64)>,
}

impl Script {
    /// Delays in nanoseconds, none of them for no delay at all; freezes as (from, to) in nanoseconds after the first
    /// request, ascending. The text of an error says what to mend.
    pub fn new(delays: Vec<i64>, freezes: Vec<(i64, i64)>) -> Result<Self, String> {
        if let Some(delay) = delays.iter().find(|delay| **delay < 0) {
            return Err(format!("expected delays of 0 ns or more, got {delay}"));
        }
        let mut end = 0;
        for (from, to) in &freezes {
            if *from < end || to <= from {
                return Err(format!("expected freezes (from, to) that ascend and do not overlap, got {freezes:?}"));
            }
            end = *to;
        }
        Ok(Self { delays, freezes })
    }

    /// When request `index` is due, which was read at `read`; the first of all was read at `first`.
    pub fn due(&self, index: usize, read: i64, first: i64) -> i64 {
        let delay = if self.delays.is_empty() { 0 } else { self.delays[index % self.delays.len()] };
        let due = read.saturating_add(delay);
        let after = due - first;
        let frozen = self.freezes.iter().find(|(from, to)| (*from..*to).contains(&after));
        frozen.map_or(due, |(_, to)| first + to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_after_their_delay_or_after_a_freeze() {
        let script = Script::new(vec![10, 30], vec![(100, 200), (300, 400)]).unwrap();
        let cases = [
            // index, read, due
            (0, 1000, 1010),
            (1, 1000, 1030),
            (2, 1000, 1010),
            (0, 1089, 1099),
            (0, 1090, 1200),
            (0, 1150, 1200),
            (1, 1169, 1199 + 1),
            (1, 1170, 1200),
            (1, 1275, 1400),
            (0, 1400, 1410),
        ];
        for (index, read, due) in cases {
            assert_eq!(script.due(index, read, 1000), due, "request {index} read at {read}");
        }
        assert_eq!(Script::default().due(7, 5, 0), 5);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Script::new(vec![1, -1], vec![]).unwrap_err().contains("got -1"));
        for freezes in [vec![(5, 5)], vec![(5, 9), (8, 12)], vec![(-1, 3)]] {
            assert!(Script::new(vec![], freezes).unwrap_err().contains("ascend"));
        }
    }
}
