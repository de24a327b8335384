//! A semaphore whose limit changes while tasks use it, as in a program that reads it anew (S-30).

use crate::prelude::*;
use crate::support::kinds::two_in_memory;

fn limited(client: &LockClient, limit: u32) -> Semaphore {
    client.semaphore("s", limit)
}

/// S-14, S-30: those who wait with an old limit are in a line of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_with_an_old_limit_stops_no_other() {
    let (_server, redis) = world().await;
    for client in [two_in_memory().0, redis] {
        let held = limited(&client, 1).acquire().await.unwrap();
        let old = limited(&client, 1);
        let old = lock_tests::spawn(async move { old.acquire().await });
        soon!("the old one waits", client.admin().waiting().len() == 1);
        let new = timeout(secs(10), limited(&client, 2).acquire()).await.expect("stopped").unwrap();
        let tried = limited(&client, 3).try_acquire().await.unwrap();
        let tried = tried.expect("stopped by those who wait");
        assert!(limited(&client, 3).try_acquire().await.unwrap().is_none(), "three of three");
        for guard in [tried, new, held] {
            assert!(!old.is_finished(), "more than its limit");
            guard.release().await.unwrap();
        }
        let old = timeout(SOON, old).await.expect("it waits on").unwrap().unwrap();
        old.release().await.unwrap();
    }
}

/// S-14: those with one limit stay in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_with_one_limit_stay_in_line() {
    let (_server, redis) = world().await;
    for client in [two_in_memory().0, redis] {
        let held = limited(&client, 1).acquire().await.unwrap();
        let (order, mut came) = mpsc::unbounded_channel();
        let mut waiters = Vec::new();
        for number in 0..4 {
            let (semaphore, order) = (limited(&client, 1), order.clone());
            waiters.push(lock_tests::spawn(async move {
                let guard = semaphore.acquire().await.unwrap();
                order.send(number).unwrap();
                guard.release().await.unwrap();
            }));
            soon!("it waits", client.admin().waiting().len() == number + 1);
        }
        held.release().await.unwrap();
        for number in 0..4 {
            assert_eq!(timeout(SOON, came.recv()).await.expect("stopped"), Some(number));
        }
        for waiter in waiters {
            waiter.await.unwrap();
        }
    }
}
