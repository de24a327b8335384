//! Owner ids of holds.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};

use arrayvec::ArrayString;

/// The room for a field that needs no allocation: a uuid, a colon and a number below 10¹⁵.
const ROOM: usize = 52;

/// The owner of a hold in the store: one client's uuid and the number of the hold.
///
/// It is shown nowhere: any client that knows it can release the lock.
// S-4.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerId {
    field: Field,
    permits: u32,
    within: Option<Arc<str>>,
}

/// Hashes owner ids for people. The keys are random, so that no hash says what it is of.
static PSEUDONYMS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The same text always takes the same form, so forms compare as texts.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Field {
    Short(ArrayString<ROOM>),
    Long(Arc<str>),
}

/// The number of a hold of this client, and its permits: a short form of its [`OwnerId`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldNumber {
    pub(crate) hold: u64,
    pub(crate) permits: NonZeroU32,
}

impl OwnerId {
    /// Creates the owner of hold number `hold` of a client, which is known by its
    /// [`client_id`](super::client_id()), and how many permits of a semaphore it acquires, at least one; one
    /// for all other kinds.
    #[must_use]
    pub fn new(client: &str, hold: u64, permits: u32) -> Self {
        // By hand, because every acquire has an owner: `format!` takes ten times as long.
        let mut number = itoa::Buffer::new();
        let parts = [client, ":", number.format(hold)];
        let mut short = ArrayString::new();
        let field = match parts.iter().try_for_each(|part| short.try_push_str(part)) {
            Ok(()) => Field::Short(short),
            Err(_) => Field::Long(parts.concat().into()),
        };
        Self { field, permits: permits.max(1), within: None }
    }

    /// Returns the same owner, reading inside of that writer.
    #[must_use]
    pub fn within(self, writer: &Self) -> Self {
        Self { within: Some(writer.shared_field()), ..self }
    }

    /// Returns the owner of the write side around a hold of the read side, if there is one: neither that writer
    /// nor waiting writers exclude the read.
    // S-27.
    #[must_use]
    pub fn writer(&self) -> Option<&str> {
        self.within.as_deref()
    }

    /// Returns the same owner, with that many permits.
    pub(crate) fn with_permits(&self, permits: u32) -> Self {
        Self { permits, ..self.clone() }
    }

    /// Returns the short form, if the owner id ends in a number.
    pub(crate) fn number(&self) -> Option<HoldNumber> {
        // From the end: the number is the shorter part, and every acquire asks.
        let (mut hold, mut unit) = (0_u64, Some(1_u64));
        for byte in self.as_field().bytes().rev() {
            match (byte, unit) {
                (b'0'..=b'9', Some(one)) => {
                    hold = hold.checked_add(one.checked_mul(u64::from(byte - b'0'))?)?;
                    unit = one.checked_mul(10);
                }
                (b':', _) if unit != Some(1) => {
                    return Some(HoldNumber { hold, permits: NonZeroU32::new(self.permits)? });
                }
                _ => return None,
            }
        }
        None
    }

    /// Returns [`as_field`](Self::as_field) as a shared string.
    pub(crate) fn shared_field(&self) -> Arc<str> {
        match &self.field {
            Field::Short(short) => Arc::from(short.as_str()),
            Field::Long(long) => Arc::clone(long),
        }
    }

    /// Returns the field name in the lock's hash: `uuid:n`.
    #[must_use]
    pub fn as_field(&self) -> &str {
        match &self.field {
            Field::Short(short) => short,
            Field::Long(long) => long,
        }
    }

    /// Returns the client's uuid and the number of the hold.
    pub(crate) fn client_and_number(&self) -> (&str, u64) {
        let (client, number) = self.as_field().rsplit_once(':').unwrap_or((self.as_field(), ""));
        (client, number.parse().unwrap_or(0))
    }

    /// Returns a number by which people can tell this hold from others, and which releases nothing.
    pub(crate) fn pseudonym(&self) -> u64 {
        PSEUDONYMS.hash_one(self.as_field())
    }

    /// Returns how many permits of a semaphore this hold has; one for all other kinds.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hold = self.as_field().rsplit(':').next().unwrap_or_default();
        write!(f, "OwnerId(…:{hold})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_from_the_end() {
        let number = |client: &str, hold| {
            let owner = OwnerId::new(client, hold, 3);
            owner.number().map(|number| (number.hold, number.permits.get()))
        };
        for hold in [0, 7, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(number("d1f0-77", hold), Some((hold, 3)));
        }
    }

    #[test]
    fn other_texts_have_no_number() {
        for text in
            ["", ":", "a:", "a:1x", "17", "a:18446744073709551616", "a:118446744073709551615"]
        {
            let field = Field::Long(Arc::from(text));
            let owner = OwnerId { field, permits: 1, within: None };
            assert!(owner.number().is_none(), "{text}");
        }
    }
}
