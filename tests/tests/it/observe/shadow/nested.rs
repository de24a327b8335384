//! Shadow mode (`enforce`) inside of locks, and locks inside of shadow mode.

use crate::observe::scenario::*;
use crate::observe::shadow::{A_LOOK, connect};

const LEASE: Duration = ms(200);

fn brief() -> LockClient {
    let text = "[lock.policies]\ntrial = { enforce = false, lease = '200ms' }\nreal = {}";
    let config = LockConfig::from_toml(text).unwrap();
    LockClient::builder().config(config).in_memory().unwrap()
}

#[distributed_lock(key = "order", policy = "real", client = client)]
async fn enforced(client: &LockClient) -> Result<usize, LockError> {
    Ok(client.admin().held().len())
}

#[distributed_lock(key = "sides", policy = "real", client = client, kind = write)]
async fn enforced_write(client: &LockClient) -> Result<usize, LockError> {
    Ok(client.admin().held().len())
}

#[distributed_lock(key = "order", policy = "trial", client = client)]
async fn outlives_its_hold(client: &LockClient) -> Result<usize, LockError> {
    assert_eq!(enforced(client).await?, 1, "re-entry");
    sleep(LEASE * 2).await;
    enforced(client).await
}

#[distributed_lock(key = "sides", policy = "trial", client = client, kind = read)]
async fn outlives_its_read(client: &LockClient) -> Result<usize, LockError> {
    assert!(matches!(enforced_write(client).await, Err(LockError::WouldDeadlock { .. })));
    sleep(LEASE * 2).await;
    enforced_write(client).await
}

/// What is not enforced goes on without its hold, and an enforced lock inside of it is then one of its
/// own: it neither fails for that loss nor is let in for nothing.
#[tokio::test(start_paused = true)]
async fn a_lock_inside_of_a_look_whose_hold_is_lost() {
    let client = brief();
    assert_eq!(outlives_its_hold(&client).await.unwrap(), 1);
    assert_eq!(outlives_its_read(&client).await.unwrap(), 1);
}

/// The look inside gives nothing back that is the outer's, whatever becomes of the store.
#[tokio::test]
async fn a_look_inside_of_a_lock() {
    let server = RedisServer::start().await;
    let client = connect(&server.url()).await;
    let lock = client.any_lock(LockKind::Mutex, ["job:1"]);
    let outer = lock.lock().await.unwrap();
    let inside = async {
        let look = lock.shadow_lock().await.unwrap();
        assert_eq!(look.token(), outer.token());
        look.release().await.unwrap();
        assert!(server.client().exists("job:1").await);
        // The outer one first: now it is the look's to end.
        lock.shadow_lock().await.unwrap()
    };
    let look = outer.run(inside).await.unwrap();
    assert!(!outer.is_lost());
    outer.release().await.unwrap();
    assert!(server.client().exists("job:1").await && !look.is_lost());
    server.pause();
    timeout(A_LOOK * 10, look.release()).await.expect("a look waits for nobody").unwrap();
    server.resume();
    let again = timeout(SOON, lock.lock()).await.expect("it is given back").unwrap();
    again.release().await.unwrap();
}

/// S-14: a look that lets others go first leaves it to those who come after it to do so too.
#[tokio::test(start_paused = true)]
async fn a_look_leaves_the_others_their_head_start() {
    let Pair { client, other } = memory();
    let lock = client.any_lock(LockKind::Mutex, ["hot"]);
    let held = lock.lock().await.unwrap();
    let waiter = lock_tests::spawn(other.mutex("hot").lock());
    // Until it listens.
    sleep(ms(100)).await;
    held.release().await.unwrap();
    let start = Instant::now();
    assert!(lock.shadow_lock().await.unwrap_err().is_busy());
    assert_eq!(start.elapsed(), Duration::ZERO, "it waited for them");
    let next = timeout(secs(1), lock.lock()).await;
    assert!(next.is_err(), "it went before the other process");
    waiter.await.unwrap().unwrap().release().await.unwrap();
    lock.lock().await.unwrap().release().await.unwrap();
}

/// S-12: a guard inside of another tells of a loss although its own release gives nothing back.
#[tokio::test(start_paused = true)]
async fn a_nested_release_tells_of_a_loss() {
    let options = fixed(LEASE).on_lost(OnLost::Finish);
    let lock = LockClient::in_memory().mutex("order").with(options);
    let outer = lock.lock().await.unwrap();
    let mut told = None;
    let inside = async {
        let nested = lock.lock().await.unwrap();
        sleep(LEASE * 2).await;
        told = Some(nested.release().await);
    };
    assert!(outer.run(inside).await.unwrap_err().is_lost());
    assert!(told.unwrap().unwrap_err().is_lost());
}
