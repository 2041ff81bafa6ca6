//! `server-timing`: where the time of a request went, for clients that ask for it with `poise-timing: 1`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::batching::Stages;

const ASKED: HeaderName = HeaderName::from_static("poise-timing");
const TOLD: HeaderName = HeaderName::from_static("server-timing");

/// What is to be told to the client of one request; nothing at all when it has not asked.
#[derive(Clone, Default)]
pub struct ServerTiming(Option<Arc<Mutex<Option<HeaderValue>>>>);

impl ServerTiming {
    pub fn of(headers: &HeaderMap) -> Self {
        let asked = headers.get(ASKED).is_some_and(|value| value == "1");
        Self(asked.then(Arc::default))
    }

    /// Takes note of the stages of a request whose answer came at `answered`. Of several runs for one request the last
    /// to end counts: the client waited for it.
    pub fn note(&self, stages: &Stages, answered: Instant) {
        let Some(told) = &self.0 else { return };
        let mut value = HeaderValue::try_from(text(stages, answered)).ok();
        // No two are alike: an index of HTTP/2 would fill with them, and drop what does come again.
        value.iter_mut().for_each(|value| value.set_sensitive(true));
        *told.lock() = value;
    }

    /// Puts what is known into the headers, or trailers, of the answer.
    pub fn tell(&self, headers: &mut HeaderMap) {
        if let Some(value) = self.0.as_ref().and_then(|told| told.lock().take()) {
            headers.insert(TOLD, value);
        }
    }
}

fn text(stages: &Stages, answered: Instant) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    format!(
        "queue;dur={:.3}, batch;dur={:.3}, execute;dur={:.3}, rows;desc={}",
        ms(stages.queue),
        ms(stages.batch(answered)),
        ms(stages.execute),
        stages.rows
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(rows: usize) -> (Stages, Instant) {
        let admitted = Instant::now();
        let (queue, execute) = (Duration::from_micros(1_234), Duration::from_micros(20_100));
        (Stages { admitted, queue, execute, rows }, admitted + Duration::from_micros(21_384))
    }

    fn asking(value: &'static str) -> ServerTiming {
        ServerTiming::of(&HeaderMap::from_iter([(ASKED, HeaderValue::from_static(value))]))
    }

    fn told(timing: &ServerTiming) -> HeaderMap {
        let mut headers = HeaderMap::new();
        timing.tell(&mut headers);
        headers
    }

    #[test]
    fn stages_are_told_in_milliseconds_and_add_up_to_the_whole() {
        let (timing, (stages, answered)) = (asking("1"), stages(16));
        timing.note(&stages, answered);
        let headers = told(&timing);
        assert_eq!(headers[TOLD], "queue;dur=1.234, batch;dur=0.050, execute;dur=20.100, rows;desc=16");
        assert!(headers[TOLD].is_sensitive());
    }

    #[test]
    fn the_last_run_of_several_counts() {
        let timing = asking("1");
        for rows in [3, 7] {
            let (stages, answered) = stages(rows);
            timing.clone().note(&stages, answered);
        }
        assert!(told(&timing)[TOLD].as_bytes().ends_with(b"desc=7"));
    }

    #[test]
    fn nothing_is_told_unasked_or_when_nothing_ran() {
        let (stages, answered) = stages(1);
        for timing in [ServerTiming::default(), ServerTiming::of(&HeaderMap::new()), asking("0"), asking("yes")] {
            timing.note(&stages, answered);
            assert!(told(&timing).is_empty());
        }
        assert!(told(&asking("1")).is_empty());
    }
}
