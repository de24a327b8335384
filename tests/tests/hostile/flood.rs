//! A flood of forged messages delays no renewal (S-10) and no release.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lock_runtime::Lease;
use lock_tests::Ttl;
use tokio::time::{Instant, interval, sleep, timeout};

use super::resp::Publisher;
use super::*;

const LEASE: Duration = secs(6);

/// How long the flood lasts: several renewals of each hold.
const FLOOD: Duration = secs(8);

/// Messages in one write, and how often: 60 000 a second on a machine that has nothing else to do.
const BATCH: usize = 600;
const EVERY: Duration = ms(10);

const CHANNEL: &str = "redisson_lock__channel:{contended}";

/// Publishes to all waiters until it is told to stop, over a connection of its own.
fn flood(
    every: Duration,
    server: &Arc<RedisServer>,
    over: &Arc<AtomicBool>,
    sent: &Arc<AtomicU64>,
) {
    let (server, over, sent) = (Arc::clone(server), Arc::clone(over), Arc::clone(sent));
    tokio::spawn(async move {
        let mut publisher = Publisher::of(&server).await;
        let mut ticks = interval(every);
        while !over.load(Ordering::Relaxed) {
            // Behind its time it goes on without a pause.
            ticks.tick().await;
            let received = publisher.publish(CHANNEL, b"0", BATCH).await;
            sent.fetch_add(received, Ordering::Relaxed);
        }
    });
}

/// A renewal is due after a third of the lease. It is never later than another third, so a third is always left: of what
/// the server keeps, and of what this process knows to be confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_messages_delays_no_renewal() {
    watch_panics();
    let server = Arc::new(RedisServer::start().await);
    let (client, other) = (connect(&server).await, connect(&server).await);
    let watched = LockOptions::new().lease(Lease::Watchdog(LEASE));
    let names: Vec<_> = (0..20).map(|number| format!("held:{number}")).collect();
    let mut held = Vec::new();
    for name in &names {
        held.push(client.mutex(name).with(watched.clone()).lock().await.unwrap());
    }
    // A waiter of the same client, so that its connection gets all messages, and wakes for each.
    let contended = other.mutex("contended").with(watched.clone()).lock().await.unwrap();
    let waiter = tokio::spawn(client.mutex("contended").with(watched).lock());
    let raw = server.client();
    lock_tests::eventually(SOON, "the waiter listens", async || {
        raw.get::<Vec<String>>(&["PUBSUB", "CHANNELS", CHANNEL]).await.len() == 1
    })
    .await;
    let (over, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let every = lock_tests::patience(EVERY);
    flood(every, &server, &over, &received);
    let start = Instant::now();
    let mut least = LEASE;
    let mut looks = 0;
    while start.elapsed() < FLOOD {
        for (name, guard) in names.iter().zip(&held) {
            let Ttl::Left(left) = raw.pttl(name).await else { panic!("{name} has no expiry") };
            least = least.min(left).min(guard.remaining());
            looks += 1;
        }
        sleep(ms(20)).await;
    }
    let received = received.load(Ordering::Relaxed);
    let rate = received as f64 / start.elapsed().as_secs_f64();
    let tries = server.command_calls().await.get("evalsha").copied().unwrap_or_default();
    println!(
        "{rate:.0} messages a second, {tries} requests, {least:?} of {LEASE:?} left in {looks} looks"
    );
    let least_rate = 0.8 * BATCH as f64 / every.as_secs_f64();
    assert!(rate >= least_rate, "only {rate:.0} messages a second of {least_rate:.0}");
    assert!(least >= LEASE / 3, "a renewal was late: {least:?} of {LEASE:?} left");
    assert!(held.iter().all(|guard| !guard.is_lost()));
    assert!(client.health().is_healthy());
    // Still under way: the release reaches the waiter all the same.
    assert!(!waiter.is_finished(), "a message granted it");
    contended.release().await.unwrap();
    let granted = timeout(SOON, waiter).await.expect("the waiter drowns").unwrap().unwrap();
    granted.release().await.unwrap();
    over.store(true, Ordering::Relaxed);
    for guard in held {
        guard.release().await.unwrap();
    }
    no_panics();
}
