//! Which of the servers that the sentinels name is the master.
//!
//! A failover raises the epoch of the configuration once a majority of the sentinels has agreed to it. The new
//! epoch takes a moment to reach all of them, and a sentinel that is cut off keeps naming the old master. So the
//! answer with the highest epoch counts, not the first answer nor the most frequent one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// How long an answer outranks later ones with a lower epoch. Sentinels inform each other every 2 s.
const REMEMBERED: Duration = Duration::from_secs(10);

/// The sentinels' default for `down-after-milliseconds`.
const DOWN_AFTER: Duration = Duration::from_secs(30);

/// The server that a sentinel names as the master.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
    /// The epoch of the configuration; zero if the sentinel does not say it.
    pub(crate) epoch: u64,
    /// The sentinel's `down-after-milliseconds`, if it says it.
    pub(crate) down_after: Option<Duration>,
}

impl Master {
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// True if both are the same server.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.host == other.host && self.port == other.port
    }

    /// The sentinels may replace it after a silence of this length.
    pub(crate) fn down_after(&self) -> Duration {
        self.down_after.unwrap_or(DOWN_AFTER)
    }
}

/// The master according to earlier answers.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) master: Master,
    /// When a sentinel last named it, or a newer one.
    pub(crate) heard: Instant,
}

/// Updates the known master with these answers of `asked` sentinels. Returns `None` if they are older than the
/// known state.
pub(crate) fn learn(
    answers: &[Master],
    known: Option<&Known>,
    asked: usize,
    now: Instant,
) -> Option<Known> {
    let votes = |master: &Master| answers.iter().filter(|other| master.is_at(other)).count();
    let is_known = |master: &Master| known.is_some_and(|known| known.master.is_at(master));
    let best = answers.iter().max_by_key(|it| (it.epoch, votes(it), is_known(it)))?;
    let Some(known) = known else { return Some(Known { master: best.clone(), heard: now }) };
    if best.epoch >= known.master.epoch {
        return Some(Known { master: best.clone(), heard: now });
    }
    if best.is_at(&known.master) {
        return Some(known.clone());
    }
    // Sentinels that were set up anew begin with the first epoch.
    let all_forgot = 2 * answers.len() > asked && now >= known.heard + REMEMBERED;
    all_forgot.then(|| Known { master: best.clone(), heard: now })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, epoch: u64) -> Master {
        Master { host: host.into(), port: 6379, epoch, down_after: None }
    }

    fn after(answers: &[Master], known: Option<(&str, u64)>, ago: Duration) -> Option<String> {
        let heard = Instant::now();
        let known = known.map(|(host, epoch)| Known { master: named(host, epoch), heard });
        let learnt = learn(answers, known.as_ref(), 3, heard + ago);
        learnt.map(|known| known.master.host.to_string())
    }

    #[test]
    fn the_highest_epoch_counts() {
        let (old, new) = (named("old", 1), named("new", 2));
        let now = Duration::ZERO;
        let all = [old.clone(), new.clone(), old.clone()];
        assert_eq!(after(&all, None, now).as_deref(), Some("new"), "outvoted");
        assert_eq!(after(&all, Some(("old", 1)), now).as_deref(), Some("new"));
        assert_eq!(after(&[], Some(("old", 1)), now), None);
        // Without epochs, the most frequent answer.
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
