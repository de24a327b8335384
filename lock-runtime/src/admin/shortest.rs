//! The search for a shortest path, which finds deadlocks among waiting tasks and circles in the lock order. Both graphs are small.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Returns the edges of a shortest path; if both ends are the same node, of a shortest circle. `leaving` returns the edges that
/// lead from a node, each with its other end.
pub(crate) fn shortest_path<Node, Edge, Edges>(
    from: Node,
    to: Node,
    leaving: impl Fn(Node) -> Edges,
) -> Option<Vec<Edge>>
where
    Node: Copy + Ord,
    Edge: Copy,
    Edges: IntoIterator<Item = (Edge, Node)>,
{
    // How each node was first reached: by which edge, and from where. The nearer nodes are reached before the others.
    let mut reached_by: BTreeMap<Node, (Edge, Node)> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while !reached_by.contains_key(&to) {
        let node = next.pop_front()?;
        for (edge, end) in leaving(node) {
            if let Entry::Vacant(entry) = reached_by.entry(end) {
                entry.insert((edge, node));
                next.push_back(end);
            }
        }
    }
    let (mut path, mut node) = (Vec::new(), to);
    while let Some((edge, before)) = reached_by.get(&node) {
        path.push(*edge);
        node = *before;
        // The start may have been reached as well, by a circle.
        if node == from {
            break;
        }
    }
    path.reverse();
    Some(path)
}
