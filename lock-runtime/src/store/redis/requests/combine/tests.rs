use super::*;
use crate::key::LockKey;
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

/// Queues the requests, a millisecond of time more for each, and keeps their callers.
fn queue(
    requests: impl IntoIterator<Item = HoldRequest>,
) -> (State, Vec<oneshot::Receiver<Answer>>, Instant) {
    let start = Instant::now();
    let mut state = State::default();
    let mut callers = Vec::new();
    for (number, request) in (0..).zip(requests) {
        let (answer, caller) = oneshot::channel();
        let deadline = start + Duration::from_millis(number);
        state.queue.push_back(Entry { number, request, deadline, alone: false, answer });
        callers.push(caller);
    }
    (state, callers, start)
}

fn numbers<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<u64> {
    entries.into_iter().map(|entry| entry.number).collect()
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
    let (mut state, _callers, _) = queue([free("a"), take("b"), free("c"), take("d")]);
    assert_eq!(numbers(&state.take_batch()), [1, 3, 0, 2]);
    assert!(state.queue.is_empty());
}

#[test]
fn nobody_asks_for_a_caller_that_is_gone() {
    let (mut state, mut callers, _) = queue([take("a"), take("b"), free("b")]);
    drop(callers.remove(1));
    assert_eq!(numbers(&state.take_batch()), [0, 2]);
}

#[test]
fn a_batch_is_bounded_and_taken_from_the_front() {
    let (mut state, _callers, _) = queue((0..MAX_BATCH + 2).map(|_| take("a")));
    let first = state.take_batch();
    assert_eq!(numbers(&first), (0..64).collect::<Vec<_>>());
    state.put_back(first);
    assert_eq!(numbers(&state.queue), (0..66).collect::<Vec<_>>());
    state.take_batch();
    assert_eq!(numbers(&state.take_batch()), [64, 65]);
    assert!(state.take_batch().is_empty());
}

/// A reader has more keys than most.
#[test]
fn a_batch_has_no_more_keys_than_a_script_may_have() {
    let read = || {
        let key = LockKey::new("a").expect("a valid name");
        let (owner, lease) = (OwnerId::new("uuid", 7, 1), Duration::from_secs(30));
        HoldRequest::Acquire(AcquireRequest::new(Target::read(key), owner, lease, lease))
    };
    let (mut state, _callers, _) = queue((0..MAX_BATCH).map(|_| read()));
    let mut sizes = Vec::new();
    while !state.queue.is_empty() {
        let entries = state.take_batch();
        assert!(words(&write_batch(&entries))[0].parse::<usize>().is_ok_and(|it| it <= MAX_KEYS));
        sizes.push(entries.len());
    }
    assert_eq!(sizes, [42, 22]);
}

#[test]
fn those_set_apart_go_out_one_by_one() {
    let (mut state, _callers, _) = queue((0..4).map(|_| take("a")));
    state.queue[1].alone = true;
    state.queue[2].alone = true;
    for expected in [0, 1, 2, 3] {
        assert_eq!(numbers(&state.take_batch()), [expected]);
    }
}

#[test]
fn those_with_longer_stay() {
    let (mut state, _callers, start) = queue((0..4).map(|_| take("a")));
    let over = state.take_until(start + Duration::from_millis(1));
    assert_eq!((numbers(&over), numbers(&state.queue)), (vec![0, 1], vec![2, 3]));
}

/// The batch script passes the same arguments to each part as the request alone writes.
#[test]
fn a_batch_carries_what_each_would_send_alone() {
    let (mut state, _callers, _) = queue([take("a"), free("b"), take("c")]);
    let entries = state.take_batch();
    let [one, other, two] =
        [0, 1, 2].map(|at| words(&entries[at].request.call(Publish::Everywhere)));
    assert_eq!((one[0].as_str(), two[0].as_str()), ("2", "1"));
    let mut expected = vec!["5".to_owned()];
    expected.extend_from_slice(&one[1..3]);
    expected.extend_from_slice(&other[1..3]);
    expected.extend_from_slice(&two[1..2]);
    expected.extend(["1".to_owned(), "2".to_owned()]);
    expected.extend_from_slice(&one[3..]);
    expected.extend_from_slice(&other[3..]);
    expected.extend(["2".to_owned(), "1".to_owned()]);
    expected.extend_from_slice(&two[2..]);
    assert_eq!(words(&write_batch(&entries)), expected);
    assert_eq!((one.len(), two.len()), (1 + 2 + 4, 1 + 1 + 2), "as `parts!` says");
}
