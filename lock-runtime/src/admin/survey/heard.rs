//! What clients have answered, part by part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::SurveyedProcess;
use super::wire::{Answer, HoldLine, WaitLine};
use crate::key::LockKey;
use crate::store::ProcessNames;

/// What one client has answered so far.
pub(super) struct Heard {
    pub(super) client: Arc<SurveyedProcess>,
    pub(super) holds: Vec<HoldLine>,
    pub(super) waits: Vec<WaitLine>,
    /// The numbers of the parts that came, and of the last part.
    parts: BTreeSet<u32>,
    last_part: Option<u32>,
    pub(super) is_cut: bool,
    pub(super) answered_in: Duration,
}

impl Heard {
    fn is_whole(&self) -> bool {
        self.last_part.is_some_and(|last| self.parts.len() > last as usize)
    }
}

/// What the clients have answered.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) by_client: BTreeMap<String, Heard>,
    pub(super) missing: usize,
}

impl Answers {
    pub(super) fn whole(&self) -> usize {
        self.by_client.values().filter(|heard| heard.is_whole()).count()
    }

    pub(super) fn add(&mut self, answer: Answer, limit: usize, answered_in: Duration) {
        let Answer { client, part, holds, waits, more, cut, .. } = answer;
        let heard = self.by_client.entry(client.id.clone()).or_insert_with(|| Heard {
            client,
            holds: Vec::new(),
            waits: Vec::new(),
            parts: BTreeSet::new(),
            last_part: None,
            is_cut: false,
            answered_in,
        });
        // A store of several servers delivers each part several times.
        if heard.is_whole() || !heard.parts.insert(part) {
            return;
        }
        heard.holds.extend(holds);
        heard.waits.extend(waits);
        heard.is_cut |= cut || heard.holds.len() > limit || heard.waits.len() > limit;
        heard.holds.truncate(limit);
        heard.waits.truncate(limit);
        if !more {
            heard.last_part = Some(part);
        }
        heard.answered_in = answered_in;
    }

    /// The processes that have answered, by the ids that their holders have in the store.
    pub(super) fn processes(&self) -> ProcessNames {
        let clients = self.by_client.values().map(|heard| &heard.client);
        clients.map(|client| (client.id.clone(), client.to_string())).collect()
    }

    pub(super) fn names(&self) -> BTreeSet<LockKey> {
        let heard = self.by_client.values();
        let names = heard.flat_map(|heard| {
            let held = heard.holds.iter().map(|hold| &hold.name);
            held.chain(heard.waits.iter().map(|wait| &wait.name))
        });
        names.filter_map(|name| LockKey::new(name).ok()).collect()
    }
}
