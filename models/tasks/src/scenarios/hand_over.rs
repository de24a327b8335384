//! Tasks that hand a hold of the store on to each other, and the releaser that gets what they drop.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use shuttle::future::{block_on, spawn, yield_now};
use tokio::sync::oneshot;
use tokio::time::{Duration, advance};

use super::store::CountingStore;
use super::{Inside, LEASE, target, unless};
use crate::gate::{Admission, GateGuard, Gates, Turn, WaitsFor};
use crate::lease::manager::{LeaseManager, Timing};
use crate::lease::{Hold, Taken};
use crate::owned_hold::{LocalRelease, OwnedHold};
use crate::store::{AcquireReply, AcquireRequest, OwnerId, Store, Target};

const TIMEOUT: Duration = Duration::from_secs(3);

/// Tokens that each request reserves: enough for a hand-off to each other task.
const TOKENS: u32 = 3;

/// How a task ends its hold.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// It drops the hold, which is the releaser's then.
    Drop,
    /// It waits for the store's answer.
    Release,
}

struct World {
    store: Arc<CountingStore>,
    leases: Arc<LeaseManager>,
    gates: Arc<Gates<OwnedHold>>,
    target: Arc<Target>,
    inside: Inside,
    last_token: AtomicU64,
}

impl World {
    fn new(store: Arc<CountingStore>) -> Arc<Self> {
        let hour = Duration::from_secs(3600);
        let timing = Timing {
            command_timeout: TIMEOUT,
            store_patience: TIMEOUT,
            poll_cap: hour,
            waiter_lease: hour,
            handoff_window: hour,
            token_ttl: hour,
        };
        let clock = store.clock();
        let order = crate::order::ClientOrder;
        let leases =
            LeaseManager::new(Arc::clone(&store) as _, clock, timing, Arc::default(), order);
        Arc::new(Self {
            store,
            leases: Arc::new(leases),
            gates: Gates::new(8),
            target: target(),
            inside: Inside::default(),
            last_token: AtomicU64::new(0),
        })
    }

    /// One task: as `acquire` does, with a store that neither fails nor is asked by other processes.
    async fn lock(self: Arc<Self>, end: End, cancelled: Option<oneshot::Receiver<()>>) {
        let next_owner = || self.leases.next_owner(1);
        let enter = |cx: &mut Context<'_>| {
            let (asker, now) = super::a_newcomer();
            let newcomer = || (asker, cx.waker().clone());
            Poll::Ready(self.gates.enter_first(&self.target, LEASE, 8, next_owner, newcomer, now))
        };
        match poll_fn(enter).await {
            Ok((guard, owner)) => self.acquire(guard, owner, end).await,
            Err(Admission::Turn(guard)) => self.acquire(guard, next_owner(), end).await,
            Err(Admission::Queued(ticket)) => match unless(cancelled, once_woken(ticket)).await {
                Some(Turn::Contend(guard)) => self.acquire(guard, next_owner(), end).await,
                Some(Turn::Handed(owned)) => {
                    assert_eq!(Arc::strong_count(&owned), 1, "handed to one waiter only");
                    self.hold(owned, end).await;
                }
                Some(_) => panic!("the store neither fails nor shares"),
                None => {}
            },
            Err(_) => panic!("the gate refused a caller that waits"),
        }
    }

    async fn acquire(&self, guard: GateGuard<OwnedHold>, owner: OwnerId, end: End) {
        let (target, lease) = (Arc::clone(&self.target), LEASE.duration());
        let request = AcquireRequest::new(target, owner.clone(), lease, TIMEOUT);
        let sent_at = self.leases.clock.now();
        let reply = self.store.acquire(request.with_tokens(TOKENS)).await;
        let Ok(AcquireReply::Granted(token)) = reply else {
            panic!("the last hold was not released before the next contender asked: {reply:?}")
        };
        assert!(guard.granted(), "no task was passed over");
        let place_at_gate = guard.gates_and_number().map(|(gates, number)| (gates as _, number));
        let target = Arc::clone(&self.target);
        let taken = Taken {
            target,
            owner,
            lease: LEASE,
            stored_lease: lease,
            sent_at,
            token,
            unsettled: false,
            place_at_gate,
        };
        let (clock, pulse) = (self.leases.clock.clone(), self.leases.watchdog.pulse());
        let hold = Arc::new(Hold::new(taken, clock, pulse));
        self.leases.watchdog.add(&hold);
        let leases = Arc::clone(&self.leases);
        self.hold(Arc::new(OwnedHold::new(leases, hold, Some(guard), token, TOKENS)), end).await;
    }

    async fn hold(&self, owned: Arc<OwnedHold>, end: End) {
        let token = owned.token.get();
        let last = self.last_token.swap(token, Ordering::SeqCst);
        assert!(token > last, "token {token} after {last}");
        self.inside.work().await;
        match end {
            End::Drop => drop(owned),
            End::Release => {
                let released = match OwnedHold::release_here(owned) {
                    LocalRelease::Done(released) => released,
                    LocalRelease::NeedsStore(owned, now) => owned.release_from(now).await,
                };
                released.expect("it is held and released");
            }
        }
    }

    /// Runs the tasks beside the releaser, and checks what the store got.
    fn run(self: &Arc<Self>, end: End, cancelled: [Option<oneshot::Receiver<()>>; 3]) {
        let store: Arc<dyn Store> = Arc::clone(&self.store) as _;
        let releaser = spawn(Arc::clone(&self.leases.releaser).run(store));
        let tasks = cancelled.map(|cancelled| spawn(Arc::clone(self).lock(end, cancelled)));
        block_on(async {
            for task in tasks {
                task.await.expect("it ends");
            }
            self.leases.releaser.close();
            releaser.await.expect("it ends when nothing is left to release");
        });
        assert!(self.store.is_free(), "a hold was not released");
        let releases = self.store.releases();
        assert_eq!(releases.len(), self.store.grants(), "each grant is released");
        let free =
            self.gates.enter(&self.target, LEASE, 8, WaitsFor::Turn, None, super::a_newcomer);
        assert!(matches!(free, Admission::Turn(_)), "a gate guard was lost");
    }
}

/// Polls a future for the first time when its task is woken, as an acquire polls its place in the queue.
async fn once_woken<F: Future>(future: F) -> F::Output {
    let (mut future, mut is_first) = (pin!(future), true);
    poll_fn(|cx| match std::mem::take(&mut is_first) {
        true => Poll::Pending,
        false => future.as_mut().poll(cx),
    })
    .await
}

/// Three tasks hold the lock one after the other, and each grant of the store is released once.
///
/// # Panics
///
/// When they do not.
pub fn each_hold_ends_once(end: End) {
    let world = World::new(CountingStore::losing_answers(0));
    world.run(end, [None, None, None]);
    assert_eq!(world.inside.turns(), 3);
    assert!(world.store.releases().iter().all(|sent| *sent == 1), "a release was sent twice");
}

/// As [`each_hold_ends_once`], while one of the tasks is cancelled: a hold that was handed to it goes to the next one.
///
/// # Panics
///
/// When a hold is lost or released twice.
pub fn a_cancelled_waiter_passes_its_hold_on(end: End) {
    let world = World::new(CountingStore::losing_answers(0));
    let (cancel, cancelled) = oneshot::channel();
    let canceller = spawn(async move {
        // It may have ended already.
        let _ = cancel.send(());
    });
    world.run(end, [None, Some(cancelled), None]);
    block_on(canceller).expect("it ends");
    assert!(world.store.releases().iter().all(|sent| *sent == 1), "a release was sent twice");
}

/// The answer to the first release is lost: it is repeated, and no task acquires the lock before.
///
/// # Panics
///
/// When it is not.
pub fn a_release_is_repeated(end: End) {
    let world = World::new(CountingStore::losing_answers(1));
    let (stop, mut stopped) = oneshot::channel::<()>();
    // The pause between two releases ends some time.
    let time = spawn(async move {
        while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
            advance(Duration::from_millis(100));
            yield_now().await;
        }
    });
    let (cancel, cancelled) = oneshot::channel();
    drop(cancel);
    world.run(end, [Some(cancelled), None, None]);
    drop(stop);
    block_on(time).expect("it ends");
}
