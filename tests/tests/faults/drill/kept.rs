//! Holds beside those of a drill, of which a test says what becomes of them.

use crate::prelude::*;

/// The lease of these holds: long enough for the store, and not the deadline, to tell of a loss on a busy machine.
const KEPT: Duration = secs(6);

/// A hold of each kind that is exclusive.
pub(crate) struct Kept(Vec<(&'static str, String, LockGuard)>);

impl Kept {
    /// Acquires a lock of each kind, with a name that begins with `prefix`.
    pub(crate) async fn take(client: &LockClient, prefix: &str) -> Self {
        Self::take_for(client, prefix, KEPT).await
    }

    /// The same with this lease, which the watchdog renews.
    pub(crate) async fn take_for(client: &LockClient, prefix: &str, lease: Duration) -> Self {
        let mut kept = Vec::new();
        for kind in EXCLUSIVE {
            let name = format!("{prefix} {kind}");
            let guard = take(client, kind, &name, watched(lease)).await.unwrap();
            kept.push((kind, name, guard));
        }
        Self(kept)
    }

    /// Checks that the store has forgotten them: `next` acquires each with a greater token, the holder learns from the
    /// store that it has lost it, and the holder's release takes nothing from `next`.
    pub(crate) async fn are_lost(self, next: &LockClient) {
        for (kind, name, guard) in self.0 {
            let acquire = take(next, kind, &name, watched(KEPT));
            let held = timeout(SOON, acquire).await.expect("it is not free").unwrap();
            assert!(held.token() > guard.token(), "{name}: a token that is not greater");
            let loss = timeout(SOON, guard.lost()).await.expect("the holder is not told");
            assert_eq!(cause(&loss), LossCause::NotOwner, "{name}");
            assert_eq!(cause(&guard.release().await.unwrap_err()), LossCause::NotOwner, "{name}");
            held.release().await.unwrap_or_else(|error| panic!("{name} is taken away: {error:?}"));
        }
    }

    /// Checks that nothing has happened to them, not even by their next renewal, and releases them.
    pub(crate) async fn are_kept(self) {
        sleep(KEPT / 2).await;
        for (_, name, guard) in self.0 {
            assert!(!guard.is_lost(), "{name} is lost");
            guard.release().await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }

    /// Releases them.
    pub(crate) async fn release(self) {
        for (_, name, guard) in self.0 {
            guard.release().await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }
}

fn cause(error: &LockError) -> LossCause {
    match error {
        LockError::Lost { cause, .. } => *cause,
        other => panic!("{other:?}"),
    }
}
