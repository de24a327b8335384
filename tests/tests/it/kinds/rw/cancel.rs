//! Dropped at any await point, nothing is left and nobody is forgotten (S-17, S-20, S-21).

use crate::kinds::rw::*;

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
