//! What is written down about metrics is what there is.

use lock_runtime::observe::names::{
    AcquireOutcome, ReleaseOutcome, RenewOutcome, RunOutcome, cause_label, kind_label,
};
use lock_runtime::observe::{ACQUIRE_FIELDS, HOLD_FIELDS, METRICS, MetricKind};
use serde_json::Value;

use crate::prelude::*;

fn docs(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs").join(name);
    fs::read_to_string(path).unwrap()
}

/// Everything that a label may be, but for policies.
fn words() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let acquires = AcquireOutcome::ALL.iter().map(|word| word.as_str());
    let renewals = RenewOutcome::ALL.iter().map(|word| word.as_str());
    let releases = ReleaseOutcome::ALL.iter().map(|word| word.as_str());
    let outcomes = acquires.chain(renewals).chain(releases).collect();
    let causes = [LossCause::Deadline, LossCause::NotOwner].map(cause_label).into();
    let mut kinds: BTreeSet<_> = KINDS.iter().map(|(_, kind)| kind_label(*kind)).collect();
    kinds.extend([HoldKind::Multi, HoldKind::Latch].map(kind_label));
    BTreeMap::from([("outcome", outcomes), ("cause", causes), ("kind", kinds)])
}

/// Names, quoted text and single characters of a query.
fn tokens(query: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = query.chars().peekable();
    while let Some(first) = rest.next() {
        let mut token = String::from(first);
        let in_name = |c: &char| c.is_alphanumeric() || *c == '_';
        if first == '"' {
            token.extend(rest.by_ref().take_while(|c| *c != '"'));
        } else if in_name(&first) || first == '$' {
            token.extend(std::iter::from_fn(|| rest.next_if(in_name)));
        }
        tokens.push(token);
    }
    tokens.retain(|token| !token.trim().is_empty());
    tokens
}

/// The labels of a name as an exporter has it, if it is one of ours.
fn labels_of(name: &str) -> Option<BTreeSet<&'static str>> {
    let metric = METRICS.iter().find(|metric| match metric.kind {
        MetricKind::Histogram => name.strip_suffix("_bucket") == Some(metric.name),
        _ => name == metric.name,
    })?;
    let le = (metric.kind == MetricKind::Histogram).then_some("le");
    Some(metric.labels.iter().copied().chain(le).collect())
}

/// What the query asks for and how; panics at a name, a label or a word that there is not.
fn check(query: &str) -> BTreeSet<String> {
    const LANGUAGE: [&str; 5] = ["sum", "by", "rate", "increase", "histogram_quantile"];
    let tokens = tokens(query);
    let used: BTreeSet<_> = tokens.iter().filter(|it| it.starts_with("lock_")).cloned().collect();
    assert!(!used.is_empty(), "no metric of ours in {query}");
    // All metrics of a query have the labels that it names.
    let known = |name: &String| labels_of(name).unwrap_or_else(|| panic!("{name}? {query}"));
    let labels: Vec<_> = used.iter().map(known).collect();
    let is_label = |token: &str| labels.iter().all(|of_one| of_one.contains(token));
    for (at, token) in tokens.iter().enumerate() {
        if token.starts_with(|c: char| c.is_ascii_alphabetic()) && !token.starts_with("lock_") {
            let unit = at > 0 && tokens[at - 1].ends_with(|c: char| c.is_ascii_digit());
            let said = LANGUAGE.contains(&token.as_str()) || is_label(token) || unit;
            assert!(said, "{token} is no label of all of {used:?}: {query}");
        }
        if let Some(word) = token.strip_prefix('"')
            && tokens[at - 1] == "="
        {
            let label = tokens[at - 2].as_str();
            assert!(words()[label].contains(word), "{label} is never {word}: {query}");
        }
    }
    used
}

fn queries(of: &Value, found: &mut Vec<String>) {
    match of {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(query) if name == "expr" => found.push(query.to_owned()),
                    _ => queries(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

/// §3.4: each query of the dashboard asks for metrics and labels that there are, and each metric is asked
/// for.
#[test]
fn the_dashboard_asks_for_what_there_is() {
    let dashboard: Value = serde_json::from_str(&docs("grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    assert!(found.len() >= panels.len());
    let mut used = BTreeSet::new();
    for query in &found {
        used.append(&mut check(query));
        assert!(query.contains("policy=~\"$policy\", kind=~\"$kind\""), "{query}");
    }
    for metric in METRICS {
        assert!(used.iter().any(|name| name.starts_with(metric.name)), "{} is unused", metric.name);
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "policy", "kind"]);
    for variable in &variables[1..] {
        let asked = variable["definition"].as_str().unwrap();
        let (metric, label) =
            asked.strip_prefix("label_values(").unwrap().split_once(", ").unwrap();
        assert!(labels_of(metric).unwrap().contains(label.trim_end_matches(')')), "{asked}");
    }
    for wrong in [
        "sum(rate(lock_acquired_total[5m]))",
        "sum(lock_wait_seconds)",
        "sum by (key) (rate(lock_acquire_total[5m]))",
        "sum by (cause) (rate(lock_acquire_total[5m]))",
        "sum(rate(lock_acquire_total{outcome=\"won\"}[5m]))",
        "sum(rate(lock_renew_total{status=\"failed\"}[5m]))",
        "sum(up)",
    ] {
        assert!(std::panic::catch_unwind(|| check(wrong)).is_err(), "{wrong} passes");
    }
    check("sum by (le, policy) (rate(lock_wait_seconds_bucket{kind=\"fair\"}[5m]))");
}

/// §3.4: the page lists every name with its labels, every word, every field, and alerts that work.
#[test]
fn the_page_lists_what_there_is() {
    let page = docs("metrics.md");
    let has = |text: &str| assert!(page.contains(text), "{text} is not in docs/metrics.md");
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    for metric in METRICS {
        let (kind, unit) = match metric.kind {
            MetricKind::Counter => ("counter", "–"),
            MetricKind::Gauge => ("gauge", "–"),
            _ => ("histogram", "seconds"),
        };
        let (name, labels, help) = (metric.name, quoted(metric.labels), metric.help);
        has(&format!("| `{name}` | {kind} | {unit} | {labels} | {help} |\n"));
    }
    let runs = RunOutcome::ALL.iter().map(|outcome| outcome.as_str());
    words().into_values().flatten().chain(runs).for_each(|word| has(&quoted(&[word])));
    for fields in [ACQUIRE_FIELDS, HOLD_FIELDS] {
        has(&format!("| {} |", quoted(fields)));
    }
    for field in ["name", "policy", "site", "holder", "holds", "unlogged"] {
        has(&format!("| `lock.{field}` | "));
    }
    // Without it the spans are in no line.
    has("FmtSpan::CLOSE");
    let rows = page.lines().filter(|line| line.starts_with("| `lock_")).count();
    assert_eq!(rows, METRICS.len());
    let alerts: Vec<_> =
        page.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert_eq!(alerts.len(), 5);
    alerts.into_iter().for_each(|alert| drop(check(alert)));
}
