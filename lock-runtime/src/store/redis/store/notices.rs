//! How many other processes received the notification of a release.
// S-14.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;

use super::RedisStore;
use crate::store::{HoldKind, Target};

/// How long after its answer the notification of a release may arrive; the server sends both at once.
const OWN_NOTICE: Duration = Duration::from_millis(5);

/// The notifications of this process's own release, if they have a connection of their own and may arrive after
/// the answer.
pub(super) struct OwnNotices(Vec<watch::Receiver<u64>>);

impl OwnNotices {
    /// Waits for them for a moment: the next contender would take a later one for another process's turn.
    pub(super) async fn received(self) {
        let received = self.0.into_iter().map(|mut notices| async move {
            let _ = notices.changed().await;
        });
        let _ = timeout(OWN_NOTICE, join_all(received)).await;
    }
}

impl RedisStore {
    /// Call it before the release is sent.
    pub(super) fn own_notices(&self, target: &Target) -> OwnNotices {
        let is_same_connection =
            Arc::ptr_eq(&self.link, &self.subscriptions) && target.replicas().is_none();
        if is_same_connection || target.kind() == HoldKind::Fair {
            return OwnNotices(Vec::new());
        }
        let notices = |lock: &Target| {
            let channel = lock.channel();
            self.subscriptions
                .is_subscribed(channel)
                .then(|| self.subscriptions.channels.count(channel))
                .flatten()
        };
        OwnNotices(target.locks().filter_map(notices).collect())
    }

    /// Returns how many subscribers received the notification, without the tasks behind the releasing task in
    /// its queue.
    pub(super) fn others(&self, target: &Target, told: i64) -> u32 {
        if told == 0 || target.kind() == HoldKind::Fair {
            // A release of a fair mutex notifies one waiter, on its own channel.
            return u32::try_from(told).unwrap_or(0);
        }
        let heard_here =
            target.locks().filter(|lock| self.subscriptions.is_subscribed(lock.channel())).count();
        let elsewhere = usize::try_from(told).unwrap_or(0).saturating_sub(heard_here);
        // A process that waits for several locks at once received a notification of each.
        let elsewhere = elsewhere.div_ceil(target.locks().count());
        // The releasing task was at the front of its queue, and the tasks behind it do not listen. So a listener in this
        // process waits for another kind of lock of the same name, or for several locks at once.
        let here =
            target.locks().any(|lock| self.subscriptions.channels.has_listeners(lock.channel()));
        u32::try_from(elsewhere).unwrap_or(u32::MAX).max(u32::from(here))
    }
}
