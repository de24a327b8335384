//! Renewals whose answers come late, in any order, or not at all: what each of them means (S-9).

use std::collections::VecDeque;
use std::sync::MutexGuard;

use crate::faults::slow_store::*;
use crate::support::handed_on::handed_on;

const LEASE: Duration = secs(1);

/// What becomes of one renewal.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It takes effect at once, and the answer comes so much later.
    Answered(Duration),
    /// It takes effect so much later, and is then answered.
    Delivered(Duration),
    /// The store says, so much later, that the hold is none.
    Gone(Duration),
    Fails,
    Silent,
}

/// The in-memory store, whose renewals have fates.
#[derive(Debug, Clone)]
struct Fateful {
    inner: MemoryStore,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Of the next renewals.
    next: VecDeque<Fate>,
    /// Of those after them.
    all: Fate,
    sent: Vec<Instant>,
    under_way: usize,
    most: usize,
}

impl Fateful {
    fn new(next: impl IntoIterator<Item = Fate>, all: Fate) -> Self {
        let next = next.into_iter().collect();
        let state = State { next, all, sent: Vec::new(), under_way: 0, most: 0 };
        Self { inner: MemoryStore::new(), state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn client(&self) -> LockClient {
        LockClient::builder().store(self.clone()).unwrap()
    }
}

/// A renewal under way.
struct Counted(Fateful);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
    }
}

impl Store for Fateful {
    handed_on!(acquire release subscribe clock);

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        limit: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        let fate = {
            let mut state = self.state();
            state.sent.push(Instant::now());
            state.under_way += 1;
            state.most = state.most.max(state.under_way);
            state.next.pop_front().unwrap_or(state.all)
        };
        let counted = Counted(self.clone());
        let answer = async move {
            let _counted = counted;
            match fate {
                Fate::Answered(late) => {
                    let answer = self.inner.renew(requests, limit).await;
                    sleep(late).await;
                    answer
                }
                Fate::Delivered(late) => {
                    sleep(late).await;
                    self.inner.renew(requests, limit).await
                }
                Fate::Gone(late) => {
                    sleep(late).await;
                    Ok(vec![Ownership::NotOwner; requests.len()])
                }
                Fate::Fails => Err(StoreError::new(StoreErrorKind::NotReady, "it fails")),
                Fate::Silent => pending().await,
            }
        };
        StoreFuture::new(async move {
            let silence = StoreError::new(StoreErrorKind::OutcomeUnknown, "it says nothing");
            timeout(limit, answer).await.unwrap_or(Err(silence))
        })
    }
}

/// Such a store, a client of it, and a hold of the mutex `m`.
async fn held(next: impl IntoIterator<Item = Fate>, all: Fate) -> (Fateful, LockClient, LockGuard) {
    let store = Fateful::new(next, all);
    let client = store.client();
    let guard = client.mutex("m").with(watched(LEASE)).lock().await.unwrap();
    (store, client, guard)
}

/// S-9: with answers that take more than half of the lease, only renewals side by side keep the hold;
/// a few of them.
#[tokio::test(start_paused = true)]
async fn renewals_side_by_side_keep_a_hold() {
    let (store, _client, guard) = held([], Fate::Answered(LEASE * 6 / 10)).await;
    sleep(LEASE * 20).await;
    assert!(!guard.is_lost());
    let most = store.state().most;
    assert!((2..=4).contains(&most), "{most} renewals under way");
    guard.release().await.unwrap();
}

/// S-9, S-12: a store that never answers has a few renewals under way and no more; the hold ends with
/// its deadline.
#[tokio::test(start_paused = true)]
async fn a_silent_store_piles_up_nothing() {
    let store = Fateful::new([], Fate::Silent);
    let client = store.client();
    let start = Instant::now();
    let guards = [
        client.mutex("a").with(watched(LEASE)).lock().await.unwrap(),
        client.mutex("b").with(watched(LEASE)).lock().await.unwrap(),
    ];
    guards[0].lost().await;
    guards[1].lost().await;
    assert!(start.elapsed() > LEASE * 9 / 10 && start.elapsed() < LEASE, "{:?}", start.elapsed());
    sleep(LEASE).await;
    let state = store.state();
    // Four of each hold.
    assert!(state.most <= 8 && state.under_way == 0, "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_is_tried_again_soon() {
    let store = Fateful::new([Fate::Fails; 5], Fate::Answered(Duration::ZERO));
    let client = store.client();
    let guard = client.mutex("again").with(watched(LEASE)).lock().await.unwrap();
    sleep(LEASE * 3).await;
    assert!(!guard.is_lost());
    let sent = store.state().sent.clone();
    for pair in sent[..6].windows(2) {
        let pause = pair[1] - pair[0];
        assert!(pause <= LEASE / 10 + ms(10) && pause >= LEASE / 20, "{pause:?}");
    }
    // And then after a sixth to a third of it, as ever.
    assert!(sent[7] - sent[6] >= LEASE * 3 / 20, "{:?}", sent[7] - sent[6]);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_between_late_ones_costs_nothing() {
    let late = Fate::Answered(LEASE / 4);
    let fates = [late, Fate::Silent, Fate::Fails, late, Fate::Silent, Fate::Silent];
    let (store, _client, guard) = held(fates, late).await;
    sleep(LEASE * 20).await;
    assert!(!guard.is_lost());
    assert!(store.state().most <= 4);
    guard.release().await.unwrap();
}

/// S-9: "not the owner" is a loss at once, also as the answer to a renewal that is older than one that
/// was confirmed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_late_denial_is_a_loss() {
    let (late, at_once) = (ms(400), Fate::Answered(Duration::ZERO));
    let (store, client, guard) = held([Fate::Gone(late)], at_once).await;
    let lost = guard.lost().await;
    assert!(lost.is_lost());
    let sent = store.state().sent.clone();
    assert!(sent.len() >= 2 && Instant::now() - sent[0] == late, "{:?}", Instant::now() - sent[0]);
    // And stays one, although later renewals are confirmed.
    sleep(LEASE).await;
    assert!(guard.is_lost());
    let report = client.shutdown(SOON).await;
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_release_means_nothing() {
    for fate in [Fate::Gone(ms(300)), Fate::Delivered(ms(300)), Fate::Answered(ms(300))] {
        let (store, client, guard) = held([fate], Fate::Answered(Duration::ZERO)).await;
        sleep(LEASE * 4 / 10).await;
        assert_eq!(store.state().under_way, 1);
        guard.release().await.unwrap();
        sleep(LEASE).await;
        assert!(store.inner.holders("m").0.is_empty(), "{fate:?}: created anew");
        let report = client.shutdown(SOON).await;
        assert!(report.is_clean(), "{fate:?}: {report:?}");
    }
}

/// `at_least` is kept to the moment, although a renewal reaches the store after the release.
#[tokio::test(start_paused = true)]
async fn a_renewal_after_the_release_prolongs_nothing() {
    let at_least = LEASE * 3 / 2;
    let store = Fateful::new([Fate::Delivered(ms(400))], Fate::Answered(Duration::ZERO));
    let client = store.client();
    let options = LockOptions::new().at_least(at_least).lease(Lease::Watchdog(LEASE * 2));
    let start = Instant::now();
    let guard = client.mutex("kept").with(options).lock().await.unwrap();
    sleep(LEASE * 7 / 10).await;
    assert_eq!(store.state().under_way, 1);
    guard.release().await.unwrap();
    let other = LockClient::builder().store(store.inner.peer()).unwrap();
    other.mutex("kept").lock().await.unwrap().release().await.unwrap();
    let kept = start.elapsed();
    assert!(kept >= at_least && kept < at_least + ms(100), "free after {kept:?}");
}

// The same on both stores and for every kind: what was let go and is kept is nobody's to renew.
test_with!(what_is_kept_is_not_renewed, RedisServer::start(), async |server| {
    let redis = RedisStore::connect(&server.url()).await.unwrap();
    let memory = MemoryStore::new();
    let stores: [&dyn Store; 2] = [&redis, &memory];
    let key = |name: &str| LockKey::new(name).unwrap();
    let targets = [
        Target::mutex(key("mutex")),
        Target::fair(key("fair")),
        Target::read(key("read")),
        Target::write(key("write")),
        Target::semaphore(key("semaphore"), NonZeroU32::MIN),
        Target::several([key("{m}1"), key("{m}2")]).unwrap(),
    ];
    for store in stores {
        let client = client_id();
        for target in &targets {
            let owner = OwnerId::new(&client, 1, 1);
            let mine = match target.kind() {
                HoldKind::Fair => Arc::new(target.for_waiter(&owner)),
                _ => Arc::clone(target),
            };
            let acquire = AcquireRequest::new(Arc::clone(&mine), owner.clone(), SOON * 6, SOON);
            let taken = store.acquire(acquire).await.unwrap();
            assert!(matches!(taken, AcquireReply::Granted(_)), "{taken:?}");
            let keep = SOON * 3;
            let release = ReleaseRequest::new(Arc::clone(&mine), owner.clone(), SOON);
            let release = release.with_keep(keep);
            // Asked twice, as after a lost answer.
            for _ in 0..2 {
                let released = store.release(release.clone()).await.unwrap();
                assert!(matches!(released, ReleaseReply::Released { .. }), "{mine:?} {released:?}");
            }
            let renewal = RenewRequest::new(Arc::clone(&mine), owner.clone(), SOON * 6);
            let renewed = store.renew(vec![renewal], SOON).await.unwrap();
            assert_eq!(renewed, [Ownership::NotOwner], "{store:?}: {mine:?}");
            let inspected = mine.members().first().map_or(mine.key(), |first| first.key());
            let left = store.inspect(inspected, SOON).await.unwrap().remaining.unwrap();
            assert!(left <= keep, "{store:?}: {mine:?} has {left:?} left");
            // What is kept can be freed.
            let freed = store.release(release.with_keep(Duration::ZERO)).await.unwrap();
            assert!(matches!(freed, ReleaseReply::Released { .. }), "{store:?}: {mine:?}");
        }
    }
});
