//! The result of a measurement.

use std::fmt;

use serde::Serialize;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Unit {
    #[serde(rename = "µs")]
    Micros,
    #[serde(rename = "ns")]
    Nanos,
    #[serde(rename = "1/s")]
    PerSecond,
    /// A count or a quotient.
    #[serde(rename = "")]
    Plain,
}

/// A bound on the record's ratio or, if it has none, on its figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn allows(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
        }
    }
}

/// One figure of one contender, over all its turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Record {
    /// The case.
    pub(crate) case: String,
    /// The figure.
    pub(crate) name: &'static str,
    pub(crate) contender: &'static str,
    pub(crate) unit: Unit,
    /// One for each turn.
    pub(crate) samples: Vec<f64>,
    /// Of the samples.
    pub(crate) median: f64,
    /// One for each turn: the ratio to the floor's sample of the same round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ratios: Vec<f64>,
    /// The median of the ratios.
    pub(crate) ratio: Option<f64>,
    pub(crate) target: Option<Target>,
    pub(crate) met: Option<bool>,
}

impl Record {
    pub(crate) fn new(
        case: &str,
        contender: &'static str,
        name: &'static str,
        unit: Unit,
        samples: Vec<f64>,
    ) -> Self {
        let median = median(&samples);
        let case = case.to_owned();
        let (ratios, ratio, target, met) = (Vec::new(), None, None, None);
        Self { case, name, contender, unit, samples, median, ratios, ratio, target, met }
    }

    /// Adds the ratio of each sample to the floor's of the same round.
    pub(crate) fn over(mut self, floor: &[f64]) -> Self {
        self.ratios = self.samples.iter().zip(floor).map(|(ours, floor)| ours / floor).collect();
        self.ratio = Some(median(&self.ratios));
        self
    }

    /// Adds the bound on the ratio or, if there is none, on the figure.
    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self.met = Some(target.allows(self.ratio.unwrap_or(self.median)));
        self
    }
}

/// The median; NaN if there are no samples.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.get(sorted.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

/// With a space between thousands.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_compares_samples_of_one_round() {
        let record = Record::new("pair", "ours", "p50", Unit::Micros, vec![10.0, 40.0, 22.0]);
        let record = record.over(&[10.0, 20.0, 20.0]).target(Target::AtMost(1.15));
        assert_eq!(record.ratio, Some(1.1));
        assert_eq!(record.met, Some(true));
    }

    #[test]
    fn without_a_ratio_the_target_is_for_the_figure() {
        let record = Record::new("nested", "ours", "pair", Unit::Nanos, vec![600.0]);
        assert_eq!(record.target(Target::AtMost(500.0)).met, Some(false));
        let nothing = Record::new("nested", "ours", "pair", Unit::Nanos, vec![]);
        assert_eq!(nothing.target(Target::AtMost(500.0)).met, Some(false));
    }
}
