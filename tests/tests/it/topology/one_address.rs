//! One address behind which a cluster answers, as some services have it: it is used like a single server, but no command
//! may have keys of two slots.
//!
//! Each test runs twice: the server says at the start that it is a cluster, and something before it says otherwise, so
//! that the client learns it from the first refusal.
// S-40.

use lock_runtime::MultiMember;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

use crate::prelude::*;

const WARNING: &str = "this address is a cluster";

/// Names of every kind in so many slots.
const NAMES: usize = 4;

/// What a client is told when it connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Cluster,
    Standalone,
}

struct World {
    cluster: RedisCluster,
    port: u16,
}

impl World {
    async fn start(says: Says) -> Self {
        Self::with_replicas(says, 0).await
    }

    async fn with_replicas(says: Says, replicas: usize) -> Self {
        let cluster = RedisCluster::of_one(replicas).await;
        let port = match says {
            Says::Cluster => cluster.node(0).port(),
            Says::Standalone => disguised(cluster.node(0).port()).await,
        };
        Self { cluster, port }
    }

    async fn client(&self) -> LockClient {
        LockClient::connect(&format!("redis://127.0.0.1:{}", self.port)).await.unwrap()
    }

    /// How many commands the server has refused because of their slots.
    async fn refused(&self) -> u64 {
        self.cluster.node(0).error_replies("CROSSSLOT").await
    }
}

/// The port of a relay to the server, behind which the server seems to be standalone.
async fn disguised(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    lock_tests::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            lock_tests::spawn(async move { copy(&mut from_client, &mut to_server).await });
            lock_tests::spawn(async move {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
                    let answer = standalone(&buffer[..read]);
                    if to_client.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// The answer to HELLO with another mode; any other answer as it is.
fn standalone(answer: &[u8]) -> Vec<u8> {
    const MODE: &[u8] = b"$4\r\nmode\r\n$7\r\ncluster\r\n";
    match answer.windows(MODE.len()).position(|part| part == MODE) {
        Some(at) => {
            let rest = standalone(&answer[at + MODE.len()..]);
            [&answer[..at], b"$4\r\nmode\r\n$10\r\nstandalone\r\n", &rest].concat()
        }
        None => answer.to_vec(),
    }
}

/// Both ways to learn it.
macro_rules! both {
    ($($test:ident),* $(,)?) => {
        mod known_at_the_start {
            use super::*;
            $(#[tokio::test] async fn $test() { super::$test(Says::Cluster).await; })*
        }

        mod learned_from_a_refusal {
            use super::*;
            $(#[tokio::test] async fn $test() { super::$test(Says::Standalone).await; })*
        }
    };
}

both! {
    held_locks_of_all_kinds_are_kept,
    replicated_locks_are_kept,
    what_was_learned_outlasts_a_connection,
    names_of_two_slots_are_refused_with_a_hint,
    a_command_has_keys_in_the_slot_of_its_lock,
    an_operator_sees_and_frees,
}

/// Locks of every kind, all in other slots, one after the other.
async fn hold_all(client: &LockClient, options: LockOptions) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for (kind, _) in KINDS {
        for n in 0..NAMES {
            let name = format!("{kind}:{n}");
            guards.push(take(client, kind, &name, options.clone()).await.unwrap());
        }
    }
    guards
}

async fn are_kept(guards: Vec<LockGuard>, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        for guard in &guards {
            assert!(!guard.is_lost(), "{:?} is lost", guard.key());
        }
        sleep(ms(50)).await;
    }
    release_all(guards).await;
}

async fn held_locks_of_all_kinds_are_kept(says: Says) {
    let log = Log::start_at(tracing::Level::WARN);
    let world = World::start(says).await;
    let client = world.client().await;
    are_kept(hold_all(&client, watched(secs(3))).await, secs(6)).await;
    assert_eq!(log.lines_with(WARNING).len(), 1, "{}", log.text());
    assert_eq!(world.refused().await == 0, says == Says::Cluster);
}

async fn replicated_locks_are_kept(says: Says) {
    let world = World::with_replicas(says, 1).await;
    let client = world.client().await;
    let options =
        LockOptions::new().replicas(Replicas::new(1, secs(1))).lease(Lease::Watchdog(secs(3)));
    are_kept(hold_all(&client, options).await, secs(6)).await;
}

/// Two hundred tasks ask at once, and release at once.
async fn crowd(client: &LockClient) {
    let take = |n: usize| {
        let client = client.clone();
        lock_tests::spawn(async move {
            let (kind, _) = KINDS[n % KINDS.len()];
            take(&client, kind, &format!("{kind}:{n}"), LockOptions::default()).await
        })
    };
    let guards: Result<Vec<_>, _> = joined((0..200).map(take)).await.into_iter().collect();
    release_all(guards.unwrap()).await;
}

/// The next connection asks for no second refusal.
async fn what_was_learned_outlasts_a_connection(says: Says) {
    let world = World::start(says).await;
    let client = world.client().await;
    crowd(&client).await;
    let refused = world.refused().await;
    assert_eq!(refused == 0, says == Says::Cluster);
    world.cluster.node(0).client_kill(ClientType::Normal).await;
    crowd(&client).await;
    are_kept(hold_all(&client, watched(secs(1))).await, secs(1)).await;
    assert_eq!(world.refused().await, refused);
}

async fn names_of_two_slots_are_refused_with_a_hint(says: Says) {
    let world = World::start(says).await;
    let client = world.client().await;
    let error = client.multi_lock(["several:a", "several:b"]).lock().await.unwrap_err();
    let (kind, text) = kind_and_sentence(error);
    assert_eq!(kind, StoreErrorKind::Config);
    assert!(text.contains("hash tag"), "{text}");
    // In turn, each in its own slot.
    let members = ["several:a", "several:b"].map(|name| MultiMember::from(client.fair_mutex(name)));
    let options = watched(ms(600));
    let in_turn = MultiLock::of(members).with(options.clone()).lock().await.unwrap();
    let tagged = client.multi_lock(["{several}:a", "{several}:b"]).with(options);
    let guards = vec![in_turn, tagged.lock().await.unwrap()];
    assert!(client.mutex("{several}:b").try_lock().await.unwrap().is_none());
    are_kept(guards, ms(1_800)).await;
    assert!(client.mutex("{several}:b").try_lock().await.unwrap().is_some());
}

/// Counts of several slots that are due at once.
async fn an_operator_sees_and_frees(says: Says) {
    let world = World::start(says).await;
    let (client, operator) = (world.client().await, world.client().await);
    let guards = hold_all(&client, LockOptions::default()).await;
    let names: BTreeSet<_> = guards.iter().map(|guard| guard.key().to_string()).collect();
    let survey = operator.admin().survey().await.unwrap();
    assert!(survey.is_complete, "{survey:?}");
    let found: BTreeSet<_> = survey.locks.iter().map(|lock| lock.key.to_string()).collect();
    assert_eq!(found, names);
    for name in &names {
        assert!(operator.admin().inspect(name).await.unwrap().kind.is_some(), "{name}");
        assert!(operator.admin().force_release(name).await.unwrap(), "{name}");
        assert!(operator.admin().inspect(name).await.unwrap().kind.is_none(), "{name}");
    }
}

/// S-37. Nothing ran when the server refuses it.
async fn a_command_has_keys_in_the_slot_of_its_lock(says: Says) {
    let world = World::start(says).await;
    let guard = world.client().await.mutex("order:42").lock().await.unwrap();
    for _ in 0..2 {
        let refused = guard.redis("SET").key("total").arg(1).run().await.unwrap_err();
        let (kind, sentence) = kind_and_sentence(refused);
        assert_eq!(kind, StoreErrorKind::Config);
        assert!(sentence.contains("as in \"{order:42}:total\""), "{sentence}");
    }
    assert_eq!(world.refused().await, u64::from(says == Says::Standalone), "asked in vain");
    guard.redis("SET").key("{order:42}:total").arg(1).run().await.unwrap();
    guard.release().await.unwrap();
}
