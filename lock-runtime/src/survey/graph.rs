//! Who waits for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

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
    /// The hold, by its number, the wait, by when it began, and the hold that it waits for.
    #[serde(skip)]
    ids: (u64, u64, u64),
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

/// A hold, as a node of the graph.
type Node = u64;

/// Returns the deadlocks among these locks, each once.
pub(super) fn deadlocks(locks: &[SurveyedLock]) -> Vec<Deadlock> {
    let edges = edges(locks);
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for start in edges.keys() {
        if seen.contains(start) {
            continue;
        }
        if let Some(circle) = shortest_circle(&edges, *start) {
            seen.extend(circle.iter().map(|edge| edge.ids.0));
            found.push(Deadlock { edges: circle });
        }
    }
    found
}

/// Keeps the deadlocks that are in both: the same holds and waits in the same circle.
pub(super) fn in_both(earlier: &[Deadlock], mut later: Vec<Deadlock>) -> Vec<Deadlock> {
    let ids = |deadlock: &Deadlock| deadlock.edges.iter().map(|edge| edge.ids).collect::<Vec<_>>();
    later.retain(|deadlock| earlier.iter().any(|one| ids(one) == ids(deadlock)));
    later
}

/// The edges of each hold.
fn edges(locks: &[SurveyedLock]) -> BTreeMap<Node, Vec<Edge>> {
    let mut held: BTreeMap<Node, Vec<(&SurveyedLock, &SurveyedHolder)>> = BTreeMap::new();
    for lock in locks {
        for holder in &lock.holders {
            if let Some(hold) = holder.hold {
                held.entry(hold).or_default().push((lock, holder));
            }
        }
    }
    let mut edges: BTreeMap<Node, Vec<Edge>> = BTreeMap::new();
    for lock in locks {
        for waiter in &lock.waiters {
            if !blocks(lock, waiter) {
                continue;
            }
            let blocking = lock.holders.iter().filter_map(|holder| holder.hold);
            for (next, from) in
                blocking.flat_map(|next| waiter.inside.iter().map(move |from| (next, *from)))
            {
                let Some((outer, holder)) = held.get(&from).and_then(|held| held.first()) else {
                    continue;
                };
                edges.entry(from).or_default().push(Edge {
                    client: Arc::clone(&waiter.client),
                    holds: outer.key.clone(),
                    acquired_at: holder.site.clone(),
                    waits_for: lock.key.clone(),
                    waits_at: waiter.site.clone(),
                    ids: (from, waiter.began, next),
                });
            }
        }
    }
    edges
}

/// True if the waiter cannot have the lock before each of its holders lets go of it.
fn blocks(lock: &SurveyedLock, waiter: &SurveyedWaiter) -> bool {
    match (lock.kind, waiter.kind) {
        // Any permit would do.
        (_, HoldKind::Semaphore | HoldKind::Latch) => false,
        // Readers wait for the queue, if at all.
        (Some(HoldKind::Read), HoldKind::Read) => false,
        _ => true,
    }
}

/// The shortest way from a hold back to itself.
fn shortest_circle(edges: &BTreeMap<Node, Vec<Edge>>, start: Node) -> Option<Vec<Edge>> {
    let mut came_by: BTreeMap<Node, &Edge> = BTreeMap::new();
    let mut frontier = vec![start];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for edge in frontier.iter().filter_map(|node| edges.get(node)).flatten() {
            let to = edge.ids.2;
            if came_by.contains_key(&to) {
                continue;
            }
            came_by.insert(to, edge);
            if to == start {
                return Some(way_back(&came_by, start));
            }
            next.push(to);
        }
        frontier = next;
    }
    None
}

fn way_back(came_by: &BTreeMap<Node, &Edge>, start: Node) -> Vec<Edge> {
    let (mut circle, mut node) = (Vec::new(), start);
    while let Some(edge) = came_by.get(&node) {
        circle.push((*edge).clone());
        node = edge.ids.0;
        if node == start {
            break;
        }
    }
    circle.reverse();
    circle
}
