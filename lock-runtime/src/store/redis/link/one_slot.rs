//! Whether a script may have names of different slots.
//!
//! Some services answer for a whole cluster behind one address. A script with keys of two slots does not run there
//! (CROSSSLOT). The server's answer to HELLO tells that at once, unless a proxy stands before it; then the first such
//! refusal does. Either is remembered for all connections of the store.
// S-40.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::Link;

/// True once the server is known to be a cluster. The links of a store share it.
pub(super) type FoundCluster = Arc<AtomicBool>;

impl Link {
    /// True if a script must have the names of one slot.
    pub(crate) fn is_cluster(&self) -> bool {
        self.unsubscribed.is_some() || self.found_cluster.load(Ordering::Relaxed)
    }

    /// Remembers that a cluster answers behind this address. Logs a warning, once.
    pub(super) fn find_cluster(&self) {
        if self.unsubscribed.is_none() && !self.found_cluster.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                server = %self.address(),
                "this address is a cluster; connect to it with `connect_cluster`, or as lock.cluster"
            );
        }
    }

    /// Asks a new connection whether the server is a cluster. Any user may ask that, unlike INFO.
    pub(super) async fn ask_for_cluster(&self, mut connection: MultiplexedConnection) {
        if self.is_cluster() {
            return;
        }
        let hello = redis::cmd("HELLO").query_async(&mut connection).await;
        if hello.is_ok_and(|answer| says_cluster(&answer)) {
            self.find_cluster();
        }
    }
}

/// True if an answer to HELLO says that the server is a node of a cluster.
fn says_cluster(answer: &Value) -> bool {
    let Value::Map(fields) = answer else { return false };
    let is = |value: &Value, text: &str| match value {
        Value::BulkString(value) => value == text.as_bytes(),
        Value::SimpleString(value) => value == text,
        _ => false,
    };
    fields.iter().any(|(name, value)| is(name, "mode") && is(value, "cluster"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mode_tells() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let map = |name, value| Value::Map(vec![(text("proto"), Value::Int(3)), (name, value)]);
        assert!(says_cluster(&map(text("mode"), text("cluster"))));
        for other in [
            map(text("mode"), text("standalone")),
            map(text("server"), text("cluster")),
            map(text("mode"), Value::Nil),
            Value::Array(vec![text("mode"), text("cluster")]),
        ] {
            assert!(!says_cluster(&other), "{other:?}");
        }
    }
}
