//! A recorder that keeps everything, to look at.

use std::fmt::Write as _;
use std::sync::{MutexGuard, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, LocalRecorderGuard,
    Metadata, Recorder, SharedString, Unit,
};

use crate::prelude::*;

type Labels = BTreeMap<String, String>;

/// Installed for its thread by [`here`](Self::here).
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    all: Arc<Mutex<All>>,
    /// It panics when something with that prefix is to be recorded.
    breaks: Option<&'static str>,
}

#[derive(Debug, Default)]
struct All {
    series: BTreeMap<(String, Labels), Value>,
    described: BTreeMap<String, (&'static str, Option<Unit>, String)>,
}

#[derive(Debug, Clone, Default)]
struct Value {
    number: f64,
    /// A gauge may go no lower than zero.
    lowest: f64,
    samples: Vec<f64>,
}

/// One series of numbers.
struct Series(Kept, (String, Labels));

impl Kept {
    /// A recorder that is installed for this thread until the guard is dropped. It is leaked: the guard borrows it.
    pub(crate) fn here() -> (Self, LocalRecorderGuard<'static>) {
        let seen: &'static Self = Box::leak(Box::default());
        (seen.clone(), metrics::set_default_local_recorder(seen))
    }

    /// A recorder that panics when something with that prefix is to be recorded.
    pub(crate) fn broken(prefix: &'static str) -> Self {
        Self { breaks: Some(prefix), ..Self::default() }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn matching(&self, name: &str, labels: &[(&str, &str)]) -> Vec<Value> {
        let has = |of: &Labels| labels.iter().all(|(k, v)| of.get(*k).is_some_and(|it| it == v));
        let all = self.all();
        let found = all.series.iter().filter(|((its, of), _)| its == name && has(of));
        found.map(|(_, value)| value.clone()).collect()
    }

    /// The sum of all series of that name with these labels, whatever else they have.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).iter().map(|value| value.number).sum()
    }

    /// Whether they add up to that.
    pub(crate) fn is(&self, name: &str, labels: &[(&str, &str)], number: u32) -> bool {
        (self.sum(name, labels) - f64::from(number)).abs() < 0.5
    }

    /// All durations of a histogram.
    pub(crate) fn samples(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        self.matching(name, labels).into_iter().flat_map(|value| value.samples).collect()
    }

    /// The names, with the names of their labels.
    pub(crate) fn names(&self) -> BTreeMap<String, BTreeSet<Vec<String>>> {
        let mut names: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (name, labels) in self.all().series.keys() {
            names.entry(name.clone()).or_default().insert(labels.keys().cloned().collect());
        }
        names
    }

    /// The values that a label has where something was counted.
    pub(crate) fn values(&self, name: &str, label: &str) -> BTreeSet<String> {
        let all = self.all();
        let counted = |value: &Value| value.number > 0.5 || !value.samples.is_empty();
        let of_name = all.series.iter().filter(|((its, _), value)| its == name && counted(value));
        of_name.filter_map(|((_, labels), _)| labels.get(label).cloned()).collect()
    }

    pub(crate) fn described(&self) -> BTreeMap<String, (&'static str, Option<Unit>, String)> {
        self.all().described.clone()
    }

    /// Everything, as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (series, value) in &self.all().series {
            writeln!(text, "{series:?} {value:?}").unwrap();
        }
        text
    }

    /// No gauge shows anything, and none has been below nothing.
    pub(crate) fn assert_idle(&self) {
        for ((name, labels), value) in &self.all().series {
            let is_gauge = name == "lock_held" || name == "lock_waiting";
            let is_idle = value.number.abs() < 0.5 && value.lowest > -0.5;
            assert!(!is_gauge || is_idle, "{name} {labels:?} is {value:?}");
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.is("lock_held", &[], 0) && self.is("lock_waiting", &[], 0)
    }

    /// Waits until all gauges are at zero.
    pub(crate) async fn idle(&self) {
        soon!("all gauges are zero", self.is_idle());
        self.assert_idle();
    }

    fn series(&self, key: &Key) -> Arc<Series> {
        let breaks = self.breaks.is_some_and(|prefix| key.name().starts_with(prefix));
        assert!(!breaks, "{key} is not recorded");
        let labels = key.labels().map(|it| (it.key().to_owned(), it.value().to_owned())).collect();
        Arc::new(Series(self.clone(), (key.name().to_owned(), labels)))
    }

    fn describe(&self, kind: &'static str, name: KeyName, unit: Option<Unit>, help: SharedString) {
        let what = (kind, unit, help.to_string());
        self.all().described.insert(name.as_str().to_owned(), what);
    }
}

impl Series {
    fn change(&self, change: impl FnOnce(&mut Value)) {
        change(self.0.all().series.entry(self.1.clone()).or_default());
    }

    fn add(&self, by: f64) {
        self.change(|value| {
            value.number += by;
            value.lowest = value.lowest.min(value.number);
        });
    }
}

impl CounterFn for Series {
    fn increment(&self, by: u64) {
        self.add(f64::from(u32::try_from(by).unwrap()));
    }

    fn absolute(&self, _: u64) {
        panic!("counters are only counted up");
    }
}

impl GaugeFn for Series {
    fn increment(&self, by: f64) {
        self.add(by);
    }

    fn decrement(&self, by: f64) {
        self.add(-by);
    }

    fn set(&self, _: f64) {
        panic!("a gauge that several clients share is not set");
    }
}

impl HistogramFn for Series {
    fn record(&self, sample: f64) {
        self.change(|value| value.samples.push(sample));
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("counter", name, unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("gauge", name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe("histogram", name, unit, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}
