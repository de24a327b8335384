//! How processes of both sides share a key that all of them want all the time.

use std::{fmt, thread};

use tokio::runtime::Builder;

use crate::interop::java::{Java, Redisson};
use crate::interop::world::*;

/// For how long they compete.
const TIME: Duration = secs(3);

/// The least that a process gets, as a fraction of an equal share.
const ENOUGH: f64 = 0.25;

/// Processes that compete for one key, by their numbers of threads or tasks.
struct Mixture {
    java: &'static [u64],
    rust: &'static [u64],
}

const fn mixture(java: &'static [u64], rust: &'static [u64]) -> Mixture {
    Mixture { java, rust }
}

/// Two to four processes of both sides.
const MIXTURES: [Mixture; 9] = [
    mixture(&[1], &[1]),
    mixture(&[1, 1], &[1]),
    mixture(&[1], &[1, 1]),
    mixture(&[1, 1], &[1, 1]),
    mixture(&[1], &[1, 1, 1]),
    mixture(&[1, 1, 1], &[1]),
    mixture(&[1], &[4, 4]),
    mixture(&[3], &[1]),
    mixture(&[3], &[4, 1]),
];

/// The turns of each process.
#[derive(Default)]
struct Turns {
    java: Vec<u64>,
    rust: Vec<u64>,
}

impl Turns {
    fn add(&mut self, more: Self) {
        for (turns, more) in [(&mut self.java, more.java), (&mut self.rust, more.rust)] {
            turns.resize(more.len(), 0);
            turns.iter_mut().zip(more).for_each(|(turns, more)| *turns += more);
        }
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        self.java.iter().chain(&self.rust).copied()
    }

    /// The fewest turns of a process, as a fraction of an equal share.
    fn least_share(&self) -> f64 {
        let (fewest, sum) = (self.all().min().unwrap(), self.all().sum::<u64>());
        (fewest * self.all().count() as u64) as f64 / sum as f64
    }
}

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (java, rust, least) = (&self.java, &self.rust, self.least_share());
        write!(f, "Java {java:?}, Rust {rust:?}: the least is {least:.2} of an equal share")
    }
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
        for (number, mixture) in MIXTURES.iter().enumerate() {
            let name = format!("{kind}-{}-{number}", hold.as_millis());
            let mut turns = Turns::default();
            // On a busy machine a few seconds say too little about the slowest.
            for _ in 0..3 {
                turns.add(compete(&server, &mut peers, mixture, kind, &name, hold).await);
                if turns.least_share() >= ENOUGH {
                    break;
                }
            }
            println!("{kind}, {:?} + {:?}, {hold:?}: {turns}", mixture.java, mixture.rust);
            if turns.least_share() < ENOUGH {
                starved.push(format!("{hold:?}: {turns}"));
            }
        }
    }
    assert!(starved.is_empty(), "{kind}: {starved:#?}");
}

async fn compete(
    server: &RedisServer,
    peers: &mut [Java],
    mixture: &Mixture,
    kind: &'static str,
    name: &str,
    hold: Duration,
) -> Turns {
    let millis = (hold.as_millis(), TIME.as_millis());
    let asked: Vec<_> = (mixture.java.iter().zip(&mut *peers))
        .map(|(threads, java)| {
            java.begin("t", &format!("turns {kind} {name} {} {threads} {}", millis.0, millis.1))
        })
        .collect();
    let ours: Vec<_> = (mixture.rust.iter())
        .map(|tasks| Process::start(server.url(), kind, name.to_owned(), *tasks, hold))
        .collect();
    let mut turns = Turns { java: Vec::new(), rust: Vec::new() };
    for (asked, java) in asked.into_iter().zip(peers) {
        turns.java.push(java.end(asked, TIME + SOON).await.parse().unwrap());
    }
    for process in ours {
        turns.rust.push(tokio::task::spawn_blocking(|| process.0.join().unwrap()).await.unwrap());
    }
    turns
}

/// A client of ours with a runtime of its own, as another process has it.
struct Process(thread::JoinHandle<u64>);

impl Process {
    fn start(url: String, kind: &'static str, name: String, tasks: u64, hold: Duration) -> Self {
        Self(thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let client = LockClient::connect(&url).await.unwrap();
                let until = Instant::now() + TIME;
                let each = (0..tasks).map(|_| take_turns(&client, kind, &name, hold, until));
                futures_util::future::join_all(each).await.into_iter().sum()
            })
        }))
    }
}

async fn take_turns(
    client: &LockClient,
    kind: &str,
    name: &str,
    hold: Duration,
    until: Instant,
) -> u64 {
    let mut turns = 0;
    while Instant::now() < until {
        let guard = timeout(SOON, async {
            match kind {
                "write" => client.rw_lock(name).write().await,
                _ => client.mutex(name).lock().await,
            }
        });
        let guard = guard.await.expect("starved").unwrap();
        sleep(hold).await;
        guard.release().await.unwrap();
        turns += 1;
    }
    turns
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
