//! What this library is to reach beside the others.

use super::result::{Measure, Run};

/// A bound, and what the run shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) row: &'static str,
    pub(super) what: String,
    pub(super) bound: Bound,
    pub(super) value: f64,
}

/// The bound of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Verdict {
    /// Whether the target is reached.
    pub(super) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => self.value >= bound,
            Bound::AtMost(bound) => self.value <= bound,
        }
    }
}

/// Rates: row, the contender to exceed (`None`: the fastest peer), and by which factor.
const RATES: [(&str, Option<&str>, f64); 15] = [
    ("own-1", Some("rslock"), 1.0),
    ("own-64", Some("floor"), 1.5),
    ("own-64", Some("rslock"), 1.0),
    ("hot-8", Some("Redisson"), 150.0),
    ("hot-8", None, 50.0),
    ("hot-64", Some("Redisson"), 150.0),
    ("hot-64", None, 50.0),
    ("hot-512", Some("Redisson"), 150.0),
    ("hot-512", None, 50.0),
    ("hot-4x16", None, 5.0),
    ("fair-8", Some("Redisson"), 3.0),
    ("fair-64", Some("Redisson"), 3.0),
    ("fair-4x16", Some("Redisson"), 3.0),
    ("read-write-64", Some("Redisson"), 20.0),
    ("read-write-4x16", Some("Redisson"), 20.0),
];

/// Other figures of this library: row, figure, its name, bound.
const FIGURES: [(&str, Measure, &str, Bound); 8] = [
    ("hot-8", Measure::Tasks, "fewest ÷ most of a task", Bound::AtLeast(0.9)),
    ("hot-64", Measure::Tasks, "fewest ÷ most of a task", Bound::AtLeast(0.9)),
    ("hot-512", Measure::Tasks, "fewest ÷ most of a task", Bound::AtLeast(0.9)),
    ("hot-8", Measure::Commands, "commands a grant", Bound::AtMost(0.05)),
    ("hot-64", Measure::Commands, "commands a grant", Bound::AtMost(0.05)),
    ("hot-512", Measure::Commands, "commands a grant", Bound::AtMost(0.05)),
    ("hot-4x16", Measure::HandOverTrips, "hand-over, round trips", Bound::AtMost(2.0)),
    ("hot-4x16", Measure::Processes, "fewest ÷ most of a process", Bound::AtLeast(0.8)),
];

/// The row in which plain mutexes stand in for a read/write lock, and by which factor to exceed the fastest.
const BESIDE_MUTEXES: (&str, f64) = ("read-write-4x16", 3.0);

/// The targets that this run has figures for.
pub(super) fn verdicts(run: &Run) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (row, other, factor) in RATES {
        let other = match other {
            Some(name) => Some((name, format!("rate ÷ {name}'s"))),
            None => fastest(run, row, |_| true).map(|name| (name, named_fastest(name))),
        };
        verdicts.extend(other.and_then(|(name, what)| rate(run, row, name, what, factor)));
    }
    let (row, factor) = BESIDE_MUTEXES;
    if let Some(name) = fastest(run, row, |name| name != "Redisson") {
        verdicts.extend(rate(run, row, name, named_fastest(name), factor));
    }
    for (row, measure, what, bound) in FIGURES {
        let verdict = |value| Verdict { row, what: what.to_owned(), bound, value };
        verdicts.extend(run.median(row, "ours", measure).map(verdict));
    }
    verdicts
}

fn named_fastest(name: &str) -> String {
    format!("rate ÷ the fastest peer's ({name})")
}

fn rate(run: &Run, row: &'static str, name: &str, what: String, factor: f64) -> Option<Verdict> {
    let value = run.ratio(row, Measure::Rate, "ours", name)?;
    Some(Verdict { row, what, bound: Bound::AtLeast(factor), value })
}

fn fastest<'a>(run: &'a Run, row: &str, counts: impl Fn(&str) -> bool) -> Option<&'a str> {
    let rate = |name: &str| run.median(row, name, Measure::Rate).unwrap_or_default();
    let peers = run.peers_in(row).into_iter().filter(|name| counts(name));
    peers.max_by(|one, other| rate(one).total_cmp(&rate(other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::result::run_of;
    use crate::peers::row::Row;

    #[test]
    fn the_fastest_peer_counts() {
        let run = run_of(&[
            ("hot-8", "ours", &[100.0]),
            ("hot-8", "redsync", &[3.0]),
            ("hot-8", "redis-py", &[1.0]),
            ("hot-8", "Redisson", &[0.5]),
        ]);
        let verdicts = verdicts(&run);
        let found: Vec<_> = verdicts.iter().map(|it| (it.value.round(), it.is_met())).collect();
        assert_eq!(found, [(200.0, true), (33.0, false)]);
        assert!(verdicts[1].what.contains("redsync"));
    }

    #[test]
    fn plain_mutexes_in_place_of_a_read_write_lock_are_a_target_of_their_own() {
        let run = run_of(&[
            ("read-write-4x16", "ours", &[30.0]),
            ("read-write-4x16", "Redisson", &[15.0]),
            ("read-write-4x16", "rslock", &[5.0]),
            ("read-write-4x16", "redsync", &[4.0]),
        ]);
        let found = verdicts(&run);
        let found: Vec<_> = found.iter().map(|it| (it.what.as_str(), it.value)).collect();
        let expected = [("rate ÷ Redisson's", 2.0), ("rate ÷ the fastest peer's (rslock)", 6.0)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_target_is_met_at_its_bound() {
        let is_met =
            |bound, value| Verdict { row: "hot-8", what: String::new(), bound, value }.is_met();
        for (value, at_least, at_most) in
            [(1.9, false, true), (2.0, true, true), (2.1, true, false)]
        {
            assert_eq!(is_met(Bound::AtLeast(2.0), value), at_least, "{value}");
            assert_eq!(is_met(Bound::AtMost(2.0), value), at_most, "{value}");
        }
    }

    #[test]
    fn targets_are_of_rows_that_are_measured() {
        let rows: Vec<_> = Row::ALL.iter().map(Row::to_string).collect();
        let named = RATES.iter().map(|it| it.0).chain(FIGURES.iter().map(|it| it.0));
        for row in named.chain([BESIDE_MUTEXES.0]) {
            assert!(rows.iter().any(|known| known == row), "{row}");
        }
    }
}
