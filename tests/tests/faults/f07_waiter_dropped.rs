//! Fault 7: a program drops the future of an acquire that waits in the queue.
//!
//! - Promised: its place goes at once, in the queue of a fair lock too, and the waiter behind it has the lock when it is free.
//! - Seen: all next waiters within 0.1 s of the release.

use crate::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_waiter_has_the_lock() {
    let mut drill = Drill::start().await;
    let held = hold_each(&drill.near.client, SOON * 2).await;
    let other = LockClient::connect(&drill.server.url()).await.unwrap();
    let mut waiting = Vec::new();
    for job in Job::ALL {
        // A reader waits for writers only, and a permit for the last one to be taken.
        let job = if job == Job::Read { Job::Write } else { job };
        let name = own_name(job);
        if job == Job::Permits {
            waiting.push(job.acquire(&other, &name, watched(SOON * 2)).await.unwrap());
        }
    }
    drop(waiting);
    let mut waiters = Vec::new();
    for job in Job::ALL {
        let name = own_name(job);
        let dropped = timeout(ms(50), job.acquire(&drill.far.client, &name, watched(SOON))).await;
        assert!(dropped.is_err() || job == Job::Read || job == Job::Permits);
        let other = other.clone();
        let next = async move { job.acquire(&other, &name, watched(LEASE)).await.unwrap() };
        waiters.push(tokio::spawn(next));
    }
    sleep(ms(50)).await;
    let free = Instant::now();
    release_each(held).await;
    for waiter in waiters {
        let guard = timeout(secs(5), waiter).await.expect("the next waiter has it").unwrap();
        guard.release().await.unwrap();
    }
    eprintln!("all next waiters after {:?}", free.elapsed());
    drill.all_work().await;
    drill.end(Duration::ZERO).await;
}
