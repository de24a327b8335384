//! A contender that is left alone at each of its await points, in each kind.

use crate::kinds::polled::*;

/// The lease of every lock here. A grant that its contender does not read would keep the lock as long.
const LEASE: Duration = ms(30_000);

/// A second for the sleeper, a look at it every half second, and some round trips.
const BOUND: Duration = ms(1_000 + 500 + 200);

/// Polls a future that often, as an executor would, and leaves it where it is then. True if it is
/// done before.
pub(crate) async fn polled(acquiring: &mut Acquiring, polls: usize) -> bool {
    let polled = timeout(ms(100), poll_then_drop(acquiring.as_mut(), polls)).await;
    match polled {
        Ok(Polled::Completed(guard)) => {
            guard.unwrap().release().await.unwrap();
            true
        }
        _ => false,
    }
}

/// The next waiter of the same process has it within the bound, and then the sleeper has it.
async fn goes_on(
    behind: impl Future<Output = Result<LockGuard, LockError>>,
    mut sleeper: Acquiring,
    what: &str,
) {
    let start = Instant::now();
    let guard = timeout(BOUND * 4, behind).await.unwrap_or_else(|_| panic!("{what}: hangs"));
    let waited = start.elapsed();
    assert!(waited <= BOUND, "{what}: waited {waited:?}");
    let guard = guard.unwrap();
    // It is polled while another has the lock, and lines up again.
    let early = timeout(ms(200), &mut sleeper).await;
    assert!(early.is_err(), "{what}: two have it");
    guard.release().await.unwrap();
    let late = timeout(BOUND, sleeper).await.unwrap_or_else(|_| panic!("{what}: lost its wait"));
    late.unwrap().release().await.unwrap();
}

/// S-34: no task holds the lock; the sleeper was asking, or had been granted it and did not know.
#[tokio::test(start_paused = true)]
async fn a_sleeper_before_a_free_lock_is_passed_over() {
    for kind in KINDS {
        let [client, _] = clients(kind, LEASE);
        let mut polls = 1;
        loop {
            let what = format!("{kind}, {polls} polls");
            let mut sleeper = lock(&client, kind, "free");
            if polled(&mut sleeper, polls).await {
                break;
            }
            goes_on(lock(&client, kind, "free"), sleeper, &what).await;
            polls += 1;
        }
        assert!(polls > 1, "{kind} had no await point");
    }
}

/// S-28, S-34: the same before a lock that is made of others, one of them kept by a quorum.
#[tokio::test(start_paused = true)]
async fn a_sleeper_before_free_locks_of_two_clients_is_passed_over() {
    let mut polls = 1;
    loop {
        let what = format!("{polls} polls");
        let ([quorum, _], [client, other]) = (clients("quorum", LEASE), clients("write", LEASE));
        let write = MultiMember::write(&client.rw_lock("free"));
        let both = MultiLock::of([quorum.mutex("free").into(), write]);
        let mut sleeper: Acquiring = Box::pin(both.lock());
        if polled(&mut sleeper, polls).await {
            break;
        }
        goes_on(Box::pin(both.lock()), sleeper, &what).await;
        let after = timeout(BOUND, lock(&other, "write", "free")).await;
        drop(after.unwrap_or_else(|_| panic!("{what}: left held")).unwrap());
        polls += 1;
    }
    assert!(polls > 2, "it had one await point for two locks");
}

/// S-34: another process held the lock; the sleeper was asking, subscribing, asking again, waiting.
#[tokio::test(start_paused = true)]
async fn a_sleeper_behind_another_process_is_passed_over() {
    for kind in KINDS {
        for polls in 1..8 {
            let what = format!("{kind}, {polls} polls");
            let [holder, client] = clients(kind, LEASE);
            let held = lock(&holder, kind, "held").await.unwrap();
            let mut sleeper = lock(&client, kind, "held");
            assert!(!polled(&mut sleeper, polls).await, "{what}: took a lock that was held");
            let behind = lock_tests::spawn(lock(&client, kind, "held"));
            sleep(ms(50)).await;
            assert!(!behind.is_finished());
            held.release().await.unwrap();
            goes_on(behind.map(Result::unwrap), sleeper, &what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_reader_is_passed_over() {
    for (polls, held, tries) in (1..8).flat_map(|polls| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(a, b)| (polls, a, b))
    }) {
        let what = format!("{polls} polls, held: {held}, tries: {tries}");
        let [holder, client] = clients("read", LEASE);
        let mut writer = lock(&holder, "write", "r").await.ok();
        if !held {
            writer.take().unwrap().release().await.unwrap();
        }
        let mut sleeper = lock(&client, "read", "r");
        if polled(&mut sleeper, polls).await {
            continue;
        }
        release_all(writer).await;
        let reads = async {
            let lock = client.rw_lock("r");
            if tries { lock.try_read().await.map(Option::unwrap) } else { lock.read().await }
        };
        let start = Instant::now();
        let guard = timeout(BOUND * 4, reads).await.unwrap_or_else(|_| panic!("{what}: hangs"));
        let waited = start.elapsed();
        assert!(waited <= ms(1_300), "{what}: waited {waited:?}");
        let late = timeout(BOUND, sleeper).await.unwrap_or_else(|_| panic!("{what}"));
        release_all([guard.unwrap(), late.unwrap()]).await;
    }
}

/// S-34: a `try_read` that has asked and is left alone keeps those beside it for a second.
#[tokio::test(start_paused = true)]
async fn a_sleeping_try_is_passed_over() {
    for joins in [false, true] {
        let [_, client] = clients("read", LEASE);
        let lock = client.rw_lock("t");
        let reader = match joins {
            true => Some(lock.read().await.unwrap()),
            false => None,
        };
        // Longer than the last answer is good for.
        sleep(ms(200)).await;
        let mut sleeper = Box::pin(lock.try_read());
        assert!(futures_util::poll!(&mut sleeper).is_pending());
        let start = Instant::now();
        let beside = (0..5).map(|_| lock.try_read());
        for tried in futures_util::future::join_all(beside).await {
            drop(tried.unwrap().expect("no writer holds it"));
        }
        let waited = start.elapsed();
        assert!(waited <= ms(1_200), "joins: {joins}, waited {waited:?}");
        drop((sleeper, reader));
    }
}

/// S-34: whoever asks a latch for all is not polled any more.
#[tokio::test(start_paused = true)]
async fn a_sleeper_before_a_latch_is_passed_over() {
    for polls in 1..8 {
        let [one, other] = clients("latch", LEASE);
        assert!(other.latch("l").try_set_count(1).await.unwrap());
        let latch = one.latch("l");
        let mut sleeper = Box::pin(latch.reached());
        let _ = timeout(ms(100), poll_then_drop(sleeper.as_mut(), polls)).await;
        let behind = lock_tests::spawn({
            let latch = latch.clone();
            async move { latch.reached().await }
        });
        sleep(ms(50)).await;
        other.latch("l").count_down().await.unwrap();
        let start = Instant::now();
        let opened = timeout(BOUND * 4, behind).await.expect("hangs");
        opened.unwrap().unwrap();
        let waited = start.elapsed();
        assert!(waited <= ms(1_200), "{polls} polls: waited {waited:?}");
        timeout(BOUND, sleeper).await.expect("the sleeper hangs").unwrap();
    }
}

/// S-34: an acquire over a quorum that is not polled while the votes come counts them when it is, although the time to
/// wait for them is over.
#[tokio::test(start_paused = true)]
async fn votes_count_that_have_come_in_time() {
    for _ in 0..20 {
        let [client, _] = clients("quorum", secs(30));
        let mut acquiring = Box::pin(client.mutex("k").wait(Wait::None).lock());
        assert!(poll!(&mut acquiring).is_pending());
        sleep(secs(3)).await;
        acquiring.await.unwrap().release().await.unwrap();
    }
}

/// S-34: contenders whose answers are slow keep their turns, those too whose requests share a script, and which have no
/// timer of their own for signs of life.
#[tokio::test]
async fn contenders_with_slow_answers_keep_their_turns() {
    const COUNT: u64 = 24;
    let (server, proxy, client) = far_world_with(secs(20)).await;
    let raw = server.client();
    proxy.delay_replies(ms(2_500));
    server.reset_stats().await;
    let asked = Instant::now();
    // A runtime of one thread polls them in this order: the first 16 go out alone, and the others queue before any task
    // can send them.
    let acquire = |n| lock_tests::spawn(lock(&client, "mutex", &format!("k{n}")));
    let contenders: Vec<_> = (0..COUNT).map(acquire).collect();
    soon!("all are granted", raw.keys().await.len() as u64 == 2 * COUNT);
    let scripts = server.command_calls().await["evalsha"];
    assert!(scripts <= 18, "{scripts} scripts, not what this is about");
    let behind: Vec<_> = (0..COUNT).map(acquire).collect();
    for (contender, behind) in contenders.into_iter().zip(behind) {
        let guard = timeout(SOON, contender).await.expect("hangs").unwrap().unwrap();
        assert!(asked.elapsed() >= ms(2_000), "not slow, not what this is about");
        assert!(!behind.is_finished(), "passed over");
        proxy.pass();
        guard.release().await.unwrap();
        timeout(SOON, behind).await.expect("hangs").unwrap().unwrap().release().await.unwrap();
    }
}
