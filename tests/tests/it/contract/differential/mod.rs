//! Both stores are one thing: whatever is asked of them, they answer alike.
//!
//! Random sequences of requests run on the store in memory and on Redis, request by request. Replies,
//! errors, the order of tokens, who is told, and what the hash shows are compared; times within a
//! tolerance. Real time passes for both: leases are long, or short and over in the pause between two
//! rounds, which all sequences share. A slow machine gets longer rounds and short leases. The sequences are the same in each run;
//! `DIFFERENTIAL_SEED=any` takes others, and a number those of that run. `DIFFERENTIAL_SEQUENCES` makes it longer,
//! `DIFFERENTIAL_SHOW` shows how often which answer came.

mod compare;
mod ears;
mod plan;
mod stores;

use futures_util::{StreamExt, stream};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::contract::differential::plan::{Sequence, sequence};
use crate::contract::differential::stores::{Outcome, Stores};
use crate::prelude::*;

/// Sequences in a run.
const SEQUENCES: u64 = 1200;

/// Sequences under way at once. Their rounds wait for each other. The store in memory forgets a queue of dead waiters after a
/// minute, and Redis still notifies them: so a round has to wait for far less than that, on a slow machine too.
const UNDER_WAY: usize = 64;

/// How long a failing sequence is made smaller.
const SHRINKING: Duration = secs(30);

/// What passed once passes again.
const SEED: u64 = 16_108_234_946_911_551_825;

/// S-19, S-22, S-23, S-25 to S-30: one set of rules, two stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_redis_answer_alike() {
    let number = setting("DIFFERENTIAL_SEQUENCES").unwrap_or(SEQUENCES);
    let seed = match std::env::var("DIFFERENTIAL_SEED").as_deref() {
        Ok("any") => fastrand::u64(..),
        _ => setting("DIFFERENTIAL_SEED").unwrap_or(SEED),
    };
    let server = RedisServer::start().await;
    let stores = Stores::start(&server).await;
    let strategy = sequence();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut trees: Vec<_> = (0..number).map(|_| strategy.new_tree(&mut runner).unwrap()).collect();

    let sequences: Vec<_> = trees.iter().map(ValueTree::current).collect();
    let runs = stream::iter(&sequences).map(|sequence| stores.run(sequence));
    let outcomes: Vec<_> = runs.buffered(UNDER_WAY).collect().await;
    let too_slow = outcomes.iter().filter(|one| matches!(one, Outcome::TooSlow)).count();
    assert!(
        too_slow < trees.len() / 4,
        "{too_slow} of {number} sequences took too long, at the slowest pace"
    );
    let differing = outcomes.into_iter().zip(sequences).zip(&mut trees);
    for ((outcome, sequence), tree) in differing {
        if let Outcome::Differs(problem) = outcome {
            let (sequence, problem) = shrink(tree, &stores, (sequence, problem)).await;
            panic!("DIFFERENTIAL_SEED={seed}: {problem}\n{sequence:?}");
        }
    }
    enough_was_seen(&stores);
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}; give a number")))
}

/// Finds a smaller sequence that differs.
async fn shrink(
    tree: &mut impl ValueTree<Value = Sequence>,
    stores: &Stores,
    found: (Sequence, String),
) -> (Sequence, String) {
    let mut smallest = found;
    let until = Instant::now() + SHRINKING;
    while Instant::now() < until {
        let more = match stores.run(&tree.current()).await {
            Outcome::Differs(problem) => {
                smallest = (tree.current(), problem);
                tree.simplify()
            }
            _ => tree.complicate(),
        };
        if !more {
            break;
        }
    }
    smallest
}

/// The sequences get to what they are for.
fn enough_was_seen(stores: &Stores) {
    let seen = stores.seen.lock().unwrap();
    if std::env::var_os("DIFFERENTIAL_SHOW").is_some() {
        println!("{seen:#?}");
    }
    let missing: Vec<_> =
        wanted().into_iter().filter(|answer| !seen.contains_key(answer)).collect();
    assert!(missing.is_empty(), "the sequences never came to {missing:#?}");
}

fn wanted() -> Vec<String> {
    let once = "told|read lock joins: Granted|read lock takes inside: Granted|Number(0)|Number(1)|semaphore takes: Held|\
        set Number(0)|set Number(1)|CountDown Number(0)|CountDown Number(1)|Remove Number(0)|Remove Number(1)|\
        the key holds a count-down latch|the key holds a value that is no lock|the key holds another kind of lock|\
        inspected None|inspected Some(Mutex)|inspected Some(Fair)|inspected Some(Read)|inspected Some(Write)|\
        inspected Some(Semaphore)|inspected Some(Latch)";
    let each = " takes: Granted| takes: Held| renewed: Owner| renewed: NotOwner|: Released { others: 1 }|\
        : Released { others: 0 }|: NotOwner| later: Released { others: 0 }| later: NotOwner";
    let kinds = ["mutex", "fair mutex", "read lock", "write lock", "semaphore", "multi lock"];
    let each =
        kinds.into_iter().flat_map(|kind| each.split('|').map(move |it| kind.to_owned() + it));
    once.split('|').map(str::to_owned).chain(each).collect()
}
