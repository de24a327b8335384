//! Many holds at once: when they are renewed, by what commands, and how many by one script.

use crate::prelude::*;
use crate::support::handed_on::handed_on;

const LEASE: Duration = secs(30);
const HOLDS: usize = 20_000;

/// How much later than planned a paused clock wakes a task.
const SLACK: Duration = ms(15);

/// Holds whose times are in one slot are renewed at its beginning.
const SLOT: Duration = ms(100);

/// A store that notes when each lock is renewed.
#[derive(Debug, Clone)]
struct Noting {
    inner: Arc<MemoryStore>,
    start: Instant,
    renewed: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Store for Noting {
    handed_on!(acquire release subscribe clock);

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        let now = self.start.elapsed();
        let names = requests.iter().map(|request| (now, request.target.key().to_string()));
        self.renewed.lock().unwrap().extend(names);
        self.inner.renew(requests, timeout)
    }
}

/// Holds so many locks for six thirds of their lease, all acquired in the same moment, and returns when each was
/// renewed.
async fn renewals(holds: usize) -> Vec<(Duration, String)> {
    let renewed = Arc::<Mutex<Vec<_>>>::default();
    let inner = Arc::new(MemoryStore::new());
    // Moves the paused clock: no lock is then acquired at the moment when a slot begins.
    sleep(SLOT / 2).await;
    let store = Noting { inner, start: Instant::now(), renewed: Arc::clone(&renewed) };
    let client = LockClient::builder().store(store).unwrap();
    let mut guards = Vec::new();
    for number in 0..holds {
        guards.push(
            client.mutex(format!("many:{number}")).with(watched(LEASE)).lock().await.unwrap(),
        );
    }
    sleep(2 * LEASE).await;
    assert!(guards.iter().all(|guard| !guard.is_lost()));
    let renewed = renewed.lock().unwrap();
    renewed.clone()
}

/// The number of renewals in each interval of this length.
fn per(interval: Duration, renewals: &[(Duration, String)]) -> Vec<usize> {
    let mut counts = Vec::new();
    for (at, _) in renewals {
        let place = (at.as_nanos() / interval.as_nanos()) as usize;
        counts.resize(counts.len().max(place + 1), 0);
        counts[place] += 1;
    }
    counts
}

/// The time from each hold's acquisition or renewal to its next renewal.
fn intervals(renewals: Vec<(Duration, String)>) -> Vec<Duration> {
    let mut last = BTreeMap::new();
    let since_last = |(at, name)| at - last.insert(name, at).unwrap_or_default();
    renewals.into_iter().map(since_last).collect()
}

/// S-10: each hold is renewed never later than after a third of its lease, and never so early that a short hold would pay for
/// it. Renewals of locks that are acquired in one moment are spread, or they would keep the server from its other clients.
#[tokio::test(start_paused = true)]
async fn renewals_of_holds_acquired_together_are_in_time_and_spread() {
    let renewals = renewals(HOLDS).await;
    let most = *per(LEASE / 300, &renewals).iter().max().unwrap();
    assert!(most <= 3 * HOLDS / 100, "{most} in a hundredth of a third");
    let per_second = per(secs(1), &renewals);
    let most = *per_second[30..].iter().max().unwrap();
    assert!(most <= HOLDS / 10 * 2, "{per_second:?}");
    let intervals = intervals(renewals);
    assert!(intervals.len() >= HOLDS * 5);
    let in_time = LEASE / 6 - SLOT..=LEASE / 3 + SLACK;
    assert_eq!(intervals.into_iter().find(|interval| !in_time.contains(interval)), None);
}

/// The server's core is the ceiling: a renewal asks for the owner, and moves the end. One script does so for 128 holds at most, or
/// other clients would wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_costs_two_commands_a_hold() {
    let server = RedisServer::start().await;
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let client = client_id();
    let mut requests = Vec::new();
    for number in 0..256 {
        let key = LockKey::new(format!("cheap:{number}")).unwrap();
        let target = if number % 2 == 0 { Target::mutex(key) } else { Target::fair(key) };
        let owner = OwnerId::new(&client, number, 1);
        let acquire = AcquireRequest::new(target.clone(), owner.clone(), secs(10), SOON);
        assert!(matches!(store.acquire(acquire).await, Ok(AcquireReply::Granted(_))));
        requests.push(RenewRequest::new(target, owner, secs(30)));
    }
    server.reset_stats().await;
    let answers = store.renew(requests.clone(), SOON).await.unwrap();
    assert!(answers.iter().all(|answer| *answer == Ownership::Owner), "{answers:?}");
    let calls = server.command_calls().await;
    let cost: Vec<_> = ["evalsha", "time", "hget", "pexpireat", "pexpire", "pttl", "hexists"]
        .map(|name| calls.get(name).copied().unwrap_or_default())
        .into();
    assert_eq!(cost, [2, 2, 256, 256, 0, 0, 0], "{calls:?}");
    // Each hold has its own answer, whichever script asks for it.
    let gone = [1, 128, 255];
    for number in gone {
        assert!(server.client().del(&format!("cheap:{number}")).await);
    }
    for (number, answer) in (0..).zip(store.renew(requests, SOON).await.unwrap()) {
        let is_gone = gone.contains(&number);
        assert_eq!(answer == Ownership::NotOwner, is_gone, "{number}: {answer:?}");
    }
}
