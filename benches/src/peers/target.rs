//! What this library is to reach beside the others.

use super::row::Row;
use crate::record::{Record, Target, Unit};

/// The names of figures that have targets.
pub(super) const RATE: &str = "a second";
pub(super) const TASKS: &str = "fewest ÷ most of a task";
pub(super) const PROCESSES: &str = "of a process";
pub(super) const COMMANDS: &str = "commands";
pub(super) const HAND_OVER: &str = "hand-over, round trips";
pub(super) const SERVER_CPU: &str = "server CPU";

/// How our rate compares.
const OURS_IS: &str = "ours is, ×";

const FASTEST: &str = "the fastest peer";

/// The rows of one process on one lock.
const HOT: &[&str] = &["hot-8", "hot-64", "hot-512"];

/// Rates: rows, the contender to exceed, and by which factor.
const RATES: [(&[&str], &str, f64); 8] = [
    (&["own-1"], "floor", 0.95),
    (&["own-64"], "floor", 1.5),
    (&["own-64"], "rslock", 1.1),
    (HOT, "Redisson", 60.0),
    (HOT, FASTEST, 25.0),
    (&["fair-8", "fair-64", "fair-4x16"], "Redisson", 2.5),
    (&["read-write-64", "read-write-4x16"], "Redisson", 20.0),
    (&["read-write-4x16"], FASTEST, 3.0),
];

/// Other figures of this library: rows, figure, bound.
const FIGURES: [(&[&str], &str, Target); 4] = [
    (HOT, TASKS, Target::AtLeast(0.9)),
    (HOT, COMMANDS, Target::AtMost(0.1)),
    (&["hot-4x16"], HAND_OVER, Target::AtMost(2.0)),
    (&["hot-4x16"], PROCESSES, Target::AtLeast(0.8)),
];

/// The rows whose work of the server is compared, and how much more that of the longer queue may be.
const QUEUES: (&str, &str, f64) = ("fair-1000", "fair-10000", 1.3);

/// The figures of a row with what they are to reach, and with how many times each contender's rate ours is.
pub(super) fn with_targets(row: Row, mut records: Vec<Record>) -> Vec<Record> {
    let row = row.to_string();
    for record in records.iter_mut().filter(|record| record.contender == "ours") {
        let target = FIGURES.iter().find(|it| it.0.contains(&row.as_str()) && it.1 == record.name);
        if let Some((_, _, target)) = target {
            *record = record.clone().target(*target);
        }
    }
    let rates = || records.iter().filter(|record| record.name == RATE);
    // Where Redisson has a target of its own, it is the fastest of the others that counts.
    let is_peer = |it: &&Record| !["PING", "floor", "ours", "Redisson"].contains(&it.contender);
    let fastest = rates().filter(is_peer).max_by(|a, b| a.median.total_cmp(&b.median));
    let fastest = fastest.map(|record| record.contender);
    let Some(ours) = rates().find(|record| record.contender == "ours") else { return records };
    let compared = rates().filter(|record| record.contender != "ours").map(|other| {
        let ratios = ours.samples.iter().zip(&other.samples).map(|(ours, other)| ours / other);
        let record = Record::new(&row, other.contender, OURS_IS, Unit::Plain, ratios.collect());
        let counts = |name: &str| {
            name == other.contender || name == FASTEST && fastest == Some(other.contender)
        };
        let targets =
            RATES.iter().filter(|it| it.0.contains(&row.as_str()) && counts(it.1)).map(|it| it.2);
        match targets.reduce(f64::max) {
            Some(factor) => record.target(Target::AtLeast(factor)),
            None => record,
        }
    });
    let compared: Vec<_> = compared.collect();
    [records, compared].concat()
}

/// The work of the server for a grant behind a long queue, beside that behind a shorter one.
pub(super) fn of_queues(records: &[Record]) -> Option<Record> {
    let (short, long, most) = QUEUES;
    let work = |row| records.iter().find(|it| (it.case.as_str(), it.name) == (row, SERVER_CPU));
    let (short, long) = (work(short)?, work(long)?);
    let record = Record::new(
        "fair: 10 000 waiters beside 1 000",
        "ours",
        SERVER_CPU,
        Unit::Micros,
        long.samples.clone(),
    );
    Some(record.over(&short.samples).target(Target::AtMost(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(contender: &'static str, samples: &[f64]) -> Record {
        Record::new("hot-8", contender, RATE, Unit::PerSecond, samples.to_vec())
    }

    #[test]
    fn the_fastest_peer_counts_and_a_ratio_compares_one_round() {
        let row = "hot-8".parse().unwrap();
        let rates = [
            rate("ours", &[100.0, 400.0, 220.0]),
            rate("redsync", &[10.0, 4.0, 8.0]),
            rate("redis-py", &[1.0, 1.0, 1.0]),
            rate("Redisson", &[2.0, 2.0, 2.0]),
        ];
        let records = with_targets(row, rates.to_vec());
        let verdict = |name| {
            let found = records.iter().find(|it| (it.contender, it.name) == (name, OURS_IS));
            found.map(|it| (it.median, it.met))
        };
        assert_eq!(verdict("redsync"), Some((27.5, Some(true))));
        assert_eq!(verdict("redis-py"), Some((220.0, None)));
        assert_eq!(verdict("Redisson"), Some((110.0, Some(true))));
        let slower = with_targets(row, vec![rate("ours", &[100.0]), rate("rslock", &[5.0])]);
        assert_eq!(slower.last().and_then(|it| it.met), Some(false));
    }

    #[test]
    fn targets_are_of_rows_that_are_measured() {
        let rows = Row::ALL.map(|row| row.to_string());
        let named = RATES.iter().map(|it| it.0).chain(FIGURES.iter().map(|it| it.0)).flatten();
        for row in named.chain([&QUEUES.0, &QUEUES.1]) {
            assert!(rows.iter().any(|known| known == row), "{row}");
        }
    }
}
