//! A large configuration: 200 policies and 1000 routes.

use std::fmt::Write as _;

use lock_runtime::LockClient;
use lock_runtime::policy::LockConfig;
use lock_tower::LockLayer;

use crate::Result;

const POLICIES: usize = 200;
const ROUTES: usize = 1000;

/// Reads the configuration so many times, and makes a layer of it each time.
///
/// # Errors
///
/// When the configuration is not accepted.
pub(crate) fn repeat(count: u32) -> Result<()> {
    let text = text()?;
    for _ in 0..count {
        let config = LockConfig::from_toml(&text)?;
        let client = LockClient::builder().config(config).in_memory()?;
        drop(LockLayer::routes(&client)?);
    }
    Ok(())
}

/// A configuration as TOML.
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
