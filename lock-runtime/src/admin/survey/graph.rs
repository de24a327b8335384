//! Who waits for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::found::as_text;
use super::{SurveyedHolder, SurveyedLock, SurveyedProcess, SurveyedWaiter};
use crate::admin::shortest::shortest_path;
use crate::key::LockKey;
use crate::store::HoldKind;

/// Holders that wait for each other in a circle: the holder of each edge waits for the lock that the holder of the next edge
/// has, and the last one for that of the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deadlock {
    /// The waits, beginning with the process and hold of the smallest name.
    pub edges: Vec<Edge>,
}

/// A holder that cannot go on because it waits for another lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Edge {
    /// The process.
    pub client: Arc<SurveyedProcess>,
    /// The lock that it holds.
    #[serde(serialize_with = "as_text")]
    pub holds: LockKey,
    /// Where it acquired that.
    pub acquired_at: Option<String>,
    /// The lock that it waits for.
    #[serde(serialize_with = "as_text")]
    pub waits_for: LockKey,
    /// Where it waits.
    pub waits_at: Option<String>,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |site: &Option<String>| site.clone().unwrap_or_else(|| "unknown".to_owned());
        let Self { client, holds, waits_for, .. } = self;
        let (acquired_at, waits_at) = (at(&self.acquired_at), at(&self.waits_at));
        write!(f, "{client} holds {holds} ({acquired_at}) and waits for {waits_for} ({waits_at})")
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, edge) in self.edges.iter().enumerate() {
            write!(f, "{}{edge}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// How long a wait has lasted that may be part of a possible deadlock. Shorter ones are everyday contention.
const LONG: Duration = Duration::from_secs(1);

/// A survey guesses no more waits than these of what they are inside of.
const MOST_GUESSES: usize = 100_000;

/// A hold, as a node of the graph.
type Node = u64;

/// A hold by its number, one of its waits by when it began, and the hold that this wait is for.
type Ids = (Node, u64, Node);

type Held<'a> = (Node, &'a SurveyedLock, &'a SurveyedHolder);

/// A wait inside of a hold, for a lock that another hold has.
#[derive(Clone, Copy)]
struct Wait<'a> {
    ids: Ids,
    outer: Held<'a>,
    lock: &'a SurveyedLock,
    waiter: &'a SurveyedWaiter,
    /// True if only its client is known to have the hold, and not the task that waits.
    is_guess: bool,
}

/// The waits that may be part of a circle.
pub(super) struct Waits<'a> {
    all: Vec<Wait<'a>>,
    /// True if there were more guesses than are made.
    pub(super) is_cut: bool,
}

impl<'a> Waits<'a> {
    /// Returns the waits of which it is known what they are inside of. With guesses also those of tasks that may have a guard in
    /// a variable: as if inside of each hold that their client has had for longer, if it is waited for.
    pub(super) fn of(locks: &'a [SurveyedLock], with_guesses: bool) -> Self {
        let (mut held, mut of_client) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for lock in locks {
            for holder in &lock.holders {
                let (Some(hold), Some(client)) = (holder.hold, &holder.client) else { continue };
                held.entry(hold).or_insert((hold, lock, holder));
                if !lock.waiters.is_empty() {
                    of_client.entry(&client.id).or_default().push((hold, lock, holder));
                }
            }
        }
        let (mut waits, mut guesses) = (Self { all: Vec::new(), is_cut: false }, 0);
        let each = locks.iter().flat_map(|lock| lock.waiters.iter().map(move |it| (lock, it)));
        for (lock, waiter) in each {
            let is_guess = waiter.inside.is_empty();
            if is_guess && (!with_guesses || waiter.waited_for < LONG) {
                continue;
            }
            let around: Vec<Held<'_>> = if is_guess {
                let own = of_client.get(&waiter.client.id).into_iter().flatten();
                own.filter(|(.., holder)| is_older(holder, waiter)).copied().collect()
            } else {
                waiter.inside.iter().filter_map(|hold| held.get(hold)).copied().collect()
            };
            for holder in &lock.holders {
                let (Some(next), Some(client)) = (holder.hold, &holder.client) else { continue };
                // Tasks of one client that wait for each other's locks are mostly unrelated: their circle says nothing.
                if is_guess && client.id == waiter.client.id || !blocks(lock, holder, waiter) {
                    continue;
                }
                for &outer in &around {
                    if is_guess && guesses >= MOST_GUESSES {
                        waits.is_cut = true;
                        break;
                    }
                    guesses += usize::from(is_guess);
                    let ids = (outer.0, waiter.began, next);
                    waits.all.push(Wait { ids, outer, lock, waiter, is_guess });
                }
            }
        }
        // Of two waits for the same hold, a circle is to have the one that is known.
        waits.all.sort_by_key(|wait| wait.is_guess);
        waits.in_circles()
    }

    /// True if no hold waits for itself.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn ids(&self) -> BTreeSet<Ids> {
        self.all.iter().map(|wait| wait.ids).collect()
    }

    /// Keeps the waits that an earlier look has met too. The two looks together show only what was there between them.
    pub(super) fn met_before(mut self, earlier: &BTreeSet<Ids>) -> Self {
        self.all.retain(|wait| earlier.contains(&wait.ids));
        self.in_circles()
    }

    /// Removes the waits that lead to no circle, one end after the other: mostly all of them, so that no circle has to be
    /// looked for.
    fn in_circles(mut self) -> Self {
        // The number of waits that lead from each hold, and the holds from which they lead to each.
        let (mut left, mut into) = (BTreeMap::<_, usize>::new(), BTreeMap::<_, Vec<_>>::new());
        for Wait { ids: (from, _, to), .. } in &self.all {
            *left.entry(*from).or_default() += 1;
            into.entry(*to).or_default().push(*from);
        }
        let mut ends: Vec<_> =
            into.keys().filter(|hold| !left.contains_key(hold)).copied().collect();
        while let Some(end) = ends.pop() {
            for from in into.remove(&end).unwrap_or_default() {
                let Some(count) = left.get_mut(&from) else { continue };
                *count -= 1;
                if *count == 0 {
                    left.remove(&from);
                    ends.push(from);
                }
            }
        }
        self.all.retain(|wait| left.contains_key(&wait.ids.2));
        self
    }

    /// Returns the deadlocks among them that are guessed, or those that are not: for each hold, a shortest circle through it,
    /// unless an earlier one leads through it.
    pub(super) fn deadlocks(&self, guessed: bool) -> Vec<Deadlock> {
        let mut by_hold = BTreeMap::<Node, Vec<&Wait<'_>>>::new();
        for wait in &self.all {
            by_hold.entry(wait.ids.0).or_default().push(wait);
        }
        let leaving = |hold| by_hold.get(&hold).into_iter().flatten().map(|it| (*it, it.ids.2));
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        for start in by_hold.keys().copied() {
            let is_new = !seen.contains(&start);
            let Some(circle) = is_new.then(|| shortest_path(start, start, leaving)).flatten()
            else {
                continue;
            };
            seen.extend(circle.iter().map(|wait| wait.ids.0));
            if circle.iter().any(|wait| wait.is_guess) == guessed {
                found.push(Deadlock { edges: circle.into_iter().map(Wait::edge).collect() });
            }
        }
        found
    }
}

impl Wait<'_> {
    fn edge(&self) -> Edge {
        let (_, outer, holder) = self.outer;
        Edge {
            client: Arc::clone(&self.waiter.client),
            holds: outer.key.clone(),
            acquired_at: holder.site.clone(),
            waits_for: self.lock.key.clone(),
            waits_at: self.waiter.site.clone(),
        }
    }
}

/// True if the waiter cannot have the lock before this holder releases it.
fn blocks(lock: &SurveyedLock, holder: &SurveyedHolder, waiter: &SurveyedWaiter) -> bool {
    match (lock.kind, waiter.kind) {
        // Any permit would do.
        (_, HoldKind::Semaphore | HoldKind::Latch) => false,
        (Some(HoldKind::Read), HoldKind::Read) => is_behind_a_writer(lock, holder, waiter),
        _ => true,
    }
}

/// True if a writer came between the two readers: it waits for the one, and the other waits for its turn behind it. A reader
/// that has waited for longer than the lock is read goes before the next writer.
fn is_behind_a_writer(
    lock: &SurveyedLock,
    holder: &SurveyedHolder,
    waiter: &SurveyedWaiter,
) -> bool {
    let is_before = |other: &SurveyedWaiter| {
        other.kind == HoldKind::Write && other.waited_for >= waiter.waited_for
    };
    is_older(holder, waiter) && lock.waiters.iter().any(is_before)
}

/// True if the hold has lasted for as long as the wait, or longer.
fn is_older(holder: &SurveyedHolder, waiter: &SurveyedWaiter) -> bool {
    holder.held_for.is_some_and(|held| held >= waiter.waited_for)
}
