//! Messages on their way, in either direction.
//!
//! A message that is never delivered is a lost one, and any may be delivered next: so losses and reordering need no
//! steps of their own.

use crate::server::Answer;
use crate::terms::{LONGEST_DELAY, Owner, Tick};

/// A request to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Acquires the lock.
    Acquire,
    /// Renews a hold.
    Renew,
    /// Releases a hold, or a place in the queue.
    Release,
}

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Content {
    /// A client asks.
    Request(Request),
    /// The server answers the client's request.
    Reply(Request, Answer),
}

/// A message. An answer repeats the owner, the time and the number of its request, by which the client tells which
/// request it answers (`numbered.lua`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// The owner that the request is for.
    pub owner: Owner,
    /// When the request was sent.
    pub sent_at: Tick,
    /// Number of the request among those of the same owner and tick.
    pub number: u8,
    /// What it says.
    pub content: Content,
}

/// The messages on their way, in order, so that equal states compare equal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Messages(Vec<Message>);

impl Messages {
    /// Adds a message.
    pub fn send(&mut self, message: Message) {
        if let Err(at) = self.0.binary_search(&message) {
            self.0.insert(at, message);
        }
    }

    /// Removes a message and returns it.
    pub fn take(&mut self, index: usize) -> Message {
        self.0.remove(index)
    }

    /// The message with this index.
    pub fn get(&self, index: usize) -> Option<Message> {
        self.0.get(index).copied()
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if none is on its way.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Loses all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Removes the messages that do not matter beside the others.
    pub fn keep_those(&mut self, matters: impl Fn(&Self, &Message) -> bool) {
        if self.0.iter().all(|message| matters(self, message)) {
            return;
        }
        let all = self.clone();
        self.0.retain(|message| matters(&all, message));
    }

    /// Loses the messages that have been on their way for longer than a timely network allows.
    pub fn lose_late(&mut self, now: Tick) {
        self.0.retain(|message| now <= message.sent_at + LONGEST_DELAY);
    }

    /// Sets the time of those requests to zero, for which `is_unneeded` is true.
    pub fn forget_times(&mut self, is_unneeded: impl Fn(&Message, Request) -> bool) {
        let mut has_changed = false;
        for message in &mut self.0 {
            let Content::Request(request) = message.content else { continue };
            if (message.sent_at, message.number) != (0, 0) && is_unneeded(message, request) {
                (message.sent_at, message.number) = (0, 0);
                has_changed = true;
            }
        }
        if has_changed {
            self.0.sort_unstable();
            self.0.dedup();
        }
    }

    /// Number of renewals of this owner that are not answered yet.
    pub fn renewals_of(&self, owner: Owner) -> usize {
        let is_renewal = |message: &&Message| {
            let content = message.content;
            matches!(content, Content::Request(Request::Renew) | Content::Reply(Request::Renew, _))
        };
        self.0.iter().filter(is_renewal).filter(|message| message.owner == owner).count()
    }

    /// True if an acquire for this owner is on its way.
    pub fn has_acquire(&self, owner: Owner) -> bool {
        let acquire = Content::Request(Request::Acquire);
        self.0.iter().any(|message| message.owner == owner && message.content == acquire)
    }

    /// True if a request for this owner is on its way.
    pub fn has_request(&self, owner: Owner) -> bool {
        self.0
            .iter()
            .any(|message| message.owner == owner && matches!(message.content, Content::Request(_)))
    }
}
