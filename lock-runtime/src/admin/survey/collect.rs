//! Making a survey: asks the clients and the store, and joins what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::graph::Waits;
use super::heard::Answers;
use super::names::{KnownNames, place, unclaimed};
use super::wire::{Answer, HoldLine, LONGEST_ANSWER, Request, WaitLine, to_json};
use super::{
    Survey, SurveyedClient, SurveyedHolder, SurveyedLock, SurveyedProcess, SurveyedWaiter,
    Surveying,
};
use crate::error::{LockError, StoreError, StoreErrorKind};
use crate::key::{LockKey, check_prefix};
use crate::store::{HoldKind, Inspection, NamesCursor};

/// After this time, and then after twice as long each, clients that have not answered are asked again.
const ASK_AGAIN: Duration = Duration::from_millis(400);

/// How many parts of answers wait to be read. Clients that send more than the survey can read are cut.
const PARTS: usize = 4_096;

/// How long a survey waits for answers at most, where a longer time has no end.
const FOREVER: Duration = Duration::from_secs(24 * 3_600);

/// The count of a holder that the store has not named yet.
const UNCOUNTED: u32 = 0;

/// How many locks of the store are looked at, at once.
const AT_ONCE: usize = 64;

/// What the store says.
#[derive(Clone, Default)]
pub(super) struct Stored {
    /// The names that were listed.
    names: BTreeSet<LockKey>,
    /// The names that were looked at and are locks.
    pub(super) by_name: BTreeMap<LockKey, Inspection>,
    /// True if the limit, the time or the pages have left names out.
    is_cut: bool,
    /// Why the names could not be listed, or some of them not be looked at.
    failed: Option<StoreError>,
}

impl Surveying {
    pub(super) async fn make(mut self) -> Result<Survey, LockError> {
        self.engine.leases.check_caller()?;
        check_prefix(&self.full_prefix())?;
        if self.is_name {
            LockKey::new(self.full_prefix())?;
        }
        let (answers, listed) = tokio::join!(self.ask_clients(), self.list());
        let mut survey = self.look(answers?, listed.clone()).await;
        let waits = Waits::of(&survey.locks, true);
        let (is_cut, was_complete) = (waits.is_cut, survey.is_complete);
        if waits.is_empty() {
            survey.cut_if(is_cut);
            return Ok(survey);
        }
        // The processes answered one after the other, so a circle may never have been closed. Waits that are there before
        // and after a moment were there in that moment.
        let earlier = waits.ids();
        let answers = self.ask_clients().await?;
        let mut survey = self.look(answers, listed).await;
        survey.deadlocks = Waits::of(&survey.locks, false).met_before(&earlier).deadlocks(false);
        let guessed = Waits::of(&survey.locks, true).met_before(&earlier);
        survey.possible_deadlocks = guessed.deadlocks(true);
        survey.cut_if(is_cut || guessed.is_cut);
        survey.is_complete &= was_complete;
        Ok(survey)
    }

    /// Joins what clients have answered with what the store says of the locks that they named and of those listed.
    async fn look(&mut self, answers: Answers, listed: Stored) -> Survey {
        let stored = match self.asks_store {
            true => self.ask_store(&answers, listed).await,
            false => listed,
        };
        self.learn_names(&answers, &stored).await;
        let mut survey = join(answers, stored, &self.known);
        if self.is_name {
            let name = self.full_prefix();
            survey.locks.retain(|lock| lock.key.as_str() == name);
        }
        if !self.asks_store {
            // Some client has them, and has not said so.
            let is_blocked = |lock: &SurveyedLock| {
                let mut waiters = lock.waiters.iter();
                lock.holders.is_empty()
                    && waiters.any(|one| !matches!(one.kind, HoldKind::Semaphore | HoldKind::Latch))
            };
            survey.is_complete &= !survey.locks.iter().any(is_blocked);
        }
        survey
    }

    /// When a survey that begins now ends.
    fn end(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.within).unwrap_or(now + FOREVER)
    }

    /// Publishes a request, and collects answers until all have come or the time is over.
    async fn ask_clients(&self) -> Result<Answers, LockError> {
        let (store, timeout) = self.store();
        let request = Request::new(self.full_prefix(), self.limit);
        let (to, mut parts) = mpsc::channel(PARTS);
        let channel = request.reply_channel(&self.channel);
        let on_message = Arc::new(move |message: &[u8]| {
            // What is longer is no answer, and is not kept.
            if message.len() <= LONGEST_ANSWER {
                drop(to.try_send(message.to_vec()));
            }
        });
        let _listening = store.listen(&channel, on_message);
        store.listened(&channel, timeout).await?;
        let (start, end) = (Instant::now(), self.end());
        let asked = store.publish(&self.channel, &to_json(&request), timeout).await?;
        let (asked, mut answers) =
            (usize::try_from(asked).unwrap_or(usize::MAX), Answers::default());
        let (mut again, mut pause) = (start + ASK_AGAIN, ASK_AGAIN);
        while answers.whole() < asked {
            match timeout_at(end.min(again), parts.recv()).await {
                Ok(Some(part)) => {
                    if let Some(part) = Answer::read(&part, request.id) {
                        answers.add(part, self.limit, start.elapsed());
                    }
                }
                Ok(None) => break,
                Err(_) if Instant::now() >= end => break,
                Err(_) => {
                    // A client that has answered many requests lately has passed this one over; the others know it again.
                    let asking = store.publish(&self.channel, &to_json(&request), timeout);
                    drop(timeout_at(end, asking).await);
                    pause *= 2;
                    again = Instant::now() + pause;
                }
            }
        }
        answers.missing = asked.saturating_sub(answers.whole());
        Ok(answers)
    }

    /// Lists names in the store, until all are listed, the limit is passed, or its time, its pages or its checks are used up: a server has
    /// other work than to look through the keys of other programs.
    async fn list(&self) -> Stored {
        let mut listed = Stored::default();
        if self.is_name || !self.asks_store {
            return listed;
        }
        let (store, timeout) = self.store();
        let (prefix, end) = (self.full_prefix(), self.end());
        let (mut cursor, mut checked) = (NamesCursor::start(), 0);
        for page in 0.. {
            // At least one page, so that a survey without a time meets a permission that is missing.
            let is_over = page >= self.pages || checked >= self.checks || Instant::now() >= end;
            if page > 0 && is_over {
                listed.is_cut = true;
                break;
            }
            match store.names(&prefix, cursor, timeout).await {
                Ok(page) => {
                    checked = checked.saturating_add(page.checked);
                    listed.names.extend(page.names);
                    let Some(next) = page.next else { break };
                    cursor = next;
                }
                Err(error) => {
                    listed.failed = Some(error);
                    break;
                }
            }
            if listed.names.len() > self.limit {
                listed.is_cut = true;
                break;
            }
        }
        listed
    }

    /// Looks up the listed locks in the store, and those that clients named.
    async fn ask_store(&self, answers: &Answers, mut stored: Stored) -> Stored {
        let (store, timeout) = self.store();
        if !self.is_name {
            stored.names.extend(answers.names());
        }
        // What clients name is shown in any case; the store is asked for no more than that of each.
        stored.is_cut |= stored.names.len() > self.limit;
        // A prefix may be a whole name, which the listing meets late among many that it begins.
        let prefix = LockKey::new(self.full_prefix()).ok();
        let names = std::mem::take(&mut stored.names).into_iter().take(self.limit);
        let names: BTreeSet<_> = names.chain(prefix).collect();
        let look = |key: LockKey| async move {
            let found = store.inspect(&key, timeout).await;
            (key, found)
        };
        let mut looked = stream::iter(names).map(look).buffer_unordered(AT_ONCE);
        while let Some((key, found)) = looked.next().await {
            match found {
                Ok(found) => drop(stored.by_name.insert(key, found)),
                // Not a lock.
                Err(error) if error.kind() == StoreErrorKind::WrongType => {}
                Err(error) => drop(stored.failed.get_or_insert(error)),
            }
        }
        stored
    }
}

/// Puts what clients say of their holds and waits beside what the store says.
fn join(answers: Answers, stored: Stored, names: &KnownNames) -> Survey {
    let Answers { by_client, missing } = answers;
    let Stored { by_name, mut is_cut, failed: not_listed, .. } = stored;
    let mut locks: BTreeMap<LockKey, SurveyedLock> = BTreeMap::new();
    let mut clients = Vec::new();
    for heard in by_client.into_values() {
        let client = heard.client;
        is_cut |= heard.is_cut;
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
    for (key, found) in by_name {
        if let Some(lock) = row(&mut locks, key.as_str()) {
            add_stored(lock, found, &clients, names);
        }
    }
    let mut locks: Vec<_> = locks.into_values().collect();
    locks.retain(|lock| {
        !lock.holders.is_empty() || !lock.waiters.is_empty() || lock.waiting_in_store > 0
    });
    for lock in &mut locks {
        lock.waiters.sort_by_key(|waiter| std::cmp::Reverse(waiter.waited_for));
    }
    clients
        .sort_by_key(|one| (one.client.service.clone(), one.client.host.clone(), one.client.pid));
    let unaccounted =
        locks.iter().flat_map(|lock| &lock.holders).filter(|it| is_silent(it)).count();
    let is_complete = missing == 0 && unaccounted == 0 && !is_cut && not_listed.is_none();
    Survey {
        clients,
        locks,
        missing,
        unaccounted,
        is_complete,
        is_cut,
        not_listed,
        deadlocks: Vec::new(),
        possible_deadlocks: Vec::new(),
    }
}

/// True for a hold in the store whose client is one of this library and has not answered.
fn is_silent(holder: &SurveyedHolder) -> bool {
    holder.client.is_none() && holder.thread.is_none() && !holder.client_id.is_empty()
}

fn row<'a>(
    locks: &'a mut BTreeMap<LockKey, SurveyedLock>,
    name: &str,
) -> Option<&'a mut SurveyedLock> {
    let key = LockKey::new(name).ok()?;
    Some(locks.entry(key.clone()).or_insert_with(|| SurveyedLock {
        key,
        kind: None,
        remaining: None,
        holders: Vec::new(),
        waiters: Vec::new(),
        waiting_in_store: 0,
        queue: Vec::new(),
        free_permits: None,
    }))
}

fn holder(client: &Arc<SurveyedProcess>, hold: HoldLine) -> SurveyedHolder {
    let HoldLine { hold, held_for, left, site, policy, .. } = hold;
    SurveyedHolder {
        client: Some(Arc::clone(client)),
        client_id: client.id.clone(),
        last_known: None,
        thread: None,
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

/// Adds what the store says of a lock: how often each holder has it, holders that no process claims, and the queue.
fn add_stored(
    lock: &mut SurveyedLock,
    found: Inspection,
    clients: &[SurveyedClient],
    names: &KnownNames,
) {
    // The store cannot tell a fair mutex from a plain one.
    let is_known = lock.kind == Some(HoldKind::Fair);
    lock.kind = if is_known { lock.kind } else { found.kind.or(lock.kind) };
    lock.remaining = found.remaining;
    lock.waiting_in_store = found.waiting;
    lock.free_permits = found.free_permits;
    lock.holders.iter_mut().for_each(|holder| holder.count = UNCOUNTED);
    for stored in found.holders {
        let is_same = |holder: &&mut SurveyedHolder| {
            holder.count == UNCOUNTED && holder.client_id == stored.client
        };
        match lock.holders.iter_mut().find(is_same) {
            Some(holder) => holder.count = stored.count,
            None => lock.holders.push(unclaimed(stored, clients, names)),
        }
    }
    let queue = found.queue.into_iter();
    lock.queue = queue.map(|it| place(it.client, it.thread, clients, names)).collect();
}
