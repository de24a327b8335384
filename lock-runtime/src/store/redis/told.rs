//! Who heard of a release beside the process that made it.
// S-14.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::store::redis::RedisStore;
use crate::store::redis::requests::locks;
use crate::store::{HoldKind, Target};

/// How long the notice of a release may come after its answer: both leave the server at once.
const OWN_NOTICE: Duration = Duration::from_millis(5);

/// The notices by which this process will hear of its own release, where they have a connection of
/// their own and may come after the answer.
pub(crate) struct OwnNotices(Vec<watch::Receiver<u64>>);

impl OwnNotices {
    /// Waits for them, for a moment: afterwards the next contender would take them for a turn of
    /// another process.
    pub(crate) async fn heard(self) {
        let heard = self.0.into_iter().map(|mut notices| async move {
            let _ = notices.changed().await;
        });
        let _ = timeout(OWN_NOTICE, join_all(heard)).await;
    }
}

impl RedisStore {
    /// Call it before the release is sent.
    pub(crate) fn own_notices(&self, target: &Target) -> OwnNotices {
        let with_answers =
            Arc::ptr_eq(&self.link, &self.subscriptions) && target.replicas().is_none();
        if with_answers || target.kind() == HoldKind::Fair {
            return OwnNotices(Vec::new());
        }
        let heard_here = |lock: &Target| {
            let channel = lock.channel();
            self.subscriptions
                .is_subscribed(channel)
                .then(|| self.subscriptions.channels.count(channel))
                .flatten()
        };
        OwnNotices(locks(target).filter_map(heard_here).collect())
    }

    /// How many heard of a release beside the tasks that line up behind it here.
    pub(crate) fn others(&self, target: &Target, told: i64) -> u32 {
        if told == 0 || target.kind() == HoldKind::Fair {
            // A fair mutex tells one waiter, on its own channel.
            return u32::try_from(told).unwrap_or(0);
        }
        let heard_here =
            locks(target).filter(|lock| self.subscriptions.is_subscribed(lock.channel())).count();
        let elsewhere = usize::try_from(told).unwrap_or(0).saturating_sub(heard_here);
        // A process that wants several at once was told of each.
        let elsewhere = elsewhere.div_ceil(locks(target).count());
        // Whoever released was in front of its own line, and nobody of that listens. So a listener
        // of this process is another kind of lock on the same name, or several locks at once.
        let here =
            locks(target).any(|lock| self.subscriptions.channels.has_listeners(lock.channel()));
        u32::try_from(elsewhere).unwrap_or(u32::MAX).max(u32::from(here))
    }
}
