//! Shadow mode (`enforce`) is for policies that are new and wrong: it must not fill the log.

use crate::observe::shadow::*;

const RUNS: &str = "runs without the lock";

#[distributed_lock(key = "tight:{id}", policy = "trial", lease = "150ms", client = client)]
async fn overstays(client: &LockClient, id: u64) -> Result<(), LockError> {
    sleep(ms(300)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn at_most_one_line_a_second() {
    let (log, (seen, _here)) = (Log::start(), Kept::here());
    let Pair { client, other } = memory();
    let _held = other.mutex("job:1").lock().await.unwrap();
    for _ in 0..500 {
        try_out(&client, 1).await.unwrap();
    }
    let lines = log.lines_with(RUNS);
    assert_eq!(lines.len(), 1, "500 calls in less than a second");
    for part in ["lock.name=\"job:1\"", "lock.policy=\"trial\"", "scenario::try_out", "error="] {
        assert!(lines[0].contains(part), "no {part}: {}", lines[0]);
    }
    sleep(secs(1)).await;
    for _ in 0..500 {
        client.policy_lock("trial", ["job:1"]).shadow_lock().await.unwrap_err();
    }
    let lines = log.lines_with(RUNS);
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[1].contains("lock.unlogged=499"), "{}", lines[1]);
    // The rest is counted.
    assert!(seen.is("lock_acquire_total", &[("outcome", "not_enforced")], 1000), "{}", seen.text());
}

/// The same limit for the losses of holds that no call depends on.
#[tokio::test(start_paused = true)]
async fn losses_count_as_well() {
    let log = Log::start();
    let Pair { client, .. } = memory();
    let calls = join_all((0..100).map(|id| overstays(&client, id)));
    calls.await.into_iter().for_each(|call| call.unwrap());
    let told: usize =
        ["lock lost", "its release failed"].map(|what| log.lines_with(what).len()).iter().sum();
    assert!((1..=2).contains(&told), "{told} lines for 100 losses in a second:\n{}", log.text());
    // An enforced policy's losses are each told.
    let lock = client.policy_lock("checkout", ["a"]).with(fixed(ms(150)));
    for _ in 0..3 {
        assert!(lock.lock().await.unwrap().lost().await.is_lost());
    }
    let lines = log.lines_with("lock lost");
    assert_eq!(lines.iter().filter(|line| line.contains("lock.policy=\"checkout\"")).count(), 3);
}
