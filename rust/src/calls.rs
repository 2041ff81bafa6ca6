//! Calls about the server itself (its configuration, its models), which Python answers: pushed as events, replied to by
//! number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::error::{Code, Error, Reason, Result};
use crate::events::{Event, Events};

/// Calls that may wait for their answers at once.
const MOST_WAITING: usize = 64;
/// A call whose client names no deadline waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

type Waiting = HashMap<u64, oneshot::Sender<Result<String>>>;

/// The owner of the calls that wait for Python.
#[derive(Default)]
pub struct Calls {
    events: Arc<Events>,
    state: Mutex<(u64, Waiting)>,
}

impl Calls {
    pub fn new(events: Arc<Events>) -> Self {
        Self { events, state: Mutex::default() }
    }

    /// Asks Python and waits for its answer, which is JSON. Dropping the future forgets the call.
    pub async fn ask(&self, name: &str, model: Option<&str>, body: Value, deadline: Option<Instant>) -> Result<String> {
        let (entry, answer) = self.enter()?;
        self.events.push(Event::Call(entry.id, json!({ "name": name, "model": model, "body": body }).to_string()));
        let until = deadline.unwrap_or_else(|| Instant::now() + PATIENCE);
        match timeout_at(until.into(), answer).await {
            Ok(outcome) => outcome.unwrap_or_else(|_| Err(Error::internal("the server ended before it answered"))),
            Err(_) => Err(Error::new(
                Code::DeadlineExceeded,
                Reason::Deadline,
                format!("{name} was not done in time; what has begun goes on, and model status tells how far it is"),
            )),
        }
    }

    fn enter(&self) -> Result<(Entry<'_>, oneshot::Receiver<Result<String>>)> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.state.lock();
        if state.1.len() >= MOST_WAITING {
            let message = format!("{MOST_WAITING} calls about the server wait for their answers already; try later");
            return Err(Error::new(Code::ResourceExhausted, Reason::QueueFull, message));
        }
        state.0 += 1;
        let id = state.0;
        state.1.insert(id, reply);
        Ok((Entry { calls: self, id }, answer))
    }

    /// Answers a call; one that nobody waits for any more is ignored.
    pub fn reply(&self, id: u64, outcome: Result<String>) {
        if let Some(reply) = self.state.lock().1.remove(&id) {
            let _ = reply.send(outcome);
        }
    }
}

/// One waiting call, forgotten when it is dropped.
struct Entry<'a> {
    calls: &'a Calls,
    id: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.calls.state.lock().1.remove(&self.id);
        self.calls.events.forget_call(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> (Arc<Events>, Calls) {
        let events = Arc::new(Events::default());
        (Arc::clone(&events), Calls::new(events))
    }

    #[tokio::test]
    async fn an_answer_reaches_the_one_who_asked() {
        let (events, calls) = made();
        let asked = calls.ask("get_config", None, Value::Null, None);
        let answered = async {
            let [Event::Call(id, text)] = &events.pull(Duration::ZERO)[..] else { panic!("one call") };
            assert_eq!(text, r#"{"name":"get_config","model":null,"body":null}"#);
            calls.reply(id + 7, Ok("for nobody".into()));
            calls.reply(*id, Ok("{}".into()));
        };
        let (answer, ()) = tokio::join!(asked, answered);
        assert_eq!(answer.unwrap(), "{}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_at_its_deadline_and_is_forgotten() {
        let (events, calls) = made();
        let error = calls.ask("load_model", Some("m"), Value::Null, None).await.unwrap_err();
        assert_eq!(events.pull(Duration::ZERO), []);
        assert_eq!((error.code, calls.state.lock().1.len()), (Code::DeadlineExceeded, 0));
    }

    #[tokio::test]
    async fn only_so_many_may_wait() {
        let (_events, calls) = made();
        let held: Vec<_> = (0..MOST_WAITING).map(|_| calls.enter().unwrap()).collect();
        let error = calls.ask("get_config", None, Value::Null, None).await.unwrap_err();
        assert_eq!(error.code, Code::ResourceExhausted);
        drop(held);
        assert!(calls.enter().is_ok());
    }
}
