//! What a server says of where a request spent its time: the field `server-timing` (W3C Server Timing).

/// The field that asks for it is a header of the request; the plan carries it like any other.
pub const FIELD: &[u8] = b"server-timing";

/// Stands for what the server did not say.
pub const UNKNOWN: u32 = u32::MAX;

/// Times in microseconds, and the rows of the batch in which the request was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    pub queue_us: u32,
    pub batch_us: u32,
    pub execute_us: u32,
    pub batch_rows: u32,
}

impl Default for Stages {
    fn default() -> Self {
        Self { queue_us: UNKNOWN, batch_us: UNKNOWN, execute_us: UNKNOWN, batch_rows: UNKNOWN }
    }
}

impl Stages {
    /// Takes up `queue;dur=1.234, batch;dur=0.05, execute;dur=2.1, rows;desc=16`; what it does not know, it leaves.
    pub fn read(&mut self, value: &[u8]) {
        let Ok(text) = str::from_utf8(value) else { return };
        for metric in text.split(',') {
            let mut parts = metric.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                let number = value.trim_matches('"').parse().ok().filter(|number: &f64| *number >= 0.0);
                self.set(name, key, number);
            }
        }
    }

    fn set(&mut self, name: &str, key: &str, number: Option<f64>) {
        let Some(number) = number else { return };
        // Saturating: what is too large is as good as unknown.
        match (name, key) {
            ("queue", "dur") => self.queue_us = (number * 1e3).round() as u32,
            ("batch", "dur") => self.batch_us = (number * 1e3).round() as u32,
            ("execute", "dur") => self.execute_us = (number * 1e3).round() as u32,
            ("rows", "desc") => self.batch_rows = number as u32,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read_and_nonsense_is_left() {
        let read = |value: &str| {
            let mut stages = Stages::default();
            stages.read(value.as_bytes());
            (stages.queue_us, stages.batch_us, stages.execute_us, stages.batch_rows)
        };
        assert_eq!(read("queue;dur=1.234, batch;dur=0.050, execute;dur=2.1, rows;desc=16"), (1_234, 50, 2_100, 16));
        assert_eq!(read("rows;desc=\"7\",db;dur=3"), (UNKNOWN, UNKNOWN, UNKNOWN, 7));
        assert_eq!(read("queue;dur=-1, batch;dur=x, execute, rows;dur=1"), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN));
        assert_eq!(read("queue;dur=1e99"), (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN));
    }
}
