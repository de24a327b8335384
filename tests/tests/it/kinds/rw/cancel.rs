//! Dropped at any await point, nothing is left and nobody is forgotten (S-17, S-20, S-21).

use crate::kinds::rw::*;

/// S-21: nobody else has it, so the drops come before, during and after the grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_anywhere_leaves_nothing() {
    let (server, client, other) = world_of_two().await;
    let lock = client.rw_lock("a");
    for write in [false, true] {
        let take = || if write { lock.write() } else { lock.read() };
        // On a busy machine the answer may be there before the first poll has ended.
        let mut asked = false;
        for _ in 0..20 {
            let (polls, guard) = drop_at_every_await(take, async |_| {
                nothing_left(&server, "a").await;
                other.rw_lock("a").write().await.unwrap().release().await.unwrap();
                lock.write().await.unwrap().release().await.unwrap();
                lock.read().await.unwrap().release().await.unwrap();
            })
            .await;
            guard.unwrap().release().await.unwrap();
            nothing_left(&server, "a").await;
            asked = polls >= 2;
            if asked {
                break;
            }
        }
        assert!(asked, "no drop came while the server was asked");
    }
}

/// S-17, S-21: another task has it, so the drops come while trying, subscribing and waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_dropped_anywhere_leaves_nothing() {
    let (server, client) = world().await;
    let holder = connect(&server).await;
    let lock = client.rw_lock("w");
    for (held_by_writer, write) in [(true, false), (true, true), (false, true)] {
        let (mut dropped_between, mut dropped_waiting) = (0, 0);
        for polls in 1..10 {
            let held = holder.rw_lock("w");
            let held = if held_by_writer { held.write() } else { held.read() };
            let guard = held.await.unwrap();
            let wanted = if write { lock.write() } else { lock.read() };
            let dropped = timeout(ms(60), poll_then_drop(wanted, polls)).await;
            match dropped {
                Ok(Polled::Completed(_)) => panic!("took what was held"),
                Ok(Polled::Dropped) => dropped_between += 1,
                Err(_) => dropped_waiting += 1,
            }
            // A reader that comes now waits for the holder, if for anybody.
            if !held_by_writer {
                drop(got(reading(&client, "w"), at_once()).await);
            }
            guard.release().await.unwrap();
            nothing_left(&server, "w").await;
        }
        assert!(dropped_between >= 2, "{dropped_between} drops while it asked and subscribed");
        assert!(dropped_waiting >= 1, "no drop came while it waited for the holder");
    }
    listening(&server, "w", 0).await;
}

/// S-17, S-27: a reader that asks for all whether they may join is dropped: another asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joiner_dropped_anywhere_takes_no_reader_along() {
    let (server, client) = world().await;
    let lock = client.rw_lock("j");
    let (mut asking, mut joined) = (0, 0);
    // On a busy machine a whole round may be answered before its first poll has ended.
    for round in 0..20 {
        for polls in 0..6 {
            let holder = lock.read().await.unwrap();
            sleep(ms(10)).await;
            let joiner = timeout(ms(60), poll_then_drop(lock.read(), polls));
            let (dropped, others) = tokio::join!(joiner, async {
                [
                    got(reading(&client, "j"), PROMPTLY).await,
                    got(reading(&client, "j"), PROMPTLY).await,
                ]
            });
            match &dropped {
                Ok(Polled::Completed(_)) => joined += 1,
                Ok(Polled::Dropped) if polls > 0 => asking += 1,
                _ => {}
            }
            drop((dropped, others));
            let last = reading(&client, "j");
            holder.release().await.unwrap();
            drop(got(last, PROMPTLY).await);
            nothing_left(&server, "j").await;
        }
        if asking >= 1 && joined >= 1 {
            return;
        }
        println!("round {round}: {asking} dropped while asking, {joined} joined");
    }
    panic!("no drop came while it asked, or none got as far as to join");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_outlives_its_head() {
    let (server, client, other) = world_of_two().await;
    let writer = other.rw_lock("line").write().await.unwrap();
    let first = reading(&client, "line");
    listening(&server, "line", 1).await;
    let rest: Vec<_> = (0..5).map(|_| reading(&client, "line")).collect();
    sleep(ms(20)).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    writer.release().await.unwrap();
    drop(all_got(rest, PROMPTLY).await);
    nothing_left(&server, "line").await;
}

/// S-20: both sides, and the write side of a downgrade.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_dropped_anywhere_is_finished() {
    let (server, client) = world().await;
    let lock = client.rw_lock("r");
    let mut completed = [false; 3];
    let is_done = |dropped: Polled<_>| matches!(dropped, Polled::Completed(Ok(())));
    for polls in 0..12 {
        completed[0] = is_done(poll_then_drop(lock.read().await.unwrap().release(), polls).await);
        nothing_left(&server, "r").await;
        let writer = lock.write().await.unwrap();
        let reader = writer.run(lock.read()).await.unwrap().unwrap();
        completed[1] = is_done(poll_then_drop(writer.release(), polls).await);
        got(reading(&client, "r"), at_once()).await.release().await.unwrap();
        let waiting = writing(&client, "r");
        listening(&server, "r", 1).await;
        completed[2] = is_done(poll_then_drop(reader.release(), polls).await);
        got(waiting, at_once()).await.release().await.unwrap();
        nothing_left(&server, "r").await;
        if polls >= 5 && completed == [true; 3] {
            return;
        }
    }
    panic!("within 12 polls these releases completed: {completed:?}");
}
