//! Fault 75: the clocks of all clients run 1 % slower than the server's.
//!
//! - Promised: nothing at all happens: a holder that does not renew its lock stops using it before the next one has it.
//! - Seen: no two holders; with clocks that are 3 % slower the next one has it while the holder goes on.

use lock_tests::preload::WallClock;

use crate::prelude::*;

/// So long that a hundredth of it is more than it takes to acquire a lock that has ended.
const HELD: Duration = secs(4);

/// How the history calls the process of the test's own holders.
const HOLDERS: u32 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_happens() {
    // A client reads its clock without a function that a library could replace. The two differ in the same way.
    let clock = WallClock::new();
    clock.run_fast(10);
    let server = RedisServer::builder().envs(&clock.envs());
    let mut drill = Drill::without_fault(server, Vec::new()).await;
    let recorder = Arc::new(drill.record_as(HOLDERS));
    let use_up = async |kind: &str, task: u64, client: &LockClient| {
        let name = format!("used up {kind}");
        let witness = Witness::new(&recorder, task, &name, Share::Exclusive);
        // What a waiter is told of the lease it measures by its own clock, which is slow. So this one asks all the time.
        let acquire = async {
            loop {
                match take(client, kind, &name, fixed(HELD).wait(Wait::None)).await {
                    Err(error) if error.is_busy() => sleep(ms(2)).await,
                    acquired => return acquired,
                }
            }
        };
        let held = timeout(SOON, witness.acquire(acquire)).await.unwrap().unwrap();
        let loss = held.effects(ms(5), true).await;
        assert!(matches!(loss, LockError::Lost { cause: LossCause::Deadline, .. }), "{loss:?}");
    };
    let clients = [&drill.near.client, &drill.far.client].into_iter().cycle();
    let holders = EXCLUSIVE.into_iter().cycle().zip(clients).zip(0..6);
    join_all(holders.map(|((kind, client), task)| use_up(kind, task, client))).await;
    drill.all_work().await;
    drill.end(Duration::ZERO).await;
}
