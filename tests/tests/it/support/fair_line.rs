//! The channels of a fair mutex's waiters (S-26).

/// Where our scripts notify the waiter with that owner id: the waiters of one client of ours share a channel, each of
/// Redisson's has its own.
pub(crate) fn waiter_channel(name: &str, owner: &str) -> String {
    own_channel(name, if is_ours(owner) { &owner[..36] } else { owner })
}

/// True for the owner id, or the uuid, of a client of ours.
pub(crate) fn is_ours(owner: &str) -> bool {
    owner.get(..36).is_some_and(|uuid| uuid[..8].bytes().eq(uuid[28..].bytes().rev()))
}

/// Where Redisson's scripts notify that waiter.
pub(crate) fn own_channel(name: &str, owner: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}:{owner}")
}
