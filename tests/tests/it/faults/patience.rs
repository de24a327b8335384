//! `store_patience` is what it says: an acquire beside a store that does not answer ends when it is over.

use crate::prelude::*;
use crate::support::kinds::take_one_or_several;

/// How long one command may take. Long, so that a wait for one more is told from a busy machine.
const COMMAND: Duration = secs(3);

/// Not a multiple of that: an acquire that waits for whole commands ends 1.8 s late, or 1.2 s early.
const PATIENCE: Duration = ms(4_200);

/// What a busy machine takes.
const LATE: Duration = ms(900);

/// What an answer gets at least: with less left, none is asked for.
const EARLY: Duration = ms(350);

type Acquiring = BoxFuture<'static, Result<(), LockError>>;

fn every_kind(client: &LockClient) -> Vec<(&'static str, Acquiring)> {
    let kinds = KINDS.map(|(kind, _)| kind).into_iter().chain(["multi"]);
    let acquires = kinds.map(|kind| {
        let client = client.clone();
        let acquire = async move {
            take_one_or_several(&client, kind, kind, LockOptions::default()).await.map(drop)
        };
        (kind, acquire.boxed())
    });
    let latch = client.latch("latch");
    acquires.chain([("latch", async move { latch.reached().await }.boxed())]).collect()
}

async fn gives_up_in_time(what: &str, acquire: Acquiring) {
    let start = Instant::now();
    let error = acquire.await.unwrap_err();
    let took = start.elapsed();
    assert!(matches!(error, LockError::Store(_)), "{what}: {error:?}");
    assert!(took < PATIENCE + LATE, "{what} took {took:?} with a patience of {PATIENCE:?}");
    assert!(took > PATIENCE - EARLY, "{what} gave up after {took:?}");
}

async fn world() -> (RedisServer, LockClient) {
    let server = RedisServer::start().await;
    let builder = LockClient::builder().store_patience(PATIENCE).command_timeout(COMMAND);
    let client = builder.connect(&server.url()).await.unwrap();
    (server, client)
}

#[tokio::test]
async fn a_store_that_hangs_or_is_gone() {
    for away in [RedisServer::pause, RedisServer::kill] {
        let (server, client) = world().await;
        away(&server);
        let all = every_kind(&client).into_iter();
        join_all(all.map(|(what, acquire)| gives_up_in_time(what, acquire))).await;
    }
}

/// Who comes later has a patience of its own, from when it came.
#[tokio::test]
async fn a_line_behind_a_store_that_hangs() {
    let (server, client) = world().await;
    server.pause();
    let waiters = (0..4_u32).map(|place| {
        let lock = client.mutex("line");
        async move {
            sleep(ms(150) * place).await;
            let acquire = async move { lock.lock().await.map(drop) }.boxed();
            gives_up_in_time(&format!("place {place}"), acquire).await;
        }
    });
    join_all(waiters).await;
    server.resume();
}
