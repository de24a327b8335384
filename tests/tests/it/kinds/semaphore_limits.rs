//! A semaphore whose limit changes while tasks use it, as in a program that reads it anew (S-30).

use crate::prelude::*;
use crate::support::kinds::two_in_memory;

/// S-14, S-30: those who wait with an old limit are in a line of their own, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_with_an_old_limit_stay_in_line_and_stop_no_other() {
    let (_server, redis) = world().await;
    for client in [two_in_memory().0, redis] {
        let limited = |limit| client.semaphore("s", limit);
        let held = limited(1).acquire().await.unwrap();
        let (order, mut came) = mpsc::unbounded_channel();
        let mut waiters = Vec::new();
        for number in 0..4 {
            let (acquire, order) = (limited(1).acquire(), order.clone());
            waiters.push(lock_tests::spawn(async move {
                let guard = acquire.await.unwrap();
                order.send(number).unwrap();
                guard.release().await.unwrap();
            }));
            soon!("it waits", client.admin().waiting().len() == number + 1);
        }
        let new = timeout(secs(10), limited(2).acquire()).await.expect("stopped").unwrap();
        let tried = limited(3).try_acquire().await.unwrap().expect("stopped by those who wait");
        assert!(limited(3).try_acquire().await.unwrap().is_none(), "three of three");
        for guard in [tried, new, held] {
            assert!(came.try_recv().is_err(), "more than its limit");
            guard.release().await.unwrap();
        }
        for number in 0..4 {
            assert_eq!(timeout(SOON, came.recv()).await.expect("stopped"), Some(number));
        }
        joined(waiters).await;
    }
}
