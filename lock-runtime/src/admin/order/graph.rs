//! A graph of what was acquired inside of what. It finds the edges that close a cycle.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::{Inversion, MAX_EDGES, OrderEdge};
use crate::admin::shortest::shortest_path;
use crate::site::CallSite;

/// The classes of this process.
pub(super) static CLASSES: Graph = Graph::new();

/// The names of locks that were acquired inside of a lock of the same class.
pub(super) static NAMES: Graph = Graph::new();

/// One end of an edge: the key and the text of its node, and the site of the acquire.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) key: u64,
    pub(super) text: &'a dyn fmt::Display,
    pub(super) site: Option<CallSite>,
}

pub(super) struct Graph(RwLock<Edges>);

/// The keys of the outer node and of the inner one. Two of thousands of random keys are never equal in practice; if they were,
/// two classes would count as one.
type Ends = (u64, u64);

struct Edges {
    /// The texts of nodes, by key.
    texts: BTreeMap<u64, String>,
    all: BTreeMap<Ends, Edge>,
    /// The edges of each cycle; the one that closed it is first.
    cycles: Vec<Vec<Ends>>,
}

struct Edge {
    /// How many edges are older.
    number: usize,
    /// True if it closed a cycle. The search leaves it out: it would make cycles of edges that contradict nothing else.
    closes: bool,
    outer_site: Option<CallSite>,
    inner_site: Option<CallSite>,
    times: AtomicU64,
}

impl Graph {
    const fn new() -> Self {
        let edges = Edges { texts: BTreeMap::new(), all: BTreeMap::new(), cycles: Vec::new() };
        Self(RwLock::new(edges))
    }

    /// Records that `inner` was acquired inside of `outer`. Returns the cycle, if this closes one for the first time.
    pub(super) fn record(&self, outer: End<'_>, inner: End<'_>) -> Option<Inversion> {
        let ends = (outer.key, inner.key);
        if self.0.read().counts(ends) {
            return None;
        }
        let mut edges = self.0.write();
        // Another thread may have been faster.
        if edges.counts(ends) {
            return None;
        }
        for End { key, text, .. } in [outer, inner] {
            edges.texts.entry(key).or_insert_with(|| text.to_string());
        }
        let back = || shortest_path(inner.key, outer.key, |node| edges.leaving(node));
        let closed = (outer.key != inner.key).then(back).flatten();
        let edge = Edge {
            number: edges.all.len(),
            closes: closed.is_some(),
            outer_site: outer.site,
            inner_site: inner.site,
            times: AtomicU64::new(1),
        };
        edges.all.insert(ends, edge);
        let found = closed.map(|path| {
            let cycle: Vec<_> = [ends].into_iter().chain(path).collect();
            let inversion = edges.inversion(&cycle);
            edges.cycles.push(cycle);
            inversion
        });
        let is_full = edges.is_full();
        // A subscriber of the log may run any code, also some that acquires a lock and comes back here.
        drop(edges);
        if is_full {
            tracing::debug!(
                edges = MAX_EDGES,
                "the lock order is full, and new edges are not recorded"
            );
        }
        found
    }

    /// True if it records no new edges.
    pub(super) fn is_full(&self) -> bool {
        self.0.read().is_full()
    }

    /// Returns the edges and the cycles.
    pub(super) fn snapshot(&self) -> (Vec<OrderEdge>, Vec<Inversion>) {
        let edges = self.0.read();
        let mut ends: Vec<_> = edges.all.keys().copied().collect();
        ends.sort_by_key(|ends| edges.all[ends].number);
        let inversions = edges.cycles.iter().map(|cycle| edges.inversion(cycle));
        (edges.show(&ends), inversions.collect())
    }
}

impl Edges {
    fn is_full(&self) -> bool {
        self.all.len() >= MAX_EDGES
    }

    /// Counts the edge if it is known. Returns true if so, or if there is no room for it.
    fn counts(&self, ends: Ends) -> bool {
        let Some(edge) = self.all.get(&ends) else { return self.is_full() };
        edge.times.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Returns the edges that lead from a node, without those that closed a cycle, each with its inner node.
    fn leaving(&self, node: u64) -> impl Iterator<Item = (Ends, u64)> {
        let all = self.all.range((node, u64::MIN)..=(node, u64::MAX));
        all.filter(|(_, edge)| !edge.closes).map(|(ends, _)| (*ends, ends.1))
    }

    fn inversion(&self, cycle: &[Ends]) -> Inversion {
        Inversion { edges: self.show(cycle) }
    }

    fn show(&self, all: &[Ends]) -> Vec<OrderEdge> {
        let text = |key: u64| self.texts[&key].clone();
        let site = |site: Option<CallSite>| site.map_or("unknown".to_owned(), |it| it.to_string());
        let shown = all.iter().map(|ends| (ends, &self.all[ends])).map(|(ends, edge)| OrderEdge {
            outer: text(ends.0),
            inner: text(ends.1),
            outer_site: site(edge.outer_site),
            inner_site: site(edge.inner_site),
            times: edge.times.load(Ordering::Relaxed),
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(graph: &Graph, outer: u64, inner: u64) -> Option<Vec<String>> {
        let [outer, inner] =
            [&outer, &inner].map(|node| End { key: *node, text: node, site: None });
        let found = graph.record(outer, inner)?;
        Some(found.edges.into_iter().map(|edge| format!("{} {}", edge.outer, edge.inner)).collect())
    }

    #[test]
    fn an_edge_that_closes_a_cycle_is_found_once() {
        let graph = Graph::new();
        for (outer, inner) in [(1, 2), (2, 3), (1, 3), (3, 4), (4, 4)] {
            assert_eq!(record(&graph, outer, inner), None, "{outer} {inner}");
        }
        assert_eq!(record(&graph, 4, 1).unwrap(), ["4 1", "1 3", "3 4"], "a shortest cycle");
        assert_eq!(record(&graph, 4, 1), None);
        // What follows from the contradiction alone is none.
        assert_eq!(record(&graph, 1, 5), None);
        assert_eq!(record(&graph, 5, 4), None);
        let (edges, inversions) = graph.snapshot();
        assert_eq!(edges.len(), 8);
        assert_eq!(inversions.len(), 1);
        assert_eq!(inversions[0].edges[0].times, 2);
    }

    #[test]
    fn a_full_graph_stays_as_it_is() {
        let graph = Graph::new();
        for inner in 1..=MAX_EDGES as u64 {
            assert!(!graph.is_full());
            record(&graph, 0, inner);
        }
        assert!(graph.is_full());
        assert_eq!(record(&graph, 1, 0), None);
        record(&graph, 0, 1);
        let (edges, _) = graph.snapshot();
        assert_eq!((edges.len(), edges[0].times), (MAX_EDGES, 2));
    }
}
