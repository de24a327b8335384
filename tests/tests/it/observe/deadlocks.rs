//! Which waits of holders for each other a survey reports as a deadlock, and which it does not (S-35).

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
    let mut edges: Vec<_> = edges.collect();
    edges.sort();
    edges
}

/// A reader waits behind a writer, which waits for a reader, which waits for the first.
#[tokio::test]
async fn a_reader_behind_a_writer_waits_for_readers() {
    let [reads, writes, late] = clients();
    let side = reads.rw_lock("prices").read().await.unwrap();
    let stock = late.mutex("stock").lock().await.unwrap();
    let _writer = lock_tests::spawn(writes.rw_lock("prices").write());
    waits(&writes, 1).await;
    // A moment, so that the order of the two waits shows in whole milliseconds.
    sleep(ms(5)).await;
    let prices = late.rw_lock("prices");
    let _late = lock_tests::spawn(async move { stock.run(prices.read()).await.map(drop) });
    waits(&late, 1).await;
    assert_eq!(deadlocks(&reads).await, [], "no circle yet");

    let inner = reads.mutex("stock");
    let _first = lock_tests::spawn(async move { side.run(inner.lock()).await.map(drop) });
    waits(&reads, 1).await;
    let found = deadlocks(&reads).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(edges(&found[0]), ["prices stock", "stock prices"]);
}

/// Readers that do not wait for a writer are no deadlock: the second one's turn comes.
#[tokio::test]
async fn readers_alone_are_no_deadlock() {
    let [reads, late] = clients();
    let side = reads.rw_lock("prices").read().await.unwrap();
    let stock = late.mutex("stock").lock().await.unwrap();
    let inner = reads.mutex("stock");
    let first = lock_tests::spawn(async move { side.run(inner.lock()).await.map(drop) });
    waits(&reads, 1).await;
    let prices = late.rw_lock("prices");
    stock.run(prices.read()).await.unwrap().map(drop).unwrap();
    assert_eq!(deadlocks(&reads).await, []);
    drop(stock);
    first.await.unwrap().unwrap();
}

/// A hold that waits for two others is part of two circles; both are named, and a third wait that leads to none is not.
#[tokio::test]
async fn each_circle_of_one_hold_is_found() {
    let [one, two, three, idle] = clients();
    let outer = one.mutex("a").lock().await.unwrap();
    let (b, c, d) = (one.mutex("b"), one.mutex("c"), one.mutex("d"));
    let _idle = idle.mutex("d").lock().await.unwrap();
    for (client, name) in [(&two, "b"), (&three, "c")] {
        let held = client.mutex(name).lock().await.unwrap();
        let a = client.mutex("a");
        lock_tests::spawn(async move { held.run(a.lock()).await.map(drop) });
        waits(client, 1).await;
    }
    lock_tests::spawn(async move {
        outer.run(async { drop(tokio::join!(b.lock(), c.lock(), d.lock())) }).await
    });
    waits(&one, 3).await;
    let mut found: Vec<_> = deadlocks(&one).await.iter().map(edges).collect();
    found.sort();
    assert_eq!(found, [["a b", "b a"], ["a c", "c a"]]);
}

/// Several locks at once are waited for one by one, and so is a hold of several.
#[tokio::test]
async fn multi_locks_are_part_of_circles() {
    let [one, two] = clients();
    let both = one.multi_lock(["a", "b"]).lock().await.unwrap();
    let held = two.mutex("x").lock().await.unwrap();
    let (inner, b) = (one.mutex("x"), two.multi_lock(["b", "c"]));
    lock_tests::spawn(async move { both.run(inner.lock()).await.map(drop) });
    lock_tests::spawn(async move { held.run(b.lock()).await.map(drop) });
    waits(&one, 1).await;
    eventually(SOON, "it is found", async || deadlocks(&one).await.len() == 1).await;
}

/// A hold that tasks of one process hand to each other is no circle, though each waits for it inside of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_offs_are_no_deadlock() {
    let [client, asking] = clients();
    let done = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let (client, done) = (client.clone(), Arc::clone(&done));
            lock_tests::spawn(async move {
                let outer = client.mutex(format!("outer:{number}"));
                let hot = client.mutex("hot");
                while !done.load(Ordering::Relaxed) {
                    let held = outer.lock().await.unwrap();
                    held.run(hot.run(async { tokio::task::yield_now().await }))
                        .await
                        .unwrap()
                        .unwrap();
                    held.release().await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(deadlocks(&asking).await, []);
    }
    done.store(true, Ordering::Relaxed);
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
}

/// A wait for a permit is none for one holder of a permit.
#[tokio::test]
async fn semaphores_make_no_deadlock() {
    let [one, two] = clients();
    let permits = 2;
    let own = one.semaphore("mail", permits);
    let _other = two.semaphore("mail", permits).acquire().await.unwrap();
    let held = two.mutex("x").lock().await.unwrap();
    let (x, mail) = (one.mutex("x"), two.semaphore("mail", permits));
    lock_tests::spawn(async move { own.run(x.lock()).await.map(drop) });
    waits(&one, 1).await;
    lock_tests::spawn(async move { held.run(mail.acquire()).await.map(drop) });
    waits(&two, 1).await;
    assert_eq!(deadlocks(&one).await, []);
}
