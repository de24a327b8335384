//! The addresses of the sentinels, and of their master by its name.

use redis::{Client, ConnectionAddr, ConnectionInfo};

use super::Sentinels;
use super::node::Node;
use crate::error::StoreError;
use crate::store::redis::server::TlsOptions;
use crate::store::redis::server::address::{client, elsewhere, has_port};
use crate::store::redis::server::errors::{Cause, config_error};

/// The port of a sentinel whose address names none.
const PORT: u16 = 26379;

/// The name of a master, and how to connect to the server that the sentinels name.
pub(crate) struct MasterName {
    pub(super) name: String,
    /// Its credentials, database and TLS count; its address does not.
    model: Client,
}

impl MasterName {
    /// From a name, or an address whose host is the name.
    fn parse(master: &str, tls: Option<&TlsOptions>) -> Result<Self, StoreError> {
        let url = match master.contains("://") {
            true => master.to_owned(),
            // Other text may be a user and a password: it must neither be shown nor parsed as an address.
            false if is_name(master) => format!("redis://{master}"),
            false => return Err(no_name()),
        };
        let model = client(&url, tls)?;
        let name = match model.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => return Err(no_name()),
        };
        if !is_name(&name) || has_port(&url) {
            return Err(no_name());
        }
        Ok(Self { name, model })
    }

    /// A client for the server that is the master now.
    pub(super) fn client(&self, host: &str, port: u16) -> Result<Client, StoreError> {
        at(self.model.get_connection_info(), host.to_owned(), port)
    }
}

/// True if sentinels accept it as the name of a master.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
}

fn no_name() -> StoreError {
    config_error(
        "this is not the name of a master; write the name that the sentinels know, of letters, digits and `.-_`, \
         or redis://user:password@name/database without a port",
    )
}

impl Sentinels {
    /// The number of the master's database.
    pub(crate) fn database(&self) -> i64 {
        self.name.model.get_connection_info().redis_settings().db()
    }

    /// The sentinels at the addresses `urls`, and the master that they are asked for.
    pub(crate) fn parse<U: AsRef<str>>(
        master: &str,
        urls: impl IntoIterator<Item = U>,
        tls: Option<&TlsOptions>,
    ) -> Result<Self, StoreError> {
        let master = MasterName::parse(master, tls)?;
        let nodes = urls.into_iter().map(|url| node(url.as_ref(), tls).map(Node::new));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        if nodes.is_empty() {
            return Err(config_error(
                "there is no sentinel to ask; name at least one, better all of them",
            ));
        }
        Ok(Self::new(master, nodes))
    }
}

fn node(url: &str, tls: Option<&TlsOptions>) -> Result<Client, StoreError> {
    let client = client(url, tls)?;
    let info = client.get_connection_info();
    if info.redis_settings().db() != 0 {
        return Err(config_error(
            "a sentinel has no databases; write the database into the master: redis://name/database",
        ));
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
        config_error("the address of a sentinel, or of the server that it names, cannot be used")
            .with_source(Cause(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let found = MasterName::parse(master, None).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(found.name, name, "{master}");
            let made = found.client("::1", 7).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(address(&made), ("::1:7".to_owned(), db));
            let model = found.model.get_connection_info().redis_settings();
            let made = made.get_connection_info().redis_settings();
            assert_eq!((made.username(), made.password()), (model.username(), model.password()));
        }
        for none in ["", "user:pw@locks", "a b", "redis://locks:26379", "unix:///locks", "redis://"]
        {
            assert!(MasterName::parse(none, None).is_err(), "{none}");
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
            let node = node(url, None).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(address(&node), (expected.to_owned(), 0), "{url}");
        }
        assert!(node("redis://one/1", None).is_err());
    }
}
