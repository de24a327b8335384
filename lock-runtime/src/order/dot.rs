//! The lock order as a graph for Graphviz.

use std::fmt::Write as _;

use super::{LockOrder, OrderEdge};

pub(super) fn to_dot(order: &LockOrder) -> String {
    let inverted: Vec<_> = order.inversions.iter().flat_map(|one| &one.edges).collect();
    let is_same = |a: &OrderEdge, b: &OrderEdge| (&a.outer, &a.inner) == (&b.outer, &b.inner);
    // Inversions of names have edges that no class has.
    let of_names = |edge: &&&OrderEdge| !order.edges.iter().any(|known| is_same(known, edge));
    let names = inverted.iter().filter(of_names).copied();
    let mut dot = "digraph lock_order {\n".to_owned();
    for edge in order.edges.iter().chain(names) {
        let is_inverted = inverted.iter().any(|one| is_same(one, edge));
        let color = if is_inverted { ", color=red" } else { "" };
        let (outer, inner, tip) =
            (quoted(&edge.outer), quoted(&edge.inner), quoted(&edge.to_string()));
        let times = edge.times;
        // Writing to a string does not fail.
        let _ = writeln!(dot, "    {outer} -> {inner} [label=\"{times}\", tooltip={tip}{color}];");
    }
    dot + "}\n"
}

/// A text as Graphviz reads it: a backslash begins an escape in labels.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
