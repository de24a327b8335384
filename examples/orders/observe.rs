//! What an operator sees: a log with spans on stderr, and metrics for Prometheus.

use std::io::stderr;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::Failure;

/// Late writes that the database refused. If it is not zero, find out which process was paused.
pub(crate) const WRITES_REFUSED: &str = "orders_writes_refused_total";

/// In seconds, for the waits and holds of an interactive service.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0];

/// Logs from `INFO` on, unless `RUST_LOG` is set: `RUST_LOG=info,lock_runtime=debug` shows every acquire
/// and every hold when it ends.
pub(crate) fn log() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(stderr)
        .init();
}

/// Installs the recorder; the handle renders the answer of `/metrics`.
pub(crate) fn metrics() -> Result<PrometheusHandle, Failure> {
    let builder = PrometheusBuilder::new()
        // Without buckets they are summaries, which cannot be summed over processes.
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)?;
    let handle = builder.install_recorder()?;
    lock_runtime::observe::describe();
    metrics::describe_counter!(WRITES_REFUSED, "Late writes that the database refused.");
    metrics::counter!(WRITES_REFUSED).absolute(0);
    let upkeep = handle.clone();
    tokio::spawn(async move {
        // Without it, samples that no scraper reads accumulate.
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}
