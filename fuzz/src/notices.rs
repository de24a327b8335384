//! Messages on the channels of locks.

use std::collections::BTreeSet;

use lock_runtime::fuzz;

use crate::input::spoken;

/// A message notifies the waiter whose number it is, and no other; where no waiter has a number, it notifies all.
pub fn notice(input: &[u8]) {
    let message =
        spoken(input, &[b"0", b"1", b"7", b"18446744073709551615", b"end", b"\xff", b"+"]);
    let waiters = BTreeSet::from([0, 1, 7, 71, u64::MAX]);
    let (all, named) = fuzz::notified(&waiters, &message);
    assert!(!all, "a message to one waiter notifies all");
    let number = std::str::from_utf8(&message).ok().and_then(|text| text.parse::<u64>().ok());
    let expected: BTreeSet<_> = number.into_iter().filter(|it| waiters.contains(it)).collect();
    assert_eq!(named, expected);
    let (all, _) = fuzz::notified(&BTreeSet::new(), &message);
    assert!(all, "no listener is notified");
}
