mod crowds;
mod halves;

use super::queue::{Key, Queue};
use super::*;
use crate::key::LockKey;
use crate::store::redis::scripts::ScriptCall;
use crate::store::{AcquireRequest, OwnerId, ReleaseRequest, Target};

fn target(name: &str) -> Arc<Target> {
    Target::mutex(LockKey::new(name).expect("a valid name"))
}

fn take(name: &str) -> HoldRequest {
    HoldRequest::Acquire(
        AcquireRequest::new(
            target(name),
            OwnerId::new("uuid", 7, 1),
            Duration::from_secs(30),
            Duration::from_secs(1),
        )
        .with_tokens(3),
    )
}

fn free(name: &str) -> HoldRequest {
    HoldRequest::Release(ReleaseRequest::new(
        target(name),
        OwnerId::new("uuid", 7, 1),
        Duration::from_secs(1),
    ))
}

/// The error of a request without an answer.
fn late() -> StoreError {
    CallError::TimedOut { server: "127.0.0.1:6379".to_owned(), limit: None }.into()
}

fn add(queue: &mut Queue, request: HoldRequest, deadline: Instant) -> Key {
    add_at(queue, Instant::now(), request, deadline)
}

fn add_at(queue: &mut Queue, now: Instant, request: HoldRequest, deadline: Instant) -> Key {
    let part = request.part().expect("can share a script");
    queue.add(request, part, now, deadline).0
}

/// Queues the requests, a millisecond of time more for each.
fn queue(requests: impl IntoIterator<Item = HoldRequest>) -> (Queue, Vec<Key>, Instant) {
    let start = Instant::now();
    let mut queue = Queue::default();
    let deadlines = (0..).map(|number| start + Duration::from_millis(number));
    let keys = requests.into_iter().zip(deadlines);
    let keys = keys.map(|(request, deadline)| add(&mut queue, request, deadline)).collect();
    (queue, keys, start)
}

fn numbers<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Vec<u64> {
    keys.into_iter().map(|key| key.number).collect()
}

fn write(queue: &Queue, batch: &[Key]) -> ScriptCall {
    queue.write(batch).expect("not empty").0
}

/// The number of keys, the keys and the arguments, without the number of the call.
fn words(call: &ScriptCall) -> Vec<String> {
    let words = call.cmd().args_iter().skip(2).map(|word| match word {
        redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
        other => panic!("{other:?}"),
    });
    let mut words: Vec<_> = words.collect();
    words.pop().expect("the number of the call comes last");
    words
}

/// The server only refuses commands for lack of memory before a script has written.
#[test]
fn those_that_take_go_first() {
    let (mut queue, ..) = queue([free("a"), take("b"), free("c"), take("d")]);
    assert_eq!(numbers(&queue.take_batch(MAX_BATCH)), [1, 3, 0, 2]);
    assert!(!queue.has_unsent());
}

/// The pump looks at a queue that is as much as is under way, also after callers have gone.
#[test]
fn the_pump_is_woken_for_enough() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for gone in 0..3 {
        let (mut queue, keys, _) = queue((0..8).map(|_| take("a")));
        queue.batches = 1;
        assert_eq!(queue.take_batch(MAX_BATCH).len(), 8);
        let far = Instant::now() + Duration::from_secs(60);
        queue.moved = Some(far);
        let waits = |queue: &mut Queue| {
            let (runtime, waker) = (runtime.handle().id(), Some(std::task::Waker::noop().clone()));
            queue.pump = Some(super::queue::Pump { number: 0, runtime, waker, looked: far });
        };
        for _ in 0..7 {
            waits(&mut queue);
            add(&mut queue, take("a"), far);
        }
        waits(&mut queue);
        for key in &keys[..gone] {
            drop(queue.remove(*key));
        }
        add(&mut queue, take("a"), far);
        let is_due = queue.due_at(Instant::now(), true).is_some_and(|at| at < far);
        let is_woken = queue.pump.as_ref().is_some_and(|pump| pump.waker.is_none());
        assert_eq!((is_due, is_woken), (true, true), "{gone} have gone");
    }
}

/// Whatever becomes of requests that were sent, they are not counted as under way for ever.
#[test]
fn what_is_over_is_not_under_way() {
    type End = fn(&mut Queue, &[Key]);
    let ends: [(&str, End); 4] = [
        ("answered", |queue, batch| {
            drop(queue.answer(batch, batch.iter().map(|_| Ok(Answer::Number(1)))))
        }),
        ("dropped", |queue, batch| batch.iter().for_each(|key| drop(queue.remove(*key)))),
        ("out of time", |queue, batch| {
            let error = || Err(late());
            drop(queue.answer(batch, std::iter::repeat_with(error)));
        }),
        ("put back, and dropped", |queue, batch| {
            queue.put_back(batch, false);
            batch.iter().for_each(|key| drop(queue.remove(*key)));
            assert!(queue.latest().is_none());
        }),
    ];
    for (how, end) in ends {
        let (mut queue, ..) = queue((0..4).map(|_| take("a")));
        let batch = queue.take_batch(MAX_BATCH);
        assert_eq!(queue.share(), 2, "half of what is under way");
        end(&mut queue, &batch);
        // A late answer changes no count.
        queue.answer(&batch, batch.iter().map(|_| Ok(Answer::Number(2))));
        assert_eq!(queue.share(), 1, "{how}");
    }
}

/// Two scripts are silent: what is overdue goes out in one more, not in halves.
#[test]
fn the_overdue_are_sent_together() {
    let (mut queue, ..) = queue((0..40).map(|_| take("a")));
    queue.batches = SIDE_BY_SIDE;
    queue.moved = Some(Instant::now() - OVERDUE);
    assert!(queue.due_at(Instant::now(), true).is_some_and(|at| at <= Instant::now()));
    queue.batches += 1;
    assert_eq!(queue.share(), MAX_BATCH);
}

#[test]
fn no_request_is_sent_for_a_caller_that_is_gone() {
    let (mut queue, keys, start) = queue([take("a"), take("b"), free("b")]);
    assert!(queue.remove(keys[1]).is_some());
    // Its place in the table belongs to the next request now.
    add(&mut queue, take("c"), start);
    assert!(queue.remove(keys[1]).is_none());
    assert_eq!(numbers(&queue.take_batch(MAX_BATCH)), [0, 3, 2]);
}

/// An answer belongs to the request that was sent, not to a later one at its place in the table.
#[test]
fn an_answer_reaches_only_its_caller() {
    let (mut queue, keys, start) = queue([take("a"), take("b")]);
    let batch = queue.take_batch(MAX_BATCH);
    assert!(queue.remove(keys[0]).is_some());
    let later = add(&mut queue, take("c"), start);
    queue.answer(&batch, [Ok(Answer::Number(1)), Ok(Answer::Number(2))]);
    let cx = Context::from_waker(std::task::Waker::noop());
    assert!(queue.poll(later, &cx).is_none());
    assert!(matches!(queue.poll(keys[1], &cx), Some(Ok(Answer::Number(2)))));
}

#[test]
fn a_batch_is_bounded_and_taken_from_the_front() {
    let (mut queue, ..) = queue((0..MAX_BATCH + 2).map(|_| take("a")));
    let first = queue.take_batch(MAX_BATCH);
    assert_eq!(numbers(&first), (0..64).collect::<Vec<_>>());
    queue.put_back(&first, false);
    assert_eq!(numbers(&queue.take_batch(MAX_BATCH)), numbers(&first), "not at the front again");
    assert_eq!(numbers(&queue.take_batch(MAX_BATCH)), [64, 65]);
    assert!(queue.take_batch(MAX_BATCH).is_empty());
}

/// A reader has more keys than most, and more work.
#[test]
fn a_batch_has_no_more_keys_than_a_script_may_have() {
    let read = || {
        let key = LockKey::new("a").expect("a valid name");
        let (owner, lease) = (OwnerId::new("uuid", 7, 1), Duration::from_secs(30));
        HoldRequest::Acquire(AcquireRequest::new(Target::read(key), owner, lease, lease))
    };
    let (mut queue, ..) = queue((0..MAX_BATCH).map(|_| read()));
    let mut sizes = Vec::new();
    while queue.has_unsent() {
        let batch = queue.take_batch(MAX_BATCH);
        let keys = words(&write(&queue, &batch))[0].parse::<usize>();
        assert!(keys.is_ok_and(|keys| keys <= MAX_KEYS));
        sizes.push(batch.len());
    }
    assert_eq!(sizes, [16; 4]);
}

#[test]
fn those_set_apart_go_out_one_by_one() {
    let (mut queue, ..) = queue((0..4).map(|_| take("a")));
    let batch = queue.take_batch(MAX_BATCH);
    queue.put_back(&batch[1..3], true);
    queue.put_back(&[batch[0], batch[3]], false);
    for expected in [0, 1, 2, 3] {
        assert_eq!(numbers(&queue.take_batch(MAX_BATCH)), [expected]);
    }
}

#[test]
fn those_with_longer_stay() {
    let (mut queue, keys, start) = queue((0..4).map(|_| take("a")));
    let error = StoreError::from(CallError::NotSent);
    queue.answer_until(start + Duration::from_millis(1), &error);
    let cx = Context::from_waker(std::task::Waker::noop());
    let is_over = keys.iter().map(|key| queue.poll(*key, &cx).is_some()).collect::<Vec<_>>();
    assert_eq!(is_over, [true, true, false, false]);
    assert_eq!(numbers(&queue.take_batch(MAX_BATCH)), [2, 3]);
}

/// Requests whose time is over get that answer, sent or not, and no other; the others keep theirs.
#[test]
fn those_out_of_time_are_found_once() {
    let (mut queue, keys, start) = queue((0..4).map(|_| take("a")));
    assert_eq!(queue.earliest, Some(start));
    let batch = queue.take_batch(MAX_BATCH);
    let last = add(&mut queue, take("b"), start);
    queue.put_back(&batch[2..3], false);
    let over = queue.out_of_time(start + Duration::from_millis(2));
    assert_eq!(numbers(over.iter().map(|(key, _)| key)), [0, 1, 2, 4]);
    assert_eq!(
        over.iter().map(|(_, sent)| sent.is_some()).collect::<Vec<_>>(),
        [true, true, false, false]
    );
    assert_eq!(queue.earliest, Some(start + Duration::from_millis(3)));
    for (key, _) in over {
        queue.answer(&[key], [Err(late())]);
    }
    queue.put_back(&batch[..3], false);
    assert!(queue.take_batch(MAX_BATCH).is_empty(), "sent all the same");
    queue.answer(&batch, (0..4).map(|number| Ok(Answer::Number(number))));
    let cx = Context::from_waker(std::task::Waker::noop());
    for key in [keys[0], keys[2], last] {
        assert!(matches!(queue.poll(key, &cx), Some(Err(_))));
    }
    assert!(matches!(queue.poll(keys[3], &cx), Some(Ok(Answer::Number(3)))));
    assert_eq!((queue.out_of_time(start).len(), queue.earliest), (0, None));
}

/// The batch script passes the same arguments to each part as the request alone writes; those that successive
/// requests share it gets once.
#[test]
fn a_batch_carries_what_each_would_send_alone() {
    let long = |name: &str| match take(name) {
        HoldRequest::Acquire(request) => HoldRequest::Acquire(request.with_tokens(4)),
        release @ HoldRequest::Release(_) => release,
    };
    let requests = [take("a"), take("c"), long("d"), free("b")];
    let each = requests.each_ref().map(|it| words(&it.call(Publish::Everywhere)));
    let (mut queue, ..) = queue(requests);
    let batch = queue.take_batch(MAX_BATCH);
    let [one, other, longer, two] = &each;
    assert_eq!((one[0].as_str(), two[0].as_str()), ("2", "1"));
    let mut expected = vec!["7".to_owned()];
    expected.extend([&one[1..3], &other[1..3], &longer[1..3], &two[1..2]].concat());
    // The number of the script, how many requests, their own arguments, and the shared ones.
    expected.extend(["1".to_owned(), "2".to_owned()]);
    expected.extend([&one[3..4], &other[3..4], &one[4..]].concat());
    expected.extend(["1".to_owned(), "1".to_owned()]);
    expected.extend_from_slice(&longer[3..]);
    expected.extend(["2".to_owned(), "1".to_owned()]);
    expected.extend_from_slice(&two[2..]);
    assert_eq!(words(&write(&queue, &batch)), expected);
    assert_eq!((one.len(), two.len()), (1 + 2 + 4, 1 + 1 + 2), "as `parts!` says");
}

/// All requests of one kind of script that differ in one of what they might share.
fn variants() -> Vec<HoldRequest> {
    let seconds = Duration::from_secs;
    let locks = ["a", "b"].map(|name| LockKey::new(name).expect("a valid name"));
    let mut requests = Vec::new();
    for target in [Target::mutex as fn(LockKey) -> Arc<Target>, Target::fair] {
        for (lock, ttl) in [(0, 90), (1, 90), (0, 95)] {
            let target = target(locks[lock].clone()).with_token_ttl(seconds(ttl));
            let owner = OwnerId::new("uuid", 7, 1);
            let release = ReleaseRequest::new(Arc::clone(&target), owner.clone(), seconds(1));
            requests.push(HoldRequest::Release(release));
            for (lease, tokens, place) in [(30, 1, 5), (40, 1, 5), (30, 2, 5), (30, 1, 6)] {
                let (target, owner) = (Arc::clone(&target), owner.clone());
                let acquire = AcquireRequest::new(target, owner, seconds(lease), seconds(1));
                let acquire = acquire.with_tokens(tokens).with_place(Some(seconds(place)));
                requests.push(HoldRequest::Acquire(acquire));
            }
        }
    }
    requests
}

/// Requests share arguments only if each would send the same alone.
// S-8, S-26.
#[test]
fn only_the_same_arguments_are_shared() {
    let written = |request: &HoldRequest| {
        let mut call = redis::Cmd::new();
        request.write_shared_args(&mut call);
        call.get_packed_command()
    };
    let requests = variants();
    let number = |request: &HoldRequest| request.part().expect("can share a script").number;
    let mut shared = 0;
    for (at, one) in requests.iter().enumerate() {
        for other in requests[at + 1..].iter().filter(|other| number(other) == number(one)) {
            if one.shares_args_with(other) {
                assert_eq!(written(one), written(other), "{one:?} and {other:?}");
                shared += 1;
            }
        }
    }
    // Of mutexes, each acquire of `a` has one of `b`, and all three releases are equal; of fair locks, the releases of `a`.
    assert_eq!(shared, 4 + 3 + 1);
}
