//! The rule of a lock with two sides: readers share, a writer is alone.

use super::{Claim, History, Violation};

impl History {
    /// The events of one lock, and those of whole processes.
    #[must_use]
    pub fn only(&self, object: &str) -> Self {
        let its = |name: &str| name == object || name.is_empty();
        let events = self.events().iter().filter(|event| its(&event.object));
        Self { events: events.cloned().collect() }
    }

    /// The rule that no claim to the write side overlaps any other (C1), where `read` and `write`
    /// are the names under which the two sides of one lock were recorded.
    ///
    /// For each claim that starts during others that exclude it, the one that ends last is reported.
    pub fn sides(&self, read: &str, write: &str) -> Vec<Violation> {
        let mut violations = Vec::new();
        let (mut last_read, mut last_write) = (None::<Claim>, None::<Claim>);
        for claim in self.claims().into_iter().filter(|claim| claim.end > claim.start) {
            let writes = claim.object == write;
            if !writes && claim.object != read {
                continue;
            }
            let excluding = [last_write.as_ref(), last_read.as_ref().filter(|_| writes)];
            let longest = excluding.into_iter().flatten().max_by_key(|other| other.end);
            if let Some(other) = longest.filter(|other| claim.start < other.end) {
                violations.push(Violation::Overlap(other.clone(), claim.clone()));
            }
            let last = if writes { &mut last_write } else { &mut last_read };
            if last.as_ref().is_none_or(|last| last.end < claim.end) {
                *last = Some(claim);
            }
        }
        violations
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Event, Op, Stamp};
    use super::*;

    fn hold(task: u64, object: &str, from: u64, to: u64) -> [Event; 3] {
        let event = |at: u64, op| Event {
            at: Stamp::from_origin(Duration::from_nanos(at)),
            process: 1,
            task,
            object: object.to_owned(),
            op,
        };
        let granted = Op::Acquired { token: Some(from), valid_until: None };
        [event(0, Op::AcquireInvoked), event(from, granted), event(to, Op::ReleaseInvoked)]
    }

    fn violations(holds: &[[Event; 3]]) -> usize {
        History::from_events(holds.concat()).sides("r", "w").len()
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let (one, two) = (hold(1, "r", 10, 30), hold(2, "r", 20, 40));
        let clean = [one.clone(), two.clone(), hold(3, "w", 40, 50), hold(4, "r", 50, 60)];
        assert_eq!(violations(&clean), 0);
        assert_eq!(violations(&[one.clone(), two, hold(3, "w", 35, 50)]), 1);
        assert_eq!(violations(&[hold(3, "w", 5, 11), one]), 1);
        assert_eq!(violations(&[hold(3, "w", 5, 11), hold(4, "w", 10, 12)]), 1);
        assert_eq!(violations(&[hold(3, "w", 5, 11), hold(4, "other", 10, 12)]), 0);
    }
}
