//! The answer to CLUSTER SLOTS.

use std::fmt;

use redis::Value;

use crate::store::redis::server::slot::SLOTS;

/// A host and a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Adjacent slots, and the master that has them.
pub(crate) struct Range {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) owner: NodeAddress,
}

impl NodeAddress {
    /// The address `host:port` in a redirection by `asked`, whose host is used if it names none.
    pub(crate) fn parse(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Self { host: host_or(host, asked), port: port.parse().ok()? })
    }
}

fn host_or(host: &str, asked: &NodeAddress) -> String {
    // A node that does not know its own address or name says this.
    if matches!(host, "" | "?") { asked.host.clone() } else { host.to_owned() }
}

/// Reads the answer to CLUSTER SLOTS of the node `asked`.
pub(crate) fn ranges(answer: &Value, asked: &NodeAddress) -> Option<Vec<Range>> {
    let Value::Array(ranges) = answer else { return None };
    let range = |range: &Value| {
        let Value::Array(parts) = range else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &parts[..] else {
            return None;
        };
        let [host, Value::Int(port), ..] = &master[..] else { return None };
        let host = match host {
            Value::Nil => "",
            Value::BulkString(host) => std::str::from_utf8(host).ok()?,
            Value::SimpleString(host) => host,
            _ => return None,
        };
        let slot = |number: i64| u16::try_from(number).ok().filter(|slot| *slot < SLOTS);
        let owner = NodeAddress { host: host_or(host, asked), port: u16::try_from(*port).ok()? };
        Some(Range { first: slot(*first)?, last: slot(*last)?, owner })
    };
    ranges.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |host: Value| Value::Array(vec![host, Value::Int(7000), text("id")]);
        let range = |host| Value::Array(vec![Value::Int(0), Value::Int(100), node(host)]);
        let asked = NodeAddress { host: "seed".to_owned(), port: 7001 };
        for (host, expected) in [(text("a"), "a"), (text(""), "seed"), (Value::Nil, "seed")] {
            let read = ranges(&Value::Array(vec![range(host)]), &asked).unwrap();
            assert_eq!((read[0].first, read[0].last), (0, 100));
            assert_eq!((&*read[0].owner.host, read[0].owner.port), (expected, 7000));
        }
        assert!(ranges(&Value::Nil, &asked).is_none());
        let moved = NodeAddress::parse("::1:7002", &asked).unwrap();
        assert_eq!((&*moved.host, moved.port), ("::1", 7002));
        assert_eq!(NodeAddress::parse(":7002", &asked).unwrap().host, "seed");
    }
}
