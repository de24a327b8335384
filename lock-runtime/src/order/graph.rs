//! A graph of what was acquired inside of what. It finds the edges that close a cycle.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::{Inversion, MAX_EDGES, OrderEdge};
use crate::site::CallSite;

/// The classes of this process.
pub(super) static CLASSES: LazyLock<Graph> = LazyLock::new(Graph::default);

/// The names of locks that were acquired inside of a lock of the same class.
pub(super) static NAMES: LazyLock<Graph> = LazyLock::new(Graph::default);

/// One end of an edge: the key and the text of its node, and the site of the acquire.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) key: u64,
    pub(super) text: &'a dyn fmt::Display,
    pub(super) site: Option<CallSite>,
}

#[derive(Default)]
pub(super) struct Graph {
    edges: RwLock<Edges>,
    is_full: AtomicBool,
}

#[derive(Default)]
struct Edges {
    nodes: Vec<Node>,
    /// Numbers of nodes, by key. Two of thousands of random keys are never equal in practice; if they were, two classes
    /// would count as one.
    by_key: HashMap<u64, usize>,
    all: Vec<Edge>,
    /// Numbers of edges, by the keys of their ends.
    by_ends: HashMap<(u64, u64), usize>,
    /// Numbers of edges: those of each cycle, the edge that closed it first.
    cycles: Vec<Vec<usize>>,
}

struct Node {
    text: String,
    /// Numbers of the edges that lead from it, without those that closed a cycle: these would make cycles of edges that
    /// contradict nothing else.
    outgoing: Vec<usize>,
}

struct Edge {
    outer: usize,
    inner: usize,
    outer_site: Option<CallSite>,
    inner_site: Option<CallSite>,
    times: AtomicU64,
}

impl Graph {
    /// Records that `inner` was acquired inside of `outer`. Returns the cycle, if this closes one for the first time.
    pub(super) fn record(&self, outer: End<'_>, inner: End<'_>) -> Option<Inversion> {
        if let Some(edge) = self.edges.read().find(outer, inner) {
            edge.times.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if self.is_full() {
            return None;
        }
        let (found, is_full) = {
            let mut edges = self.edges.write();
            (edges.add(outer, inner), edges.all.len() >= MAX_EDGES)
        };
        if is_full && !self.is_full.swap(true, Ordering::Relaxed) {
            tracing::debug!(
                edges = MAX_EDGES,
                "the lock order is full, and new edges are not recorded"
            );
        }
        found
    }

    /// True if it records no new edges.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Returns the edges and the cycles.
    pub(super) fn snapshot(&self) -> (Vec<OrderEdge>, Vec<Inversion>) {
        let edges = self.edges.read();
        let inversions = edges.cycles.iter().map(|cycle| edges.inversion(cycle));
        (edges.all.iter().map(|edge| edges.show(edge)).collect(), inversions.collect())
    }
}

impl Edges {
    fn find(&self, outer: End<'_>, inner: End<'_>) -> Option<&Edge> {
        self.all.get(*self.by_ends.get(&(outer.key, inner.key))?)
    }

    fn add(&mut self, outer: End<'_>, inner: End<'_>) -> Option<Inversion> {
        // Another thread may have been faster.
        if self.find(outer, inner).is_some() || self.all.len() >= MAX_EDGES {
            return None;
        }
        let (from, to) = (self.node(outer), self.node(inner));
        let closed = (from != to).then(|| self.path(to, from)).flatten();
        let number = self.all.len();
        self.all.push(Edge {
            outer: from,
            inner: to,
            outer_site: outer.site,
            inner_site: inner.site,
            times: AtomicU64::new(1),
        });
        self.by_ends.insert((outer.key, inner.key), number);
        let Some(path) = closed else {
            self.nodes[from].outgoing.push(number);
            return None;
        };
        let cycle: Vec<_> = [number].into_iter().chain(path).collect();
        let inversion = self.inversion(&cycle);
        self.cycles.push(cycle);
        Some(inversion)
    }

    fn node(&mut self, end: End<'_>) -> usize {
        *self.by_key.entry(end.key).or_insert_with(|| {
            self.nodes.push(Node { text: end.text.to_string(), outgoing: Vec::new() });
            self.nodes.len() - 1
        })
    }

    /// Returns the edges of a shortest path.
    fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut arrived_by: HashMap<usize, usize> = HashMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(node) = next.pop_front() {
            for &number in &self.nodes[node].outgoing {
                let inner = self.all[number].inner;
                if inner == from || arrived_by.contains_key(&inner) {
                    continue;
                }
                arrived_by.insert(inner, number);
                next.push_back(inner);
            }
        }
        let back = |number: &usize| arrived_by.get(&self.all[*number].outer).copied();
        let mut path: Vec<_> = std::iter::successors(arrived_by.get(&to).copied(), back).collect();
        path.reverse();
        (!path.is_empty()).then_some(path)
    }

    fn inversion(&self, cycle: &[usize]) -> Inversion {
        Inversion { edges: cycle.iter().map(|number| self.show(&self.all[*number])).collect() }
    }

    fn show(&self, edge: &Edge) -> OrderEdge {
        let text = |node: usize| self.nodes[node].text.clone();
        let site = |site: Option<CallSite>| site.map_or("unknown".to_owned(), |it| it.to_string());
        OrderEdge {
            outer: text(edge.outer),
            inner: text(edge.inner),
            outer_site: site(edge.outer_site),
            inner_site: site(edge.inner_site),
            times: edge.times.load(Ordering::Relaxed),
        }
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
        let graph = Graph::default();
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
        let graph = Graph::default();
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
