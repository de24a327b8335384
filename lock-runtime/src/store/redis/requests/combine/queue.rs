//! The requests that wait to be sent together, and those that were and have no answer yet.

use std::collections::VecDeque;
use std::mem;
use std::task::{Context, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::runtime::Id;
use tokio::time::Instant;

use super::{Answered, FEW, HoldRequest, MANY, MAX_BATCH, MAX_WORK, SIDE_BY_SIDE, overdue};
use crate::error::StoreError;
use crate::store::HoldKind;
use crate::store::redis::scripts::{BATCH, FAIR_BATCH, MUTEX_BATCH, Part, Publish, ScriptCall};

/// A request and its place in the table. The number tells it from a later request at the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    at: usize,
    pub(super) number: u64,
}

#[derive(Default)]
pub(super) struct Queue {
    /// All requests whose callers wait.
    requests: Slab<Entry>,
    /// Those that were not sent yet, in order. Some may have been dropped since.
    unsent: VecDeque<Key>,
    next_number: u64,
    /// Scripts under way that their callers have sent alone.
    pub(super) alone: usize,
    /// Scripts under way that a pump has sent.
    pub(super) batches: usize,
    /// Requests in those batches whose callers still wait.
    sent: usize,
    /// How many requests there were when a batch was last sent, or half as many as before: all may be answered at once.
    crowd: usize,
    /// When a script was last sent.
    pub(super) moved: Option<Instant>,
    /// No request's deadline is before this.
    pub(super) earliest: Option<Instant>,
    pub(super) pump: Option<Pump>,
    /// The runtime with which a pump ended.
    pub(super) ended: Option<Id>,
}

/// The task that sends the queue.
pub(super) struct Pump {
    pub(super) number: u64,
    pub(super) runtime: Id,
    /// While it waits.
    pub(super) waker: Option<Waker>,
    /// When it last looked at the queue, or was woken because of the first request there.
    pub(super) looked: Instant,
}

pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) request: HoldRequest,
    /// Its script.
    part: &'static Part,
    deadline: Instant,
    /// True if the server denied it together with others, so that it is sent alone.
    alone: bool,
    pub(super) stage: Stage,
    pub(super) caller: Option<Waker>,
}

pub(super) enum Stage {
    Unsent,
    Sent,
    Answered(Answered),
}

impl Queue {
    /// True if a caller may send its request alone.
    pub(super) fn lets_one_go_alone(&self) -> bool {
        // The callers of a batch may soon ask again, all together.
        self.unsent.is_empty() && self.crowd <= FEW && self.under_way() < FEW
    }

    /// The number of scripts under way.
    fn scripts(&self) -> usize {
        self.alone + self.batches
    }

    /// The number of requests in scripts under way.
    fn under_way(&self) -> usize {
        self.alone + self.sent
    }

    /// True if the queue may be sent beside a script under way, since it has as many requests as that; or one less if they are as
    /// many together as before: of an odd number, one half is smaller.
    fn is_as_much(&self) -> bool {
        let (unsent, under_way) = (self.unsent.len(), self.under_way());
        let is_all = unsent + under_way >= self.crowd;
        self.scripts() < SIDE_BY_SIDE && unsent + usize::from(is_all) >= under_way
    }

    /// Adds a request. Also returns the waker of the pump, if it waits and has to look at the queue because of it.
    #[inline]
    pub(super) fn add(
        &mut self,
        request: HoldRequest,
        part: &'static Part,
        now: Instant,
        deadline: Instant,
    ) -> (Key, Option<Waker>) {
        let number = self.next_number;
        self.next_number += 1;
        let is_earliest = self.earliest.is_none_or(|earliest| deadline < earliest);
        if is_earliest {
            self.earliest = Some(deadline);
        }
        let (alone, stage, caller) = (false, Stage::Unsent, None);
        let entry = Entry { number, request, part, deadline, alone, stage, caller };
        let key = Key { at: self.requests.insert(entry), number };
        self.unsent.push_back(key);
        let queued = self.unsent.len();
        if let (Some(pump), 1) = (&mut self.pump, queued) {
            pump.looked = now;
        }
        // Not only when it becomes as much: callers of requests under way may have gone.
        let is_enough = self.is_as_much() || queued.is_multiple_of(MAX_BATCH);
        let wakes = is_earliest || queued == 1 || is_enough;
        (key, if wakes { self.wake_pump() } else { None })
    }

    /// The waker of the pump, if it waits while requests queue.
    pub(super) fn wake_pump(&mut self) -> Option<Waker> {
        if self.unsent.is_empty() {
            return None;
        }
        self.pump.as_mut()?.waker.take()
    }

    fn get(&self, key: Key) -> Option<&Entry> {
        self.requests.get(key.at).filter(|entry| entry.number == key.number)
    }

    fn get_mut(&mut self, key: Key) -> Option<&mut Entry> {
        self.requests.get_mut(key.at).filter(|entry| entry.number == key.number)
    }

    /// False if its caller is gone, or its time was over.
    fn is_unsent(&self, key: Key) -> bool {
        self.get(key).is_some_and(|entry| matches!(entry.stage, Stage::Unsent))
    }

    /// The answer of a request, or `None` and a wake-up for its caller to come.
    pub(super) fn poll(&mut self, key: Key, cx: &Context<'_>) -> Option<Answered> {
        let entry = self.get_mut(key)?;
        if !matches!(entry.stage, Stage::Answered(_)) {
            match &mut entry.caller {
                Some(caller) => caller.clone_from(cx.waker()),
                caller => *caller = Some(cx.waker().clone()),
            }
            return None;
        }
        match self.requests.remove(key.at).stage {
            Stage::Answered(answer) => Some(answer),
            Stage::Unsent | Stage::Sent => None,
        }
    }

    /// Removes a request, which is then not sent, or not answered, any more.
    pub(super) fn remove(&mut self, key: Key) -> Option<Entry> {
        self.get_mut(key)?;
        let entry = self.requests.remove(key.at);
        self.sent -= usize::from(matches!(entry.stage, Stage::Sent));
        Some(entry)
    }

    /// When the queue is to be sent: now, or later. `None` if that depends on an answer.
    pub(super) fn due_at(&self, now: Instant, is_connected: bool) -> Option<Instant> {
        self.unsent.front()?;
        let is_full = self.unsent.len() >= MAX_BATCH;
        Some(match () {
            () if self.scripts() == 0 => now,
            () if self.is_as_much() => now,
            // While there is no connection, a batch under way waits for it and has taken nothing from the queue.
            () if !is_connected && self.batches > 0 => return None,
            () if is_full => now,
            () => self.moved.map_or(now, |moved| moved + overdue()),
        })
    }

    /// True if the wake-ups for an answered batch may come late: many callers wait, and the pump has more to do.
    pub(super) fn has_time(&self) -> bool {
        self.crowd >= MANY && (self.has_unsent() || self.batches > 0)
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The wakers of those in the queue.
    pub(super) fn unsent_callers(&mut self) -> Vec<Waker> {
        let Self { requests, unsent, .. } = self;
        let caller = |key: &Key| requests.get_mut(key.at)?.caller.take();
        unsent.iter().filter_map(caller).collect()
    }

    /// The wakers of all callers.
    pub(super) fn callers(&mut self) -> Vec<Waker> {
        self.requests.iter_mut().filter_map(|(_, entry)| entry.caller.take()).collect()
    }

    /// The requests without an answer whose time is over; if they were sent, with the time that they had.
    pub(super) fn out_of_time(&mut self, now: Instant) -> Vec<(Key, Option<Duration>)> {
        let mut over = Vec::new();
        self.earliest = None;
        for (at, entry) in &self.requests {
            let sent = match entry.stage {
                Stage::Unsent => None,
                Stage::Sent => Some(entry.request.timeout()),
                Stage::Answered(_) => continue,
            };
            if entry.deadline <= now {
                over.push((Key { at, number: entry.number }, sent));
            } else if self.earliest.is_none_or(|earliest| entry.deadline < earliest) {
                self.earliest = Some(entry.deadline);
            }
        }
        over
    }

    /// The latest deadline in the queue; `None` if it is empty.
    pub(super) fn latest(&mut self) -> Option<Instant> {
        let mut unsent = mem::take(&mut self.unsent);
        unsent.retain(|key| self.is_unsent(*key));
        self.unsent = unsent;
        self.unsent.iter().filter_map(|key| Some(self.get(*key)?.deadline)).max()
    }

    /// How many requests the next batch takes at most. Each of the [`SIDE_BY_SIDE`] scripts has an equal part of all
    /// requests, so that the server runs one script while this process works on the answers to another.
    pub(super) fn share(&self) -> usize {
        // An overdue queue; the next batch is counted already.
        if self.scripts() > SIDE_BY_SIDE {
            return MAX_BATCH;
        }
        // The first one has the smaller part, so that the rest is as much and does not wait.
        let others = self.scripts().saturating_sub(1);
        let all = self.under_way() + self.unsent.len();
        ((all + others) / SIDE_BY_SIDE).clamp(1, MAX_BATCH)
    }

    /// Takes the first requests whose callers still wait, `most` of them. Acquires come before releases, or memory that a
    /// release frees in the same script would hide that the server has none left.
    pub(super) fn take_batch(&mut self, most: usize) -> Vec<Key> {
        self.crowd = (self.alone + self.requests.len()).max(self.crowd / 2);
        let most = self.unsent.len().min(most);
        let (mut batch, mut later) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut work = 0;
        while batch.len() + later.len() < most
            && let Some(key) = self.unsent.pop_front()
        {
            let is_first = batch.is_empty() && later.is_empty();
            let Some(entry) = self.get_mut(key).filter(|it| matches!(it.stage, Stage::Unsent))
            else {
                continue;
            };
            work += entry.request.work();
            let alone = entry.alone;
            if (alone || work > MAX_WORK) && !is_first {
                self.unsent.push_front(key);
                break;
            }
            entry.stage = Stage::Sent;
            match entry.request {
                HoldRequest::Acquire(_) => batch.push(key),
                HoldRequest::Release(_) => later.push(key),
            }
            self.sent += 1;
            if alone {
                break;
            }
        }
        batch.append(&mut later);
        batch
    }

    /// The call of a batch, and the latest deadline of its requests.
    pub(super) fn write(&self, batch: &[Key]) -> Option<(ScriptCall, Instant)> {
        let mut entries = Vec::with_capacity(batch.len());
        entries.extend(batch.iter().filter_map(|key| self.requests.get(key.at)));
        let until = entries.iter().map(|entry| entry.deadline).max()?;
        Some((write_batch(&entries), until))
    }

    /// Puts requests back to the front, in the order in which they came, which matters to a fair lock when two batches
    /// come back at once. Each is then sent `alone`, if that is set.
    pub(super) fn put_back(&mut self, batch: &[Key], alone: bool) {
        for key in batch {
            if let Some(entry) = self.get_mut(*key).filter(|it| matches!(it.stage, Stage::Sent)) {
                entry.stage = Stage::Unsent;
                entry.alone |= alone;
                self.sent -= 1;
                self.unsent.push_back(*key);
            }
        }
        self.unsent.make_contiguous().sort_by_key(|key| key.number);
    }

    /// Answers requests whose callers still wait, and returns the wakers of those.
    pub(super) fn answer(
        &mut self,
        batch: &[Key],
        answers: impl IntoIterator<Item = Answered>,
    ) -> Vec<Waker> {
        // The pump adds its own.
        let mut callers = Vec::with_capacity(batch.len() + 1);
        for (key, answer) in batch.iter().zip(answers) {
            // The first answer counts.
            if let Some(entry) = self.get_mut(*key)
                && !matches!(entry.stage, Stage::Answered(_))
            {
                let before = mem::replace(&mut entry.stage, Stage::Answered(answer));
                callers.extend(entry.caller.take());
                self.sent -= usize::from(matches!(before, Stage::Sent));
            }
        }
        callers
    }

    /// Answers the requests in the queue with a deadline up to `end`.
    pub(super) fn answer_until(&mut self, end: Instant, error: &StoreError) -> Vec<Waker> {
        let queue = mem::take(&mut self.unsent);
        let requests = &self.requests;
        let is_over = |key: &Key| requests.get(key.at).is_some_and(|it| it.deadline <= end);
        let (mut over, left): (VecDeque<_>, VecDeque<_>) = queue.into_iter().partition(is_over);
        self.unsent = left;
        self.answer(over.make_contiguous(), std::iter::repeat_with(|| Err(error.clone())))
    }
}

fn write_batch(entries: &[&Entry]) -> ScriptCall {
    let all_are = |kind| entries.iter().all(|entry| entry.request.target().kind() == kind);
    let script = match () {
        () if all_are(HoldKind::Mutex) => &MUTEX_BATCH,
        () if all_are(HoldKind::Fair) => &FAIR_BATCH,
        () => &BATCH,
    };
    let keys = entries.iter().map(|entry| entry.part.keys).sum();
    script.call(Publish::Everywhere, keys, |call| {
        for entry in entries {
            entry.request.write_keys(call);
        }
        let is_same = |one: &&Entry, next: &&Entry| {
            one.part.number == next.part.number && one.request.shares_args_with(&next.request)
        };
        for same in entries.chunk_by(is_same) {
            let [first, ..] = same else { continue };
            call.arg(first.part.number).arg(same.len());
            for entry in same {
                entry.request.write_own_args(call);
            }
            first.request.write_shared_args(call);
        }
    })
}
