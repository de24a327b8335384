//! The name that connections have on a server.

use std::sync::Arc;

use uuid::Uuid;

use crate::process::{executable, host_name};
use crate::store::new_id;

const PREFIX: &str = "lock-runtime:";

/// The name of a client's connections: `lock-runtime:{id}:{service}@{host}:{pid}`.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionName {
    /// The client: the store knows its holds by it.
    pub(crate) id: Uuid,
    process: Arc<str>,
}

impl ConnectionName {
    /// A new client of this process, which belongs to that service.
    pub(crate) fn new(service: Option<&str>) -> Self {
        let service = service.map_or_else(executable, str::to_owned);
        let process = format!("{service}@{}:{}", host_name(), std::process::id());
        // A server refuses a name with any other character.
        let allowed = |it: char| if it.is_ascii_graphic() { it } else { '_' };
        Self { id: new_id(), process: process.chars().map(allowed).collect::<String>().into() }
    }

    /// The name as the server has it.
    pub(crate) fn text(&self) -> String {
        format!("{PREFIX}{}:{}", self.id, self.process)
    }
}

/// The clients in an answer to CLIENT LIST, each with its process: `service@host:pid`.
pub(crate) fn named(list: &str) -> impl Iterator<Item = (String, String)> {
    list.lines().filter_map(|line| {
        let name = line.split(' ').find_map(|part| part.strip_prefix("name="))?;
        let (id, process) = name.strip_prefix(PREFIX)?.split_once(':')?;
        Some((id.to_owned(), process.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let name = ConnectionName::new(Some("a b:c\n"));
        let list = format!(
            "id=3 addr=127.0.0.1:1 name= db=0\nid=4 name=lock-runtime:{} db=0\n\
             id=5 name=other:x:y db=0\nid=6 name={} db=0\n",
            new_id(),
            name.text()
        );
        let found: Vec<_> = named(&list).collect();
        let [(id, process)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(*id, name.id.to_string());
        assert!(process.starts_with("a_b:c_@"), "{process}");
        assert!(process.ends_with(&format!(":{}", std::process::id())), "{process}");
    }
}
