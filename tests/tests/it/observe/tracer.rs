//! A subscriber that keeps every span, to look at.

use std::fmt::Debug;
use std::sync::{MutexGuard, PoisonError};

use lock_tests::log::here;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::prelude::*;

/// Installed for its thread by [`install`](Self::install). One thread uses it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracer(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    spans: Vec<Spanned>,
    entered: Vec<u64>,
    events: Vec<(Option<u64>, String)>,
}

/// One span.
#[derive(Debug, Clone)]
pub(crate) struct Spanned {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    /// What it may have, in the order in which it was declared.
    pub(crate) declared: Vec<&'static str>,
    pub(crate) fields: BTreeMap<String, String>,
    /// The number of the span around it.
    pub(crate) parent: Option<u64>,
    pub(crate) number: u64,
    handles: usize,
}

impl Spanned {
    pub(crate) fn is_closed(&self) -> bool {
        self.handles == 0
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Tracer {
    pub(crate) fn install(&self) -> DefaultGuard {
        here(self.clone())
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of that name, in the order in which they began.
    pub(crate) fn spans(&self, name: &str) -> Vec<Spanned> {
        self.all().spans.iter().filter(|span| span.name == name).cloned().collect()
    }

    /// Those that have ended.
    pub(crate) fn closed(&self, name: &str) -> Vec<Spanned> {
        self.spans(name).into_iter().filter(Spanned::is_closed).collect()
    }

    /// The messages of events directly inside of a span.
    pub(crate) fn events_in(&self, span: u64) -> Vec<String> {
        let all = self.all();
        let inside = all.events.iter().filter(|(around, _)| *around == Some(span));
        inside.map(|(_, message)| message.clone()).collect()
    }
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

fn at(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap() - 1
}

impl Subscriber for Tracer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lock_runtime")
            || metadata.target().starts_with("it::observe")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut all = self.all();
        let metadata = span.metadata();
        let mut fields = BTreeMap::new();
        span.record(&mut Fields(&mut fields));
        let number = all.spans.len() as u64 + 1;
        let parent = if span.is_contextual() {
            all.entered.last().copied()
        } else {
            span.parent().map(Id::into_u64)
        };
        all.spans.push(Spanned {
            name: metadata.name(),
            level: *metadata.level(),
            target: metadata.target(),
            declared: metadata.fields().iter().map(|field| field.name()).collect(),
            fields,
            parent,
            number,
            handles: 1,
        });
        Id::from_u64(number)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.all().spans[at(span)].fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut all = self.all();
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let around = all.entered.last().copied();
        all.events.push((around, fields.remove("message").unwrap_or_default()));
    }

    fn enter(&self, span: &Id) {
        self.all().entered.push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        let mut all = self.all();
        assert_eq!(all.entered.pop(), Some(span.into_u64()), "left in another order than entered");
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.all().spans[at(span)].handles += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut all = self.all();
        let span = &mut all.spans[at(&span)];
        span.handles -= 1;
        span.is_closed()
    }
}
