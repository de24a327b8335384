//! Who has a hold or a place that no answer lists: what the store says of it, and what the client was called when it was last
//! heard of.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::collect::Stored;
use super::heard::Answers;
use super::{SurveyedClient, SurveyedHolder, SurveyedPlace, SurveyedProcess, Surveying};
use crate::store::{ProcessNames, StoredHold, StoredWaiter};

/// How many names are kept. More are those of clients that ended long ago.
const MOST: usize = 20_000;

/// The processes of the clients that earlier surveys of the same client have met, by the ids that their holders have in the
/// store: one that hangs may have lost its connections.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<ProcessNames>);

impl KnownNames {
    fn learn(&self, names: ProcessNames) {
        let mut known = self.0.lock();
        known.extend(names.iter().map(|(id, name)| (id.clone(), name.clone())));
        if known.len() > MOST {
            *known = names;
        }
    }

    fn knows(&self, id: &str) -> bool {
        self.0.lock().contains_key(id)
    }

    fn get(&self, id: &str) -> Option<String> {
        self.0.lock().get(id).cloned()
    }
}

impl Surveying {
    /// Asks the servers, at most once in a survey, for the names of connections if a holder has not answered that earlier
    /// surveys have not met either. A user without the right to ask gets no names.
    pub(super) async fn learn_names(
        &self,
        answers: &Answers,
        stored: &Stored,
        has_asked: &mut bool,
    ) {
        self.known.learn(answers.processes());
        let holders = stored.by_name.values().flat_map(|found| &found.holders);
        let silent: BTreeSet<_> =
            holders.filter(|hold| hold.thread.is_none()).map(|hold| &*hold.client).collect();
        let is_unknown = |id: &str| !id.is_empty() && !self.known.knows(id);
        if *has_asked || !silent.into_iter().any(is_unknown) {
            return;
        }
        *has_asked = true;
        let leases = &self.engine.leases;
        match leases.store.processes(leases.timing.command_timeout).await {
            Ok(names) => self.known.learn(names),
            Err(error) => tracing::debug!(%error, "the names of connections are not known"),
        }
    }
}

/// A hold that no answer lists: its client does not answer, or acquired it in the meantime.
pub(super) fn unclaimed(
    stored: StoredHold,
    clients: &[SurveyedClient],
    names: &KnownNames,
) -> SurveyedHolder {
    let StoredHold { client: id, thread, count, .. } = stored;
    let Identified { client, client_id, last_known } = identified(id, clients, names);
    SurveyedHolder {
        client,
        client_id,
        last_known,
        thread,
        count,
        held_for: None,
        remaining: None,
        site: None,
        policy: None,
        hold: None,
    }
}

pub(super) fn place(
    waiter: StoredWaiter,
    clients: &[SurveyedClient],
    names: &KnownNames,
) -> SurveyedPlace {
    let StoredWaiter { client: id, thread } = waiter;
    let Identified { client, client_id, last_known } = identified(id, clients, names);
    SurveyedPlace { client, client_id, last_known, thread }
}

struct Identified {
    client: Option<Arc<SurveyedProcess>>,
    /// The id to show.
    client_id: String,
    last_known: Option<String>,
}

/// The client of an id in the store, if it has answered, or what it was called.
fn identified(id: String, clients: &[SurveyedClient], names: &KnownNames) -> Identified {
    let client = clients.iter().find(|one| one.client.id == id).map(|one| Arc::clone(&one.client));
    match client {
        Some(_) => Identified { client, client_id: id, last_known: None },
        None => Identified { client, client_id: shortened(&id), last_known: names.get(&id) },
    }
}

/// Enough of an id to find the client in a log. With the number of a thread, the whole of it would release a lock.
fn shortened(id: &str) -> String {
    match id.get(..8) {
        Some(beginning) if id.len() > 8 => format!("{beginning}…"),
        _ => id.to_owned(),
    }
}
