//! A line of a fair lock in which waiters of both sides come and go for many seconds (S-26).

use crate::interop::world::*;

/// How long the line is never empty.
const TIME: Duration = secs(12);

/// How many wait on each side.
const EACH: u64 = 4;

/// How far ahead of the server's clock a place may be, with waits of less than a second: the lease of the holder that the
/// first waiter lined up behind, which Redisson's own script adds; what the clients of Redisson in line can subtract; a
/// place of ours, and half of one.
const BOUND: Duration = secs(30 + EACH + 8);

/// How long a free lock may be kept for a waiter of ours that was killed: its place, half of one, and a third until another
/// waiter looks.
const KEPT: Duration = ms(5_000 + 2_500 + 1_700);

/// The place that ends last, from now.
async fn furthest(raw: &RawClient) -> Duration {
    let all = ["ZREVRANGE", "redisson_lock_timeout:{f}", "0", "0", "WITHSCORES"];
    let last: Vec<(String, f64)> = raw.get(&all).await;
    let ends = last.first().map_or(0.0, |(_, score)| *score);
    Duration::from_secs_f64(ends.max(0.0) / 1000.0).saturating_sub(ms(raw.time_millis().await))
}

/// Waiters of ours that come and go until then. Returns how often they got the lock, and how often they tried.
async fn tries(world: &World, wait: Duration, hold: Duration, count: u64) -> [u64; 2] {
    let until = Instant::now() + TIME;
    // With its defaults, as Java has.
    let client = LockClient::connect(&world.server.url()).await.unwrap();
    let one = |client: LockClient| async move {
        let [mut granted, mut all] = [0, 0];
        while Instant::now() < until {
            all += 1;
            match client.fair_mutex("f").with(waits(wait)).lock().await {
                Ok(guard) => {
                    granted += 1;
                    sleep(hold).await;
                    guard.release().await.unwrap();
                }
                Err(error) => assert!(error.is_timeout(), "{error}"),
            }
        }
        [granted, all]
    };
    let each = (0..count).map(|_| lock_tests::spawn(one(client.clone())));
    let counts = join_all(each).await.into_iter().map(|counts| counts.unwrap());
    counts.fold([0, 0], |[granted, all], counts| [granted + counts[0], all + counts[1]])
}

/// Runs such a line, and returns how often each side got the lock, and how often it tried: ours first.
async fn line(world: &mut World, wait: Duration, hold: Duration, each: u64) -> [[u64; 2]; 2] {
    let (raw, until) = (world.server.client(), Instant::now() + TIME);
    let words = format!(
        "tries fair f {} {} {each} {}",
        wait.as_millis(),
        hold.as_millis(),
        TIME.as_millis()
    );
    let java = world.java.begin("t", &words);
    let watched = async {
        let mut most = Duration::ZERO;
        while Instant::now() < until {
            most = most.max(furthest(&raw).await);
            sleep(ms(20)).await;
        }
        most
    };
    let (most, ours) = tokio::join!(watched, tries(world, wait, hold, each));
    let answer = world.java.end(java, TIME + SOON).await;
    let theirs: Vec<u64> = answer.split(' ').map(|count| count.parse().unwrap()).collect();
    println!("Rust {ours:?}, Java {theirs:?}, {most:?} ahead");
    assert!(most < BOUND, "a place was kept for {most:?}");
    [ours, [theirs[0], theirs[1]]]
}

// S-26: waits of half a second, one of each side each eighth of one, and no waiter gets the lock.
interop!(places_do_not_drift_while_all_give_up, async |mut world| {
    let holder = world.client.fair_mutex("f").lock().await.unwrap();
    let [ours, theirs] = line(&mut world, ms(500), ms(0), EACH).await;
    assert_eq!([ours[0], theirs[0]], [0, 0], "the holder has it");
    holder.release().await.unwrap();
    world.nothing_left("f").await;
});

// S-26: three of each side with a wait that is long enough for all.
interop!(places_do_not_drift_while_all_are_granted, async |mut world| {
    let counts = line(&mut world, ms(600), ms(30), 3).await;
    for [granted, all] in counts {
        // A busy machine delays one now and then.
        assert!(granted > 20 && granted * 10 >= all * 9, "{counts:?}");
    }
    world.nothing_left("f").await;
});

// S-26: a process of ours with one waiter is killed in such a line, all others give up, and the holder releases the lock.
interop!(a_waiter_killed_in_such_a_line_delays_by_one_place, async |mut world| {
    let client = world.client.clone();
    let holder = client.fair_mutex("f").lock().await.unwrap();
    let history = tempfile::tempdir().unwrap();
    let mut worker = worker(&world.server, history.path(), "5000").await;
    let killed = async {
        // Late: the places have drifted by now if they do.
        sleep(TIME * 3 / 4).await;
        worker.send("queue f 1");
        sleep(TIME / 6).await;
        worker.sigkill();
    };
    tokio::join!(killed, line(&mut world, ms(500), ms(0), EACH));
    holder.release().await.unwrap();
    let start = Instant::now();
    let fresh = LockClient::connect(&world.server.url()).await.unwrap();
    let next = timeout(6 * KEPT, fresh.fair_mutex("f").lock()).await;
    next.expect("kept for the dead").unwrap().release().await.unwrap();
    assert!(start.elapsed() < patience(KEPT + AT_ONCE), "{:?}", start.elapsed());
    world.nothing_left("f").await;
});
