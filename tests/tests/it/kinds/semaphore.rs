//! Semaphores on Redis (S-30): what they promise.

use crate::prelude::*;

/// Below the poll cap of five seconds less a fifth, and far below any lease: only a message is as
/// fast.
const BY_MESSAGE: Duration = secs(3);

/// Longer than a notice and what follows it take, shorter than any timer that could stand in.
const A_WHILE: Duration = ms(200);

async fn take(semaphore: &Semaphore, permits: u32) -> LockGuard {
    timeout(SOON, semaphore.acquire_many(permits)).await.expect("not served").unwrap()
}

type Waiter = JoinHandle<Result<LockGuard, LockError>>;

fn spawn(semaphore: &Semaphore, permits: u32) -> Waiter {
    lock_tests::spawn(semaphore.acquire_many(permits))
}

/// The first task of its client to wait for permits, waiting by the time this returns.
async fn waiter(server: &RedisServer, semaphore: &Semaphore, name: &str, permits: u32) -> Waiter {
    let channel = format!("redisson_sc:{{{name}}}");
    let before = server.pubsub_numsub(&channel).await;
    let waiter = spawn(semaphore, permits);
    soon!("the waiter listens", server.pubsub_numsub(&channel).await > before);
    waiter
}

async fn served(waiter: Waiter) -> LockGuard {
    timeout(BY_MESSAGE, waiter).await.expect("not woken").unwrap().unwrap()
}

async fn free(server: &RedisServer, name: &str) -> i64 {
    server.client().get(&["GET", name]).await
}

/// A semaphore of two clients of one server.
async fn of_two_clients(name: &str, limit: u32) -> (RedisServer, [Semaphore; 2]) {
    let (server, client, other) = world_of_two().await;
    let both = [client, other].map(|client| client.semaphore(name, limit));
    (server, both)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_as_many_permits_as_the_limit() {
    let (server, [a, b]) = of_two_clients("n", 3).await;
    let (one, two) = (take(&a, 1).await, take(&b, 2).await);
    assert_eq!((one.permits(), two.permits(), a.limit()), (1, 2, 3));
    assert!(a.try_acquire().await.unwrap().is_none());
    assert!(b.try_acquire().await.unwrap().is_none());
    two.release().await.unwrap();
    assert!(a.try_acquire_many(3).await.unwrap().is_none());
    let back = a.try_acquire_many(2).await.unwrap().expect("two are free");
    drop((one, back));
    soon!("given back", free(&server, "n").await == 3);
    take(&b, 3).await.release().await.unwrap();
}

/// Nothing is sent for what can never be had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_permits_are_refused() {
    let (server, client) = world().await;
    for (limit, permits, says) in [(3, 4, "that has 3"), (5000, 1025, "at most 1024")] {
        let semaphore = client.semaphore("over", limit);
        let outcomes = [
            semaphore.acquire_many(permits).await.map(drop),
            semaphore.try_acquire_many(permits).await.map(drop),
        ];
        for outcome in outcomes {
            let Err(LockError::InvalidOptions(text)) = outcome else { panic!("{outcome:?}") };
            assert!(text.contains(says), "{text}");
        }
    }
    assert!(server.client().keys().await.is_empty());
}

/// Those who do not wait do not get in each other's way while permits are free, and take none from
/// those who have them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_at_once_get_all_there_is() {
    let (server, client) = world().await;
    let semaphore = client.semaphore("tries", 20);
    let tries = join_all((0..30).map(|_| semaphore.try_acquire())).await;
    let got: Vec<_> = tries.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(got.len(), 20);
    // Whoever waits for more than is free holds nothing back from them.
    let semaphore = client.semaphore("rest", 20);
    let most = take(&semaphore, 19).await;
    let big = waiter(&server, &semaphore, "rest", 5).await;
    let last = semaphore.try_acquire().await.unwrap().expect("one is free");
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    drop((most, last));
    served(big).await.release().await.unwrap();
}

/// S-14, S-15: one that wants three gets them when three are free at once, and not before; behind it
/// its own process lines up, while other processes take what is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_is_strict_here_and_open_elsewhere() {
    let (server, [a, b]) = of_two_clients("line", 3).await;
    let mut held = vec![take(&b, 1).await, take(&b, 1).await, take(&b, 1).await];
    let big = waiter(&server, &a, "line", 3).await;
    let small = [spawn(&a, 1), spawn(&a, 1)];
    held.pop().unwrap().release().await.unwrap();
    held.pop().unwrap().release().await.unwrap();
    tokio::time::sleep(A_WHILE).await;
    assert!(!big.is_finished(), "three permits of two");
    assert!(!small.iter().any(JoinHandle::is_finished), "a waiter jumped the line");
    take(&b, 2).await.release().await.unwrap();
    held.pop().unwrap().release().await.unwrap();
    let big = served(big).await;
    assert!(!small.iter().any(JoinHandle::is_finished), "more permits than there are");
    big.release().await.unwrap();
    // Both at once: the second is let in as soon as the first has its permit.
    let [one, two] = small;
    drop((served(one).await, served(two).await));
}

/// S-15: several permits that come free with one message serve as many in the line of one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_freed_at_once_serve_the_whole_line() {
    let (server, [a, b]) = of_two_clients("many", 8).await;
    let all = take(&a, 8).await;
    let mut line = vec![waiter(&server, &b, "many", 1).await];
    line.extend((0..7).map(|_| spawn(&b, 1)));
    all.release().await.unwrap();
    let _got = join_all(line.into_iter().map(served)).await;
    assert!(a.try_acquire().await.unwrap().is_none());
}

/// S-12, S-30: leases that are not renewed end with all their permits at once, and a waiter knows
/// when; the time is that of the lease which makes enough of them free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_leases_free_their_permits() {
    let (_server, [a, b]) = of_two_clients("ends", 3).await;
    let (long, short) = (secs(2), ms(700));
    let one = take(&a.clone().with(fixed(short)), 1).await;
    let two = take(&a.with(fixed(long)), 2).await;
    for (permits, after, lease) in [(1, ms(100), short), (2, short, long), (3, short, long)] {
        let outcome = b.clone().wait(ms(50)).acquire_many(permits).await;
        let Err(LockError::Timeout { holder_remaining: Some(left), .. }) = outcome else {
            panic!("{permits}: {outcome:?}");
        };
        assert!(left <= lease && left > after, "{permits}: {left:?}");
    }
    let taken = Instant::now();
    let first = timeout(SOON, b.acquire()).await.expect("never free").unwrap();
    assert!(taken.elapsed() < patience(short + A_WHILE), "{:?}", taken.elapsed());
    assert!(b.try_acquire().await.unwrap().is_none(), "half of a hold has ended");
    let rest = timeout(SOON, b.acquire_many(2)).await.expect("never free").unwrap();
    assert!(taken.elapsed() < patience(long + A_WHILE), "{:?}", taken.elapsed());
    assert!(one.is_lost() && two.is_lost());
    assert!(matches!(two.release().await, Err(LockError::Lost { .. })));
    tokio::time::sleep(A_WHILE).await;
    assert!(b.try_acquire().await.unwrap().is_none(), "a late release freed another's permits");
    drop((first, rest));
}
