//! How long ago the server started.
// S-29.

use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::Instant;

use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::link::Link;
use crate::store::redis::requests::answer::surprise;

/// What is known of it: asked once for each connection, since no restart leaves one alive.
#[derive(Default)]
pub(crate) struct Age(Mutex<Option<Known>>);

#[derive(Clone, Copy)]
struct Known {
    connection: u64,
    age: Duration,
    at: Instant,
}

impl Age {
    pub(crate) async fn of(&self, link: &Link, timeout: Duration) -> Result<Duration, StoreError> {
        // Before the question: an answer over a later connection counts for this one in vain.
        let connection = link.connection();
        if let Some(known) = *self.0.lock()
            && connection == Some(known.connection)
        {
            return Ok(known.age + known.at.elapsed());
        }
        let at = Instant::now();
        let mut info = redis::cmd("INFO");
        info.arg("server");
        let answer = link.call(&info, at + timeout).await?;
        let text = match &answer {
            Value::BulkString(text) => String::from_utf8_lossy(text),
            Value::VerbatimString { text, .. } => text.as_str().into(),
            _ => return Err(surprise(&answer)),
        };
        let Some(age) = uptime(&text) else {
            let message = "the server does not say how long it has been up";
            return Err(StoreError::new(StoreErrorKind::Protocol, message));
        };
        if let Some(connection) = connection {
            let known = Some(Known { connection, age, at });
            *self.0.lock() = known;
        }
        Ok(age)
    }
}

fn uptime(info: &str) -> Option<Duration> {
    let seconds = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"))?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uptime_is_read() {
        let info = "# Server\r\nuptime_in_seconds:75\r\nuptime_in_days:0\r\n";
        assert_eq!(uptime(info), Some(Duration::from_secs(75)));
        assert_eq!(uptime("# Server\r\n"), None);
    }
}
