//! Fault 13: a renewal is delayed on the network, and arrives when its hold has been released.
//!
//! - Promised: it creates no lock and prolongs none, whether the lock is free by then or has another holder.
//! - Seen: no key comes back, and the end of the next hold stays where it was.

use crate::prelude::*;

/// Of the hold that is renewed. The next is shorter, so a prolonged one shows.
const RENEWED: Duration = secs(6);

const NEXT: Duration = secs(5);

/// The kinds of lock that have another holder then. The others are free.
const HELD: [Job; 4] = [Job::Fair, Job::Write, Job::Permits, Job::Pair];

drill!(it_prolongs_nothing, async |drill| {
    let networks = join_all(Job::ALL.map(async |job| {
        // Each of a client of its own: renewals that are due at the same time are one request.
        let network = Proxy::start(drill.server.port()).await;
        let client = LockClient::connect(&network.url()).await.unwrap();
        let held = job.acquire(&client, &own_name(job), watched(RENEWED)).await.unwrap();
        // The next request about it is its renewal.
        network.keep_next_request_with(&own_name(job));
        let is_renewed = async || network.planned() == 0;
        eventually(SOON, &format!("{job:?} is renewed"), is_renewed).await;
        held.release().await.unwrap();
        assert!(client.shutdown(SOON).await.is_clean());
        network
    }))
    .await;
    let next = fixed_each(&drill.near.client).await;
    let left: Vec<_> = next.iter().map(LockGuard::remaining).collect();
    let since = Instant::now();
    for network in &networks {
        assert_eq!(network.deliver_kept().await, 1);
    }
    let raw = drill.server.client();
    for ((job, left), guard) in HELD.into_iter().zip(left).zip(&next) {
        let Some(ttl) = ends_in(&raw, job).await else { panic!("{job:?} is gone") };
        let most = (left + NEXT / 10).saturating_sub(since.elapsed());
        assert!(ttl <= most, "{job:?} was prolonged: {ttl:?} > {most:?}");
        assert!(!guard.is_lost());
    }
    for job in Job::ALL.into_iter().filter(|job| !HELD.contains(job)) {
        assert_eq!(ends_in(&raw, job).await, None, "{job:?} is back");
    }
    release_each(next).await;
    drop(networks);
});

/// Holds of another client that are not renewed.
async fn fixed_each(client: &LockClient) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for job in HELD {
        let options = fixed(NEXT).wait(SOON);
        guards.push(job.acquire(client, &own_name(job), options).await.unwrap());
    }
    guards
}

/// How long the server keeps the hold.
async fn ends_in(raw: &RawClient, job: Job) -> Option<Duration> {
    let name = own_name(job);
    let key = match job {
        Job::Pair => format!("{{{name}}}one"),
        Job::Permits => {
            // The score of a permit is its end.
            let permits = format!("{{{name}}}:timeout");
            let last: Vec<String> = raw.get(&["ZRANGE", &permits, "-1", "-1", "WITHSCORES"]).await;
            let end = last.get(1)?.parse::<u64>().unwrap();
            return Some(ms(end.saturating_sub(raw.time_millis().await)));
        }
        _ => name,
    };
    match raw.pttl(&key).await {
        Ttl::Left(left) => Some(left),
        Ttl::Missing => None,
        Ttl::Forever => Some(Duration::MAX),
    }
}
