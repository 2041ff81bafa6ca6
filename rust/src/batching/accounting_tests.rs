//! Whatever happens in whatever order, the counts are exact and each request has one outcome.

use proptest::prelude::*;

use super::batch::Batch;
use super::testing::{Call, World, answer, model_failed, settings, values};
use super::version::Next;
use crate::config::BatchSettings;
use crate::error::Error;

#[derive(Debug, Clone)]
enum Act {
    Submit(usize),
    Take,
    Leave(usize),
    Complete(usize),
    Fail(usize, Vec<usize>),
    Lose(usize),
    PutBack(usize),
    Drop(usize),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1_usize..7).prop_map(Act::Submit),
        3 => Just(Act::Take),
        1 => any::<usize>().prop_map(Act::Leave),
        2 => any::<usize>().prop_map(Act::Complete),
        1 => (any::<usize>(), prop::collection::vec(0_usize..8, 0..3)).prop_map(|(batch, rows)| Act::Fail(batch, rows)),
        1 => any::<usize>().prop_map(Act::Lose),
        1 => any::<usize>().prop_map(Act::PutBack),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => (0_u64..20).prop_map(Act::Wait),
    ]
}

fn any_settings() -> impl Strategy<Value = BatchSettings> {
    (any::<[bool; 5]>(), 0_u64..20).prop_map(|([batching, split, isolate, retry, sizes], timeout)| BatchSettings {
        enable_batching: batching,
        max_batch_size: 6,
        batch_timeout_micros: timeout,
        allowed_batch_sizes: if sizes { vec![2, 4, 6] } else { vec![] },
        max_enqueued_batches: 4,
        enable_large_batch_splitting: split,
        max_execution_batch_size: if split { 4 } else { 0 },
        isolate_failures: isolate,
        retry_lost_batches: retry,
        ..settings()
    })
}

struct Run {
    world: World,
    calls: Vec<(Call, usize, f32)>,
    batches: Vec<Batch>,
    submitted: usize,
}

impl Run {
    fn act(&mut self, act: Act) {
        match act {
            Act::Submit(rows) => {
                self.submitted += 1;
                let value = self.submitted as f32;
                self.calls.push((self.world.rows(rows, value), rows, value));
            }
            Act::Take => {
                if let Next::Batch(batch) = self.world.next() {
                    self.batches.push(*batch);
                }
            }
            Act::Leave(which) => drop(pick(&mut self.calls, which)),
            Act::Complete(which) => pick(&mut self.batches, which).into_iter().for_each(answer),
            Act::Fail(which, rows) => {
                pick(&mut self.batches, which).into_iter().for_each(|batch| batch.fail(model_failed(), &rows));
            }
            Act::Lose(which) => {
                pick(&mut self.batches, which).into_iter().for_each(|batch| batch.lost(Error::internal("lost")));
            }
            Act::PutBack(which) => pick(&mut self.batches, which).into_iter().for_each(Batch::put_back),
            Act::Drop(which) => drop(pick(&mut self.batches, which)),
            Act::Wait(micros) => self.world.advance(micros),
        }
    }

    fn check(&mut self) {
        let waiting = self.calls.iter_mut().filter_map(|(call, ..)| call.is_waiting().then_some(())).count();
        let held = self.world.version.holdings();
        assert_eq!(held.leases, waiting);
        assert_eq!(held.running, self.batches.len());
        assert_eq!(self.world.queued_rows(), held.rows as i64);
        assert_eq!(held.rows == 0, held.bytes == 0);
        assert!(held.rows <= 4 * 6 && held.bytes >= held.rows * 4);
    }

    /// Runs all that is left; every call must then have its one outcome.
    fn finish(mut self) {
        self.batches.drain(..).for_each(answer);
        self.world.advance(1000);
        self.world.serve();
        for (call, rows, value) in self.calls.drain(..) {
            if let Ok(answer) = call.outcome() {
                assert_eq!(values(&answer[0]), vec![value; rows]);
            }
        }
        self.world.assert_nothing_held();
    }
}

fn pick<T>(items: &mut Vec<T>, which: usize) -> Option<T> {
    let index = which.checked_rem(items.len())?;
    Some(items.swap_remove(index))
}

proptest! {
    #[test]
    fn counts_are_exact_and_outcomes_single(
        settings in any_settings(),
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut run = Run { world: World::new(settings), calls: vec![], batches: vec![], submitted: 0 };
        for act in acts {
            run.act(act);
            run.check();
        }
        run.finish();
    }
}
