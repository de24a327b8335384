//! Both stores are one thing: whatever is asked of them, they answer alike.
//!
//! Random sequences of requests run on the store in memory and on Redis, request by request. Replies,
//! errors, the order of tokens, who is told, and what the hash shows are compared; times within a
//! tolerance. Real time passes for both: leases are long, or short and over in the pause between two
//! rounds, which all sequences share. `DIFFERENTIAL_SEED` repeats a run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod plan;
mod stores;

use futures_util::future::join_all;
use lock_tests::RedisServer;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::plan::sequence;
use crate::stores::{Outcome, Stores};

/// Sequences in a run.
const SEQUENCES: usize = 400;

/// Runs that a failing sequence is made smaller in.
const SHRINKING: usize = 150;

/// S-19, S-22, S-23, S-25 to S-30: one set of rules, two stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_redis_answer_alike() {
    let seed = std::env::var("DIFFERENTIAL_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("DIFFERENTIAL_SEED is a number"),
    );
    let server = RedisServer::start().await;
    let stores = Stores::start(&server).await;
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = sequence();
    let mut trees: Vec<_> =
        (0..SEQUENCES).map(|_| strategy.new_tree(&mut runner).unwrap()).collect();

    let sequences: Vec<_> = trees.iter().map(ValueTree::current).collect();
    let outcomes = join_all(sequences.iter().map(|sequence| stores.run(sequence))).await;
    let too_slow = outcomes.iter().filter(|one| matches!(one, Outcome::TooSlow)).count();
    assert!(too_slow < SEQUENCES / 4, "{too_slow} of {SEQUENCES} sequences took too long");
    let differs = outcomes.iter().position(|one| matches!(one, Outcome::Differs(_)));
    if let Some(first) = differs {
        shrink(&mut trees[first], &stores, seed).await;
    }
    enough_was_seen(&stores);
}

/// Finds a smaller sequence that fails, and fails with it.
async fn shrink(tree: &mut impl ValueTree<Value = plan::Sequence>, stores: &Stores, seed: u64) {
    let mut smallest = None;
    for _ in 0..SHRINKING {
        let sequence = tree.current();
        let more = match stores.run(&sequence).await {
            Outcome::Differs(problem) => {
                smallest = Some((sequence, problem));
                tree.simplify()
            }
            _ => tree.complicate(),
        };
        if !more {
            break;
        }
    }
    match smallest {
        Some((sequence, problem)) => panic!("seed {seed}: {problem}\n{sequence:#?}"),
        None => panic!("seed {seed}: a difference that did not come again"),
    }
}

/// The sequences reach what they are for.
fn enough_was_seen(stores: &Stores) {
    let seen = stores.seen.lock().unwrap();
    if std::env::var_os("DIFFERENTIAL_SHOW").is_some() {
        println!("{seen:#?}");
    }
    let released = |kind: &str, others: bool| {
        format!("{kind} Released(Released {{ others_waiting: {others} }})")
    };
    let mut wanted = vec!["told".to_owned(), "latch CountDown".to_owned()];
    wanted.clear();
    for kind in ["mutex", "fair mutex", "read lock", "write lock", "semaphore", "multi lock"] {
        wanted.extend([format!("{kind} granted"), format!("{kind} held")]);
        wanted.extend([released(kind, true), released(kind, false)]);
        wanted.extend(["Owner", "NotOwner"].map(|held| format!("{kind} Held([{held}])")));
        wanted.push(format!("{kind} WrongType: the key holds another kind of lock"));
        wanted.push(format!("{kind} WrongType: a value that is no lock"));
    }
    wanted.retain(|one| one != "semaphore WrongType: the key holds another kind of lock");
    wanted.extend(["told", "read lock joins granted", "read lock joins held"].map(str::to_owned));
    wanted.extend(["CountDown Number(0)", "CountDown Number(1)", "Remove Number(1)", "set Number(1)"].map(str::to_owned));
    let missing: Vec<_> = wanted.iter().filter(|one| !seen.contains_key(*one)).collect();
    assert!(missing.is_empty(), "the sequences never came to {missing:?}");
}
