//! An acquire on a quorum: the votes of its servers, and what becomes of grants that do not count.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::server::{Answer, Server, Verdict};
use super::tally::{Vote, Votes};
use super::{QuorumStore, spawn};
use crate::error::StoreError;
use crate::fence::FencingToken;
use crate::store::{AcquireReply, AcquireRequest, Target};

impl QuorumStore {
    pub(super) async fn acquire_majority(
        &self,
        request: AcquireRequest,
    ) -> Result<AcquireReply, StoreError> {
        let started = Instant::now();
        let (verdict, answers) = self.ask(&request);
        let votes = Votes::new(self.servers.len());
        let mut election = Election { servers: &self.servers, answers, votes, grants: 0 };
        let deadline = started + self.timeout.min(request.timeout);
        if let Some(token) = election.run(&request, deadline).await {
            verdict.send_replace(Verdict::Won);
            return Ok(AcquireReply::Granted(token));
        }
        let reply = election.votes.refusal();
        let grants = election.grants;
        verdict.send_replace(Verdict::Lost);
        let limit = started + request.timeout;
        election.undone(limit.min(Instant::now() + self.timeout)).await;
        if grants > 0 && matches!(reply, Ok(AcquireReply::Held(_))) {
            // Several contenders may each have got some of the servers. Each is notified when the others release, so a
            // random pause keeps them from colliding again.
            let until = Instant::now() + pause(started.elapsed());
            sleep_until(until.min(limit)).await;
        }
        reply
    }

    /// Asks all servers.
    fn ask(
        &self,
        request: &AcquireRequest,
    ) -> (watch::Sender<Verdict>, mpsc::UnboundedReceiver<Answer>) {
        let (verdict, verdicts) = watch::channel(Verdict::Open);
        let (answer, answers) = mpsc::unbounded_channel();
        for (number, server) in self.servers.iter().enumerate() {
            let turn = server.enqueue(&request.owner, false);
            let (request, verdicts) = (request.clone(), verdicts.clone());
            spawn(Arc::clone(server).ask(turn, number, request, verdicts, answer.clone()));
        }
        (verdict, answers)
    }
}

/// One acquire, while its votes arrive.
struct Election<'a> {
    servers: &'a [Arc<Server>],
    answers: mpsc::UnboundedReceiver<Answer>,
    votes: Votes,
    /// How many servers have granted it and may have to release it.
    grants: usize,
}

impl Election<'_> {
    /// Returns the token once a majority has granted and confirmed it, or `None`.
    async fn run(&mut self, request: &AcquireRequest, deadline: Instant) -> Option<FencingToken> {
        let (mut token, mut open) = (None, true);
        let mut raising = FuturesUnordered::new();
        loop {
            token = token.or_else(|| self.votes.token());
            if let Some(token) = token {
                let last = token.last_of(request.tokens);
                for (number, its) in self.votes.granted() {
                    let vote = if its >= token { Vote::Confirmed } else { Vote::Raising };
                    if matches!(vote, Vote::Raising) {
                        let server = &self.servers[number];
                        let left = deadline.saturating_duration_since(Instant::now());
                        raising.push(raise(server, number, &request.target, last, left));
                    }
                    self.votes.put(number, vote);
                }
            }
            if self.votes.is_won() {
                return token;
            }
            let silent = |number: usize| self.servers[number].is_silent();
            if self.votes.is_lost_without(silent) {
                self.votes.close(silent);
            }
            if self.votes.is_lost() || (!open && raising.is_empty()) {
                return None;
            }
            tokio::select! {
                // If this was not polled for long, the time is over and the votes have come: they count.
                // S-34.
                biased;
                answer = self.answers.recv(), if open => match answer {
                    Some(Answer::Voted(number, vote)) => {
                        self.grants += usize::from(matches!(vote, Vote::Granted(_)));
                        self.votes.put(number, vote);
                    }
                    Some(Answer::Undone) => {}
                    None => open = false,
                },
                Some((number, vote)) = raising.next() => self.votes.put(number, vote),
                () = sleep_until(deadline), if open => open = false,
            }
            if !open {
                self.votes.close(|_| true);
            }
        }
    }

    /// Waits until all grants have been released.
    async fn undone(&mut self, deadline: Instant) {
        while self.grants > 0
            && let Ok(Some(answer)) = timeout_at(deadline, self.answers.recv()).await
        {
            if let Answer::Undone = answer {
                self.grants -= 1;
            }
        }
    }
}

/// Raises the counter of a server that granted a lower token to `last`.
async fn raise(
    server: &Server,
    number: usize,
    target: &Arc<Target>,
    last: FencingToken,
    timeout: Duration,
) -> (usize, Vote) {
    match server.store.raise_token(target, last, timeout).await {
        Ok(()) => (number, Vote::Confirmed),
        Err(error) => (number, Vote::Failed(error)),
    }
}

/// Returns a random time, in which another contender can ask all servers.
fn pause(asking_took: Duration) -> Duration {
    (asking_took * 2 + Duration::from_millis(10)).mul_f64(fastrand::f64())
}
