//! `RFairLock` beside our fair mutex (S-26).

use crate::interop::java::{Asked, Redisson};
use crate::interop::world::*;
use crate::support::fair_line::waiter_channel;

/// Who waits in a line of both.
enum Waiter {
    Rust(Waiting),
    Java(&'static str, Asked),
}

/// Who is in line, the first first.
async fn line(world: &World) -> Vec<String> {
    world.server.client().get(&["LRANGE", "redisson_lock_queue:{f}", "0", "-1"]).await
}

/// Waits until so many are in line and the last of them listens.
async fn lines_up(world: &World, length: usize) {
    soon!("in line", line(world).await.len() == length);
    let last = line(world).await.pop().unwrap_or_default();
    world.server.wait_for_subscribers(&waiter_channel("f", &last), 1).await;
}

async fn rust_waits(world: &World, length: usize) -> Waiting {
    let waiting = lock_tests::spawn(world.client.fair_mutex("f").lock());
    lines_up(world, length).await;
    waiting
}

async fn java_waits(world: &mut World, thread: &str, length: usize) -> Asked {
    let asked = world.java.begin(thread, "lock fair f");
    lines_up(world, length).await;
    asked
}

// S-26: held by either, the other is refused, sees it, and has it once told.
interop!(each_waits_for_the_other, async |mut world| {
    let fair = world.client.fair_mutex("f");
    world.java.ask("t", "lock fair f").await;
    assert!(fair.try_lock().await.unwrap().is_none());
    // Redisson's plain and fair locks look alike.
    world.sees("f", HoldKind::Mutex, &[1], HALF_A_MINUTE).await;
    let waiting = rust_waits(&world, 1).await;
    assert_eq!(world.seen("f").await.waiting, 1);
    world.java.ask("t", "unlock fair f").await;
    let guard = got(waiting).await;

    world.java_sees("fair", "f", HALF_A_MINUTE).await;
    world.java_is_refused("fair", "f").await;
    assert!(line(&world).await.is_empty(), "who gave up is in line");
    let waiting = java_waits(&mut world, "t", 1).await;
    assert_eq!(world.seen("f").await.waiting, 1);
    guard.release().await.unwrap();
    world.java.end(waiting, AT_ONCE).await;
    world.java.ask("t", "unlock fair f").await;
    world.nothing_left("f").await;
});

/// S-26: one line for both, first in, first out, whoever held before. When Redisson takes the lock it
/// moves every waiter's time-out back by its own patience; that must not make ours late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn one_line_for_both() {
    one_line(Redisson::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn one_line_for_both_with_little_patience() {
    one_line(Redisson { fair_wait: secs(5), ..Redisson::default() }).await;
}

async fn one_line(redisson: Redisson) {
    let mut world = World::with(redisson).await;
    for java_holds in [false, true] {
        let ours = if java_holds {
            world.java.ask("t", "lock fair f").await;
            None
        } else {
            Some(world.client.fair_mutex("f").lock().await.unwrap())
        };
        let mut waiters = vec![Waiter::Rust(rust_waits(&world, 1).await)];
        waiters.push(Waiter::Java("one", java_waits(&mut world, "one", 2).await));
        waiters.push(Waiter::Rust(rust_waits(&world, 3).await));
        waiters.push(Waiter::Java("two", java_waits(&mut world, "two", 4).await));
        waiters.push(Waiter::Java("three", java_waits(&mut world, "three", 5).await));
        waiters.push(Waiter::Rust(rust_waits(&world, 6).await));
        let order = line(&world).await;
        match ours {
            Some(guard) => guard.release().await.unwrap(),
            None => drop(world.java.ask("t", "unlock fair f").await),
        }
        for (served, waiter) in waiters.into_iter().enumerate() {
            // While one has it, exactly those behind are in line, and in the order in which they came.
            match waiter {
                Waiter::Rust(waiting) => {
                    let guard = got(waiting).await;
                    assert_eq!(line(&world).await, order[served + 1..]);
                    guard.release().await.unwrap();
                }
                Waiter::Java(thread, asked) => {
                    world.java.end(asked, AT_ONCE).await;
                    assert_eq!(line(&world).await, order[served + 1..]);
                    world.java.ask(thread, "unlock fair f").await;
                }
            }
        }
        world.nothing_left("f").await;
    }
}

// S-17, S-26: who gives up leaves the line of both at once, and those behind it have their turn.
interop!(who_gives_up_leaves, async |mut world| {
    let guard = world.client.fair_mutex("f").lock().await.unwrap();
    let gives_up = world.java.begin("t", "try fair f 700 -1");
    lines_up(&world, 1).await;
    let behind = rust_waits(&world, 2).await;
    assert_eq!(world.java.end(gives_up, SOON).await, "false");
    assert_eq!(line(&world).await.len(), 1);
    guard.release().await.unwrap();
    let guard = got(behind).await;

    let impatient = waits(ms(700));
    let gives_up = lock_tests::spawn(world.client.fair_mutex("f").with(impatient).lock());
    lines_up(&world, 1).await;
    let behind = java_waits(&mut world, "t", 2).await;
    assert!(matches!(gives_up.await.unwrap(), Err(LockError::Timeout { .. })));
    soon!("it has left", line(&world).await.len() == 1);
    guard.release().await.unwrap();
    world.java.end(behind, AT_ONCE).await;
    world.java.ask("t", "unlock fair f").await;
    world.nothing_left("f").await;
});

/// S-26: a Java process that was killed in line is stepped over once its time is up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn a_dead_java_waiter_is_stepped_over() {
    let second = secs(1);
    let mut world = World::with(Redisson { fair_wait: second, ..Redisson::default() }).await;
    // Its time is what is left of the holder's lease and its patience.
    let guard = world.client.fair_mutex("f").with(watched(second)).lock().await.unwrap();
    let _dead = java_waits(&mut world, "t", 1).await;
    let behind = rust_waits(&world, 2).await;
    world.java.kill();
    guard.release().await.unwrap();
    let next = timeout(SOON, behind).await.expect("held up by the dead").unwrap().unwrap();
    assert!(line(&world).await.is_empty());
    next.release().await.unwrap();
    world.nothing_left("f").await;
}

// S-26: a Rust process that was killed in line is stepped over once its place has ended.
interop!(a_dead_rust_waiter_is_stepped_over, async |mut world| {
    let history = tempfile::tempdir().unwrap();
    let mut worker = worker(&world.server, history.path(), "600").await;
    world.java.ask("t", "lock fair f").await;
    worker.send("queue f 1");
    lines_up(&world, 1).await;
    let behind = java_waits(&mut world, "behind", 2).await;
    worker.sigkill();
    let dead = line(&world).await.swap_remove(0);
    soon!("its place has ended", {
        let raw = world.server.client();
        let ends: Option<f64> = raw.get(&["ZSCORE", "redisson_lock_timeout:{f}", &dead]).await;
        let now = ms(raw.time_millis().await);
        ends.is_none_or(|ends| Duration::from_secs_f64(ends / 1000.0) < now)
    });
    world.java.ask("t", "unlock fair f").await;
    world.java.end(behind, AT_ONCE).await;
    world.java.ask("behind", "unlock fair f").await;
    world.nothing_left("f").await;
});

// S-26: freed by force from either side, the first waiter is told.
interop!(each_frees_the_others_by_force, async |mut world| {
    let ours = world.client.fair_mutex("f").with(watched(secs(3)));
    let ours = ours.lock().await.unwrap();
    let next = java_waits(&mut world, "t", 1).await;
    assert_eq!(world.java.ask("u", "force fair f").await, "true");
    world.java.end(next, AT_ONCE).await;
    timeout(AT_ONCE, ours.lost()).await.expect("a renewal finds out");
    let next = rust_waits(&world, 1).await;
    assert!(world.client.admin().force_release("f").await.unwrap());
    got(next).await.release().await.unwrap();
});

// S-15, S-26: Redisson tells the waiter that it found first on a channel of its own, which a waiter of ours listens to
// although no client of Redisson waits; long before its next sign of life.
interop!(a_waiter_of_ours_hears_of_redissons_force, async |mut world| {
    let waits_for_it = LockClient::connect(&world.server.url()).await.unwrap();
    let mut heard = Vec::new();
    for _ in 0..5 {
        let holder = world.client.fair_mutex("f").lock().await.unwrap();
        let mutex = waits_for_it.fair_mutex("f");
        let next = lock_tests::spawn(async move { mutex.lock().await });
        lines_up(&world, 1).await;
        assert_eq!(world.java.ask("u", "force fair f").await, "true");
        let start = Instant::now();
        let next = got(next).await;
        heard.push(start.elapsed());
        assert!(holder.release().await.is_err());
        next.release().await.unwrap();
    }
    assert!(heard.iter().all(|heard| *heard < ms(50)), "{heard:?}");
});
