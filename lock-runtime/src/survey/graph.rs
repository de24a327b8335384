//! Who waits for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::found::as_text;
use super::{SurveyedHolder, SurveyedLock, SurveyedProcess, SurveyedWaiter};
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

/// A wait inside of a hold, for a lock that another hold has.
#[derive(Clone, Copy)]
struct Wait<'a> {
    ids: Ids,
    outer: (&'a SurveyedLock, &'a SurveyedHolder),
    lock: &'a SurveyedLock,
    waiter: &'a SurveyedWaiter,
    /// True if only its client is known to have the hold, and not the task that waits.
    is_guess: bool,
}

/// The waits of each hold that may be part of a circle.
pub(super) struct Waits<'a> {
    by_hold: BTreeMap<Node, Vec<Wait<'a>>>,
    /// True if there were more guesses than are made.
    pub(super) is_cut: bool,
}

impl<'a> Waits<'a> {
    pub(super) fn of(locks: &'a [SurveyedLock]) -> Self {
        Self::known(locks).in_circles()
    }

    /// The same, and the waits of tasks that may have a guard in a variable: inside of each hold that their client has had
    /// for longer, if it is waited for.
    pub(super) fn with_guesses(locks: &'a [SurveyedLock]) -> Self {
        let contended = locks.iter().filter(|lock| !lock.waiters.is_empty());
        let mut held: BTreeMap<&str, Vec<(Node, &SurveyedLock, &SurveyedHolder)>> = BTreeMap::new();
        for lock in contended.clone() {
            for holder in &lock.holders {
                if let (Some(hold), Some(client)) = (holder.hold, &holder.client) {
                    held.entry(&client.id).or_default().push((hold, lock, holder));
                }
            }
        }
        let (Self { by_hold: mut waits, mut is_cut }, mut guesses) = (Self::known(locks), 0);
        for lock in contended {
            let plain =
                |waiter: &&SurveyedWaiter| waiter.inside.is_empty() && waiter.waited_for >= LONG;
            for waiter in lock.waiters.iter().filter(plain) {
                let own = held.get(&*waiter.client.id).map_or(&[][..], Vec::as_slice);
                // Tasks of one client that wait for each other's locks are mostly unrelated: their circle says nothing.
                let others = lock.holders.iter().filter(|holder| {
                    holder.client.as_ref().is_some_and(|client| client.id != waiter.client.id)
                });
                let blocking = others.filter(|holder| blocks(lock, holder, waiter));
                for next in blocking.filter_map(|holder| holder.hold) {
                    for (from, outer, holder) in own {
                        let is_older =
                            holder.held_for.is_some_and(|held| held >= waiter.waited_for);
                        if is_older && guesses >= MOST_GUESSES {
                            is_cut = true;
                        } else if is_older {
                            guesses += 1;
                            let (ids, outer) = ((*from, waiter.began, next), (*outer, *holder));
                            let wait = Wait { ids, outer, lock, waiter, is_guess: true };
                            waits.entry(*from).or_default().push(wait);
                        }
                    }
                }
            }
        }
        Self { by_hold: waits, is_cut }.in_circles()
    }

    fn known(locks: &'a [SurveyedLock]) -> Self {
        let mut held: BTreeMap<Node, (&SurveyedLock, &SurveyedHolder)> = BTreeMap::new();
        for lock in locks {
            for holder in &lock.holders {
                if let Some(hold) = holder.hold {
                    held.entry(hold).or_insert((lock, holder));
                }
            }
        }
        let mut waits: BTreeMap<Node, Vec<Wait<'a>>> = BTreeMap::new();
        for lock in locks {
            for waiter in lock.waiters.iter().filter(|waiter| !waiter.inside.is_empty()) {
                let blocking = lock.holders.iter().filter(|holder| blocks(lock, holder, waiter));
                for next in blocking.filter_map(|holder| holder.hold) {
                    for from in &waiter.inside {
                        let Some(outer) = held.get(from) else { continue };
                        let ids = (*from, waiter.began, next);
                        let wait = Wait { ids, outer: *outer, lock, waiter, is_guess: false };
                        waits.entry(*from).or_default().push(wait);
                    }
                }
            }
        }
        Self { by_hold: waits, is_cut: false }
    }

    /// True if no hold waits for itself.
    pub(super) fn is_empty(&self) -> bool {
        self.by_hold.is_empty()
    }

    pub(super) fn ids(&self) -> BTreeSet<Ids> {
        self.by_hold.values().flatten().map(|wait| wait.ids).collect()
    }

    /// Keeps the waits that an earlier look has met too. The two looks together show only what was there between them.
    pub(super) fn met_before(mut self, earlier: &BTreeSet<Ids>) -> Self {
        self.by_hold
            .values_mut()
            .for_each(|waits| waits.retain(|wait| earlier.contains(&wait.ids)));
        self.in_circles()
    }

    /// Removes the waits that lead to no circle, one end after the other: mostly all of them, so that no circle has to be
    /// looked for.
    fn in_circles(mut self) -> Self {
        let mut into: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        for (from, waits) in &self.by_hold {
            waits.iter().for_each(|wait| into.entry(wait.ids.2).or_default().push(*from));
        }
        let mut left: BTreeMap<Node, usize> =
            self.by_hold.iter().map(|(from, waits)| (*from, waits.len())).collect();
        let goes_on =
            |left: &BTreeMap<Node, usize>, node| left.get(&node).is_some_and(|it| *it > 0);
        let mut ends: Vec<Node> = into.keys().copied().filter(|it| !goes_on(&left, *it)).collect();
        while let Some(end) = ends.pop() {
            for from in into.remove(&end).unwrap_or_default() {
                if let Some(left) = left.get_mut(&from) {
                    *left -= 1;
                    if *left == 0 {
                        ends.push(from);
                    }
                }
            }
        }
        for waits in self.by_hold.values_mut() {
            waits.retain(|wait| goes_on(&left, wait.ids.2));
        }
        self.by_hold.retain(|_, waits| !waits.is_empty());
        self
    }

    /// Returns the deadlocks among them: for each hold, a shortest circle through it, unless an earlier one leads through it.
    pub(super) fn deadlocks(&self) -> Vec<Deadlock> {
        self.circles().into_iter().map(Deadlock::from).collect()
    }

    /// Returns those of them that are only guessed.
    pub(super) fn possible_deadlocks(&self) -> Vec<Deadlock> {
        let circles = self.circles().into_iter();
        circles
            .filter(|circle| circle.iter().any(|wait| wait.is_guess))
            .map(Deadlock::from)
            .collect()
    }

    fn circles(&self) -> Vec<Vec<Wait<'a>>> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        for start in self.by_hold.keys() {
            if seen.contains(start) {
                continue;
            }
            if let Some(circle) = self.shortest_circle(*start) {
                seen.extend(circle.iter().map(|wait| wait.ids.0));
                found.push(circle);
            }
        }
        found
    }

    /// The shortest way from a hold back to itself.
    fn shortest_circle(&self, start: Node) -> Option<Vec<Wait<'a>>> {
        let mut came_by: BTreeMap<Node, Wait<'a>> = BTreeMap::new();
        let mut frontier = vec![start];
        while !frontier.is_empty() {
            let mut next = Vec::new();
            for wait in frontier.iter().filter_map(|node| self.by_hold.get(node)).flatten() {
                let to = wait.ids.2;
                if came_by.contains_key(&to) {
                    continue;
                }
                came_by.insert(to, *wait);
                if to == start {
                    return Some(way_back(&came_by, start));
                }
                next.push(to);
            }
            frontier = next;
        }
        None
    }
}

impl From<Vec<Wait<'_>>> for Deadlock {
    fn from(circle: Vec<Wait<'_>>) -> Self {
        Self { edges: circle.into_iter().map(Edge::from).collect() }
    }
}

impl From<Wait<'_>> for Edge {
    fn from(Wait { outer: (outer, holder), lock, waiter, .. }: Wait<'_>) -> Self {
        Self {
            client: Arc::clone(&waiter.client),
            holds: outer.key.clone(),
            acquired_at: holder.site.clone(),
            waits_for: lock.key.clone(),
            waits_at: waiter.site.clone(),
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
    holder.held_for.is_some_and(|held| held >= waiter.waited_for)
        && lock.waiters.iter().any(is_before)
}

fn way_back<'a>(came_by: &BTreeMap<Node, Wait<'a>>, start: Node) -> Vec<Wait<'a>> {
    let (mut circle, mut node) = (Vec::new(), start);
    while let Some(wait) = came_by.get(&node) {
        circle.push(*wait);
        node = wait.ids.0;
        if node == start {
            break;
        }
    }
    circle.reverse();
    circle
}
