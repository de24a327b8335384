//! Readers and writers of one process hand the lock to one another, without the store (S-14, S-27).

use crate::kinds::rw::*;

type Waiting = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

async fn client_with_window(url: &str, window: Duration) -> LockClient {
    LockClient::builder().handoff_window(window).connect(url).await.unwrap()
}

/// A server, and a client of it with that window.
async fn world(window: Duration) -> (RedisServer, LockClient) {
    let server = RedisServer::start().await;
    let client = client_with_window(&server.url(), window).await;
    (server, client)
}

/// Returns a reader that got the lock from a writer of the same client.
async fn reader_of_a_phase(lock: &RwLock) -> LockGuard {
    let writer = lock.write().await.unwrap();
    let [reader] = lined_up([read(lock)]).await;
    writer.release().await.unwrap();
    ready(reader).await
}

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

fn read(lock: &RwLock) -> Waiting {
    Box::pin(lock.read())
}

fn write(lock: &RwLock) -> Waiting {
    Box::pin(lock.write())
}

/// A writer of `client` behind which a second one has lined up, so that it has a token to hand on.
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
    let [second] = lined_up([write(&lock)]).await;
    held.release().await.unwrap();
    (got(first, PROMPTLY).await, second)
}

/// What the server ran since the last reset.
async fn scripts(server: &RedisServer) -> u64 {
    server.command_calls().await.get("evalsha").copied().unwrap_or(0)
}

/// The write phases and the read phase between them cost no command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_hands_the_lock_to_the_readers_and_they_to_the_next_writer() {
    let (server, client) = world(PROMPTLY).await;
    let lock = client.rw_lock("h");
    for dropped in [false, true] {
        let (first, second) = first_of_two_writers(&server, &client, "h").await;
        let [one, two, three] = lined_up([read(&lock), read(&lock), read(&lock)]).await;
        let (written, shown) = (first.token(), holds(&server, "h").await);
        server.reset_stats().await;
        let end = async |guard: LockGuard| match dropped {
            true => drop(guard),
            false => guard.release().await.unwrap(),
        };
        end(first).await;
        let readers = [ready(one).await, ready(two).await, ready(three).await];
        let [mut second] = lined_up([second]).await;
        assert!(readers.iter().all(|reader| reader.token() == written));
        for reader in readers {
            assert!(poll!(&mut second).is_pending(), "a writer beside a reader");
            end(reader).await;
        }
        let second = ready(second).await;
        assert!(second.token() > written);
        assert_eq!(scripts(&server).await, 0, "the store was asked");
        assert_eq!(holds(&server, "h").await, shown, "the store shows another holder");
        end(second).await;
        nothing_left(&server, "h").await;
    }
}

/// Otherwise steady readers would keep the writer out for as long as the window lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_come_during_a_phase_wait_behind_the_next_writer() {
    let (server, client) = world(PROMPTLY).await;
    let lock = client.rw_lock("n");
    let (first, second) = first_of_two_writers(&server, &client, "n").await;
    let [early] = lined_up([read(&lock)]).await;
    first.release().await.unwrap();
    let early = ready(early).await;
    let [mut second, mut late] = lined_up([second, read(&lock)]).await;
    early.release().await.unwrap();
    assert!(poll!(&mut late).is_pending(), "a reader overtook the writer");
    let written = timeout(PROMPTLY, &mut second).await.unwrap().unwrap();
    assert!(poll!(&mut late).is_pending(), "a reader beside a writer");
    written.release().await.unwrap();
    let late = ready(late).await;
    // There is no writer, so more readers join.
    let more = timeout(at_once(), lock.read()).await.unwrap().unwrap();
    assert_eq!(more.token(), late.token());
    release_all([late, more]).await;
    nothing_left(&server, "n").await;
}

/// After the window, readers of other processes share the lock with those that are still there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phase_that_lasts_is_shared_with_other_processes() {
    let (server, client) = world(ms(100)).await;
    let other = connect(&server).await;
    let (lock, name) = (client.rw_lock("s"), "s");
    let writer = lock.write().await.unwrap();
    let [one, two] = lined_up([read(&lock), read(&lock)]).await;
    writer.release().await.unwrap();
    let (one, two) = (ready(one).await, ready(two).await);
    let abroad = got(reading(&other, name), at_once()).await;
    let next = writing(&other, name);
    announced(&server, name, 1).await;
    let hash = server.client().hgetall(name).await;
    assert_eq!((hash["mode"].as_str(), hash.len()), ("read", 3), "{hash:?}");
    release_all([abroad, one]).await;
    assert!(!next.is_finished(), "a writer beside a reader");
    two.release().await.unwrap();
    got(next, at_once()).await.release().await.unwrap();
    nothing_left(&server, name).await;
}

/// S-6, S-9: the write hold goes to no writer while the read hold that stood on it lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_waits_for_a_reader_that_extends_its_lease() {
    let (server, client) = world(PROMPTLY).await;
    let lock = client.rw_lock("x");
    let (first, second) = first_of_two_writers(&server, &client, "x").await;
    let [reader] = lined_up([read(&lock)]).await;
    first.release().await.unwrap();
    let reader = ready(reader).await;
    reader.extend(secs(90)).await.unwrap();
    assert!(reader.remaining() > secs(60));
    let second = lock_tests::spawn(second);
    announced(&server, "x", 1).await;
    assert!(!second.is_finished(), "a writer beside a reader");
    reader.release().await.unwrap();
    got(second, PROMPTLY).await.release().await.unwrap();
    nothing_left(&server, "x").await;
}

/// A reader may ask to join at the moment when the window ends. Its request leaves no hold behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_join_when_the_window_ends_leave_nothing() {
    let window = ms(20);
    let (server, client) = world(window).await;
    let lock = client.rw_lock("j");
    for round in 0..40 {
        let taken = Instant::now();
        let reader = reader_of_a_phase(&lock).await;
        tokio::time::sleep_until(taken + window + ms(1) * (round % 8)).await;
        let more = timeout(PROMPTLY, lock.read()).await.unwrap().unwrap();
        drop((more, reader));
        nothing_left(&server, "j").await;
    }
}

/// S-12: the watchdog asks the store at the end of the window, and finds the loss then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_learn_that_the_write_hold_under_them_is_gone() {
    let (server, client) = world(ms(300)).await;
    let lock = client.rw_lock("gone");
    let reader = reader_of_a_phase(&lock).await;
    server.client().cmd(&["FLUSHALL"]).await;
    let lost = timeout(PROMPTLY, reader.lost()).await.expect("the loss went unnoticed");
    assert!(matches!(lost, LockError::Lost { cause: LossCause::NotOwner, .. }), "{lost}");
    assert!(matches!(reader.release().await, Err(LockError::Lost { .. })));
    ready(write(&lock)).await.release().await.unwrap();
    nothing_left(&server, "gone").await;
}

/// S-34: a phase that opened for a reader that is not polled delays the next writer for the window only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_not_polled_keeps_no_phase_open() {
    let (server, client) = world(ms(200)).await;
    let lock = client.rw_lock("asleep");
    let (first, second) = first_of_two_writers(&server, &client, "asleep").await;
    let [asleep] = lined_up([read(&lock)]).await;
    first.release().await.unwrap();
    let written = timeout(at_once(), second).await.expect("kept out by a reader that sleeps");
    written.unwrap().release().await.unwrap();
    ready(asleep).await.release().await.unwrap();
    nothing_left(&server, "asleep").await;
}

/// S-17: the phase of a reader that has gone is over at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_dropped_lets_the_next_writer_go() {
    let (server, client) = world(PROMPTLY).await;
    let lock = client.rw_lock("left");
    for told in [false, true] {
        let (first, second) = first_of_two_writers(&server, &client, "left").await;
        let [reader] = lined_up([read(&lock)]).await;
        server.reset_stats().await;
        let reader = told.then_some(reader);
        first.release().await.unwrap();
        drop(reader);
        let second = timeout(at_once(), second).await.expect("waits for a reader that has gone");
        assert_eq!(scripts(&server).await, 0, "the store was asked");
        second.unwrap().release().await.unwrap();
        nothing_left(&server, "left").await;
    }
}

/// S-6: a reader is a reader, whatever the store shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_a_phase_does_not_write() {
    let (server, client) = world(PROMPTLY).await;
    let lock = client.rw_lock("r");
    let reader = reader_of_a_phase(&lock).await;
    let refused = reader.run(lock.write()).await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::WouldDeadlock { .. }), "{refused}");
    let again = reader.run(lock.read()).await.unwrap().unwrap();
    assert!(client.rw_lock("r").try_write().await.unwrap().is_none());
    let other = connect(&server).await;
    assert!(other.rw_lock("r").try_write().await.unwrap().is_none());
    release_all([again, reader]).await;
    nothing_left(&server, "r").await;
}

/// S-20, S-33: the phase is settled once the store answers again, and leaves nothing if its readers have gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_at_the_end_of_the_window_leaves_nothing() {
    for stays in [true, false] {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port()).await;
        let client = client_with_window(&proxy.url(), ms(100)).await;
        let lock = client.rw_lock("out");
        let reader = reader_of_a_phase(&lock).await;
        server.reset_stats().await;
        // The server runs what it is sent; no answer comes back.
        proxy.delay_replies(SOON);
        soon!("the read hold was asked for", scripts(&server).await > 0);
        let reader = stays.then_some(reader);
        proxy.pass();
        proxy.reset_all();
        let other = connect(&server).await;
        if let Some(reader) = reader {
            got(reading(&other, "out"), SOON).await.release().await.unwrap();
            assert!(!reader.is_lost());
            reader.release().await.unwrap();
        }
        got(writing(&other, "out"), SOON).await.release().await.unwrap();
        nothing_left(&server, "out").await;
    }
}

/// S-20: a shutdown waits for the readers, and for the write hold under them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_releases_the_write_hold_under_readers() {
    let (server, client) = world(PROMPTLY).await;
    let lock = client.rw_lock("end");
    let writer = lock.write().await.unwrap();
    let [reader] = lined_up([read(&lock)]).await;
    drop(writer);
    let reader = ready(reader).await;
    let ends_reading = async {
        soon!("it refuses new acquires", matches!(lock.read().await, Err(LockError::Closed)));
        drop(reader);
    };
    let (ended, ()) = tokio::join!(client.shutdown(PROMPTLY), ends_reading);
    assert!(ended.is_clean(), "{ended:?}");
    assert!(!server.client().exists("end").await);
}
