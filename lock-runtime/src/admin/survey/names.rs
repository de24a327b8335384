//! Who has a hold or a place that no answer lists: what the store says of it, and what the client was called when it was last
//! heard of.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::collect::Stored;
use super::heard::Answers;
use super::{SurveyedClient, SurveyedHolder, SurveyedPlace, Surveying};
use crate::store::{ProcessNames, StoredHold};

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

    fn get(&self, id: &str) -> Option<String> {
        self.0.lock().get(id).cloned()
    }
}

impl Surveying {
    /// Asks the servers, at most once in a survey, for the names of connections if a holder has not answered that earlier
    /// surveys have not met either. A user without the right to ask gets no names.
    pub(super) async fn learn_names(&mut self, answers: &Answers, stored: &Stored) {
        self.known.learn(answers.processes());
        let holders = stored.by_name.values().flat_map(|found| &found.holders);
        let silent: BTreeSet<_> =
            holders.filter(|hold| hold.thread.is_none()).map(|hold| &*hold.client).collect();
        let is_unknown = |id: &str| !id.is_empty() && self.known.get(id).is_none();
        if self.has_asked || !silent.into_iter().any(is_unknown) {
            return;
        }
        self.has_asked = true;
        let (store, timeout) = self.store();
        match store.processes(timeout).await {
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
    let StoredHold { client, thread, count, .. } = stored;
    let SurveyedPlace { client, client_id, last_known, thread } =
        place(client, thread, clients, names);
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

/// Names the client of that id in the store, if it has answered, or says what it was called.
pub(super) fn place(
    id: String,
    thread: Option<u64>,
    clients: &[SurveyedClient],
    names: &KnownNames,
) -> SurveyedPlace {
    let client = clients.iter().find(|one| one.client.id == id).map(|one| Arc::clone(&one.client));
    let (client_id, last_known) = match client {
        Some(_) => (id, None),
        None => (shortened(&id), names.get(&id)),
    };
    SurveyedPlace { client, client_id, last_known, thread }
}

/// Enough of an id to find the client in a log. With the number of a thread, the whole of it would release a lock.
fn shortened(id: &str) -> String {
    match id.get(..8) {
        Some(beginning) if id.len() > 8 => format!("{beginning}…"),
        _ => id.to_owned(),
    }
}
