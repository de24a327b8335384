//! Making a survey: asks the clients and the store, and joins what they say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::wire::{Answer, HoldLine, Identity, Request, WaitLine};
use super::{
    Survey, SurveyedClient, SurveyedHolder, SurveyedLock, SurveyedProcess, SurveyedWaiter,
    Surveying, graph, uuid,
};
use crate::error::{LockError, check_runtime};
use crate::key::LockKey;
use crate::store::{Inspection, NamesCursor};

/// How many parts of answers wait to be read. Clients that send more than the survey can read are cut.
const PARTS: usize = 4_096;

/// How many locks of the store are looked at, at once.
const AT_ONCE: usize = 64;

/// What one client has answered so far.
struct Heard {
    identity: Identity,
    holds: Vec<HoldLine>,
    waits: Vec<WaitLine>,
    is_whole: bool,
    is_cut: bool,
    answered_in: Duration,
}

/// What the clients have answered.
#[derive(Default)]
struct Answers {
    by_client: BTreeMap<Uuid, Heard>,
    missing: usize,
}

impl Surveying {
    pub(super) async fn make(self) -> Result<Survey, LockError> {
        check_runtime()?;
        let survey = self.look().await?;
        let candidates = graph::deadlocks(&survey.locks);
        if candidates.is_empty() {
            return Ok(survey);
        }
        // The processes answered one after the other, so a circle may never have been closed. One that is there before
        // and after a moment was closed in that moment.
        let mut survey = self.look().await?;
        survey.deadlocks = graph::in_both(&candidates, graph::deadlocks(&survey.locks));
        Ok(survey)
    }

    async fn look(&self) -> Result<Survey, LockError> {
        let answers = self.ask_clients().await?;
        let (stored, is_whole) = self.ask_store(&answers).await?;
        Ok(join(answers, stored, is_whole))
    }

    /// Publishes a request, and collects answers until all have come or the time is over.
    async fn ask_clients(&self) -> Result<Answers, LockError> {
        let (store, timeout) = (&self.engine.leases.store, self.engine.leases.timing.command_timeout);
        let request = Request::new(self.full_prefix(), self.limit);
        let (to, mut parts) = mpsc::channel(PARTS);
        let channel = request.reply_channel(&self.channel);
        let on_message = Arc::new(move |message: &[u8]| drop(to.try_send(message.to_vec())));
        let _listening = store.listen(&channel, on_message);
        store.listened(&channel, timeout).await?;
        let start = Instant::now();
        let asked = store.publish(&self.channel, &request.to_json(), timeout).await?;
        let (asked, mut answers) = (usize::try_from(asked).unwrap_or(usize::MAX), Answers::default());
        while answers.whole() < asked {
            let Ok(Some(part)) = timeout_at(start + self.within, parts.recv()).await else { break };
            if let Some(part) = Answer::read(&part, request.id) {
                answers.add(part, start.elapsed());
            }
        }
        answers.missing = asked.saturating_sub(answers.whole());
        Ok(answers)
    }

    /// Looks up the locks in the store, and those that clients named. False if not all of them.
    async fn ask_store(
        &self,
        answers: &Answers,
    ) -> Result<(BTreeMap<LockKey, Option<Inspection>>, bool), LockError> {
        let (store, timeout) = (&self.engine.leases.store, self.engine.leases.timing.command_timeout);
        let mut names = answers.names();
        let (prefix, mut from) = (self.full_prefix(), Some(NamesCursor::start()));
        let mut is_whole = true;
        while let Some(cursor) = from.take() {
            match store.names(&prefix, cursor, timeout).await {
                Ok(page) => {
                    names.extend(page.names);
                    from = page.next;
                }
                Err(error) => {
                    tracing::debug!(%error, "a survey cannot list the names in the store");
                    is_whole = false;
                }
            }
            if names.len() > self.limit {
                is_whole = false;
                break;
            }
        }
        let look = |key: LockKey| async move {
            let found = store.inspect(&key, timeout).await.ok();
            (key, found)
        };
        let found = stream::iter(names).map(look).buffer_unordered(AT_ONCE);
        Ok((found.collect().await, is_whole))
    }
}

impl Answers {
    fn whole(&self) -> usize {
        self.by_client.values().filter(|heard| heard.is_whole).count()
    }

    fn add(&mut self, part: Answer, answered_in: Duration) {
        let Answer { client: identity, holds, waits, more, cut, .. } = part;
        let heard = self.by_client.entry(identity.id).or_insert_with(|| Heard {
            identity,
            holds: Vec::new(),
            waits: Vec::new(),
            is_whole: false,
            is_cut: false,
            answered_in,
        });
        if heard.is_whole {
            // A store of several servers delivers messages several times.
            return;
        }
        heard.holds.extend(holds);
        heard.waits.extend(waits);
        heard.is_cut |= cut;
        heard.is_whole = !more;
        heard.answered_in = answered_in;
    }

    fn names(&self) -> std::collections::BTreeSet<LockKey> {
        let heard = self.by_client.values();
        let names = heard.flat_map(|heard| {
            let held = heard.holds.iter().map(|hold| &hold.name);
            held.chain(heard.waits.iter().map(|wait| &wait.name))
        });
        names.filter_map(|name| LockKey::new(name.clone()).ok()).collect()
    }
}

/// Puts what clients say of their holds and waits beside what the store says.
fn join(
    answers: Answers,
    stored: BTreeMap<LockKey, Option<Inspection>>,
    is_whole: bool,
) -> Survey {
    let Answers { by_client, missing } = answers;
    let mut is_complete = is_whole && missing == 0;
    let mut locks: BTreeMap<LockKey, SurveyedLock> = BTreeMap::new();
    let mut clients = Vec::new();
    for heard in by_client.into_values() {
        let client = Arc::new(SurveyedProcess::from(&heard.identity));
        is_complete &= !heard.is_cut;
        clients.push(SurveyedClient {
            client: Arc::clone(&client),
            holds: heard.holds.len(),
            waits: heard.waits.len(),
            answered_in: heard.answered_in,
            is_cut: heard.is_cut,
        });
        for hold in heard.holds {
            if let Some(lock) = row(&mut locks, &hold.name) {
                lock.kind.get_or_insert(hold.kind);
                lock.holders.push(holder(&client, hold));
            }
        }
        for wait in heard.waits {
            if let Some(lock) = row(&mut locks, &wait.name) {
                lock.waiters.push(waiter(&client, wait));
            }
        }
    }
    for (key, found) in stored {
        let Some(found) = found else { continue };
        if let Some(lock) = row(&mut locks, key.as_str()) {
            add_stored(lock, found);
        }
    }
    let mut locks: Vec<_> = locks.into_values().collect();
    locks.retain(|lock| !lock.holders.is_empty() || !lock.waiters.is_empty() || lock.waiting_in_store > 0);
    for lock in &mut locks {
        lock.waiters.sort_by_key(|waiter| std::cmp::Reverse(waiter.waited_for));
    }
    clients.sort_by_key(|one| (one.client.service.clone(), one.client.host.clone(), one.client.pid));
    Survey { clients, locks, missing, is_complete, deadlocks: Vec::new() }
}

fn row<'a>(
    locks: &'a mut BTreeMap<LockKey, SurveyedLock>,
    name: &str,
) -> Option<&'a mut SurveyedLock> {
    let key = LockKey::new(name.to_owned()).ok()?;
    Some(locks.entry(key.clone()).or_insert_with(|| SurveyedLock {
        key,
        kind: None,
        remaining: None,
        holders: Vec::new(),
        waiters: Vec::new(),
        waiting_in_store: 0,
    }))
}

fn holder(client: &Arc<SurveyedProcess>, hold: HoldLine) -> SurveyedHolder {
    let HoldLine { hold, held_for, left, site, policy, .. } = hold;
    SurveyedHolder {
        client: Some(Arc::clone(client)),
        client_id: client.id.clone(),
        count: 1,
        held_for: Some(held_for),
        remaining: Some(left),
        site,
        policy,
        hold: Some(hold),
    }
}

fn waiter(client: &Arc<SurveyedProcess>, wait: WaitLine) -> SurveyedWaiter {
    let WaitLine { began, kind, waited_for, place, site, inside, .. } = wait;
    let client = Arc::clone(client);
    SurveyedWaiter { client, kind, waited_for, place, site, began, inside }
}

/// Adds what the store says of a lock: how often each holder has it, and holders that no process claims.
fn add_stored(lock: &mut SurveyedLock, found: Inspection) {
    // The store cannot tell a fair mutex from a plain one.
    let is_known = lock.kind == Some(crate::store::HoldKind::Fair);
    lock.kind = if is_known { lock.kind } else { found.kind.or(lock.kind) };
    lock.remaining = found.remaining;
    lock.waiting_in_store = found.waiting;
    for stored in found.holders {
        let id = uuid(&stored.client).map(|id| id.to_string()).unwrap_or(stored.client);
        match lock.holders.iter_mut().find(|holder| holder.client_id == id && holder.client.is_some()) {
            Some(holder) => holder.count = stored.count,
            None => lock.holders.push(SurveyedHolder {
                client: None,
                client_id: id,
                count: stored.count,
                held_for: None,
                remaining: None,
                site: None,
                policy: None,
                hold: None,
            }),
        }
    }
}
