//! `store_patience` is what it says: an acquire beside a store that does not answer ends when it is over.

use crate::prelude::*;

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
    let (mutex, fair) = (client.mutex("a"), client.fair_mutex("b"));
    let (read, write) = (client.rw_lock("c"), client.rw_lock("d"));
    let permits = client.semaphore("e", 1);
    let multi = client.multi_lock(["f", "g"]);
    let latch = client.latch("h");
    vec![
        ("mutex", Box::pin(async move { mutex.lock().await.map(drop) })),
        ("fair", Box::pin(async move { fair.lock().await.map(drop) })),
        ("read", Box::pin(async move { read.read().await.map(drop) })),
        ("write", Box::pin(async move { write.write().await.map(drop) })),
        ("semaphore", Box::pin(async move { permits.acquire().await.map(drop) })),
        ("multi", Box::pin(async move { multi.lock().await.map(drop) })),
        ("latch", Box::pin(async move { latch.reached().await })),
    ]
}

async fn gives_up_in_time(what: &str, acquire: Acquiring) {
    let start = Instant::now();
    let error = acquire.await.unwrap_err();
    let took = start.elapsed();
    assert!(matches!(error, LockError::Store(_)), "{what}: {error:?}");
    assert!(took < PATIENCE + LATE, "{what} took {took:?} with a patience of {PATIENCE:?}");
    assert!(took > PATIENCE - EARLY, "{what} gave up after {took:?}");
}

async fn client(server: &RedisServer) -> LockClient {
    let builder = LockClient::builder().store_patience(PATIENCE).command_timeout(COMMAND);
    builder.connect(&server.url()).await.unwrap()
}

#[tokio::test]
async fn a_store_that_hangs() {
    let server = RedisServer::start().await;
    let client = client(&server).await;
    server.pause();
    join_all(every_kind(&client).into_iter().map(|(what, it)| gives_up_in_time(what, it))).await;
    server.resume();
}

#[tokio::test]
async fn a_store_that_is_gone() {
    let server = RedisServer::start().await;
    let client = client(&server).await;
    server.kill();
    join_all(every_kind(&client).into_iter().map(|(what, it)| gives_up_in_time(what, it))).await;
}

/// Who comes later has a patience of its own, from when it came.
#[tokio::test]
async fn a_line_behind_a_store_that_hangs() {
    let server = RedisServer::start().await;
    let client = client(&server).await;
    server.pause();
    let waiters = (0..4_u32).map(|place| {
        let lock = client.mutex("line");
        async move {
            sleep(ms(150) * place).await;
            let acquire = Box::pin(async move { lock.lock().await.map(drop) });
            gives_up_in_time(&format!("place {place}"), acquire).await;
        }
    });
    join_all(waiters).await;
    server.resume();
}
