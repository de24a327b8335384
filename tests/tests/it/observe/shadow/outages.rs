//! Shadow mode (`enforce`) beside a store that is no good: it counts, and holds nobody up.

use crate::observe::shadow::*;

/// Rows of `name(parameters) [arguments]`: whether there is a hold while it runs.
macro_rules! looks {
    ($($name:ident($($parameter:ident: $ty:ty)?) [$($arguments:tt)*];)*) => {$(
        #[distributed_lock($($arguments)*, client = client)]
        async fn $name(client: &LockClient $(, $parameter: $ty)?) -> Result<bool, LockError> {
            Ok(!client.admin().held().is_empty())
        }
    )*};
}

looks! {
    list(id: u64) [key = "list:{id}", policy = "trial", kind = read];
    // Several locks of this kind are an engine of their own, each time.
    both(id: u64) [keys = ["a:{id}", "b:{id}"], policy = "trial", kind = fair];
    acked() [key = "acked", policy = "acked"];
    // Its lease is longer than what is left of the one around it.
    inner() [key = "nest", policy = "brief"];
}

#[distributed_lock(key = "job:1", policy = "trial", client = client)]
async fn pauses(client: &LockClient, server: &RedisServer) -> Result<Instant, LockError> {
    assert_eq!(client.admin().held().len(), 1);
    server.pause();
    Ok(Instant::now())
}

#[distributed_lock(key = "nest", policy = "brief", client = client)]
async fn outer(client: &LockClient, server: &RedisServer) -> Result<Duration, LockError> {
    sleep(ms(200)).await;
    server.pause();
    let start = Instant::now();
    inner(client).await?;
    Ok(start.elapsed())
}

/// The time that fifty calls take, one after the other, without what is between them.
async fn fifty(mut call: impl AsyncFnMut(u64)) -> Duration {
    let mut took = Duration::ZERO;
    for id in 0..50 {
        let start = Instant::now();
        call(id).await;
        took += start.elapsed();
        sleep(ms(1)).await;
    }
    took
}

/// Calls until one has its lock.
async fn until_held(client: &LockClient, bound: Duration) {
    let held = async || job(client, 1).await.unwrap();
    eventually(bound, "the store is looked at again", held).await;
}

async fn ends_idle(seen: &Kept, server: &RedisServer, client: &LockClient) {
    let exists = async |name| server.client().exists(name).await;
    soon!("nothing is left", !exists("job:1").await && !exists("job:7").await);
    seen.idle().await;
    assert!(client.admin().held().is_empty());
    assert!(client.shutdown(SOON).await.is_clean());
}

#[tokio::test]
async fn a_store_that_hangs() {
    let (Scenario { seen, server, client }, _here) = start().await;
    assert!(job(&client, 1).await.unwrap());
    for round in 1..3 {
        let before = counted(&seen, "unanswered");
        server.pause();
        let took = fifty(async |id| match id % 3 {
            0 => assert!(!job(&client, 1).await.unwrap()),
            1 => assert!(!list(&client, id).await.unwrap()),
            _ => assert!(!both(&client, id).await.unwrap()),
        });
        let took = took.await;
        assert!(took < patience(FIFTY_CALLS), "fifty calls took {took:?}");
        assert_eq!(counted(&seen, "unanswered") - before, 50, "{}", seen.text());
        server.resume();
        until_held(&client, NOTICED).await;
        assert_eq!(counted(&seen, "acquired"), round + 1, "{}", seen.text());
    }
    // The others of a looker know what the lock knows.
    let other = connect(&server.url()).await;
    let held = other.mutex("job:7").lock().await.unwrap();
    let before = counted(&seen, "not_enforced");
    assert!(!job(&client, 7).await.unwrap());
    assert_eq!(counted(&seen, "not_enforced"), before + 1);
    held.release().await.unwrap();
    ends_idle(&seen, &server, &client).await;
}

#[tokio::test]
async fn a_store_that_is_gone() {
    let (Scenario { seen, server, client }, _here) = start().await;
    server.kill();
    let took = fifty(async |id| assert!(!job(&client, id).await.unwrap())).await;
    assert!(took < patience(FIFTY_CALLS), "fifty calls took {took:?}");
    assert_eq!(counted(&seen, "unanswered"), 50);
    server.restart().await;
    // Not before there is a connection, which is tried for at least every one and a half seconds.
    until_held(&client, SOON).await;
    assert_eq!(seen.sum("lock_acquire_total", &[]) as u32, counted(&seen, "unanswered") + 1);
    ends_idle(&seen, &server, &client).await;
    // Nor does it matter that the client has ended.
    let before = counted(&seen, "unanswered");
    assert!(!job(&client, 1).await.unwrap());
    assert_eq!(counted(&seen, "unanswered"), before + 1);
}

/// Answers that come, but too late to wait for: what they granted is given back.
#[tokio::test]
async fn a_store_that_is_slow() {
    let (seen, _here) = Kept::here();
    let (server, proxy) = proxied().await;
    let client = connect(&proxy.url()).await;
    assert!(job(&client, 1).await.unwrap());
    // Less than a probe may take in all, and more than its answer.
    proxy.delay(A_LOOK * 7 / 10);
    let mut waited = 0;
    for _ in 0..50 {
        let start = Instant::now();
        assert!(!job(&client, 1).await.unwrap());
        waited += u32::from(start.elapsed() > A_LOOK / 2);
        // So that several probes go out.
        sleep(A_LOOK / 2).await;
    }
    // A probe that is answered as late shows no recovery, or every fifth call would wait again.
    assert!(waited <= 3, "{waited} of fifty calls waited");
    assert_eq!((counted(&seen, "unanswered"), counted(&seen, "acquired")), (50, 1));
    proxy.delay(ms(2));
    until_held(&client, NOTICED).await;
    ends_idle(&seen, &server, &client).await;
}

/// A body that had the lock is not kept from its answer by a store that went silent meanwhile.
#[tokio::test]
async fn a_release_that_hangs() {
    let (Scenario { seen, server, client }, _here) = start().await;
    let over = pauses(&client, &server).await.unwrap();
    assert!(over.elapsed() < patience(A_LOOK * 5), "{:?}", over.elapsed());
    server.resume();
    until_held(&client, NOTICED).await;
    ends_idle(&seen, &server, &client).await;
    assert!(seen.is("lock_release_total", &[], 2), "{}", seen.text());
}

/// A lock inside of another one of the name asks for more lease: not while no server answers.
#[tokio::test]
async fn an_extension_that_hangs() {
    let (Scenario { seen, server, client }, _here) = start().await;
    // S-31 is for calls that the lock protects: none waits for replicas that there are not.
    let start = Instant::now();
    assert!(acked(&client).await.unwrap());
    assert!(start.elapsed() < patience(A_LOOK * 5), "{:?}", start.elapsed());
    let took = outer(&client, &server).await.unwrap();
    assert!(took < patience(A_LOOK * 5), "{took:?}");
    assert_eq!((counted(&seen, "acquired"), counted(&seen, "unanswered")), (2, 1));
    server.resume();
    ends_idle(&seen, &server, &client).await;
}

/// A local task that asks a store which does not answer is no holder: nothing says that the lock is busy (S-33).
#[tokio::test]
async fn a_look_beside_a_contender_is_unanswered() {
    let (Scenario { seen, server, client }, _here) = start().await;
    assert!(job(&client, 1).await.unwrap());
    server.pause();
    let contender = lock_tests::spawn(client.mutex("job:1").lock());
    sleep(ms(5)).await;
    assert!(!job(&client, 1).await.unwrap());
    assert_eq!(counted(&seen, "not_enforced"), 0, "{}", seen.text());
    assert_eq!(counted(&seen, "unanswered"), 1, "{}", seen.text());
    server.resume();
    drop(contender.await.unwrap().unwrap());
    assert!(client.shutdown(SOON).await.is_clean());
}
