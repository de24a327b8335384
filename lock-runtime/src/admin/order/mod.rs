//! Lock order: finds locks that are acquired inside of each other in different orders.

mod class;
mod client;
mod graph;

use std::fmt::{self, Write as _};

pub(crate) use self::client::{ClientOrder, Locks};
use self::graph::{CLASSES, NAMES};

/// The most pairs of classes that a process records, and the most pairs of names.
pub const MAX_EDGES: usize = 4_096;

/// Which locks of this process were acquired inside of which: see [`Admin::lock_order`](crate::admin::Admin::lock_order).
/// Its `Display` has a line for each edge and each inversion.
///
/// Two tasks that acquire the same two locks in opposite orders may run for years without a deadlock. With the feature
/// `lock-order`, each acquire inside of another hold records which lock it is, and which are held around it. If that
/// contradicts an earlier order, the log has a warning with the places of both: in the first test run that uses both
/// orders, one after the other, and no task has to wait for it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use lock_runtime::LockClient;
///
/// let client = LockClient::builder().lock_order(true).in_memory()?;
/// let (order, stock) = (client.mutex("order:42"), client.mutex("stock:7"));
/// order.run(async { stock.run(async {}).await }).await??;
/// stock.run(async { order.run(async {}).await }).await??; // logs a warning
///
/// let found = client.admin().lock_order();
/// assert_eq!(found.inversions.len(), 1);
/// println!("{}", found.inversions[0]);
/// # Ok::<_, lock_runtime::LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// Clients record if [`LockClientBuilder::lock_order`](crate::LockClientBuilder::lock_order) says so; by default, in
/// programs with debug assertions. All clients of a process share what they record, because each test usually makes a
/// client of its own.
///
/// # Classes
///
/// `order:42` and `order:43` are locks of one class, `order`. The class of a lock is its name, without the client's
/// namespace, up to the first `:`. An attribute or a layer whose key is a template has the template as its class, without
/// the names of the values and without values at its end: the class of `tenant:{tenant}:order:{id}` is `tenant:{}:order`,
/// and that of `order:{id}` is `order`. Several keys of one attribute count by their names.
///
/// Two locks of one class are compared by their full names: to acquire `account:1` and then `account:2` contradicts only
/// `account:2` and then `account:1`.
///
/// # What is recorded
///
/// An acquire is inside of a hold if it is called by what the hold runs: the body of an annotated function, of `run` or of
/// a layer, also in a task that is wrapped in [`scope::inherit`](crate::scope::inherit). A guard that is only kept in a
/// variable, and a spawned task, leave no trace of what is held around them.
///
/// Not recorded:
///
/// - A re-entry, and a read inside of the write side of the same lock: they do not wait for other tasks.
/// - The locks of one multi lock among each other: they are acquired all or none. It counts like each of its locks otherwise.
/// - An acquire that does not wait ([`Wait::None`](crate::Wait::None), `try_lock`). Locks inside of it count.
/// - A read lock inside of a read lock: readers exclude each other only while writers of both wait.
/// - Permits of semaphores and latches: any holder may free a permit, so an order of acquires says nothing.
///
/// A warning is a hint: two orders are harmless where a third lock around both keeps the tasks apart, or where the locks
/// are of different stores. At most [`MAX_EDGES`] pairs of classes and as many pairs of names are kept; what comes after that
/// is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOrder {
    /// The pairs of classes, in the order in which they were first seen.
    pub edges: Vec<OrderEdge>,
    /// The contradictions, in the order in which they were found. Each was logged once.
    pub inversions: Vec<Inversion>,
    /// True if there was no room for more edges, so that some are not recorded.
    pub is_full: bool,
}

/// A lock that was acquired inside of another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderEdge {
    /// The class of the lock that was held; its name, if both locks are of one class.
    pub outer: String,
    /// The class of the lock that was acquired inside of it, or its name.
    pub inner: String,
    /// Where the program acquired the outer one, when this was first seen.
    pub outer_site: String,
    /// Where the program acquired the inner one, when this was first seen.
    pub inner_site: String,
    /// How often this was seen.
    pub times: u64,
}

/// Orders that contradict each other, as a cycle: each edge begins with the lock that the one before it ends with.
///
/// Its `Display` is the sentence that was logged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inversion {
    /// The edge that closed the cycle, then the others; two or more.
    pub edges: Vec<OrderEdge>,
}

impl LockOrder {
    /// What this process has recorded so far.
    pub(crate) fn recorded() -> Self {
        let ((edges, mut inversions), (_, of_names)) = (CLASSES.snapshot(), NAMES.snapshot());
        inversions.extend(of_names);
        Self { edges, inversions, is_full: CLASSES.is_full() || NAMES.is_full() }
    }

    /// Returns the graph in the language of Graphviz: an arrow leads from the outer lock to the inner one, and those of
    /// inversions are red.
    ///
    /// # Examples
    ///
    /// ```
    /// let dot = lock_runtime::LockClient::in_memory().admin().lock_order().to_dot();
    /// assert!(dot.starts_with("digraph lock_order {"));
    /// ```
    #[must_use]
    pub fn to_dot(&self) -> String {
        let inverted: Vec<_> = self.inversions.iter().flat_map(|one| &one.edges).collect();
        let is_same = |a: &OrderEdge, b: &OrderEdge| (&a.outer, &a.inner) == (&b.outer, &b.inner);
        // Inversions of names have edges that no class has.
        let of_names = |edge: &&&OrderEdge| !self.edges.iter().any(|known| is_same(known, edge));
        let names = inverted.iter().filter(of_names).copied();
        let mut dot = "digraph lock_order {\n".to_owned();
        for edge in self.edges.iter().chain(names) {
            let is_inverted = inverted.iter().any(|one| is_same(one, edge));
            let color = if is_inverted { ", color=red" } else { "" };
            let (outer, inner, tip) =
                (quoted(&edge.outer), quoted(&edge.inner), quoted(&edge.to_string()));
            let times = edge.times;
            // Writing to a string does not fail.
            let _ =
                writeln!(dot, "    {outer} -> {inner} [label=\"{times}\", tooltip={tip}{color}];");
        }
        dot + "}\n"
    }
}

impl fmt::Display for LockOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for edge in &self.edges {
            writeln!(f, "{edge}, {} times", edge.times)?;
        }
        for inversion in &self.inversions {
            writeln!(f, "{inversion}")?;
        }
        Ok(())
    }
}

impl fmt::Display for OrderEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outer, inner, outer_site, inner_site, .. } = self;
        write!(f, "{inner:?} at {inner_site} inside of {outer:?} at {outer_site}")
    }
}

impl fmt::Display for Inversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("locks are acquired in orders that contradict each other: ")?;
        for (number, edge) in self.edges.iter().enumerate() {
            let before = match number {
                0 => "",
                1 => ", but ",
                _ => ", and ",
            };
            write!(f, "{before}{edge}")?;
        }
        f.write_str(
            "; tasks that do this at the same time can wait for each other, so acquire these locks in one order \
             everywhere, or all at once with a multi lock",
        )
    }
}

/// A text as Graphviz reads it: a backslash begins an escape in labels.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
