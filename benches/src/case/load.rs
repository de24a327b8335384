//! A large configuration, from its text to the layer.

use lock_runtime::policy::LockConfig;
use tokio::time::Instant;

use crate::Result;
use crate::configuration::{layer, text};
use crate::record::{Record, Target, Unit};
use crate::timing::Timing;

const CASE: &str = "load: a configuration of 200 policies and 1000 routes";

/// Measures the case. No round keeps anything for the next.
pub(super) async fn run(timing: Timing) -> Result<Vec<Record>> {
    let text = text()?;
    let (mut parsing, mut planning) = (Vec::new(), Vec::new());
    for _ in 0..timing.rounds {
        let started = Instant::now();
        let file = LockConfig::from_toml(&text)?;
        let parsed = Instant::now();
        let layer = layer(file)?;
        let micros = |from: Instant| from.elapsed().as_nanos() as f64 / 1000.0;
        planning.push(micros(parsed));
        parsing.push(micros(started));
        drop(layer);
    }
    Ok(vec![
        Record::new(CASE, "ours", "text to layer", Unit::Micros, parsing)
            .target(Target::AtMost(50_000.0)),
        Record::new(CASE, "ours", "of it, client and layer", Unit::Micros, planning),
    ])
}
