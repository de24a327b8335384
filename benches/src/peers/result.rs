//! The figures of a run, as they stand in its file.

use serde::{Deserialize, Serialize};

use super::row::Row;
use crate::record::median;

/// What a figure measures, with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// Pairs of acquire and release of all tasks, a second.
    Rate,
    /// Median time of a pair, from the call that asks to the confirmed release, in µs.
    P50,
    /// The time that 99 % of the pairs do not exceed, in µs.
    P99,
    /// Median time from the begin of a release to the moment that a task of another process holds the lock, in µs.
    HandOver,
    /// The same in round trips: over the median time of a bare script of a mutex, which another process sends during
    /// the same turn.
    HandOverTrips,
    /// Commands that the server ran for a pair, with those of scripts.
    Commands,
    /// Processor time of the server for a pair, in µs.
    ServerCpu,
    /// Processor time of the client for a pair, in µs.
    ClientCpu,
    /// Pairs of the task with the fewest over those of the task with the most.
    Tasks,
    /// Pairs of the process with the fewest over those of the process with the most.
    Processes,
    /// Acquires and releases that ended with an error, in a turn.
    Failures,
    /// Moments at which two tasks held a lock that only one may hold, in a turn.
    Doubles,
}

/// One figure of one contender, over all its turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// As in `--row`.
    pub(crate) row: String,
    pub(crate) contender: String,
    pub(crate) measure: Measure,
    /// One for each round.
    pub(crate) samples: Vec<f64>,
}

impl Figure {
    /// The middle one of the samples.
    pub(crate) fn median(&self) -> f64 {
        median(&self.samples)
    }
}

/// A contender of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) settings: String,
    /// Why it has no figures, or only some.
    pub(crate) missing: Option<String>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) server_version: String,
    /// Of the machine.
    pub(crate) cores: usize,
    /// How often the contenders took turns.
    pub(crate) rounds: usize,
    /// The length of a turn.
    pub(crate) turn_seconds: f64,
    pub(crate) contenders: Vec<Entry>,
    pub(crate) figures: Vec<Figure>,
}

impl Run {
    /// The figure of a contender.
    pub(crate) fn figure(&self, row: &str, contender: &str, measure: Measure) -> Option<&Figure> {
        self.figures.iter().find(|figure| {
            (figure.row.as_str(), figure.contender.as_str(), figure.measure)
                == (row, contender, measure)
        })
    }

    /// The median of a figure.
    pub(crate) fn median(&self, row: &str, contender: &str, measure: Measure) -> Option<f64> {
        self.figure(row, contender, measure).map(Figure::median)
    }

    /// The first contender's figure over the second's: for each round, then the median.
    pub(crate) fn ratio(
        &self,
        row: &str,
        measure: Measure,
        first: &str,
        second: &str,
    ) -> Option<f64> {
        let first = self.figure(row, first, measure)?;
        let second = self.figure(row, second, measure)?;
        let ratios: Vec<_> = first
            .samples
            .iter()
            .zip(&second.samples)
            .map(|(first, second)| first / second)
            .collect();
        Some(median(&ratios))
    }

    /// The rows that have figures, in their order.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for row in self.figures.iter().filter_map(|figure| figure.row.parse().ok()) {
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        rows
    }

    /// The contenders that have a rate in this row, except the floor and this library.
    pub(crate) fn peers_in(&self, row: &str) -> Vec<&str> {
        let names = self.contenders.iter().map(|entry| entry.name.as_str());
        names
            .filter(|name| !["PING", "floor", "ours"].contains(name))
            .filter(|name| self.figure(row, name, Measure::Rate).is_some())
            .collect()
    }
}

/// A run with these rates: row, contender, samples.
#[cfg(test)]
pub(crate) fn run_of(rates: &[(&str, &str, &[f64])]) -> Run {
    let figure = |(row, contender, samples): &(&str, &str, &[f64])| Figure {
        row: (*row).to_owned(),
        contender: (*contender).to_owned(),
        measure: Measure::Rate,
        samples: samples.to_vec(),
    };
    let mut names: Vec<_> = rates.iter().map(|(_, contender, _)| *contender).collect();
    names.dedup();
    let entry = |name: &str| Entry {
        name: name.to_owned(),
        version: "1".to_owned(),
        settings: "default".to_owned(),
        missing: None,
    };
    Run {
        server_version: "7".to_owned(),
        cores: 2,
        rounds: 3,
        turn_seconds: 1.0,
        contenders: names.into_iter().map(entry).collect(),
        figures: rates.iter().map(figure).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_compares_samples_of_one_round() {
        let run = run_of(&[
            ("own-64", "ours", &[10.0, 40.0, 22.0]),
            ("own-64", "rslock", &[10.0, 20.0, 20.0]),
        ]);
        assert_eq!(run.ratio("own-64", Measure::Rate, "ours", "rslock"), Some(1.1));
        assert_eq!(run.ratio("own-64", Measure::Rate, "ours", "redsync"), None);
        assert_eq!(run.peers_in("own-64"), ["rslock"]);
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let run = run_of(&[("hot-8", "ours", &[1.5])]);
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
    }
}
