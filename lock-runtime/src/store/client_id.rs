//! The uuid of a client in the store.
// S-4.

use uuid::Uuid;

/// Returns a new uuid of a client, for its owner ids: random, version 4, whose last eight digits are its first eight in
/// reverse.
///
/// By that form a script knows which library's plain hold blocks a fair acquire. Redisson's plain and fair
/// locks are both held as `{uuid:n -> count}`, so a fair mutex must wait behind either; the same hold of this
/// crate is a [`Mutex`](crate::Mutex), and a fair acquire of it is a collision. The form needs no extra field
/// that could break Redisson's clients. Some 90 random bits are left, and one in 2^32 uuids of Redisson's
/// clients has it by chance.
///
/// # Examples
///
/// ```
/// let id = lock_runtime::store::client_id();
/// let backwards: String = id[28..].chars().rev().collect();
/// assert_eq!(id[..8], backwards);
/// ```
#[must_use]
pub fn client_id() -> String {
    new_id().to_string()
}

/// Returns the same, as a number.
pub(crate) fn new_id() -> Uuid {
    let mut bytes = Uuid::new_v4().into_bytes();
    for digits in 0..4 {
        bytes[15 - digits] = bytes[digits].rotate_left(4);
    }
    Uuid::from_bytes(bytes)
}

/// True for a uuid of that form.
pub(super) fn is_ours(uuid: &str) -> bool {
    let ends = uuid.get(..8).zip(uuid.get(28..));
    ends.is_some_and(|(first, last)| first.bytes().eq(last.bytes().rev()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_uuids_that_end_as_they_begin() {
        let ids: HashSet<String> = (0..1000).map(|_| client_id()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            let uuid = uuid::Uuid::parse_str(&id).expect("a uuid");
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (4, uuid::Variant::RFC4122));
            assert_eq!(uuid.to_string(), id);
            assert!(id[28..].chars().eq(id[..8].chars().rev()), "{id}");
            assert!(is_ours(&id), "{id}");
        }
        assert!(!is_ours("3b241101-e2bb-4255-8caf-4136c566a962") && !is_ours("8f1c"));
    }
}
