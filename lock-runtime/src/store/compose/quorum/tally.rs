//! Counts the answers of the servers of a quorum. Pure: no clock, no network.

use std::time::Duration;

use crate::error::{StoreError, StoreErrorKind};
use crate::fence::FencingToken;
use crate::store::{AcquireReply, Ownership, ReleaseReply};

/// How many of `servers` are a majority: any two majorities have a server in common.
pub(crate) fn majority(servers: usize) -> usize {
    servers / 2 + 1
}

/// The answer of one server to an acquire.
#[derive(Debug, Clone)]
pub(super) enum Vote {
    /// No answer yet.
    Open,
    /// The server granted the lock; the first of the tokens.
    Granted(FencingToken),
    /// It granted the lock, and its counter is being raised to the token of the quorum.
    Raising,
    /// It granted the lock, and its counter is not below the token of the quorum.
    Confirmed,
    Held(Option<Duration>),
    Failed(StoreError),
}

/// The votes on one acquire, by server.
pub(super) struct Votes(Vec<Vote>);

impl Votes {
    pub(super) fn new(servers: usize) -> Self {
        Self(vec![Vote::Open; servers])
    }

    pub(super) fn put(&mut self, server: usize, vote: Vote) {
        self.0[server] = vote;
    }

    fn count(&self, which: impl Fn(&Vote) -> bool) -> usize {
        self.0.iter().filter(|vote| which(vote)).count()
    }

    fn majority(&self) -> usize {
        majority(self.0.len())
    }

    /// The highest token, once a majority has granted. It is above the tokens of all earlier holds: a majority knew
    /// each of them, and shares a server with this one.
    // S-23.
    pub(super) fn token(&self) -> Option<FencingToken> {
        let granted = self.0.iter().filter_map(|vote| match vote {
            Vote::Granted(token) => Some(*token),
            _ => None,
        });
        (granted.clone().count() >= self.majority()).then(|| granted.max()).flatten()
    }

    /// The servers that have granted and whose counters have not been compared yet.
    pub(super) fn granted(&self) -> Vec<(usize, FencingToken)> {
        let votes = self.0.iter().enumerate();
        let granted = votes.filter_map(|(server, vote)| match vote {
            Vote::Granted(token) => Some((server, *token)),
            _ => None,
        });
        granted.collect()
    }

    /// True once a majority has confirmed, so that later majorities get higher tokens.
    // S-23.
    pub(super) fn is_won(&self) -> bool {
        self.count(|vote| matches!(vote, Vote::Confirmed)) >= self.majority()
    }

    /// True once no majority is possible any more.
    pub(super) fn is_lost(&self) -> bool {
        self.count(|vote| !matches!(vote, Vote::Held(_) | Vote::Failed(_))) < self.majority()
    }

    /// True once a majority has answered and only `silent` servers could still change the outcome: the caller does not
    /// wait for them.
    pub(super) fn is_lost_without(&self, silent: impl Fn(usize) -> bool) -> bool {
        let answered = self.count(|vote| !matches!(vote, Vote::Open));
        let hopes = self.0.iter().enumerate().filter(|(server, vote)| match vote {
            Vote::Open => !silent(*server),
            Vote::Held(_) | Vote::Failed(_) => false,
            Vote::Granted(_) | Vote::Raising | Vote::Confirmed => true,
        });
        answered >= self.majority() && hopes.count() < self.majority()
    }

    /// Counts the servers among `which` that have not answered as failed.
    pub(super) fn close(&mut self, which: impl Fn(usize) -> bool) {
        for (server, vote) in self.0.iter_mut().enumerate() {
            if matches!(vote, Vote::Open) && which(server) {
                let message = format!("server {} of the quorum did not answer in time", server + 1);
                *vote = Vote::Failed(StoreError::new(StoreErrorKind::OutcomeUnknown, message));
            }
        }
    }

    /// The reply to a lost vote.
    pub(super) fn refusal(&self) -> Result<AcquireReply, StoreError> {
        let all = self.0.len();
        let failed = self.count(|vote| matches!(vote, Vote::Failed(_)));
        if all - failed < self.majority() {
            return Err(self.failure(all - failed));
        }
        // A server that has not answered may belong to another owner's majority.
        let unknown = failed + self.count(|vote| matches!(vote, Vote::Open));
        let held = self.count(|vote| matches!(vote, Vote::Held(_)));
        if held + unknown < self.majority() {
            return Ok(AcquireReply::Split);
        }
        // The time until a majority is free, unless leases are renewed.
        let mut free_in: Vec<_> = self.0.iter().map(free_in).collect();
        free_in.sort_unstable_by_key(|left| left.unwrap_or(Duration::MAX));
        Ok(AcquireReply::Held(free_in.get(self.majority() - 1).copied().flatten()))
    }

    fn failure(&self, answered: usize) -> StoreError {
        let errors = || {
            self.0.iter().filter_map(|vote| match vote {
                Vote::Failed(error) => Some(error),
                _ => None,
            })
        };
        let telling = errors().find(|error| !error.kind().is_transient());
        match (telling.or_else(|| errors().next()), telling.is_some() || self.0.len() == 1) {
            (Some(error), true) => error.clone(),
            (first, _) => too_few(answered, self.0.len(), first.cloned()),
        }
    }
}

fn free_in(vote: &Vote) -> Option<Duration> {
    match vote {
        Vote::Granted(_) | Vote::Raising | Vote::Confirmed => Some(Duration::ZERO),
        Vote::Held(left) => *left,
        Vote::Open | Vote::Failed(_) => None,
    }
}

/// The error of too few answers.
pub(super) fn too_few(answered: usize, all: usize, cause: Option<StoreError>) -> StoreError {
    let message = format!(
        "only {answered} of the {all} servers of the quorum answered and {} have to; check the \
         others",
        majority(all)
    );
    because(StoreError::new(StoreErrorKind::Unavailable, message), cause)
}

/// Adds a cause, if there is one.
pub(super) fn because(error: StoreError, cause: Option<StoreError>) -> StoreError {
    match cause {
        Some(cause) => error.with_source(cause),
        None => error,
    }
}

/// How many servers answered that the owner holds the lock, and that it does not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) yes: usize,
    pub(super) no: usize,
}

impl Count {
    /// The answer of a majority, as far as it is known.
    pub(super) fn ownership(self, servers: usize) -> Ownership {
        if self.yes >= majority(servers) {
            Ownership::Owner
        } else if self.no > servers - majority(servers) {
            Ownership::NotOwner
        } else {
            Ownership::Unknown
        }
    }

    /// True if there is no majority, and `left` more answers cannot make one.
    pub(super) fn is_undecidable(self, servers: usize, left: usize) -> bool {
        let best = |more| Self { yes: self.yes + more, no: self.no }.ownership(servers);
        let worst = |more| Self { yes: self.yes, no: self.no + more }.ownership(servers);
        best(left) == Ownership::Unknown && worst(left) == Ownership::Unknown
    }

    pub(super) fn add(&mut self, yes: bool) {
        if yes {
            self.yes += 1;
        } else {
            self.no += 1;
        }
    }

    /// The answer to a release, once it is known.
    pub(super) fn release(self, servers: usize, others: u32) -> Option<ReleaseReply> {
        match self.ownership(servers) {
            Ownership::Owner => Some(ReleaseReply::Released { others }),
            Ownership::NotOwner => Some(ReleaseReply::NotOwner),
            Ownership::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn votes(votes: &[Vote]) -> Votes {
        Votes(votes.to_vec())
    }

    fn granted(token: u64) -> Vote {
        Vote::Granted(FencingToken::new(token))
    }

    fn held(seconds: u32) -> Vote {
        Vote::Held(Some(SECOND * seconds))
    }

    fn failed(kind: StoreErrorKind) -> Vote {
        Vote::Failed(StoreError::new(kind, "it failed"))
    }

    fn down() -> Vote {
        failed(StoreErrorKind::Unavailable)
    }

    #[test]
    fn a_majority_is_more_than_half() {
        assert_eq!([1, 2, 3, 4, 5].map(majority), [1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_token_is_the_highest_of_a_majority() {
        assert_eq!(votes(&[granted(7), Vote::Open, Vote::Open]).token(), None);
        let two = votes(&[granted(7), granted(9), Vote::Open]);
        assert_eq!(two.token(), Some(FencingToken::new(9)));
        assert!(!two.is_won() && !two.is_lost());
        assert!(votes(&[Vote::Confirmed, Vote::Confirmed, held(1)]).is_won());
        assert!(votes(&[granted(1), held(1), down()]).is_lost());
    }

    #[test]
    fn who_is_silent_is_not_waited_for() {
        let split = votes(&[granted(1), held(1), Vote::Open]);
        assert!(!split.is_lost() && !split.is_lost_without(|_| false));
        assert!(split.is_lost_without(|server| server == 2));
        // The outcome is that it did not answer.
        let mut down = votes(&[granted(1), down(), Vote::Open]);
        down.close(|server| server == 2);
        assert!(down.is_lost() && down.refusal().is_err());
        // The caller must wait for a server, or servers that come back would never be asked.
        let early = votes(&[granted(1), Vote::Open, Vote::Open]);
        assert!(!early.is_lost_without(|server| server > 0));
        let enough = votes(&[granted(1), granted(2), Vote::Open]);
        assert!(!enough.is_lost_without(|server| server == 2));
    }

    #[test]
    fn a_refusal_says_when_to_come_back() {
        // Two of three are free when the second lease is over.
        let reply = votes(&[held(9), held(4), held(6)]).refusal();
        assert_eq!(reply.unwrap(), AcquireReply::Held(Some(SECOND * 6)));
        let reply = votes(&[granted(1), held(4), held(6)]).refusal();
        assert_eq!(reply.unwrap(), AcquireReply::Held(Some(SECOND * 4)));
        // Another owner may have the server that is down.
        let reply = votes(&[granted(1), held(4), down()]).refusal();
        assert_eq!(reply.unwrap(), AcquireReply::Held(Some(SECOND * 4)));
        // No other owner can have three of five.
        let reply = votes(&[granted(1), granted(2), held(4), held(6), granted(3)]).refusal();
        assert_eq!(reply.unwrap(), AcquireReply::Split);
    }

    #[test]
    fn too_few_answers_are_an_error() {
        let error = votes(&[granted(1), down(), down()]).refusal().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(error.to_string().contains("only 1 of the 3 servers"), "{error}");
        let wrong = votes(&[down(), failed(StoreErrorKind::WrongType), held(1)]);
        assert_eq!(wrong.refusal().unwrap_err().kind(), StoreErrorKind::WrongType);
    }

    #[test]
    fn ownership_takes_a_majority_either_way() {
        let of = |yes, no| Count { yes, no }.ownership(5);
        assert_eq!(of(3, 2), Ownership::Owner);
        assert_eq!(of(2, 2), Ownership::Unknown);
        assert_eq!(of(2, 3), Ownership::NotOwner);
        // Half is not a majority of four, but enough to keep every other owner from one.
        assert_eq!(Count { yes: 2, no: 2 }.ownership(4), Ownership::NotOwner);
    }
}
