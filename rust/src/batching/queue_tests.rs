#![allow(clippy::type_complexity)] // tables

use std::time::Instant;

use super::*;
use crate::batching::testing::{World, checked, settings};
use crate::config::BatchSettings;

/// A queue of requests of these sizes, with batches of up to `limit` rows.
fn queue(limit: usize, sizes: &[usize]) -> (Queue, Vec<Arc<Pending>>) {
    let world = World::new(BatchSettings { max_batch_size: limit, ..settings() });
    let endpoint = world.endpoint("first");
    let request = |rows: &usize| {
        let checked = checked(&endpoint, *rows);
        // Without its receiver a request is unwanted; these tests say by themselves which are.
        Pending::new(Arc::clone(&endpoint), checked, Default::default(), Instant::now(), None).0
    };
    let requests: Vec<Arc<Pending>> = sizes.iter().map(request).collect();
    let mut queue = Queue::new(Arc::clone(&endpoint), requests[0].key.clone(), 0);
    requests.iter().for_each(|request| queue.push(Arc::clone(request)));
    (queue, requests)
}

fn rows(taken: &Taken) -> Vec<usize> {
    taken.pieces.iter().map(Piece::rows).collect()
}

#[test]
fn batches_are_cut_from_the_front() {
    let table: [(&str, usize, bool, &[usize], &[&[usize]]); 10] = [
        ("all that waits", 10, false, &[1, 3, 5], &[&[1, 3, 5]]),
        ("no look-ahead", 10, false, &[3, 5, 3, 1, 6], &[&[3, 5], &[3, 1, 6]]),
        ("split fills every batch", 10, true, &[3, 5, 3, 1, 6, 1], &[&[3, 5, 2], &[1, 1, 6, 1]]),
        ("overflow closes the batch", 4, false, &[2, 3], &[&[2], &[3]]),
        ("(5,1,1)", 1, true, &[5], &[&[1], &[1], &[1], &[1], &[1]]),
        ("(10,3,4)", 4, true, &[1, 10], &[&[1, 3], &[4], &[3]]),
        ("(20,5,6)", 6, true, &[1, 20], &[&[1, 5], &[6], &[6], &[3]]),
        ("(30,0,11)", 11, true, &[11, 30], &[&[11], &[11], &[11], &[8]]),
        ("(5,6,8)", 8, true, &[2, 5], &[&[2, 5]]),
        ("a large one behind a full one", 3, true, &[3, 7], &[&[3], &[3], &[3], &[1]]),
    ];
    for (name, limit, split, sizes, expected) in table {
        let (mut queue, requests) = queue(limit, sizes);
        let (mut batches, mut bytes) = (Vec::new(), 0);
        while !queue.is_empty() {
            let taken = queue.take(split, |_| true);
            assert_eq!(taken.rows, rows(&taken).iter().sum::<usize>(), "{name}");
            bytes += taken.bytes;
            batches.push(rows(&taken));
        }
        assert_eq!(batches, expected, "{name}");
        assert_eq!(queue.rows(), 0, "{name}");
        assert_eq!(bytes, requests.iter().map(|request| request.bytes).sum::<usize>(), "{name}");
    }
}

#[test]
fn parts_of_a_request_follow_each_other() {
    let (mut queue, _) = queue(4, &[1, 10]);
    let mut parts = Vec::new();
    while !queue.is_empty() {
        let taken = queue.take(true, |_| true);
        parts.extend(taken.pieces.iter().filter(|piece| piece.pending.rows == 10).map(|piece| piece.start..piece.end));
    }
    assert_eq!(parts, [0..3, 3..7, 7..10]);
}

#[test]
fn unwanted_requests_take_no_room_in_a_batch() {
    let (mut queue, requests) = queue(4, &[3, 3, 2, 2, 1]);
    let unwanted = [&requests[0], &requests[1]];
    let taken = queue.take(false, |pending| !unwanted.iter().any(|other| std::ptr::eq(&***other, pending)));
    assert_eq!(rows(&taken), [2, 2]);
    assert_eq!((taken.rows, taken.unwanted, queue.rows()), (10, 2, 1));
}

#[test]
fn what_is_left_of_an_unwanted_request_goes_with_it() {
    let (mut queue, requests) = queue(4, &[10, 1]);
    assert_eq!(rows(&queue.take(true, |_| true)), [4]);
    let taken = queue.take(true, |pending| !std::ptr::eq(pending, &*requests[0]));
    assert_eq!((rows(&taken), taken.rows, taken.unwanted), (vec![1], 7, 1));
    assert_eq!(taken.bytes, requests[0].bytes + requests[1].bytes);
    assert!(queue.is_empty());
}

#[test]
fn a_request_is_removed_wherever_it_waits() {
    let (mut queue, requests) = queue(4, &[6, 2, 3]);
    let _first_part = queue.take(true, |_| true);
    assert_eq!(queue.rows(), 7);
    assert_eq!(queue.remove(&requests[1]), Some((2, requests[1].bytes)));
    assert_eq!(queue.remove(&requests[1]), None);
    assert_eq!(queue.remove(&requests[0]), Some((2, requests[0].bytes)), "only what still waits");
    assert_eq!(rows(&queue.take(true, |_| true)), [3]);
    assert_eq!(queue.rows(), 0);
}

#[test]
fn policy_sees_the_oldest_request() {
    let (mut queue, requests) = queue(10, &[2, 3]);
    assert_eq!((queue.view().rows, queue.view().limit, queue.view().oldest), (5, 10, requests[0].arrived));
    queue.remove(&requests[0]);
    assert_eq!((queue.view().rows, queue.view().oldest), (3, requests[1].arrived));
}
