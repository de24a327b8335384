//! Checks where locks are kept, as far as the text of an address tells: this module parses no address, because only
//! `store::redis` knows the client library. It refuses no address that `connect` accepts, if the scheme is in small letters
//! and followed by `//`.

use super::Check;
use crate::policy::LockSection;
use crate::policy::address::{Address, LockAddress};

const SCHEMES: [&str; 7] = [
    "redis://",
    "rediss://",
    "unix://",
    "redis+unix://",
    "valkey+unix://",
    "valkey://",
    "valkeys://",
];

/// What to write as an address.
const FORMS: &str = "write redis://host:port, rediss://host:port or unix:///path";

impl Check {
    /// Checks the address. No message shows a possible password in it.
    pub(super) fn address(&mut self, section: &LockSection) -> Option<LockAddress> {
        let LockSection { url, cluster, sentinel, quorum, .. } = section;
        let given = [
            ("url", url.clone().map(LockAddress::of_url)),
            ("cluster", cluster.clone().map(LockAddress::Cluster)),
            ("sentinel", sentinel.clone().map(LockAddress::Sentinel)),
            ("quorum", quorum.clone().map(LockAddress::Quorum)),
        ];
        let given: Vec<_> = given.into_iter().filter_map(|(name, it)| Some((name, it?))).collect();
        if let [(one, _), (other, _), ..] = &given[..] {
            let message =
                format!("is given beside lock.{other}; locks live in one place, keep one");
            self.report(format!("lock.{one}"), message);
        }
        let (name, address) = given.into_iter().next()?;
        let path = format!("lock.{name}");
        match &address {
            LockAddress::Memory => {}
            LockAddress::Server(url) => self.server(&path, url),
            LockAddress::Cluster(nodes) | LockAddress::Quorum(nodes) => self.servers(&path, nodes),
            LockAddress::Sentinel(sentinel) => {
                self.master("lock.sentinel.master", &sentinel.master);
                self.servers("lock.sentinel.nodes", &sentinel.nodes);
            }
        }
        Some(address)
    }

    fn master(&mut self, path: &str, master: &Address) {
        if master.as_str().is_empty() {
            return self.report(path, "is empty; name what the sentinels watch");
        }
        if let Some((scheme, _)) = master.as_str().split_once("://")
            && !["redis", "rediss", "valkey", "valkeys"].contains(&scheme)
        {
            let given = shown(master.as_str());
            let message = format!(
                "{given:?} is no master; write its name, or redis://user:password@name/database \
                 (rediss:// for TLS)"
            );
            self.report(path, message);
        }
    }

    fn servers(&mut self, path: &str, nodes: &[Address]) {
        if nodes.is_empty() {
            self.report(path, "is empty; list at least one address");
        }
        for (at, node) in nodes.iter().enumerate() {
            let path = format!("{path}[{at}]");
            if nodes[..at].contains(node) {
                self.report(&path, "is an address that the list has already; list each once");
            }
            self.server(&path, node);
        }
    }

    fn server(&mut self, path: &str, address: &Address) {
        if let Some(problem) = problem(address.as_str()) {
            self.report(path, format!("{:?} {problem}", shown(address.as_str())));
        }
    }
}

/// Returns the problem of the address of a server.
fn problem(address: &str) -> Option<String> {
    // As the client library does before it parses.
    let address = address.replace(['\t', '\n', '\r'], "");
    let address = address.trim_matches(|c: char| c <= ' ');
    let Some(scheme) = SCHEMES.into_iter().find(|scheme| address.starts_with(scheme)) else {
        return Some(format!("is no address; {FORMS}, or memory: for locks of this process"));
    };
    let rest = &address[scheme.len()..];
    let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = host_and_port(host);
    if scheme.contains("unix") {
        let is_here = authority.is_empty() || host == "localhost";
        let is_path = is_here && behind.starts_with('/');
        return (!is_path).then(|| "has no path; write unix:///path".to_owned());
    }
    // A password with one of these characters ends the part of the address that has the host.
    let encode = if address.contains('@') {
        "; special characters of a password are written as %23 for `#`, %2F for `/`, %3F for `?`"
    } else {
        ""
    };
    if host.is_empty() {
        return Some(format!("has no host; {FORMS}{encode}"));
    }
    // The library takes an empty port for none, and knows no larger number.
    if port.is_some_and(|port| !port.is_empty() && !is_port(port)) {
        return Some(format!(
            "has a port that is no number from 1 to 65535; write it behind the host, as in \
             redis://host:6379{encode}"
        ));
    }
    let database = behind.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
    if !database.is_empty() && database.parse::<i64>().is_err() && !database.contains('.') {
        return Some(format!(
            "has a database that is no number; write it behind the port, as in redis://host:6379/2{encode}"
        ));
    }
    None
}

/// Returns the host, and the text behind its colon.
fn host_and_port(text: &str) -> (&str, Option<&str>) {
    let end = if text.starts_with('[') { text.find(']').map_or(0, |end| end + 1) } else { 0 };
    let colon = text[end..].find(':').map(|at| end + at);
    match colon {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn is_port(port: &str) -> bool {
    // `parse` also takes a plus.
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

/// Returns a refused address without any part that may be a password: as errors of `connect` show one. Without an
/// `@`, what stands behind a scheme may be a user and a password, even a number.
fn shown(address: &str) -> String {
    const HIDDEN: &str = "…";
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) if scheme.chars().all(is_scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), address),
    };
    let (credentials, rest) = match rest.rsplit_once('@') {
        // The password of a socket stands behind the path.
        Some((before, _)) if before.contains(['?', '#']) => return format!("{scheme}{HIDDEN}"),
        Some((_, rest)) => ("…@", rest),
        None => ("", rest),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = host_and_port(authority);
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let has_port = port.is_some_and(is_port);
    let is_known = !credentials.is_empty() || scheme.is_empty() && has_port;
    let port = port.map(|port| if is_known && has_port { port } else { HIDDEN });
    let host = if is_known && host.chars().all(is_host) { host } else { HIDDEN };
    let behind = if rest.len() > authority.len() { "/…" } else { "" };
    match port {
        Some(port) => format!("{scheme}{credentials}{host}:{port}{behind}"),
        None => format!("{scheme}{credentials}{host}{behind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_parsed_says_why() {
        for (address, shown_as, reason) in [
            ("localhost:6379", "localhost:6379", "is no address; write redis://host:port"),
            ("secret", "…", "is no address"),
            ("redis//:secret@one", "…@one", "is no address"),
            ("http://user:secret@one:80/x", "http://…@one:80/…", "is no address"),
            ("redis://u:secret@h:abc", "redis://…@h:…", "has a port that is no number"),
            ("redis://h:99999", "redis://…:…", "has a port that is no number"),
            ("redis://h:+1", "redis://…:…", "has a port that is no number"),
            ("redis://user:secret", "redis://…:…", "has a port that is no number"),
            ("redis://:sec/ret@h", "redis://…@h", "has no host"),
            ("redis://", "redis://…", "has no host"),
            ("redis://:secret@", "redis://…@", "has no host"),
            ("redis://h:1/two", "redis://…:…/…", "has a database that is no number"),
            ("redis://@h:1/two", "redis://…@h:1/…", "has a database that is no number"),
            ("redis://user:4711/x", "redis://…:…/…", "has a database that is no number"),
            ("redis://:4711", "redis://…:…", "has no host"),
            ("unix://run/x?pass=sec@ret", "unix://…", "has no path; write unix:///path"),
            ("redis://secret/h", "redis://…/…", "has a database that is no number"),
            ("unix://run/x", "unix://…/…", "has no path; write unix:///path"),
        ] {
            assert_eq!(shown(address), shown_as, "{address}");
            let problem = problem(address).unwrap_or_default();
            assert!(problem.contains(reason), "{address}: {problem:?}");
        }
    }

    #[test]
    fn an_address_that_can_be_parsed_is_accepted() {
        for address in [
            "redis://h",
            "redis://h:",
            "redis://h:6379/",
            "redis://h:6379/2?protocol=resp3",
            "rediss://user:p%23w@[::1]:6380/2#insecure",
            "redis://[::1]",
            "redis://h/?x=/a:b",
            " valkey://h:1 ",
            "unix:///run/redis.sock?db=2",
        ] {
            assert_eq!(problem(address), None, "{address}");
        }
    }
}
