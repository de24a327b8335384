//! The parsers of input from outside that have no public name, for the fuzz targets of the workspace. Not part of the
//! public API.

use std::num::NonZeroU32;

use uuid::Uuid;

use crate::admin::survey::fuzz as survey;
use crate::key::LockKey;
pub use crate::store::redis::fuzz::{
    NamedMaster, Parsed, Read, Slots, acquired, acquired_together, answers_in, info, inspected,
    is_master, is_message, master, message_ends, notified, redirection, renewed, sentinels, server,
    slot, slots,
};
use crate::store::{OwnerId, Target};

/// The keys in the store, and the channels, that locks of one name use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// The keys; the first is the name itself.
    pub keys: Vec<String>,
    /// The channels.
    pub channels: Vec<String>,
}

/// Returns the keys and channels that locks of this name use, of all kinds, for one client.
#[must_use]
pub fn wire(key: &LockKey) -> Wire {
    let owner = OwnerId::new("3b241101-e2bb-4255-8caf-4136c566a962", 7, 1);
    let fair = Target::fair(key.clone());
    let kinds = [
        Target::mutex(key.clone()),
        Target::write(key.clone()),
        Target::semaphore(key.clone(), NonZeroU32::MIN),
        Target::latch(key.clone()),
    ];
    let (write, permits) = (kinds[1].companions(), kinds[2].companions());
    let mut keys = vec![key.as_str().to_owned(), fair.fence_counter().to_owned()];
    // The third is the beginning of channels.
    keys.extend(fair.companions().iter().take(2).cloned());
    keys.extend(write.iter().take(3).cloned());
    keys.extend(permits.iter().cloned());
    keys.push([&write[3], ":", owner.as_field(), ":rwlock_timeout:1"].concat());
    let mut channels: Vec<_> = kinds.iter().map(|kind| kind.channel().to_owned()).collect();
    channels.push(fair.for_waiter(&owner).channel().to_owned());
    Wire { keys, channels }
}

/// Reads a survey's request, and returns the channel of its answers.
#[must_use]
pub fn reply_channel(message: &[u8]) -> Option<String> {
    survey::reply_channel(message)
}

/// Reads an answer to a survey, and returns what a client with the same holds and waits would publish.
#[must_use]
pub fn answer_repeated(message: &[u8], request: Uuid) -> Option<Vec<Vec<u8>>> {
    survey::repeated(message, request)
}
