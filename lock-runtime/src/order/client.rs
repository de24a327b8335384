//! What one client contributes: whether it records, and the names of its locks without its namespace.

use std::sync::Arc;

use super::Inversion;
use super::class::{Class, key_of_name};
use super::graph::{CLASSES, End, NAMES};
use crate::site::CallSite;
use crate::store::{HoldKind, Target};

/// Whether a client records the order of its locks, and under which names.
#[derive(Clone, Default)]
pub(crate) struct ClientOrder(Option<Arc<Names>>);

struct Names {
    namespace: Option<Box<str>>,
}

impl ClientOrder {
    pub(crate) fn new(is_on: bool, namespace: Option<&str>) -> Self {
        Self(is_on.then(|| Arc::new(Names { namespace: namespace.map(Box::from) })))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the name of a client's lock without the client's namespace; `None` if that client does not record.
    fn name_of<'a>(&self, target: &'a Target) -> Option<&'a str> {
        let names = self.0.as_ref()?;
        let name = target.key().as_str();
        let inside = names.namespace.as_ref().and_then(|namespace| name.strip_prefix(&**namespace));
        Some(inside.and_then(|name| name.strip_prefix(':')).unwrap_or(name))
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
}

impl<'a> Locks<'a> {
    /// Records that they were acquired inside of `outer`, and reports each cycle that is closed for the first time. The
    /// graph is not locked then.
    pub(crate) fn record_inside(&self, outer: &Self, mut report: impl FnMut(&Inversion)) {
        for outer_lock in outer.each() {
            for lock in self.each() {
                // Readers exclude each other only while writers of both wait.
                let both_read = outer_lock.is_read && lock.is_read;
                if !both_read && outer_lock.name != lock.name {
                    let [outer, inner] = [(&outer_lock, outer.site), (&lock, self.site)];
                    record(outer, inner, &mut report);
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
            Some(Lock { name, class, is_read: lock.kind() == HoldKind::Read })
        })
    }
}

fn record(
    (outer, outer_site): (&Lock<'_>, Option<CallSite>),
    (inner, inner_site): (&Lock<'_>, Option<CallSite>),
    report: &mut impl FnMut(&Inversion),
) {
    let class = |lock: &Lock<'_>| lock.class.key();
    let (outer_class, inner_class) = (class(outer), class(inner));
    let found = CLASSES.record(
        End { key: outer_class, text: &outer.class, site: outer_site },
        End { key: inner_class, text: &inner.class, site: inner_site },
    );
    found.iter().for_each(&mut *report);
    if outer_class == inner_class {
        let end = |lock: &Lock<'_>| key_of_name(lock.name);
        let found = NAMES.record(
            End { key: end(outer), text: &outer.name, site: outer_site },
            End { key: end(inner), text: &inner.name, site: inner_site },
        );
        found.iter().for_each(report);
    }
}
