//! How processes share a key that all of them want all the time (S-14).

use crate::prelude::*;
use crate::support::rivals::{Rivalry, Turns, compete};

const HOLD: Duration = ms(2);

fn rivalry(kind: &'static str, options: LockOptions) -> Rivalry {
    Rivalry { kind, name: "turns", options, hold: HOLD, time: secs(3) }
}

async fn pair(server: &RedisServer) -> [LockClient; 2] {
    let url = server.url();
    [LockClient::connect(&url).await.unwrap(), LockClient::connect(&url).await.unwrap()]
}

async fn one_task_each(clients: &[LockClient], rivalry: Rivalry) -> Turns {
    let clients: Vec<_> = clients.iter().map(|client| (client.clone(), 1)).collect();
    compete(&clients, rivalry).await
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
            let quick: Vec<_> = (0..processes)
                .map(|_| (LockClient::builder().store(store.peer()).unwrap(), tasks))
                .collect();
            let rivalry = rivalry(kind, LockOptions::default());
            let slow = slow_process(store, target, Instant::now() + rivalry.time);
            let (quick, slow) = tokio::join!(compete(&quick, rivalry), slow);
            let counts: Vec<_> = (0..processes).map(|client| quick.count(client)).collect();
            let all = slow + quick.order.len();
            println!("{kind}: slow {slow}, quick {counts:?} with {tasks} tasks each");
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
    let clients = pair(&master).await;
    let replicated = LockOptions::new().replicas(Replicas::new(1, secs(1)));
    for kind in ["mutex", "write", "multi"] {
        let plain = one_task_each(&clients, rivalry(kind, LockOptions::default())).await;
        let acknowledged = one_task_each(&clients, rivalry(kind, replicated.clone())).await;
        assert!(acknowledged.handed_over() * 4 >= plain.handed_over() * 3, "{kind}");
    }
}
