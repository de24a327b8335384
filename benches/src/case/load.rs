//! A large configuration, from its text to the layer.

use std::fmt::Write as _;

use lock_runtime::LockClient;
use lock_runtime::policy::LockFile;
use lock_tower::{HttpLockLayer, LockLayer};
use tokio::time::Instant;

use crate::Result;
use crate::record::{Record, Target, Unit};
use crate::timing::Timing;

const CASE: &str = "load: a configuration of 200 policies and 1000 routes";

const POLICIES: usize = 200;
const ROUTES: usize = 1000;

/// Measures the case. No round keeps anything for the next.
pub(super) async fn run(timing: Timing) -> Result<Vec<Record>> {
    let text = text()?;
    let (mut parsing, mut planning) = (Vec::new(), Vec::new());
    for _ in 0..timing.rounds {
        let started = Instant::now();
        let file: LockFile = toml::from_str(&text)?;
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

/// Reads the configuration so many times, and makes a layer of it each time.
///
/// # Errors
///
/// When the configuration is not accepted.
#[cfg(feature = "counts")]
pub(crate) fn repeat(count: u32) -> Result<()> {
    let text = text()?;
    for _ in 0..count {
        let file: LockFile = toml::from_str(&text)?;
        drop(layer(file)?);
    }
    Ok(())
}

fn layer(file: LockFile) -> Result<HttpLockLayer> {
    let client = LockClient::builder().config(file.lock).in_memory()?;
    Ok(LockLayer::routes(&client)?)
}

fn text() -> Result<String> {
    let mut text = String::from("[lock.defaults]\nwait = '3s'\n");
    for n in 0..POLICIES {
        writeln!(text, "[lock.base.b{n}]\nkind = 'fair'")?;
        if n > 0 {
            writeln!(text, "base = 'b{}'", n % 16 / 2)?;
        }
        writeln!(text, "[lock.policies.p{n}]\nbase = 'b{n}'\nkey = 'order:{{path.id}}'")?;
        writeln!(text, "max_hold = '5m'\nmax_waiters = {}\nhttp = {{ busy = 503 }}", n + 1)?;
    }
    for n in 0..ROUTES {
        writeln!(text, "[[lock.routes]]\nmethods = ['POST']\npath = '/things{n}/{{id}}/pay'")?;
        writeln!(text, "policy = 'p{}'", n % POLICIES)?;
    }
    Ok(text)
}
