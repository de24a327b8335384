//! The examples of each kind of lock, in memory and on a Redis.

use super::*;

both!(fair_queue, |lines| {
    let served = |what| line(lines, what).split_whitespace().collect::<Vec<_>>();
    let came = served("came:");
    assert_eq!(came.len(), 6);
    assert_eq!(served("fair mutex:"), came);
    let all: BTreeSet<_> = served("plain mutex:").into_iter().collect();
    assert_eq!(all, came.into_iter().collect());
});

both!(rw_cache, |lines| {
    for round in 1..=3 {
        let [readers, at_once, renewals] = numbers(line(lines, &format!("round {round}:")))[..]
        else {
            panic!("{lines:#?}")
        };
        assert!(1 < at_once && at_once <= readers, "readers wait for each other: {lines:#?}");
        assert_eq!(renewals, 1, "{lines:#?}");
    }
    assert_eq!(numbers(line(lines, "reads of a list that is half old:")), [0]);
});

both!(semaphore, |lines| {
    let first_three = |line: &str| numbers(line)[..3].to_vec();
    let without = first_three(line(lines, "without the semaphore:"));
    assert!(without[1] > 3 && without[2] > 0, "{lines:#?}");
    assert_eq!(first_three(line(lines, "with the semaphore:")), [18, 3, 0]);
});

both!(scheduled_job, |lines| {
    for tick in 1..=2 {
        let beginning = format!("tick {tick}:");
        let of_tick = lines.iter().filter(|line| line.starts_with(&beginning));
        let (ran, skipped): (Vec<_>, Vec<_>) = of_tick.partition(|line| line.contains("sent"));
        assert_eq!((ran.len(), skipped.len()), (1, 2), "{lines:#?}");
    }
});

both!(transfer, |lines| {
    let deadlock = "one lock after the other:";
    assert!(lines.iter().any(|line| line.starts_with(deadlock)), "no deadlock: {lines:#?}");
    assert_eq!(numbers(line(lines, "both locks or none:"))[0], 100);
    let [ada, bob, together] = numbers(line(lines, "ada"))[..] else { panic!("{lines:#?}") };
    assert_eq!((ada + bob, together), (2_000, 2_000));
    // One of the two transfers above moves a cent if it gets its second lock when the other gives up.
    assert!((849..=851).contains(&ada), "{lines:#?}");
});

both!(fenced_transfer, |lines| {
    assert_eq!(numbers(line(lines, "without a fence:")), [3_000, 2_950]);
    assert_eq!(numbers(line(lines, "with a fence:")), [3_000, 3_000]);
    let refused = line(lines, "with a fence, the late transfer is refused: ");
    assert!(refused.starts_with("the hold of \"account:"), "{lines:#?}");
});

both!(latch, |lines| {
    let loaded: BTreeSet<_> = lines.iter().filter(|line| line.starts_with("worker")).collect();
    assert_eq!(loaded.len(), 3);
    assert_eq!(lines.last().unwrap(), "service: takes requests");
});

both!(blocking, |lines| {
    let first_two = |what| numbers(line(lines, what));
    let without = first_two("without the lock:");
    assert!(without[1] < 50, "no number is taken twice without the lock: {lines:#?}");
    assert_eq!(first_two("with the lock:"), [50, 50]);
});
