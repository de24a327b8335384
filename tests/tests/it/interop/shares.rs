//! How processes of both sides share a key that all of them want all the time.

use std::thread;

use tokio::runtime::Builder;

use crate::interop::java::{Java, Redisson};
use crate::interop::world::*;

/// For how long they compete.
const TIME: Duration = secs(3);

/// The least that a process gets, as a fraction of an equal share.
const ENOUGH: f64 = 0.25;

/// Two to four processes of both sides that compete for one key: the threads of each of Java's, and the tasks of each of ours.
const MIXTURES: [(&[u64], &[u64]); 9] = [
    (&[1], &[1]),
    (&[1, 1], &[1]),
    (&[1], &[1, 1]),
    (&[1, 1], &[1, 1]),
    (&[1], &[1, 1, 1]),
    (&[1, 1, 1], &[1]),
    (&[1], &[4, 4]),
    (&[3], &[1]),
    (&[3], &[4, 1]),
];

/// The fewest of these turns, as a fraction of an equal share.
fn least_share(turns: &[u64]) -> f64 {
    let (fewest, sum) = (turns.iter().min().unwrap(), turns.iter().sum::<u64>());
    (fewest * turns.len() as u64) as f64 / sum as f64
}

/// S-14: nobody gets less than a quarter of an equal share.
async fn all_get_their_share(kind: &'static str) {
    let server = RedisServer::start().await;
    let mut peers = Vec::new();
    for _ in 0..3 {
        peers.push(Java::start(&server, &Redisson::default()).await);
    }
    let mut starved = Vec::new();
    for hold in [ms(2), ms(20)] {
        for (number, (java, rust)) in MIXTURES.into_iter().enumerate() {
            let name = format!("{kind}-{}-{number}", hold.as_millis());
            let mut turns = vec![0; java.len() + rust.len()];
            // On a busy machine a few seconds say too little about the slowest.
            for _ in 0..3 {
                let more = compete(&server, &mut peers, (java, rust), kind, &name, hold).await;
                turns.iter_mut().zip(more).for_each(|(turns, more)| *turns += more);
                if least_share(&turns) >= ENOUGH {
                    break;
                }
            }
            let least = least_share(&turns);
            let shown = format!("{java:?} + {rust:?}, {hold:?}: {turns:?}, the least {least:.2}");
            println!("{kind}, {shown}");
            starved.extend((least < ENOUGH).then_some(shown));
        }
    }
    assert!(starved.is_empty(), "{kind}: {starved:#?}");
}

/// The turns of each process, Java's first.
async fn compete(
    server: &RedisServer,
    peers: &mut [Java],
    (java, rust): (&[u64], &[u64]),
    kind: &'static str,
    name: &str,
    hold: Duration,
) -> Vec<u64> {
    let (held, time) = (hold.as_millis(), TIME.as_millis());
    let asked: Vec<_> = (java.iter().zip(&mut *peers))
        .map(|(threads, java)| {
            java.begin("t", &format!("turns {kind} {name} {held} {threads} {time}"))
        })
        .collect();
    let ours = rust.iter().map(|tasks| process(server.url(), kind, name.to_owned(), *tasks, hold));
    let ours: Vec<_> = ours.collect();
    let mut turns = Vec::new();
    for (asked, java) in asked.into_iter().zip(peers) {
        turns.push(java.end(asked, TIME + SOON).await.parse().unwrap());
    }
    for process in ours {
        turns.push(tokio::task::spawn_blocking(|| process.join().unwrap()).await.unwrap());
    }
    turns
}

/// A client of ours with a runtime of its own, as another process has it; the turns of its tasks.
fn process(
    url: String,
    kind: &'static str,
    name: String,
    tasks: u64,
    hold: Duration,
) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = LockClient::connect(&url).await.unwrap();
            let until = Instant::now() + TIME;
            let each = (0..tasks).map(async |_| {
                let mut turns = 0;
                while Instant::now() < until {
                    let guard = timeout(SOON, take(&client, kind, &name, LockOptions::default()));
                    let guard = guard.await.expect("starved").unwrap();
                    sleep(hold).await;
                    guard.release().await.unwrap();
                    turns += 1;
                }
                turns
            });
            join_all(each).await.into_iter().sum()
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn of_a_mutex() {
    all_get_their_share("mutex").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Maven: cargo xtask interop"]
async fn of_a_write_lock() {
    all_get_their_share("write").await;
}
