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
    let turns = compete(&clients, rivalry.clone()).await;
    println!(
        "{}: {}% of {} handed over, longest wait {:?}",
        rivalry.kind,
        turns.handed_over(),
        turns.order.len(),
        turns.longest_wait
    );
    turns
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
    let [many, one] = clients;
    for tasks in [1, 4] {
        let clients = [(many.clone(), tasks), (one.clone(), 1)];
        let hold = ms(10);
        let turns =
            compete(&clients, Rivalry { hold, ..rivalry("permit", replicated.clone()) }).await;
        let counts = [0, 1].map(|client| turns.count(client));
        println!("permit: {counts:?} with {tasks} tasks, longest wait {:?}", turns.longest_wait);
        // The head start of the others has two milliseconds, which a busy machine uses up.
        let slower = lock_tests::eventually::slowness(4.0) as usize;
        assert!(counts.iter().all(|count| count * 8 * slower >= turns.order.len()), "{counts:?}");
    }
}

/// S-14, S-29: so do those of a quorum, whose notices come from several servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_locks_go_round_as_well() {
    let servers = crate::support::quorum::servers(3).await;
    let mut order = Vec::new();
    let order_of = std::sync::Mutex::new(&mut order);
    let until = Instant::now() + secs(3);
    let one = async |number: usize| {
        let quorum = LockClient::builder()
            .connect_quorum(servers.iter().map(RedisServer::url), RestartGuard::Off)
            .await
            .unwrap();
        while Instant::now() < until {
            let guard = quorum.mutex("turns").lock().await.unwrap();
            order_of.lock().unwrap().push(number);
            sleep(HOLD).await;
            guard.release().await.unwrap();
        }
    };
    tokio::join!(one(0), one(1));
    let turns = Turns { order, ..Turns::default() };
    println!("quorum: {}% of {}", turns.handed_over(), turns.order.len());
    assert!(turns.handed_over() >= 50);
}

/// S-14: no less either: this is the time in which others may go first.
#[tokio::test(start_paused = true)]
async fn listeners_that_do_not_wait_cost_a_head_start() {
    // Two that want one permit wake each other, at no time passed: with a semaphore, any notice ends the head start.
    for (kind, most) in [("mutex", 2), ("write", 2), ("permit", 1)] {
        for processes in 1..=most {
            let store = MemoryStore::new();
            let key = LockKey::new("turns").unwrap();
            let target = match kind {
                "mutex" => Target::mutex(key),
                "write" => Target::write(key),
                _ => Target::semaphore(key, NonZeroU32::MIN),
            };
            let mut listening = Vec::new();
            for _ in 0..8 {
                listening.push(store.subscribe(&target, HOLD).await.unwrap());
            }
            let clients: Vec<_> = (0..processes)
                .map(|_| (LockClient::builder().store(store.peer()).unwrap(), 1))
                .collect();
            let rivalry = Rivalry { hold: Duration::ZERO, ..rivalry(kind, LockOptions::default()) };
            let turns = compete(&clients, rivalry.clone()).await;
            let each = rivalry.time / u32::try_from(turns.order.len()).unwrap();
            println!("{kind}: {processes} processes beside listeners: {each:?} for each turn");
            // Timers end at whole milliseconds: without a head start, a turn takes one.
            assert!((Duration::from_micros(1500)..=ms(5)).contains(&each), "{each:?}");
        }
    }
}
