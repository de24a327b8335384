//! What is said of sentinels and of their master, in addresses.

use redis::{Client, ConnectionAddr, ConnectionInfo};

use super::node::Node;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::server::address::{elsewhere, has_port};
use crate::store::redis::server::errors::Cause;

/// Makes a client of an address.
pub(crate) type ToClient<'a> = &'a dyn Fn(&str) -> Result<Client, StoreError>;

/// The port of a sentinel that is told none.
const PORT: u16 = 26379;

/// The master: its name, and how one connects to whichever server has it.
pub(crate) struct Master {
    name: String,
    /// To a server of that name: the credentials, the database and the TLS are right, the address is not.
    model: Client,
}

impl Master {
    /// From a name, or an address with the name for a host.
    pub(crate) fn parse(master: &str, to_client: ToClient<'_>) -> Result<Self, StoreError> {
        let url = match master.contains("://") {
            true => master.to_owned(),
            // Of text that is no name nothing must show, nor must it become a user and a host.
            false if is_name(master) => format!("redis://{master}"),
            false => return Err(no_name()),
        };
        let model = to_client(&url)?;
        let name = match model.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => return Err(no_name()),
        };
        if !is_name(&name) || has_port(&url) {
            return Err(no_name());
        }
        Ok(Self { name, model })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A client for the server that is the master now.
    pub(crate) fn client(&self, host: &str, port: u16) -> Result<Client, StoreError> {
        at(self.model.get_connection_info(), host.to_owned(), port)
    }
}

/// What a sentinel lets a master be called.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
}

fn no_name() -> StoreError {
    let message = "this is no master that sentinels know; give its name, of letters, digits and \
                   `.-_`, or redis://user:password@name/database without a port";
    StoreError::new(StoreErrorKind::Config, message)
}

/// The sentinels at these addresses.
pub(crate) fn nodes<U: AsRef<str>>(
    urls: impl IntoIterator<Item = U>,
    to_client: ToClient<'_>,
) -> Result<Vec<Node>, StoreError> {
    let nodes = urls.into_iter().map(|url| node(url.as_ref(), to_client).map(Node::new));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    if nodes.is_empty() {
        let message = "there is no sentinel to ask; name at least one, better all of them";
        return Err(StoreError::new(StoreErrorKind::Config, message));
    }
    Ok(nodes)
}

fn node(url: &str, to_client: ToClient<'_>) -> Result<Client, StoreError> {
    let client = to_client(url)?;
    let info = client.get_connection_info();
    if info.redis_settings().db() != 0 {
        let message = "a sentinel has no databases; the master's belongs into the master: \
                       redis://name/database";
        return Err(StoreError::new(StoreErrorKind::Config, message));
    }
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } if !has_port(url) => {
            at(info, host.clone(), PORT)
        }
        _ => Ok(client),
    }
}

fn at(model: &ConnectionInfo, host: String, port: u16) -> Result<Client, StoreError> {
    elsewhere(model, host, port).map_err(|error| {
        let message = "the address of a sentinel, or of the server that it names, cannot be used";
        StoreError::new(StoreErrorKind::Config, message).with_source(Cause(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::server::address::client;

    fn address(client: &Client) -> (String, i64) {
        let info = client.get_connection_info();
        (info.addr().to_string(), info.redis_settings().db())
    }

    #[test]
    fn a_master_is_a_name_or_an_address_with_it() {
        for (master, name, db) in [
            ("locks", "locks", 0),
            ("My-Master_1.x", "My-Master_1.x", 0),
            ("redis://My-Master_1.x", "My-Master_1.x", 0),
            ("redis://user:p%40ss@locks/2", "locks", 2),
        ] {
            let found = Master::parse(master, &client).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(found.name(), name, "{master}");
            let made = found.client("::1", 7).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(address(&made), ("::1:7".to_owned(), db));
            let model = found.model.get_connection_info().redis_settings();
            let made = made.get_connection_info().redis_settings();
            assert_eq!((made.username(), made.password()), (model.username(), model.password()));
        }
        for none in ["", "user:pw@locks", "a b", "redis://locks:26379", "unix:///locks", "redis://"]
        {
            assert!(Master::parse(none, &client).is_err(), "{none}");
        }
    }

    #[test]
    fn a_sentinel_listens_on_its_own_port_unless_told_otherwise() {
        for (url, expected) in [
            ("redis://one", "one:26379"),
            ("redis://one/", "one:26379"),
            ("redis://user:p%3A1@one", "one:26379"),
            ("redis://[::1]", "::1:26379"),
            ("redis://one:6379", "one:6379"),
            ("redis://:pw@[::1]:5", "::1:5"),
            ("unix:///run/sentinel.sock", "/run/sentinel.sock"),
        ] {
            let node = node(url, &client).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(address(&node), (expected.to_owned(), 0), "{url}");
        }
        assert!(node("redis://one/1", &client).is_err());
    }
}
