//! The chain of holds and clients that enclose the running code.
//!
//! The chain follows the call path, not the task: a future that is run inside a hold puts a link on the thread
//! for the time of each poll, so the code that it calls sees the link, and a sibling future does not. A spawned
//! task sees no holds unless it is wrapped by [`inherit`], also if the code inside the hold polls it: a body may drive a
//! `LocalSet` or a runtime. So a hold counts only for the task that has entered the chain. A client is not exclusive, and
//! counts for every task that the code inside polls. Tasks of executors other than Tokio's have no number, and count as calls of
//! the code that polls them.
// S-6.

use std::any::Any;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::task;

use crate::admin::order::ClientOrder;
use crate::admin::waits::Surroundings;
use crate::lease::Hold;
use crate::lease::reentries::{Level, ReentryGuard};
use crate::lease::watched::{Share, Watched};
use crate::opaque::opaque_debug;
use crate::owned_hold::OwnedHold;
use crate::store::Target;

thread_local! {
    static INNERMOST: RefCell<Innermost> = const { RefCell::new(Innermost { link: None, task: None }) };
}

/// The innermost link on this thread.
struct Innermost {
    link: Option<Arc<Link>>,
    /// The task that has entered it; `None` outside of tasks, as in a blocking body and in `block_on`.
    task: Option<task::Id>,
}

/// Calls `with` with the innermost link around the caller.
fn with_innermost<T>(with: impl FnOnce(Option<&Arc<Link>>) -> T) -> T {
    INNERMOST.with_borrow(|Innermost { link, task }| {
        with(link.as_ref().filter(|_| *task == task::try_id()))
    })
}

/// One link of the chain.
pub(crate) struct Link {
    what: Enclosing,
    outer: Option<Arc<Link>>,
}

#[derive(Clone)]
enum Enclosing {
    /// Weak, so that a chain that was carried into another task does not keep the lock.
    Hold {
        owned: Weak<OwnedHold>,
        leases: u64,
        hold: Arc<Hold>,
        /// What its guard has of the hold.
        share: Share,
        /// For a read inside of a write: the write hold, and the read's level there.
        writer: Option<(Arc<Hold>, Weak<Level>)>,
        /// True if the call is not enforced: it goes on without the lock when the hold is lost.
        is_shadow: bool,
        /// Whether its client records the order of its locks.
        #[cfg_attr(not(feature = "lock-order"), expect(dead_code, reason = "for the lock order"))]
        order: ClientOrder,
    },
    /// The guard of several holds, whose links are around this one.
    Guard { watched: Watched, is_shadow: bool },
    /// A client, as `dyn Any`, because this module does not know its type.
    Client(Arc<dyn Any + Send + Sync>),
}

impl Link {
    /// A hold.
    pub(crate) fn hold(
        owned: &Arc<OwnedHold>,
        share: Share,
        is_shadow: bool,
        outer: Option<Arc<Self>>,
    ) -> Arc<Self> {
        let of_writer = |inside: &ReentryGuard| {
            Some((Arc::clone(&inside.hold), Arc::downgrade(inside.level.as_ref()?)))
        };
        Arc::new(Self {
            what: Enclosing::Hold {
                owned: Arc::downgrade(owned),
                leases: owned.leases.id,
                hold: Arc::clone(&owned.hold),
                share,
                writer: owned.inside.as_deref().and_then(of_writer),
                is_shadow,
                order: owned.leases.order.clone(),
            },
            outer,
        })
    }

    /// The guard of several holds, whose links are the innermost of `outer`.
    pub(crate) fn guard(watched: Watched, is_shadow: bool, outer: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { what: Enclosing::Guard { watched, is_shadow }, outer })
    }

    /// A client, inside of the caller's current chain.
    pub(crate) fn client(client: Arc<dyn Any + Send + Sync>) -> Arc<Self> {
        Arc::new(Self { what: Enclosing::Client(client), outer: inheritable() })
    }
}

/// The caller's chain; for a task that has not entered it, the innermost client alone.
pub(crate) fn innermost() -> Option<Arc<Link>> {
    INNERMOST.with_borrow(|Innermost { link, task }| {
        if *task == task::try_id() {
            return link.clone();
        }
        let mut links = std::iter::successors(link.as_ref(), |link| link.outer.as_ref());
        let client = links.find(|link| matches!(link.what, Enclosing::Client(_)))?;
        Some(Arc::new(Link { what: client.what.clone(), outer: None }))
    })
}

impl Enclosing {
    /// True if code whose chain has the links `inner` inside of this one can see any effect of this one.
    fn matters(&self, inner: &[&Arc<Link>]) -> bool {
        match self {
            Self::Client(_) => !inner.iter().any(|link| matches!(link.what, Enclosing::Client(_))),
            Self::Guard { watched, .. } => {
                let same = |link: &&Arc<Link>| matches!(&link.what, Self::Guard { watched: its, .. } if Arc::ptr_eq(&its.hold, &watched.hold));
                !watched.hold.is_released() && !inner.iter().any(same)
            }
            Self::Hold { owned, share, is_shadow, .. } => {
                let level = share.level();
                let same = |link: &&Arc<Link>| match &link.what {
                    Self::Hold { owned: its, share, is_shadow: its_mode, .. } => {
                        Weak::ptr_eq(its, owned)
                            && share.level().map(Weak::as_ptr) == level.map(Weak::as_ptr)
                            && its_mode == is_shadow
                    }
                    Self::Guard { .. } | Self::Client(_) => false,
                };
                owned.strong_count() > 0
                    && level.is_none_or(|level| level.strong_count() > 0)
                    && !inner.iter().any(same)
            }
        }
    }

    /// The level of re-entries inside of `hold` that this one is.
    fn level_in(&self, hold: &Arc<Hold>) -> Option<&Weak<Level>> {
        let Self::Hold { hold: own, share, writer, .. } = self else { return None };
        if Arc::ptr_eq(own, hold) {
            return share.level();
        }
        let (writer, level) = writer.as_ref()?;
        Arc::ptr_eq(writer, hold).then_some(level)
    }
}

/// Returns the caller's chain, for a task that may outlive the caller. Links that have ended, or that an inner
/// one hides, are left out: otherwise a task that starts its successor would hand on one more each time.
pub(crate) fn inheritable() -> Option<Arc<Link>> {
    let innermost = innermost();
    let (mut kept, mut links) = (Vec::new(), 0);
    let mut next = innermost.as_ref();
    while let Some(link) = next {
        links += 1;
        if link.what.matters(&kept) {
            kept.push(link);
        }
        next = link.outer.as_ref();
    }
    if kept.len() == links {
        return innermost;
    }
    kept.into_iter().rev().fold(None, |outer, link| {
        let what = link.what.clone();
        Some(Arc::new(Link { what, outer }))
    })
}

/// Returns the holds around the caller as they are now, if there may be any, for people who look in.
pub(crate) fn surroundings() -> Option<Arc<dyn Surroundings>> {
    innermost().map(|link| link as Arc<dyn Surroundings>)
}

impl Surroundings for Link {
    fn visit(&self, visit: &mut dyn FnMut(&Target, u64)) {
        let mut link = Some(self);
        while let Some(this) = link {
            if let Enclosing::Hold { owned, hold, .. } = &this.what
                && owned.strong_count() > 0
                && !hold.is_released()
            {
                visit(&hold.target, hold.owner.pseudonym());
            }
            link = this.outer.as_deref();
        }
    }
}

/// A hold around the caller.
pub(crate) struct Around {
    pub(crate) owned: Arc<OwnedHold>,
    /// True if the call is not enforced: it goes on without the lock when the hold is lost.
    pub(crate) is_shadow: bool,
}

/// Returns the innermost enclosing hold whose lease manager's id and lock are `wanted`, if its guards are
/// alive. A lost hold counts too where the code under it should learn of the loss.
pub(crate) fn enclosing_hold(wanted: impl Fn(u64, &Target) -> bool) -> Option<Around> {
    find(|what| match what {
        Enclosing::Hold { owned, leases, hold, is_shadow, .. } if wanted(*leases, &hold.target) => {
            let owned =
                (!is_shadow || !hold.peek_remaining().is_zero()).then(|| owned.upgrade())??;
            Some(Around { owned, is_shadow: *is_shadow })
        }
        _ => None,
    })
}

/// Calls `visit` with each hold around the caller that has guards, the innermost first, and the id of its lease manager. It
/// must not call code that may enter a scope.
pub(crate) fn each_hold(mut visit: impl FnMut(u64, &Hold)) {
    find(|what| {
        if let Enclosing::Hold { owned, leases, hold, .. } = what
            && owned.strong_count() > 0
            && !hold.is_released()
        {
            visit(*leases, hold);
        }
        None::<()>
    });
}

/// Returns the time of the innermost guard around the caller that is not released.
pub(crate) fn enclosing_guard() -> Option<Watched> {
    find(|what| match what {
        Enclosing::Hold { owned, hold, share, is_shadow, .. } if share.is_open() => {
            let owned =
                (!is_shadow || !hold.peek_remaining().is_zero()).then(|| owned.upgrade())??;
            Some(Watched::new(hold, owned.token, &owned.leases, share.clone()))
        }
        Enclosing::Guard { watched: Watched { hold, .. }, is_shadow }
            if hold.is_released() || *is_shadow && hold.peek_remaining().is_zero() =>
        {
            None
        }
        Enclosing::Guard { watched, .. } => Some(watched.clone()),
        _ => None,
    })
}

/// Returns the deepest level of re-entries around the caller that has the lock of that number of `hold`, or else the hold's
/// own. The innermost link need not be the deepest: the code inside of a guard may `run` the guard around it.
pub(crate) fn level_around(hold: &Arc<Hold>, number: usize) -> Arc<Level> {
    // Dropped after the chain is left: the last reference to a level wakes others, which may enter a scope.
    let mut levels = Vec::new();
    find(|what| {
        levels.extend(what.level_in(hold).and_then(Weak::upgrade));
        None::<()>
    });
    let has_it = levels.into_iter().filter(|level| level.has(number));
    has_it.max_by_key(|level| level.depth()).unwrap_or_else(|| Arc::clone(hold.level()))
}

/// Calls `visit` with each hold around the caller that has guards, the innermost first, and whether its client records the
/// order of its locks. A hold that was entered again counts once.
#[cfg(feature = "lock-order")]
pub(crate) fn visit_holds(mut visit: impl FnMut(&ClientOrder, &Hold)) {
    // Not borrowed while `visit` runs, which may log: a subscriber may run any code.
    let innermost = innermost();
    let links = || std::iter::successors(innermost.as_ref(), |link| link.outer.as_ref());
    for (depth, link) in links().enumerate() {
        let Enclosing::Hold { owned, hold, order, .. } = &link.what else { continue };
        let is_it = |inner: &Arc<Link>| match &inner.what {
            Enclosing::Hold { hold: again, .. } => Arc::ptr_eq(again, hold),
            Enclosing::Guard { .. } | Enclosing::Client(_) => false,
        };
        if owned.strong_count() > 0 && !hold.is_released() && !links().take(depth).any(is_it) {
            visit(order, hold);
        }
    }
}

/// Returns the innermost enclosing client of type `T`. Unlike a hold, a client is not exclusive: tasks that the code inside
/// polls, such as those of a `LocalSet`, use it too.
pub(crate) fn enclosing_client<T: Any + Send + Sync>() -> Option<Arc<T>> {
    INNERMOST.with_borrow(|Innermost { link, .. }| {
        let mut links = std::iter::successors(link.as_ref(), |link| link.outer.as_ref());
        links.find_map(|link| match &link.what {
            Enclosing::Client(client) => Arc::clone(client).downcast().ok(),
            Enclosing::Hold { .. } | Enclosing::Guard { .. } => None,
        })
    })
}

fn find<T>(mut pick: impl FnMut(&Enclosing) -> Option<T>) -> Option<T> {
    with_innermost(|innermost| {
        let mut link = innermost;
        while let Some(this) = link {
            if let Some(found) = pick(&this.what) {
                return Some(found);
            }
            link = this.outer.as_ref();
        }
        None
    })
}

/// Makes `link` the innermost one until the result is dropped.
pub(crate) fn enter(link: Option<Arc<Link>>) -> Entered {
    let task = link.as_ref().and_then(|_| task::try_id());
    Entered { outer: Some(INNERMOST.replace(Innermost { link, task })) }
}

/// Restores the chain when dropped, even while unwinding.
pub(crate) struct Entered {
    outer: Option<Innermost>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            INNERMOST.set(outer);
        }
    }
}

/// Carries the caller's chain of holds and its client into another task.
///
/// A spawned task inherits nothing by itself, because it may outlive the holds that enclose its parent. A task that the code
/// inside of a hold polls, as a `LocalSet` or a runtime in `block_on` does, uses the client of that code, not its holds; what
/// `join!`, `select!` and `FuturesUnordered` poll inside of one task inherits both.
/// Wrapped, it re-enters its parent's holds for as long as the parent's guards live. Tasks of one parent
/// exclude each other there as concurrent calls do: see [`LockGuard::run`](crate::LockGuard::run).
///
/// # Cancel safety
///
/// As cancel safe as `future`.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::{LockClient, scope};
///
/// let client = LockClient::in_memory();
/// let guard = client.mutex("job").lock().await?;
/// let nested = client.mutex("job");
/// guard.run(async {
///     // Without `inherit` this would wait for its own parent.
///     let child = tokio::spawn(scope::inherit(async move { nested.lock().await.is_ok() }));
///     assert!(child.await.unwrap());
/// }).await?;
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn inherit<F: Future>(future: F) -> Inherit<F> {
    Inherit { future, link: inheritable() }
}

/// Carries the caller's chain of holds and its client into another thread, as [`inherit`] does into another task.
///
/// A closure that runs on another thread inherits nothing by itself, because it may outlive the holds around its maker.
/// Wrapped, it re-enters them for as long as their guards live. Threads that one hold has started exclude each other there:
/// see [`LockGuard::run_blocking`](crate::LockGuard::run_blocking).
///
/// # Examples
///
/// ```
/// use lock_runtime::{LockClient, scope};
/// use std::thread;
///
/// let client = LockClient::in_memory();
/// let job = client.mutex("job");
/// job.run_blocking(|_hold| {
///     // Without `inherit_blocking` this would wait for its own maker.
///     let nested = job.clone();
///     thread::spawn(scope::inherit_blocking(move || nested.blocking_lock().is_ok())).join().unwrap()
/// })?;
/// # Ok::<_, lock_runtime::LockError>(())
/// ```
// S-6.
#[cfg(feature = "blocking")]
pub fn inherit_blocking<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let link = inheritable();
    move || {
        let _entered = enter(link);
        body()
    }
}

/// Runs `future` with `link` around it.
pub(crate) fn within<F: Future>(link: Arc<Link>, future: F) -> Inherit<F> {
    Inherit { future, link: Some(link) }
}

pin_project! {
    /// A future that runs inside a given chain: see [`inherit`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Inherit<F> {
        #[pin]
        future: F,
        link: Option<Arc<Link>>,
    }
}

impl<F: Future> Future for Inherit<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = enter(this.link.clone());
        this.future.poll(cx)
    }
}

opaque_debug!(<F> Inherit<F>);
