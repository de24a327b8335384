//! Under a steady load, half of the requests is sent while the other half is under way.

use std::collections::VecDeque;
use std::iter;
use std::task::Waker;

use super::super::queue::Pump;
use super::*;

#[test]
fn two_batches_of_one_size_are_under_way() {
    let (mut queue, ..) = queue((0..40).map(|_| take("a")));
    let is_due = |queue: &Queue| {
        let now = Instant::now();
        queue.due_at(now, true).is_some_and(|at| at <= now)
    };
    let send = |queue: &mut Queue| {
        assert!(is_due(queue));
        queue.batches += 1;
        queue.moved = Some(Instant::now() + Duration::from_secs(60));
        let share = queue.share();
        queue.take_batch(share)
    };
    let (first, second) = (send(&mut queue), send(&mut queue));
    assert_eq!((first.len(), second.len()), (20, 20));
    queue.answer(&first, (0..20).map(|number| Ok(Answer::Number(number))));
    queue.batches -= 1;
    for _ in 0..19 {
        assert!(!queue.lets_one_go_alone());
        add(&mut queue, take("a"), Instant::now());
        assert!(!is_due(&queue), "the server has work, and further requests may come");
    }
    add(&mut queue, take("a"), Instant::now());
    assert_eq!(send(&mut queue).len(), 20);
}

/// An odd number of requests leaves none behind: the smaller part goes first, so that the rest is as much. When those of the smaller
/// part have asked again, all have, and none waits for more.
#[test]
fn an_odd_number_of_requests_is_under_way() {
    for count in [2, 3, 5, 41, 127] {
        let (mut queue, ..) = queue((0..count).map(|_| take("a")));
        let send = |queue: &mut Queue| {
            let now = Instant::now();
            assert!(queue.due_at(now, true).is_some_and(|at| at <= now), "{count}: one waits");
            queue.batches += 1;
            queue.moved = Some(now + Duration::from_secs(60));
            let share = queue.share();
            let batch = queue.take_batch(share);
            assert!(!queue.has_unsent() || queue.batches == 1, "{count}: some are left");
            batch
        };
        let mut batches = VecDeque::from([send(&mut queue), send(&mut queue)]);
        for _ in 0..4 {
            let first = batches.pop_front().expect("two are under way");
            queue.answer(&first, iter::repeat_with(|| Ok(Answer::Number(1))));
            queue.batches -= 1;
            for key in first {
                queue.remove(key);
                queue.pump = Some(waiting_pump());
                add(&mut queue, take("a"), Instant::now());
            }
            let is_woken = queue.pump.as_ref().is_some_and(|pump| pump.waker.is_none());
            assert!(is_woken, "{count}: the pump sleeps");
            batches.push_back(send(&mut queue));
        }
    }
}

fn waiting_pump() -> Pump {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (runtime, waker) = (runtime.handle().id(), Some(Waker::noop().clone()));
    Pump { number: 0, runtime, waker, looked: Instant::now() }
}
