//! The whole state: clients, messages, the server, and what went wrong.

use crate::client::{Client, Phase};
use crate::network::{Content, Message, Messages, Request};
use crate::server::Server;
use crate::terms::{Bug, ClientId, Faults, Network, Tick};

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The clients' time.
    pub now: Tick,
    /// The server with its data.
    pub server: Server,
    /// The clients.
    pub clients: Vec<Client>,
    /// What is on its way.
    pub messages: Messages,
    /// The faults that may still happen.
    pub left: Faults,
    /// The highest token of an effect: what the resource behind the lock has seen.
    pub seen: u16,
    /// The highest token of a grant.
    pub highest: u16,
    /// What went wrong on the way here.
    pub wrong: Wrong,
}

/// What went wrong: each flag is a step that must not happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Wrong(u8);

impl Wrong {
    /// A release or a renewal changed a hold of another owner.
    pub const STRANGER: Self = Self(1);
    /// A renewal created a lock.
    pub const CREATED: Self = Self(1 << 1);
    /// A grant's token was not higher than all before it.
    pub const TOKEN_FELL: Self = Self(1 << 2);
    /// A fair lock was granted past a live waiter.
    pub const OVERTAKEN: Self = Self(1 << 3);
    /// A fair lock was released, and no waiter that listens was notified.
    pub const NOT_NOTIFIED: Self = Self(1 << 4);
    /// A holder had an effect after the effect of a later holder.
    pub const LATE_EFFECT: Self = Self(1 << 5);

    /// Adds a flag if `happened`.
    pub fn note(&mut self, flag: Self, happened: bool) {
        if happened {
            self.0 |= flag.0;
        }
    }

    /// True if it has the flag.
    pub fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }
}

impl State {
    /// Before anything has happened.
    pub fn new(clients: usize, faults: Faults) -> Self {
        Self {
            now: 0,
            server: Server::default(),
            clients: (0..clients).map(|_| Client::new()).collect(),
            messages: Messages::default(),
            left: faults,
            seen: 0,
            highest: 0,
            wrong: Wrong::default(),
        }
    }

    /// The client with this index.
    pub fn client(&mut self, client: ClientId) -> &mut Client {
        &mut self.clients[usize::from(client)]
    }

    /// Number of clients that may act as the holder now.
    pub fn holders(&self) -> usize {
        self.clients.iter().filter(|client| client.acts(self.now)).count()
    }

    /// Removes what cannot matter any more, so that states that differ in nothing else are one: answers that no client
    /// waits for, requests without an effect, and the difference between tokens that the server's clock has passed.
    pub fn simplify(&mut self, network: Network, bug: Option<Bug>) {
        let all_matter = bug.is_some_and(Bug::gives_meaning_to_leftovers);
        let Self { clients, server, messages, .. } = self;
        let client_of = |message: &Message| &clients[usize::from(message.owner.client)];
        let matters = |messages: &Messages, message: &Message| match message.content {
            Content::Reply(request, _) => is_awaited(client_of(message), message, request),
            Content::Request(request) if all_matter || request == Request::Acquire => true,
            Content::Request(_) => {
                let owner = message.owner;
                client_of(message).knows(owner)
                    || server.knows(owner)
                    || messages.has_acquire(owner)
            }
        };
        messages.keep_those(matters);
        if network == Network::Asynchronous {
            // When a request was sent matters to the client that waits for its answer, and to a network that loses what
            // is late.
            messages
                .forget_times(|message, request| !is_awaited(client_of(message), message, request));
        }
        if bug == Some(Bug::TokenWithoutTime) {
            return;
        }
        let passed = server.lowest_token(self.now);
        server.counter = server.counter.filter(|last| *last >= passed);
        self.highest = if self.highest < passed { 0 } else { self.highest };
    }
}

/// True if the client acts on this answer.
pub fn is_awaited(client: &Client, message: &Message, request: Request) -> bool {
    match (request, client.phase) {
        (Request::Acquire, Phase::Asking { owner, sent_at, number }) => {
            (owner, sent_at, number) == (message.owner, message.sent_at, message.number)
        }
        (Request::Renew, Phase::Holding(held)) => held.owner == message.owner,
        (Request::Release, _) => client
            .jobs
            .iter()
            .any(|job| job.owner == message.owner && job.sent_at == Some(message.sent_at)),
        _ => false,
    }
}
