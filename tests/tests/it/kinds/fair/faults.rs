//! Lost replies, late grants, short memory, dead and paused waiters (S-8, S-19, S-21, S-22, S-33).

use crate::kinds::fair::world::*;

/// The key that only requests of places carry.
const PLACES: &str = "redisson_lock_queue";

/// S-22: granted, but the answer was lost: the same owner asks again and has it, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_whose_answer_was_lost_is_found() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.port()).await;
    let behind = world.client_that_only_listens().await;
    let client = connect(&proxy).await;
    let guard = behind.fair_mutex("g").lock().await.unwrap();
    let (head, owner) = world.waiter(&client, "g").await;
    let (next, _) = world.waiter(&behind, "g").await;
    proxy.drop_next_reply_to(PLACES);
    guard.release().await.unwrap();
    let guard = granted(head).await;
    assert_eq!(proxy.replies_dropped(), 1);
    assert_eq!(world.holder("g").await.as_ref(), Some(&owner));
    assert_eq!(world.queue("g").await.len(), 1);
    guard.release().await.unwrap();
    let last = granted(next).await;
    // The release that is sent again for what was unanswered does no harm.
    timeout(PROMPTLY, client.shutdown(NEVER)).await.expect("not given back");
    assert!(world.holder("g").await.is_some() && !last.is_lost());
    last.release().await.unwrap();
    world.nothing_left("g").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_arrives_twice_counts_once() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.port()).await;
    let client = connect(&proxy).await;
    let holder = world.client().await;
    let guard = holder.fair_mutex("d").lock().await.unwrap();
    proxy.duplicate_next_request_with(PLACES);
    let (waiting, owner) = world.waiter(&client, "d").await;
    soon!("it has arrived twice", proxy.requests_duplicated() == 1);
    assert_eq!(world.queue("d").await, std::slice::from_ref(&owner));
    // One of three was the other's double.
    soon!("it has asked again", world.asked().await == 3);
    proxy.duplicate_next_request_with(PLACES);
    guard.release().await.unwrap();
    let guard = granted(waiting).await;
    soon!("it has arrived twice", proxy.requests_duplicated() == 2);
    let hash = world.server.client().hgetall("d").await;
    assert_eq!(hash.get(&owner).map(String::as_str), Some("1"), "{hash:?}");
    guard.release().await.unwrap();
    world.nothing_left("d").await;
}

/// S-8, S-26: a grant that comes too late is given back; the waiter goes on as another owner and
/// listens to that one's channel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_late_grant_it_hears_of_its_new_place() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.port()).await;
    let builder = lock_runtime::LockClient::builder().waiter_lease(NEVER).poll_cap(NEVER);
    let client = builder.connect(&proxy.url()).await.unwrap();
    let holder = world.client_that_only_listens().await;
    let short = fixed(ms(200));
    let guard = holder.fair_mutex("l").lock().await.unwrap();
    let waiting = lock_tests::spawn(client.fair_mutex("l").with(short).lock());
    let mut owner = String::new();
    soon!("it is in line", {
        owner = world.queue("l").await.pop().unwrap_or_default();
        !owner.is_empty()
    });
    world.server.wait_for_subscribers(&channel("l", &owner), 1).await;
    let (next, _) = world.waiter(&holder, "l").await;
    proxy.delay_replies(ms(400));
    guard.release().await.unwrap();
    // Its hold ends, or is given back, before it knows of it; the next one has its turn.
    let guard = granted(next).await;
    proxy.pass();
    let mut anew = String::new();
    soon!("it is in line anew", {
        anew = world.queue("l").await.pop().unwrap_or_default();
        !anew.is_empty() && anew != owner
    });
    world.server.wait_for_subscribers(&channel("l", &anew), 1).await;
    assert_eq!(world.queue("l").await, [anew]);
    guard.release().await.unwrap();
    drop(granted(waiting).await);
    world.nothing_left("l").await;
}

/// S-15: a notice that was lost with the connection costs no more than the reconnection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_wakes_the_head() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    let holder = world.client().await;
    let guard = holder.fair_mutex("b").lock().await.unwrap();
    let (head, _) = world.waiter(&client, "b").await;
    let (next, _) = world.waiter(&client, "b").await;
    // Freed without a word, as if the notice had been lost.
    assert!(world.server.client().del("b").await);
    world.server.client_kill(ClientType::PubSub).await;
    granted(head).await.release().await.unwrap();
    granted(next).await.release().await.unwrap();
    drop(guard);
    world.nothing_left("b").await;
}

/// S-19, S-33: short of memory the lock is not given to another process, but given back and left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_a_lock_and_a_place_are_given_up() {
    let world = World::start().await;
    // Who asks again by itself, to keep its place, is refused before the release tells it.
    let [client, other] =
        [world.client_that_only_listens().await, world.client_that_only_listens().await];
    let raw = world.server.client();
    let guard = client.fair_mutex("m").lock().await.unwrap();
    let (head, _) = world.waiter(&other, "m").await;
    let (cancelled, _) = world.waiter(&client, "m").await;
    raw.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    cancelled.abort();
    soon!("it has left", world.queue("m").await.len() == 1);
    guard.release().await.unwrap();
    let error = timeout(PROMPTLY, head).await.expect("not told").unwrap().unwrap_err();
    let LockError::Store(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), StoreErrorKind::OutOfMemory);
    world.nothing_left("m").await;
    raw.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
    client.fair_mutex("m").lock().await.unwrap().release().await.unwrap();
}

/// S-26: a dead head is waited for once, whoever asks; nobody asks in a loop meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_head_is_waited_for_in_peace() {
    let world = World::start().await;
    let client = world.client_with_places(secs(3)).await;
    let raw = world.server.client();
    // Two of them, dead for the store at once: one lease for both.
    let ends = (world.now().await + 3000.0).round().to_string();
    raw.cmd(&["RPUSH", "redisson_lock_queue:{q}", "dead:1", "dead:2"]).await;
    raw.cmd(&["ZADD", "redisson_lock_timeout:{q}", &ends, "dead:1", &ends, "dead:2"]).await;
    let start = Instant::now();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(world.waiter(&client, "q").await.0);
    }
    world.server.reset_stats().await;
    tokio::time::sleep(secs(2)).await;
    // Twenty waiters, a sign of life every second. Several may share a script.
    let asked = world.asked().await;
    assert!((20..=60).contains(&asked), "{asked} requests in two seconds");
    assert!(world.holder("q").await.is_none());
    for waiting in waiting {
        granted(waiting).await.release().await.unwrap();
    }
    let took = start.elapsed();
    assert!(took >= ms(2900), "the dead were overtaken: {took:?}");
    assert!(took < patience(secs(5)), "{took:?}");
    world.nothing_left("q").await;
}

/// S-26: an entry that could never be found dead gets an end, and the line goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_without_a_score_is_repaired() {
    let world = World::start().await;
    let client = world.client_with_places(ms(600)).await;
    let raw = world.server.client();
    raw.cmd(&["RPUSH", "redisson_lock_queue:{n}", "nobody:1"]).await;
    let (waiting, _) = world.waiter(&client, "n").await;
    let score = world.score("n", "nobody:1").await.expect("no score");
    let left = score - world.now().await;
    assert!((0.0..=5000.0).contains(&left), "{left}");
    assert!(world.holder("n").await.is_none(), "overtaken");
    // Not put off again by those who ask: it ends.
    let guard = timeout(2 * PROMPTLY, waiting).await.expect("stuck").unwrap().unwrap();
    assert!(world.now().await >= score);
    guard.release().await.unwrap();
    world.nothing_left("n").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_head_is_told() {
    let world = World::start().await;
    let (client, other) = (world.client_that_only_listens().await, world.client().await);
    let raw = world.server.client();
    let ends = (world.now().await + 3_600_000.0).round().to_string();
    raw.cmd(&["RPUSH", "redisson_lock_queue:{h}", "dead:1", "dead:2"]).await;
    raw.cmd(&["ZADD", "redisson_lock_timeout:{h}", &ends, "dead:1", &ends, "dead:2"]).await;
    let (waiting, _) = world.waiter(&client, "h").await;
    raw.cmd(&["ZADD", "redisson_lock_timeout:{h}", "1", "dead:1", "1", "dead:2"]).await;
    assert!(other.fair_mutex("h").try_lock().await.unwrap().is_none(), "overtook");
    granted(waiting).await.release().await.unwrap();
    world.nothing_left("h").await;
}

/// S-26: a release that the head does not hear tells the first who does, so that a waiter knows
/// when the head counts as dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_deaf_head_the_first_who_hears_watches() {
    let world = World::start().await;
    let client = world.client_that_only_listens().await;
    let guard = client.fair_mutex("f").lock().await.unwrap();
    let raw = world.server.client();
    let ends = world.now().await + 1500.0;
    raw.cmd(&["RPUSH", "redisson_lock_queue:{f}", "deaf:1"]).await;
    raw.cmd(&["ZADD", "redisson_lock_timeout:{f}", &ends.to_string(), "deaf:1"]).await;
    let (waiting, _) = world.waiter(&client, "f").await;
    guard.release().await.unwrap();
    // The waiter last heard of the holder's lease, thirty seconds.
    let guard = granted(waiting).await;
    assert!(world.now().await >= ends, "the head was overtaken");
    guard.release().await.unwrap();
    world.nothing_left("f").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_its_place_lines_up_anew() {
    let world = World::start().await;
    let client = world.client_with_places(ms(600)).await;
    let raw = world.server.client();
    let guard = client.fair_mutex("s").lock().await.unwrap();
    let (first, one) = world.waiter(&client, "s").await;
    let (second, two) = world.waiter(&client, "s").await;
    raw.cmd(&["LREM", "redisson_lock_queue:{s}", "0", &one]).await;
    raw.cmd(&["ZREM", "redisson_lock_timeout:{s}", &one]).await;
    soon!("it is in line anew", world.queue("s").await.iter().eq([&two, &one]));
    assert!(world.score("s", &one).await.is_some());
    guard.release().await.unwrap();
    granted(second).await.release().await.unwrap();
    granted(first).await.release().await.unwrap();
    world.nothing_left("s").await;
}

/// A sign of life does not search the queue, which may be long, and still finds what is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standing_waiter_is_searched_for_only_where_places_and_scores_differ() {
    let server = RedisServer::start().await;
    let (store, raw) = (RedisStore::connect(&server.url()).await.unwrap(), server.client());
    let (places, scores) = ("redisson_lock_queue:{l}", "redisson_lock_timeout:{l}");
    let id = lock_runtime::store::client_id();
    let ask = async |hold| {
        let (target, owner) =
            (Target::fair(LockKey::new("l").unwrap()), OwnerId::new(&id, hold, 1));
        let request = AcquireRequest::new(target, owner, secs(60), PROMPTLY);
        store.acquire(request.with_place(Some(secs(60)))).await.unwrap()
    };
    let queue = async || raw.get::<Vec<String>>(&["LRANGE", places, "0", "-1"]).await;
    let searched = async || {
        let calls = server.command_calls().await;
        [calls.contains_key("lpos"), calls.contains_key("lrem")]
    };
    assert!(matches!(ask(1).await, AcquireReply::Granted(_)));
    server.reset_stats().await;
    for hold in [2, 3, 4, 3, 2, 4] {
        assert!(matches!(ask(hold).await, AcquireReply::Held(_)));
    }
    assert_eq!(searched().await, [false, false]);
    let line = queue().await;
    assert_eq!(line.len(), 3);

    // A score is missing: the place is kept.
    raw.cmd(&["ZREM", scores, &line[1]]).await;
    ask(3).await;
    assert_eq!(queue().await, line);
    // A place is missing: it is at the end.
    raw.cmd(&["LREM", places, "0", &line[1]]).await;
    ask(3).await;
    assert_eq!(queue().await, [&*line[0], &*line[2], &*line[1]]);
    assert_eq!(raw.get::<u64>(&["ZCARD", scores]).await, 3);
    assert_eq!(searched().await, [true, true], "by this test");

    server.reset_stats().await;
    let target = Target::fair(LockKey::new("l").unwrap());
    let release = ReleaseRequest::new(target, OwnerId::new(&id, 1, 1), PROMPTLY);
    store.release(release).await.unwrap();
    assert!(matches!(ask(2).await, AcquireReply::Granted(_)));
    assert_eq!(searched().await, [false, false]);
    assert_eq!(queue().await, line[1..].iter().rev().cloned().collect::<Vec<_>>());
}
