//! What each step changes.

use std::sync::Arc;

use stateright::{Model, Property};

use crate::Reached;
use crate::client::{Client, Held, Phase};
use crate::network::{Content, Message, Request};
use crate::server::{Answer, Notified, Rules, Server};
use crate::state::{State, Wrong, is_awaited};
use crate::steps::Step;
use crate::terms::{Bug, ClientId, Faults, Kind, LEASE, MARGIN, Network, Owner, Tick};

/// A run of the explorer: what is modelled, and how far.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// Kind of the lock.
    pub kind: Kind,
    /// How many acquires each client begins.
    pub acquires: Vec<u8>,
    /// How many ticks pass.
    pub ticks: Tick,
    /// How long messages are on their way.
    pub network: Network,
    /// True if holders change a resource, and the run checks in which order.
    pub effects: bool,
    /// The faults that may happen.
    pub faults: Faults,
    /// The rule that is turned off.
    pub bug: Option<Bug>,
    /// The steps that were taken.
    pub reached: Arc<Reached>,
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.acquires.len(), self.faults)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        // Time before the first acquire changes nothing.
        let has_begun = state.clients.iter().any(|client| client.begun > 0);
        if has_begun && state.now < self.ticks {
            steps.push(Step::Tick);
            if state.left.restarts > 0 {
                steps.push(Step::Restart);
            }
        }
        if state.left.drift > 0 {
            steps.push(Step::RunAhead);
        }
        for index in 0..state.messages.len() {
            steps.push(Step::Deliver(index));
            if state.left.duplicates > 0 {
                steps.push(Step::Duplicate(index));
            }
        }
        for (id, client) in (0..).zip(&state.clients) {
            self.steps_of(state, id, client, steps);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        self.take(&mut state, step);
        state.simplify(self.network, self.bug);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.expected()
    }
}

impl Protocol {
    /// True with this bug.
    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Takes a step.
    pub fn take(&self, state: &mut State, step: Step) {
        let now = state.now;
        match step {
            Step::Begin(id) => {
                let owner = state.client(id).begin(id, now);
                send(state, owner, 0, Request::Acquire);
            }
            Step::AskAgain(id) => self.ask_again(state, id),
            Step::TimeOut(id) => {
                let client = state.client(id);
                if let Phase::Asking { owner, sent_at, number } = client.phase {
                    client.is_unsettled = true;
                    let asked_at = sent_at;
                    client.phase = Phase::Waiting { owner, asked_at, number, is_known: false };
                }
            }
            Step::GiveUp(id) => self.give_up(state, id),
            Step::Renew(id) => {
                if let Phase::Holding(held) = &mut state.client(id).phase {
                    held.renewed_at = now;
                    if self.has(Bug::RenewalUnconfirmed) {
                        held.deadline = self.deadline(now);
                    }
                    let owner = held.owner;
                    send(state, owner, 0, Request::Renew);
                }
            }
            Step::Work(id) | Step::BeginStep(id) | Step::EndStep(id) => act(state, id, step),
            Step::Lose(id) | Step::Release(id) => {
                if matches!(step, Step::Lose(_)) {
                    self.reached.note(Reached::LOST_BY_DEADLINE);
                }
                self.leave_hold(state, id);
            }
            Step::SendRelease(id, index) => {
                let job = &mut state.client(id).jobs[index];
                job.sent_at = Some(now);
                let owner = job.owner;
                send(state, owner, 0, Request::Release);
            }
            Step::Abandon(id, index) => {
                state.client(id).jobs.remove(index);
            }
            Step::Crash(id) => {
                state.left.crashes -= 1;
                state.client(id).crash();
            }
            Step::Deliver(index) => {
                let message = state.messages.take(index);
                self.deliver(state, message);
            }
            Step::Duplicate(index) => {
                state.left.duplicates -= 1;
                if let Some(message) = state.messages.get(index) {
                    self.deliver(state, message);
                }
            }
            Step::Tick => self.pass_time(state),
            Step::RunAhead => {
                state.left.drift -= 1;
                state.server.ahead += 1;
                self.expire(state);
            }
            Step::Restart => {
                state.left.restarts -= 1;
                state.server = Server { ahead: state.server.ahead, ..Server::default() };
                self.pass_time(state);
            }
        }
    }

    fn pass_time(&self, state: &mut State) {
        state.now += 1;
        self.expire(state);
        if self.network == Network::Timely {
            state.messages.lose_late(state.now);
        }
    }

    fn expire(&self, state: &mut State) {
        let was_held = state.server.hold.is_some();
        state.server.expire(state.now);
        if was_held && state.server.hold.is_none() {
            self.reached.note(Reached::EXPIRY);
        }
    }

    fn ask_again(&self, state: &mut State, id: ClientId) {
        let now = state.now;
        let client = state.client(id);
        if client.is_woken {
            self.reached.note(Reached::WOKEN);
        }
        if let Some((owner, number)) = client.ask_again(now) {
            send(state, owner, number, Request::Acquire);
        }
    }

    fn give_up(&self, state: &mut State, id: ClientId) {
        let client = state.client(id);
        let Some(owner) = client.owner() else { return };
        let is_in_flight = matches!(client.phase, Phase::Asking { .. });
        let is_unsettled = client.is_unsettled || is_in_flight;
        let leaves_a_place = self.kind == Kind::Fair && !self.has(Bug::KeepsPlace);
        if is_unsettled && !self.has(Bug::UnknownNotReleased) || !is_unsettled && leaves_a_place {
            self.leave(state, owner, is_unsettled);
        } else {
            client.phase = Phase::Idle;
        }
    }

    /// A message arrives at the server or at a client.
    fn deliver(&self, state: &mut State, message: Message) {
        match message.content {
            Content::Request(request) => self.serve(state, message, request),
            Content::Reply(request, answer) => {
                let client = &state.clients[usize::from(message.owner.client)];
                if is_awaited(client, &message, request) {
                    self.answered(state, message, answer);
                }
            }
        }
    }

    /// The server runs a script.
    fn serve(&self, state: &mut State, message: Message, request: Request) {
        let owner = message.owner;
        let before = state.server.clone();
        let rules = Rules { kind: self.kind, bug: self.bug, reached: &self.reached };
        let server = &mut state.server;
        let (answer, notified) = match request {
            Request::Acquire => server.acquire(&rules, owner, state.now),
            Request::Renew => (server.renew(&rules, owner, state.now), Notified::None),
            Request::Release => server.release(&rules, owner, state.now),
        };
        self.notify(state, notified);
        self.judge(state, &before, owner, request, answer);
        let reply = Message { content: Content::Reply(request, answer), ..message };
        match request {
            // When it arrives changes nothing. If it is lost, the release is repeated, as if it had arrived twice.
            Request::Release => self.deliver(state, reply),
            Request::Acquire | Request::Renew => state.messages.send(reply),
        }
    }

    fn notify(&self, state: &mut State, notified: Notified) {
        let first = |server: &Server, clients: &[Client]| {
            let listens = |owner: &Owner| {
                let client = &clients[usize::from(owner.client)];
                client.listens(self.kind) && client.owner() == Some(*owner)
            };
            server.queue.iter().map(|place| place.owner).find(listens)
        };
        match notified {
            Notified::None => {}
            Notified::All => {
                for client in state.clients.iter_mut().filter(|client| client.listens(self.kind)) {
                    client.is_woken = true;
                }
            }
            Notified::First => {
                if let Some(owner) = first(&state.server, &state.clients) {
                    state.client(owner.client).is_woken = true;
                }
            }
        }
    }

    /// Compares the server with what it was before a script: independent of how the script is written.
    fn judge(
        &self,
        state: &mut State,
        before: &Server,
        owner: Owner,
        request: Request,
        answer: Answer,
    ) {
        let State { server, wrong, clients, .. } = state;
        let is_strange = before.hold.is_some_and(|hold| hold.owner != owner);
        let has_changed = server.hold != before.hold;
        wrong.note(Wrong::STRANGER, is_strange && has_changed);
        wrong.note(
            Wrong::CREATED,
            request == Request::Renew && before.hold.is_none() && has_changed,
        );
        if let Answer::Granted(token) = answer {
            let lives = |ends: Tick| ends > before.time(state.now);
            let ahead = before.queue.iter().take_while(|place| place.owner != owner);
            let is_overtaking = before.hold.is_none() && ahead.into_iter().any(|it| lives(it.ends));
            wrong.note(Wrong::OVERTAKEN, is_overtaking);
            wrong.note(Wrong::TOKEN_FELL, token <= state.highest);
            state.highest = state.highest.max(token);
        }
        if answer == Answer::Released && self.kind == Kind::Fair {
            let waiters = || {
                let its = server.queue.iter().map(|place| place.owner);
                its.filter_map(|owner| {
                    let client = &clients[usize::from(owner.client)];
                    let listens = client.owner() == Some(owner) && client.listens(self.kind);
                    listens.then_some(client)
                })
            };
            let is_known = waiters().next().is_none() || waiters().any(|waiter| waiter.is_woken);
            wrong.note(Wrong::NOT_NOTIFIED, !is_known);
        }
    }

    /// A client acts on an answer that it waits for.
    fn answered(&self, state: &mut State, message: Message, answer: Answer) {
        let now = state.now;
        let Message { owner, sent_at, number, .. } = message;
        let client = state.client(owner.client);
        match (client.phase, answer) {
            (Phase::Asking { .. }, Answer::Granted(token)) => {
                let from = if self.has(Bug::DeadlineFromReply) { now } else { sent_at };
                let deadline = self.deadline(from);
                if now >= deadline {
                    // S-8.
                    self.reached.note(Reached::TOO_LATE);
                    let is_unsettled = client.is_unsettled;
                    return self.leave(state, owner, is_unsettled);
                }
                if client.was_refused {
                    self.reached.note(Reached::GRANT_AFTER_WAIT);
                }
                let token = if self.effects { token } else { 0 };
                let held = Held { owner, token, deadline, renewed_at: now, is_in_step: false };
                client.phase = Phase::Holding(held);
            }
            (Phase::Asking { .. }, Answer::Refused) => {
                let subscribes = !client.listens(self.kind) && !self.has(Bug::NoSecondTry);
                client.was_refused = true;
                let asked_at = sent_at;
                client.phase = Phase::Waiting { owner, asked_at, number, is_known: true };
                if subscribes {
                    // S-15.
                    self.ask_again(state, owner.client);
                }
            }
            (Phase::Holding(held), Answer::Renewed) if now < held.deadline => {
                let deadline = held.deadline.max(self.deadline(sent_at));
                if deadline > held.deadline {
                    self.reached.note(Reached::RENEWED);
                }
                client.phase = Phase::Holding(Held { deadline, ..held });
            }
            // S-12. A paused process learns of it later.
            (Phase::Holding(held), Answer::NotOwner) if !held.is_in_step => {
                self.reached.note(Reached::LOST_BY_ANSWER);
                self.leave_hold(state, owner.client);
            }
            (_, Answer::Released | Answer::NotOwner) => {
                Self::release_answered(client, message, now);
            }
            _ => {}
        }
    }

    /// The releaser acts on the answer to a release.
    fn release_answered(client: &mut Client, message: Message, now: Tick) {
        let is_its = |job: &crate::client::Job| job.owner == message.owner;
        let Some(index) = client.jobs.iter().position(is_its) else { return };
        let job = &mut client.jobs[index];
        if std::mem::take(&mut job.is_unsettled) {
            job.answered_at = Some(now);
            job.sent_at = None;
        } else {
            client.jobs.remove(index);
        }
    }

    /// The hold ends, and the releaser releases it.
    fn leave_hold(&self, state: &mut State, id: ClientId) {
        let client = state.client(id);
        if let Some(held) = client.held() {
            let is_unsettled = client.is_unsettled;
            self.leave(state, held.owner, is_unsettled);
        }
    }

    /// The acquire or the hold ends, and the releaser sends the release at once; once more later, if an earlier request
    /// may take effect late. An asynchronous network may deliver an acquire later still, so there the second one is left
    /// out.
    fn leave(&self, state: &mut State, owner: Owner, is_unsettled: bool) {
        let sends_twice = self.network == Network::Timely && !self.has(Bug::NoSecondRelease);
        let now = state.now;
        state.client(owner.client).leave(owner, is_unsettled && sends_twice, now);
        send(state, owner, 0, Request::Release);
    }

    // S-8.
    fn deadline(&self, from: Tick) -> Tick {
        from + LEASE - if self.has(Bug::NoMargin) { 0 } else { MARGIN }
    }
}

fn send(state: &mut State, owner: Owner, number: u8, request: Request) {
    let content = Content::Request(request);
    state.messages.send(Message { owner, sent_at: state.now, number, content });
}

/// The holder works on the resource.
fn act(state: &mut State, id: ClientId, step: Step) {
    let Phase::Holding(held) = &mut state.client(id).phase else { return };
    held.is_in_step = matches!(step, Step::BeginStep(_));
    let token = held.token;
    if held.is_in_step {
        state.left.pauses -= 1;
        return;
    }
    state.wrong.note(Wrong::LATE_EFFECT, token < state.seen);
    state.seen = state.seen.max(token);
}
