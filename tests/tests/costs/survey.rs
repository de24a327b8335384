//! How long a survey of many holds takes.

use std::time::Duration;

use futures_util::future::join_all;
use lock_runtime::LockClient;
use lock_tests::RedisServer;
use tokio::time::Instant;

use super::alone;

/// A program that is not optimized does a tenth of the work.
const CLIENTS: usize = if cfg!(debug_assertions) { 40 } else { 200 };
const HOLDS: usize = if cfg!(debug_assertions) { 250 } else { 500 };

const BOUND: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

/// All clients list all their holds in time, while one process does the work of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_many_holds_answer_in_time() {
    let _alone = alone().await;
    let server = RedisServer::start().await;
    let url = server.url();
    let clients = join_all((0..CLIENTS).map(|_| LockClient::connect(&url))).await;
    let clients: Vec<_> = clients.into_iter().map(Result::unwrap).collect();
    let mut held = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let locks = (0..HOLDS).map(|hold| client.mutex(format!("{number}:{hold}")).lock());
        held.extend(join_all(locks).await.into_iter().map(Result::unwrap));
    }
    let asking = LockClient::builder().survey(false).connect(&url).await.unwrap();
    let start = Instant::now();
    let survey = asking.admin().survey().within(3 * BOUND).await.unwrap();
    let whole = start.elapsed();
    let slowest = survey.clients.iter().map(|one| one.answered_in).max().unwrap();
    println!("{} clients answered within {slowest:?}; all took {whole:?}", survey.clients.len());
    assert_eq!((survey.clients.len(), survey.missing), (CLIENTS, 0));
    assert!(survey.clients.iter().all(|one| one.holds == HOLDS && !one.is_cut));
    assert_eq!(survey.locks.len(), CLIENTS * HOLDS);
    assert!(slowest < BOUND, "{slowest:?}");
}
