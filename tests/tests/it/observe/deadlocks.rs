//! Which waits of holders for each other a survey reports as a deadlock, and which it does not (S-35).

use lock_runtime::acquire::Acquire;
use lock_runtime::admin::Deadlock;

use crate::observe::survey::waits;
use crate::prelude::*;

/// Clients of one store in memory, each as a process of its own.
fn clients<const COUNT: usize>() -> [LockClient; COUNT] {
    let store = MemoryStore::new();
    [(); COUNT].map(|()| LockClient::builder().store(store.peer()).unwrap())
}

async fn deadlocks(client: &LockClient) -> Vec<Deadlock> {
    client.admin().survey().within(SOON).await.unwrap().deadlocks().to_vec()
}

/// Each edge as `holds waits_for`, sorted.
fn edges(deadlock: &Deadlock) -> Vec<String> {
    let edges = deadlock.edges.iter().map(|edge| format!("{} {}", edge.holds, edge.waits_for));
    edges.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Waits for a lock inside of a hold, as the only wait of its client.
async fn inside(client: &LockClient, held: LockGuard, lock: Acquire) -> JoinHandle<()> {
    let task = lock_tests::spawn(async move { drop(held.run(lock).await) });
    waits(client, 1).await;
    task
}

/// A reader waits behind a writer, which waits for a reader, which waits for the first. Without a writer in between it is
/// no deadlock: the second one's turn comes.
#[tokio::test]
async fn a_reader_behind_a_writer_waits_for_readers() {
    for with_writer in [false, true] {
        let [reads, writes, late] = clients();
        let side = reads.rw_lock("prices").read().await.unwrap();
        let stock = late.mutex("stock").lock().await.unwrap();
        if !with_writer {
            let first = inside(&reads, side, reads.mutex("stock").lock()).await;
            stock.run(late.rw_lock("prices").read()).await.unwrap().map(drop).unwrap();
            assert_eq!(deadlocks(&reads).await, []);
            drop(stock);
            first.await.unwrap();
            continue;
        }
        let _writer = lock_tests::spawn(writes.rw_lock("prices").write());
        waits(&writes, 1).await;
        // A moment, so that the order of the two waits shows in whole milliseconds.
        sleep(ms(5)).await;
        inside(&late, stock, late.rw_lock("prices").read()).await;
        assert_eq!(deadlocks(&reads).await, [], "no circle yet");
        inside(&reads, side, reads.mutex("stock").lock()).await;
        let found = deadlocks(&reads).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(edges(&found[0]), ["prices stock", "stock prices"]);
    }
}

/// A hold that waits for two others is part of two circles; both are named, and a third wait that leads to none is not.
#[tokio::test]
async fn each_circle_of_one_hold_is_found() {
    let [one, two, three, idle] = clients();
    let outer = one.mutex("a").lock().await.unwrap();
    let _idle = idle.mutex("d").lock().await.unwrap();
    for (client, name) in [(&two, "b"), (&three, "c")] {
        let held = client.mutex(name).lock().await.unwrap();
        inside(client, held, client.mutex("a").lock()).await;
    }
    let all = ["b", "c", "d"].map(|name| one.mutex(name).lock());
    lock_tests::spawn(async move { outer.run(join_all(all)).await.map(drop) });
    waits(&one, 3).await;
    let mut found: Vec<_> = deadlocks(&one).await.iter().map(edges).collect();
    found.sort();
    assert_eq!(found, [["a b", "b a"], ["a c", "c a"]]);
}

/// Several locks at once are waited for one by one, and so is a hold of several. A wait for a permit is none for one holder
/// of a permit.
#[tokio::test]
async fn multi_locks_are_part_of_circles_and_semaphores_are_not() {
    let [one, two] = clients();
    let both = one.multi_lock(["a", "b"]).lock().await.unwrap();
    let held = two.mutex("x").lock().await.unwrap();
    let b = two.multi_lock(["b", "c"]).lock();
    lock_tests::spawn(async move { held.run(b).await.map(drop) });
    inside(&one, both, one.mutex("x").lock()).await;
    soon!("it is found", deadlocks(&one).await.len() == 1);

    let [one, two] = clients();
    let permit = one.semaphore("mail", 2).acquire().await.unwrap();
    let _other = two.semaphore("mail", 2).acquire().await.unwrap();
    let held = two.mutex("x").lock().await.unwrap();
    inside(&one, permit, one.mutex("x").lock()).await;
    inside(&two, held, two.semaphore("mail", 2).acquire()).await;
    assert_eq!(deadlocks(&one).await, []);
}

/// A hold that tasks of one process hand to each other is no circle, though each waits for it inside of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_offs_are_no_deadlock() {
    let [client, asking] = clients();
    let done = Arc::new(AtomicBool::new(false));
    let tasks = [(); 6].map(|()| client.clone()).into_iter().enumerate().map(|(number, client)| {
        let done = Arc::clone(&done);
        lock_tests::spawn(async move {
            let (outer, hot) = (client.mutex(format!("outer:{number}")), client.mutex("hot"));
            while !done.load(Ordering::Relaxed) {
                outer.run(hot.run(tokio::task::yield_now())).await.unwrap().unwrap();
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for _ in 0..20 {
        assert_eq!(deadlocks(&asking).await, []);
    }
    done.store(true, Ordering::Relaxed);
    joined(tasks).await;
}
