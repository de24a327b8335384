//! What is done to both stores: random sequences of operations.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::prelude::*;

/// Names and owners of a sequence. More would seldom meet.
pub(crate) const NAMES: usize = 3;
pub(crate) const OWNERS: usize = 3;

/// Operations in a row, in rounds. Between two rounds every short lease ends.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) themes: [Theme; NAMES],
    /// Who listens to everything that concerns the names: the store that is operated on, or another process.
    pub(crate) listeners: Option<usize>,
    pub(crate) rounds: Vec<Vec<Op>>,
}

/// What a name is mostly used as, so that operations meet more often than they collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    Mutex,
    Fair,
    Sides,
    Semaphore,
    Latch,
    Anything,
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Acquire {
        what: What,
        lease: Length,
        tokens: u32,
        place: Option<Length>,
        joins: bool,
    },
    /// Without a length it only asks who holds them.
    Renew(Vec<(What, Option<Length>)>),
    /// At once, or by itself when so long has passed.
    Release(What, Option<Length>),
    Latch(usize, LatchRequest),
    RaiseToken {
        name: usize,
        above: bool,
    },
    Inspect(usize),
    ForceRelease(usize),
}

/// A lock and an owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct What {
    pub(crate) name: usize,
    pub(crate) owner: usize,
    /// Which of the theme's kinds.
    pick: usize,
    limit: u32,
    /// For a reader: as a hold of its own, inside of what the owner writes.
    inside: bool,
}

/// How long a lease or a place lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// Longer than a round may take, and over before the next.
    Short,
    /// Longer than all sequences together: the rounds of one wait for those of others.
    Long,
    Longer,
}

impl Length {
    pub(crate) fn duration(self, pace: Pace) -> Duration {
        match self {
            Self::Short => pace.short(),
            Self::Long => secs(600),
            Self::Longer => secs(1_200),
        }
    }
}

/// How many times longer than on a fast machine the short lengths are, and what a round may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace(pub(crate) u32);

impl Pace {
    /// A round that takes longer says nothing: a short lease may have ended in one store and not yet in
    /// the other. It is also how far remaining times may be apart.
    pub(crate) fn round(self) -> Duration {
        ms(60) * self.0
    }

    /// See [`Length::Short`].
    pub(crate) fn short(self) -> Duration {
        2 * self.round()
    }
}

impl Theme {
    pub(crate) fn kinds(self) -> &'static [HoldKind] {
        use HoldKind::{Fair, Latch, Multi, Mutex, Read, Semaphore, Write};
        match self {
            Self::Mutex => &[Mutex, Multi],
            Self::Fair => &[Fair, Fair, Fair, Fair, Mutex],
            Self::Sides => &[Read, Write],
            Self::Semaphore => &[Semaphore],
            Self::Latch => &[Latch, Semaphore],
            Self::Anything => &[Mutex, Fair, Read, Write, Semaphore, Multi],
        }
    }
}

impl What {
    pub(crate) fn kind(&self, themes: &[Theme; NAMES]) -> HoldKind {
        let kinds = themes[self.name].kinds();
        kinds[self.pick % kinds.len()]
    }

    pub(crate) fn owner(&self, themes: &[Theme; NAMES], client: &str) -> OwnerId {
        let (own, number) = (owner(client, self.owner), u64::try_from(self.owner).unwrap());
        match self.kind(themes) {
            HoldKind::Read if self.inside => OwnerId::new(client, number + 11, 1).within(&own),
            // Each hold has an id of its own, and a mutex is in the same hash as holds of other kinds.
            HoldKind::Mutex | HoldKind::Multi => OwnerId::new(client, number + 21, 1),
            _ => own,
        }
    }

    pub(crate) fn target(&self, themes: &[Theme; NAMES], keys: &[LockKey; NAMES]) -> Arc<Target> {
        target(self.kind(themes), keys, self.name, self.limit)
    }
}

pub(crate) fn target(
    kind: HoldKind,
    keys: &[LockKey; NAMES],
    name: usize,
    limit: u32,
) -> Arc<Target> {
    let key = keys[name].clone();
    match kind {
        HoldKind::Fair => Target::fair(key),
        HoldKind::Read => Target::read(key),
        HoldKind::Write => Target::write(key),
        HoldKind::Semaphore => Target::semaphore(key, NonZeroU32::new(limit).unwrap()),
        HoldKind::Latch => Target::latch(key),
        HoldKind::Multi => Target::several([key, keys[(name + 1) % NAMES].clone()]).unwrap(),
        _ => Target::mutex(key),
    }
}

/// Owners of a sequence want one permit, two, three.
pub(crate) fn owner(client: &str, owner: usize) -> OwnerId {
    let number = u32::try_from(owner).unwrap() + 1;
    OwnerId::new(client, u64::from(number), number)
}

/// The first is asked for most, so that something comes of it.
fn name() -> impl Strategy<Value = usize> {
    prop_oneof![5 => Just(0), 2 => Just(1), 1 => Just(2)]
}

fn what() -> impl Strategy<Value = What> {
    let inside = proptest::bool::weighted(0.3);
    (name(), 0..OWNERS, 0..30_usize, 1..=5_u32, inside)
        .prop_map(|(name, owner, pick, limit, inside)| What { name, owner, pick, limit, inside })
}

fn length() -> impl Strategy<Value = Length> {
    prop_oneof![3 => Just(Length::Short), 2 => Just(Length::Long), 1 => Just(Length::Longer)]
}

fn latch() -> impl Strategy<Value = LatchRequest> {
    prop_oneof![
        2 => (0..4_u32).prop_map(LatchRequest::SetCount),
        4 => Just(LatchRequest::CountDown),
        2 => Just(LatchRequest::Count),
        1 => Just(LatchRequest::Remove),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let acquire = (
        what(),
        length(),
        1..4_u32,
        proptest::option::weighted(0.75, length()),
        proptest::bool::weighted(0.15),
    )
        .prop_map(|(what, lease, tokens, place, joins)| Op::Acquire {
            what,
            lease,
            tokens,
            place,
            joins,
        });
    prop_oneof![
        24 => acquire,
        5 => vec((what(), proptest::option::weighted(0.7, length())), 1..4).prop_map(Op::Renew),
        12 => (what(), proptest::option::weighted(0.3, length()))
            .prop_map(|(what, keep)| Op::Release(what, keep)),
        5 => (name(), latch()).prop_map(|(name, request)| Op::Latch(name, request)),
        1 => (name(), any::<bool>()).prop_map(|(name, above)| Op::RaiseToken { name, above }),
        3 => name().prop_map(Op::Inspect),
        1 => name().prop_map(Op::ForceRelease),
    ]
}

/// Every owner wants the same, one after the other.
fn crowd() -> impl Strategy<Value = Vec<Op>> {
    let each = || (length(), proptest::option::weighted(0.75, length()));
    (what(), [each(), each(), each()]).prop_map(|(what, each)| {
        let ask = |(number, (lease, place))| {
            let what = What { owner: (what.owner + number) % OWNERS, ..what };
            Op::Acquire { what, lease, tokens: 1, place, joins: false }
        };
        each.into_iter().enumerate().map(ask).collect()
    })
}

pub(crate) fn sequence() -> impl Strategy<Value = Sequence> {
    use Theme::{Anything, Fair, Latch, Mutex, Semaphore, Sides};
    let theme = || select(vec![Mutex, Mutex, Fair, Fair, Sides, Sides, Semaphore, Latch, Anything]);
    let listeners = select(vec![None, Some(0), Some(1)]);
    let themes = [theme(), theme(), theme()];
    // What crowds leave behind when their leases end is found by whoever comes first.
    let crowds = || proptest::option::weighted(0.4, crowd()).prop_map(Option::unwrap_or_default);
    let round = (crowds(), vec(op(), 3..11), crowds())
        .prop_map(|(first, ops, last)| [first, ops, last].concat());
    (themes, listeners, vec(round, 1..5)).prop_map(|(themes, listeners, rounds)| Sequence {
        themes,
        listeners,
        rounds,
    })
}
