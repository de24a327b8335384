//! Which of the servers that sentinels name is the master.
//!
//! A fail-over gives the master's configuration a higher epoch, once a majority of the sentinels has
//! agreed to it, and the news takes a moment to reach all of them: longer where one is cut off, which
//! keeps naming the old master. So the highest epoch counts, not the first answer nor the most.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// How long what a sentinel has said stands against answers that know less. Sentinels tell each other
/// every 2 s.
const REMEMBERED: Duration = Duration::from_secs(10);

/// What sentinels put up with unless told otherwise.
const DOWN_AFTER: Duration = Duration::from_secs(30);

/// A server that a sentinel names as the master.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
    /// Of the configuration; zero from a sentinel that does not say.
    pub(crate) epoch: u64,
    /// For how long the sentinel puts up with its silence, if it says so.
    pub(crate) down_after: Option<Duration>,
}

impl Named {
    /// True for the same server, whenever it was named.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.host == other.host && self.port == other.port
    }

    /// After how long a silence it may be replaced.
    pub(crate) fn down_after(&self) -> Duration {
        self.down_after.unwrap_or(DOWN_AFTER)
    }
}

/// What is known from earlier answers.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) named: Named,
    /// When a sentinel last said so, or something newer.
    pub(crate) heard: Instant,
}

/// What is known after these answers, of which `asked` were asked for; nothing if they know less than
/// is known already.
pub(crate) fn learn(
    answers: &[Named],
    known: Option<&Known>,
    asked: usize,
    now: Instant,
) -> Option<Known> {
    let votes = |named: &Named| answers.iter().filter(|other| named.is_at(other)).count();
    let is_known = |named: &Named| known.is_some_and(|known| known.named.is_at(named));
    let best = answers.iter().max_by_key(|it| (it.epoch, votes(it), is_known(it)))?;
    let Some(known) = known else { return Some(Known { named: best.clone(), heard: now }) };
    if best.epoch >= known.named.epoch {
        return Some(Known { named: best.clone(), heard: now });
    }
    if best.is_at(&known.named) {
        return Some(known.clone());
    }
    // Epochs begin anew when somebody sets up the sentinels anew.
    let all_forgot = 2 * answers.len() > asked && now >= known.heard + REMEMBERED;
    all_forgot.then(|| Known { named: best.clone(), heard: now })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, epoch: u64) -> Named {
        Named { host: host.into(), port: 6379, epoch, down_after: None }
    }

    fn after(answers: &[Named], known: Option<(&str, u64)>, ago: Duration) -> Option<String> {
        let heard = Instant::now();
        let known = known.map(|(host, epoch)| Known { named: named(host, epoch), heard });
        let learnt = learn(answers, known.as_ref(), 3, heard + ago);
        learnt.map(|known| known.named.host.to_string())
    }

    #[test]
    fn the_highest_epoch_counts() {
        let (old, new) = (named("old", 1), named("new", 2));
        let now = Duration::ZERO;
        let all = [old.clone(), new.clone(), old.clone()];
        assert_eq!(after(&all, None, now).as_deref(), Some("new"), "outvoted");
        assert_eq!(after(&all, Some(("old", 1)), now).as_deref(), Some("new"));
        assert_eq!(after(&[], Some(("old", 1)), now), None);
        // Of sentinels that say no epoch, the most.
        let votes = [named("a", 0), named("b", 0), named("b", 0)];
        assert_eq!(after(&votes, Some(("a", 0)), now).as_deref(), Some("b"));
        assert_eq!(after(&votes[..2], Some(("a", 0)), now).as_deref(), Some("a"));
    }

    /// A sentinel that was cut off does not bring the old master back, however long it is alone.
    #[test]
    fn less_is_believed_from_a_majority_and_late() {
        let (old, known) = (named("old", 1), Some(("new", 2)));
        let two = [old.clone(), old.clone()];
        assert_eq!(after(&two, known, REMEMBERED / 2), None, "the news is on its way");
        assert_eq!(after(&two[..1], known, REMEMBERED * 100), None, "cut off");
        assert_eq!(after(&two, known, REMEMBERED).as_deref(), Some("old"), "set up anew");
        let same = [named("new", 0)];
        assert_eq!(after(&same, known, Duration::ZERO).as_deref(), Some("new"));
    }
}
