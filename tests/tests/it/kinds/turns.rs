//! How processes share a key that all of them want all the time (S-14).

use crate::prelude::*;

const HOLD: Duration = ms(2);

/// How long processes compete.
const TIME: Duration = secs(3);

/// Takes a lock of that kind again and again, and notes the number of the client for each hold.
async fn compete(
    (number, client): (usize, LockClient),
    (kind, options): (&str, LockOptions),
    turns: Arc<Mutex<Vec<usize>>>,
) {
    let until = Instant::now() + TIME;
    while Instant::now() < until {
        let acquire = match kind {
            "multi" => client.multi_lock(["{turns}a", "{turns}b"]).with(options.clone()).lock(),
            "write" => client.rw_lock("turns").with(options.clone()).write(),
            _ => client.mutex("turns").with(options.clone()).lock(),
        };
        let guard = timeout(SOON, acquire).await.expect("starved").unwrap();
        turns.lock().unwrap().push(number);
        sleep(HOLD).await;
        guard.release().await.unwrap();
    }
}

/// Which client had the lock, hold by hold, where so many tasks of each want it.
async fn turns(
    clients: &[LockClient],
    tasks: usize,
    kind: &'static str,
    options: LockOptions,
) -> Vec<usize> {
    let turns = Arc::<Mutex<Vec<_>>>::default();
    let all = clients.iter().cloned().enumerate().flat_map(|client| vec![client; tasks]);
    let all = all.map(|client| {
        lock_tests::spawn(compete(client, (kind, options.clone()), Arc::clone(&turns)))
    });
    joined(all.collect::<Vec<_>>()).await;
    std::mem::take(&mut *turns.lock().unwrap())
}

/// How many holds of a hundred followed one of another client.
fn handed_over(turns: &[usize]) -> usize {
    let pairs = || turns.windows(2);
    pairs().filter(|pair| pair[0] != pair[1]).count() * 100 / pairs().count().max(1)
}

/// A process that takes a millisecond from hearing of a release to asking, as Redisson does. Answers
/// how many turns it had.
async fn slow_process(store: MemoryStore, target: Arc<Target>, until: Instant) -> usize {
    let mut notices = store.subscribe(&target, HOLD).await.unwrap();
    let owner = OwnerId::new("slow", 1, 1);
    let mut turns = 0;
    while Instant::now() < until {
        sleep(ms(1)).await;
        notices.forget_past();
        let request = AcquireRequest::new(Arc::clone(&target), owner.clone(), secs(30), secs(1));
        if let AcquireReply::Held(_) = store.acquire(request).await.unwrap() {
            let _ = timeout(secs(1), notices.notified()).await;
            continue;
        }
        sleep(HOLD).await;
        let release = ReleaseRequest::new(Arc::clone(&target), owner.clone(), secs(1));
        store.release(release).await.unwrap();
        turns += 1;
    }
    turns
}

/// S-14: beside processes that are quicker, with one task or several each, it has its share.
#[tokio::test(start_paused = true)]
async fn a_slow_process_has_its_turns() {
    for kind in ["mutex", "write", "multi"] {
        for (processes, tasks) in [(1, 1), (2, 1), (3, 1), (2, 4), (8, 1)] {
            let store = MemoryStore::new();
            let key = |name: &str| LockKey::new(name).unwrap();
            let target = match kind {
                "mutex" => Target::mutex(key("turns")),
                "write" => Target::write(key("turns")),
                _ => Target::several(["{turns}a", "{turns}b"].map(key)).unwrap(),
            };
            let client = |_| LockClient::builder().store(store.peer()).unwrap();
            let clients: Vec<_> = (0..processes).map(client).collect();
            let slow = slow_process(store.clone(), target, Instant::now() + TIME);
            let quick = turns(&clients, tasks, kind, LockOptions::default());
            let (quick, slow) = tokio::join!(quick, slow);
            let count = |client| quick.iter().filter(|one| **one == client).count();
            let counts: Vec<_> = (0..processes).map(count).collect();
            let all = slow + quick.len();
            assert!(
                counts.iter().chain([&slow]).all(|turns| turns * 4 * (processes + 1) >= all),
                "{kind}: slow {slow}, quick {counts:?} with {tasks} tasks each"
            );
        }
    }
}

/// S-14, S-31: a release of a lock with replicas is heard of on another connection than its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_with_replicas_go_round_as_well() {
    let master = RedisServer::start().await;
    let _replica = RedisServer::builder().replica_of(master.port()).start().await;
    master.wait_for_replicas(1).await;
    let clients = [connect(&master).await, connect(&master).await];
    let replicated = LockOptions::new().replicas(Replicas::new(1, secs(1)));
    for kind in ["mutex", "write", "multi"] {
        let plain = turns(&clients, 1, kind, LockOptions::default()).await;
        let acknowledged = turns(&clients, 1, kind, replicated.clone()).await;
        assert!(handed_over(&acknowledged) * 4 >= handed_over(&plain) * 3, "{kind}");
    }
}
