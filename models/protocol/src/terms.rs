//! Owner ids, times, and what a run of the explorer may do.

/// Time in ticks since the start, by the clients' clocks, which agree.
pub type Tick = u8;

/// A client by its index.
pub type ClientId = u8;

/// How long the server keeps a hold without a renewal.
pub const LEASE: Tick = 3;

/// How much earlier than the lease a client's deadline is: the server's clock may be so much ahead.
// S-8.
pub const MARGIN: Tick = 1;

/// After how long without an answer a client counts a request as unknown.
pub const TIMEOUT: Tick = 1;

/// Most renewals of a hold that are under way at once.
pub const MOST_RENEWALS: usize = 2;

/// After how long on its way a message of a [timely network](Network::Timely) is gone.
pub const LONGEST_DELAY: Tick = 1;

/// How long after the first answer the releaser sends a second release, if an acquire may have been under way.
// S-21.
pub const SECOND_RELEASE: Tick = LONGEST_DELAY + 1;

/// How long the server keeps a place in the queue that is not refreshed.
// S-26.
pub const WAITER_LEASE: Tick = 2;

/// Tokens that the server's clock passes in a tick: more than a tick has grants.
// S-23.
pub const TOKENS_PER_TICK: u16 = 32;

/// An owner id: one for each acquire of a client.
// S-4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The client.
    pub client: ClientId,
    /// Which of its acquires.
    pub number: u8,
}

/// A kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `mutex_acquire.lua`, `mutex_release.lua`.
    Mutex,
    /// `fair_acquire.lua`, `fair_release.lua`.
    Fair,
}

/// How long messages may be on their way. Either network loses and reorders them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// For ever.
    Asynchronous,
    /// For [`LONGEST_DELAY`]: less than the timeout after which a release is sent again.
    Timely,
}

/// How many faults of each sort a run may contain. A state has those that are left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Messages that are delivered once more.
    pub duplicates: u8,
    /// Clients that crash.
    pub crashes: u8,
    /// Restarts of the server without its data.
    pub restarts: u8,
    /// Ticks by which the server's clock gets ahead of the clients' clocks.
    pub drift: u8,
    /// Clients that may be paused between the check of the deadline and the effect of what they do.
    pub pauses: u8,
}

/// A rule that is turned off, to see that the properties can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The deadline counts from the reply instead of from before the request.
    DeadlineFromReply,
    /// A renewal moves the deadline without an answer.
    RenewalUnconfirmed,
    /// The deadline has no margin for clocks that run at different speeds.
    NoMargin,
    /// The body goes on without a check of the deadline.
    NoCheckAtPoll,
    /// A release deletes the lock, also if another owner holds it.
    ReleaseWithoutOwner,
    /// A renewal extends the lock, also if another owner holds it.
    RenewalWithoutOwner,
    /// A renewal creates a lock that is gone.
    RenewalCreates,
    /// A lock has no expiry.
    NoExpiry,
    /// A token is the last token plus one, without the server's time.
    TokenWithoutTime,
    /// An acquire that ends with an unknown outcome releases nothing.
    UnknownNotReleased,
    /// After an unknown outcome, the release is not sent a second time.
    NoSecondRelease,
    /// A waiter sleeps after it has subscribed, without another try.
    NoSecondTry,
    /// A fair lock that is free goes to any client that asks.
    PassesQueue,
    /// Dead waiters stay in the queue.
    NoSweep,
    /// A waiter that gives up leaves its place in the queue.
    KeepsPlace,
    /// The release of a fair lock notifies no waiter.
    HeadNotNotified,
}

impl Bug {
    /// True if renewals and releases matter that have no effect without the bug.
    pub fn gives_meaning_to_leftovers(self) -> bool {
        matches!(self, Self::ReleaseWithoutOwner | Self::RenewalWithoutOwner | Self::RenewalCreates)
    }
}
