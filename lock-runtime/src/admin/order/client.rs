//! What one client contributes: whether it records, and the names of its locks without its namespace.

use std::sync::Arc;

use super::Inversion;
use super::class::{Class, key_of_name};
use super::graph::{CLASSES, End, NAMES};
use crate::site::CallSite;
use crate::store::{HoldKind, Target};

/// Whether a client records the order of its locks: if it does, what the names of its locks begin with.
#[derive(Clone, Default)]
pub(crate) struct ClientOrder(Option<Arc<str>>);

impl ClientOrder {
    pub(crate) fn new(is_on: bool, namespace: Option<&str>) -> Self {
        let prefix = || namespace.map_or_else(String::new, |namespace| format!("{namespace}:"));
        Self(is_on.then(|| prefix().into()))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the name of a client's lock without the client's namespace; `None` if that client does not record.
    fn name_of<'a>(&self, target: &'a Target) -> Option<&'a str> {
        let (prefix, name) = (self.0.as_deref()?, target.key().as_str());
        Some(name.strip_prefix(prefix).unwrap_or(name))
    }
}

/// The locks of one acquire.
pub(crate) struct Locks<'a> {
    pub(crate) order: &'a ClientOrder,
    pub(crate) target: &'a Target,
    pub(crate) site: Option<CallSite>,
}

struct Lock<'a> {
    name: &'a str,
    class: Class<'a>,
    is_read: bool,
    site: Option<CallSite>,
}

impl<'a> Locks<'a> {
    /// Records that they were acquired inside of `outer`, and reports each cycle that is closed for the first time. The
    /// graph is not locked then.
    pub(crate) fn record_inside(&self, outer: &Self, mut report: impl FnMut(&Inversion)) {
        for outer in outer.each() {
            for inner in self.each() {
                // Readers exclude each other only while writers of both wait.
                if outer.name == inner.name || outer.is_read && inner.is_read {
                    continue;
                }
                let (outer_class, inner_class) = (outer.class(), inner.class());
                CLASSES.record(outer_class, inner_class).iter().for_each(&mut report);
                if outer_class.key == inner_class.key {
                    let found = NAMES.record(outer.full_name(), inner.full_name());
                    found.iter().for_each(&mut report);
                }
            }
        }
    }

    fn each(&self) -> impl Iterator<Item = Lock<'a>> {
        let Self { order, target, site } = *self;
        // The text of several keys does not tell which is whose.
        let is_one = target.members().is_empty();
        let template = site.filter(|_| is_one).and_then(CallSite::template);
        target.locks().filter_map(move |lock| {
            if matches!(lock.kind(), HoldKind::Semaphore | HoldKind::Latch) {
                return None;
            }
            let name = order.name_of(lock)?;
            let class = Class::new(name, template);
            Some(Lock { name, class, is_read: lock.kind() == HoldKind::Read, site })
        })
    }
}

impl Lock<'_> {
    fn class(&self) -> End<'_> {
        End { key: self.class.key(), text: &self.class, site: self.site }
    }

    fn full_name(&self) -> End<'_> {
        End { key: key_of_name(self.name), text: &self.name, site: self.site }
    }
}
