//! A store that gets into trouble.

use crate::prelude::*;
use crate::support::handed_on::handed_on;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// It fails, without an effect.
    Fails(StoreErrorKind),
    /// It waits until the trouble is another one.
    Waits,
    /// It has no effect, and no answer ever.
    Unheard,
    /// It has its effect, and its answer is lost.
    Unanswered,
    /// The store says of a release that the hold is not the owner's.
    NotOwner,
}

/// What takes, renews and releases on the way to the store `inner` has troubles, each its own.
#[derive(Debug, Clone)]
pub(crate) struct Troubled {
    inner: Arc<dyn Store>,
    troubles: watch::Sender<[Trouble; 3]>,
    renewals: Arc<AtomicUsize>,
    unheard: Arc<AtomicUsize>,
}

const ACQUIRE: usize = 0;
const RENEW: usize = 1;
const RELEASE: usize = 2;

impl Troubled {
    pub(crate) fn new(inner: impl Store) -> Self {
        let troubles = watch::Sender::new([Trouble::None; 3]);
        Self { inner: Arc::new(inner), troubles, renewals: Arc::default(), unheard: Arc::default() }
    }

    /// A store in memory that fails every acquire.
    pub(crate) fn refusing(kind: StoreErrorKind) -> Self {
        let store = Self::new(MemoryStore::new());
        store.of(ACQUIRE, Trouble::Fails(kind));
        store
    }

    /// Of all calls.
    pub(crate) fn set(&self, trouble: Trouble) {
        self.troubles.send_replace([trouble; 3]);
    }

    pub(crate) fn of_renewals(&self, trouble: Trouble) {
        self.of(RENEW, trouble);
    }

    pub(crate) fn of_releases(&self, trouble: Trouble) {
        self.of(RELEASE, trouble);
    }

    fn of(&self, call: usize, trouble: Trouble) {
        self.troubles.send_modify(|troubles| troubles[call] = trouble);
    }

    /// How often it was asked to renew.
    pub(crate) fn renewals(&self) -> usize {
        self.renewals.load(Ordering::SeqCst)
    }

    /// Waits until a call was not heard.
    pub(crate) async fn has_heard_nothing(&self) {
        soon!("a call without an answer", self.unheard.load(Ordering::SeqCst) > 0);
    }

    fn ask<'a, T: Send + 'a>(
        &'a self,
        call: usize,
        answer: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        let mut troubles = self.troubles.subscribe();
        StoreFuture::new(async move {
            // Not kept while the call is answered: it locks the troubles.
            let trouble = {
                let better = troubles.wait_for(|troubles| troubles[call] != Trouble::Waits).await;
                better.expect("the store has the sender")[call]
            };
            let error = |kind| Err(StoreError::new(kind, "it is in trouble"));
            match trouble {
                Trouble::Fails(kind) => error(kind),
                Trouble::Unheard => {
                    self.unheard.fetch_add(1, Ordering::SeqCst);
                    pending().await
                }
                Trouble::Unanswered => {
                    answer.await?;
                    error(StoreErrorKind::OutcomeUnknown)
                }
                _ => answer.await,
            }
        })
    }
}

impl Store for Troubled {
    handed_on!(subscribe clock);

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        self.ask(ACQUIRE, self.inner.acquire(request))
    }

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        self.ask(RENEW, self.inner.renew(requests, timeout))
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        if self.troubles.borrow()[RELEASE] == Trouble::NotOwner {
            return StoreFuture::new(async { Ok(ReleaseReply::NotOwner) });
        }
        self.ask(RELEASE, self.inner.release(request))
    }
}
