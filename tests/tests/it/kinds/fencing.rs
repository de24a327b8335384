//! Fencing tokens of a name only ever grow (S-23), whatever becomes of the server's data.

use crate::prelude::*;

/// Takes and releases it, and checks that its token is above all before it.
async fn next(client: &LockClient, kind: &str, name: &str, last: &mut FencingToken) {
    let guard = take(client, kind, name, LockOptions::default()).await.unwrap();
    assert!(guard.token() > *last, "{kind}: {} after {last}", guard.token());
    *last = guard.token();
    guard.release().await.unwrap();
}

/// One counter for a name, whatever it is taken as and by whom; a re-entry adds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_share_a_counter() {
    let (_server, one, two) = world_of_two().await;
    let clients = [one, two];
    let mut last = FencingToken::new(0);
    for round in 0..5 {
        for kind in ["mutex", "fair", "write", "read", "mutex", "write", "fair"] {
            next(&clients[round % 2], kind, "one", &mut last).await;
        }
        let guard = clients[0].mutex("one").lock().await.unwrap();
        let nested = guard.run(clients[0].mutex("one").lock()).await.unwrap().unwrap();
        assert_eq!(nested.token(), guard.token());
        last = guard.token();
        nested.release().await.unwrap();
        guard.release().await.unwrap();
    }
    // Its number stays where the locks have been, so it comes last.
    next(&clients[0], "semaphore", "one", &mut last).await;
    next(&clients[1], "semaphore", "one", &mut last).await;
}

/// S-14: handed from task to task within two processes that compete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_offs_keep_the_order() {
    let (_server, one, two) = world_of_two().await;
    let last = Arc::new(Mutex::new(FencingToken::new(0)));
    let tasks = (0..16).map(|task| {
        let (client, last) = (if task < 8 { one.clone() } else { two.clone() }, last.clone());
        lock_tests::spawn(async move {
            for turn in 0..60 {
                // A hold that is handed on and one that never is share the counter.
                let is_fixed = task % 8 == 0 && turn % 4 == 0;
                let lease = if is_fixed { Lease::Fixed(secs(30)) } else { Lease::default() };
                let guard = client.mutex("hot").lease(lease).lock().await.unwrap();
                {
                    let mut last = last.lock().unwrap();
                    assert!(guard.token() > *last, "{} after {last}", guard.token());
                    *last = guard.token();
                }
                guard.release().await.unwrap();
            }
        })
    });
    joined(tasks.collect::<Vec<_>>()).await;
}
