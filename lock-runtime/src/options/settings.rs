//! [`LockSettings`]: the settings of one place. Every list of settings is generated from the one here.

use std::time::Duration;

use super::{Lease, LockKind, OnLost, OnReleaseLost, Replicas, Wait};

/// Calls the macro `$make` with each setting: its documentation, its name, its type, and the function of
/// `policy::text` that reads it from a file.
macro_rules! for_each_setting {
    ($make:ident) => {
        $make! {
            /// Kind of the lock: in a file `"mutex"`, `"fair"`, `"read"`, `"write"` or `"semaphore(3)"`.
            kind: LockKind, "text::kind";
            /// How long to wait for the lock: in a file `"3s"`, `"none"` or `"forever"`.
            wait: Wait, "text::wait";
            /// How long the store keeps the lock: in a file `"10s"`, `"watchdog"` or `"watchdog 30s"`.
            lease: Lease, "text::lease";
            /// What happens to the body when the hold is lost: in a file `"cancel"` or `"finish"`.
            on_lost: OnLost, "text::on_lost";
            /// What happens when the release finds the hold gone: in a file `"log"` or `"error"`.
            on_release_lost: OnReleaseLost, "text::on_release_lost";
            /// For how long the lock is kept at least, however soon it is released.
            at_least: Duration, "text::duration";
            /// After how long the watchdog stops renewing.
            max_hold: Duration, "text::duration";
            /// How many tasks of one client may wait for the key.
            max_waiters: usize, "text::count";
            /// How many replicas must confirm a hold: in a file `{ at_least = 1, timeout = "200ms" }`.
            replicas: Replicas, "text::replicas";
        }
    };
}
#[cfg(feature = "policy")]
pub(crate) use for_each_setting;

macro_rules! lock_settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty, $reader:tt;)*) => {
        /// The settings that one place has for a lock: an attribute, a layer, a policy of a configuration.
        ///
        /// A field that is `None` leaves the setting to the next place.
        ///
        /// # Examples
        ///
        /// ```
        /// use lock_runtime::options::LockSettings;
        /// use lock_runtime::{LockOptions, Wait};
        /// use std::time::Duration;
        ///
        /// let call = LockSettings { wait: Some(Wait::Never), ..LockSettings::default() };
        /// let policy = LockSettings {
        ///     wait: Some(Wait::Forever),
        ///     max_hold: Some(Duration::from_secs(60)),
        ///     ..LockSettings::default()
        /// };
        /// let options = call.or(policy).apply_to(LockOptions::default())?;
        /// assert_eq!(options.wait(), Wait::Never);
        /// assert_eq!(options.max_hold(), Some(Duration::from_secs(60)));
        /// # Ok::<_, lock_runtime::LockError>(())
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct LockSettings {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl LockSettings {
            /// Settings without values.
            pub(crate) const UNSET: Self = Self { $($name: None,)* };

            /// Returns these settings, with those of `lower` where they have none.
            #[must_use]
            pub fn or(self, lower: Self) -> Self {
                Self { $($name: self.$name.or(lower.$name),)* }
            }
        }
    };
}

for_each_setting!(lock_settings);
