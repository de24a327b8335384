//! Tasks that hand a hold of the store on to each other, and the releaser that gets what they drop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use shuttle::future::{block_on, spawn, yield_now};
use tokio::sync::oneshot;
use tokio::time::{Duration, advance};

use super::store::CountingStore;
use super::{Inside, LEASE, SOMEBODY, a_caller, target, unless};
use crate::admin::waits::Asker;
use crate::lease::manager::{LeaseManager, Timing};
use crate::lease::{Hold, Taken};
use crate::owned_hold::{LocalRelease, OwnedHold};
use crate::queue::{Admission, Asked, Asking, Queues, Seat, Turn, Wanted};
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
    queues: Arc<Queues<OwnedHold>>,
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
        let order = crate::admin::order::ClientOrder;
        let leases =
            LeaseManager::new(Arc::clone(&store) as _, clock, timing, Arc::default(), order);
        Arc::new(Self {
            store,
            leases: Arc::new(leases),
            queues: Queues::new(8),
            target: target(),
            inside: Inside::default(),
            last_token: AtomicU64::new(0),
        })
    }

    /// One task: as `acquire` does, with a store that neither fails nor is asked by other processes.
    async fn lock(self: Arc<Self>, end: End, cancelled: Option<oneshot::Receiver<()>>) {
        match self.enter() {
            Admission::First(seat, owner) => {
                let owned = self.acquire(seat, owner).await;
                self.hold(owned, end).await;
            }
            Admission::Waits(ticket) => match unless(cancelled, ticket).await {
                Some(Turn::Handed(owned)) => {
                    assert_eq!(Arc::strong_count(&owned), 1, "handed to one waiter only");
                    self.hold(owned, end).await;
                }
                Some(_) => panic!("the store neither fails nor shares"),
                None => {}
            },
            _ => panic!("the key refused a caller that waits"),
        }
    }

    fn enter(self: &Arc<Self>) -> Admission<OwnedHold> {
        let owner = || self.leases.next_owner(1);
        self.queues.enter(&self.target, a_caller(), owner, || Arc::new(Ask(Arc::downgrade(self))))
    }

    async fn acquire(&self, seat: Seat<OwnedHold>, owner: OwnerId) -> Arc<OwnedHold> {
        let (target, lease) = (Arc::clone(&self.target), LEASE.duration());
        let request = AcquireRequest::new(target, owner.clone(), lease, TIMEOUT);
        let sent_at = self.leases.clock.now();
        let reply = self.store.acquire(request.with_tokens(TOKENS)).await;
        let Ok(AcquireReply::Granted(token)) = reply else {
            panic!("the last hold was not released before the next request: {reply:?}")
        };
        assert!(seat.granted(true), "no task was passed over");
        let on_loss = seat.queues_and_number().map(|(queues, number)| (queues as _, number));
        let target = Arc::clone(&self.target);
        let taken = Taken {
            target,
            owner,
            lease: LEASE,
            stored_lease: lease,
            sent_at,
            token,
            unsettled: false,
            on_loss,
        };
        let (clock, pulse) = (self.leases.clock.clone(), self.leases.watchdog.pulse());
        let hold = Arc::new(Hold::new(taken, clock, pulse));
        self.leases.watchdog.add(&hold);
        Arc::new(OwnedHold::new(Arc::clone(&self.leases), hold, Some(seat), token, TOKENS))
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

    /// Runs the tasks beside the client's own, and checks what the store got.
    fn run(self: &Arc<Self>, end: End, cancelled: [Option<oneshot::Receiver<()>>; 3]) {
        let of_client = spawn(Arc::clone(&self.leases.task).run());
        let tasks = cancelled.map(|cancelled| spawn(Arc::clone(self).lock(end, cancelled)));
        block_on(async {
            for task in tasks {
                task.await.expect("it ends");
            }
            self.leases.releaser.close();
            of_client.await.expect("it ends when nothing is left to release");
        });
        assert!(self.store.is_free(), "a hold was not released");
        let releases = self.store.releases();
        assert_eq!(releases.len(), self.store.grants(), "each grant is released");
        assert!(matches!(self.enter(), Admission::First(..)), "a seat was lost");
    }
}

/// Asks the store for a waiter, in the client's task.
struct Ask(Weak<World>);

impl Wanted<OwnedHold> for Ask {
    fn asker(&self) -> Asker {
        SOMEBODY
    }

    fn have_asked(&self, asking: Asking<OwnedHold>) {
        if let Some(world) = self.0.upgrade() {
            world.leases.releaser.give_job(Box::new(asking));
        }
    }

    fn run(
        self: Arc<Self>,
        asked: Asked<OwnedHold>,
        seat: Seat<OwnedHold>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(world) = self.0.upgrade() else { return };
            let number = seat.id().place();
            let owned = world.acquire(seat, world.leases.next_owner(1)).await;
            asked.hand(owned, number);
        })
    }
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

/// Another task takes the place of the client's task while that sends a release: the release is made to its end.
///
/// # Panics
///
/// When it is not.
pub fn a_release_outlives_its_task() {
    let world = World::new(CountingStore::slow_to_send());
    let earlier = spawn(Arc::clone(&world.leases.task).run());
    let holder = spawn(Arc::clone(&world).lock(End::Drop, None));
    // Begun where it is polled: any time later.
    let later = Arc::clone(&world.leases.task);
    let later = spawn(async move { later.run().await });
    block_on(async {
        holder.await.expect("it ends");
        // Before the close, which would wake a task that has missed it.
        world.leases.releaser.unfinished.ended().await;
        world.leases.releaser.close();
        for task in [earlier, later] {
            task.await.expect("it ends when nothing is left to release");
        }
    });
    assert!(world.store.is_free(), "a hold was not released");
}
