//! Readers and writers of one process: a writer hands its hold to the writers that came before the readers (S-14, S-27).

use crate::kinds::rw::*;

type Waiting = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// Acquires that have lined up, in this order, polled only by the test.
async fn lined_up<const N: usize>(mut waiters: [Waiting; N]) -> [Waiting; N] {
    for waiter in &mut waiters {
        assert!(poll!(waiter).is_pending());
    }
    waiters
}

async fn ready(waiter: Waiting) -> LockGuard {
    timeout(PROMPTLY, waiter).await.expect("still waiting").unwrap()
}

/// A writer of `client` behind which a second one has lined up. A third has left, so there is a token to hand on for each, and
/// one more.
async fn first_of_two_writers(
    server: &RedisServer,
    client: &LockClient,
    name: &str,
) -> (LockGuard, Waiting) {
    let other = connect(server).await;
    let held = other.rw_lock(name).write().await.unwrap();
    let lock = client.rw_lock(name);
    let first = lock_tests::spawn(lock.write());
    announced(server, name, 1).await;
    let [second, third] =
        lined_up([Box::pin(lock.write()) as Waiting, Box::pin(lock.write())]).await;
    held.release().await.unwrap();
    let first = got(first, PROMPTLY).await;
    drop(third);
    (first, second)
}

/// Otherwise steady writers of a process would keep its readers out for as long as the hand-off window lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_go_before_the_writers_that_came_after_them() {
    let server = RedisServer::start().await;
    let client = LockClient::builder().handoff_window(PROMPTLY);
    let client = client.connect(&server.url()).await.unwrap();
    let lock = client.rw_lock("n");
    for dropped in [false, true] {
        let (first, second) = first_of_two_writers(&server, &client, "n").await;
        let readers = [reading(&client, "n"), reading(&client, "n"), reading(&client, "n")];
        due(&server, "n").await;
        let [third] = lined_up([Box::pin(lock.write())]).await;
        let end = async |guard: LockGuard| match dropped {
            true => drop(guard),
            false => guard.release().await.unwrap(),
        };
        let shown = holds(&server, "n").await;
        end(first).await;
        let second = ready(second).await;
        assert_eq!(holds(&server, "n").await, shown, "the store shows another holder");
        assert!(readers.iter().all(|reader| !reader.is_finished()), "a reader beside a writer");
        end(second).await;
        let mut third = third;
        for reader in readers {
            let reader = got(reader, at_once()).await;
            assert!(poll!(&mut third).is_pending(), "a writer beside a reader");
            end(reader).await;
        }
        end(ready(third).await).await;
        nothing_left(&server, "n").await;
    }
    // No task writes now, so a second reader joins the first.
    let one = lock.read().await.unwrap();
    let more = timeout(at_once(), lock.read()).await.unwrap().unwrap();
    assert_eq!(more.token(), one.token());
    release_all([one, more]).await;
}

/// S-34: a reader that is not polled delays the next writer for a bounded time only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_not_polled_keeps_no_writer_out() {
    let (server, client) = world().await;
    let lock = client.rw_lock("asleep");
    let (first, second) = first_of_two_writers(&server, &client, "asleep").await;
    let [asleep] = lined_up([Box::pin(lock.read())]).await;
    due(&server, "asleep").await;
    first.release().await.unwrap();
    let written = timeout(SOON, second).await.expect("kept out by a reader that sleeps");
    written.unwrap().release().await.unwrap();
    ready(asleep).await.release().await.unwrap();
    nothing_left(&server, "asleep").await;
}

/// S-17: a reader that leaves lets the next writer go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_dropped_lets_the_next_writer_go() {
    let (server, client) = world().await;
    let lock = client.rw_lock("left");
    for told in [false, true] {
        let (first, second) = first_of_two_writers(&server, &client, "left").await;
        let [reader] = lined_up([Box::pin(lock.read())]).await;
        let reader = told.then_some(reader);
        first.release().await.unwrap();
        drop(reader);
        let second = timeout(at_once(), second).await.expect("waits for a reader that has gone");
        second.unwrap().release().await.unwrap();
        nothing_left(&server, "left").await;
    }
}
