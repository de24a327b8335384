//! Who is told by both stores.

use tokio::task::unconstrained;

use crate::contract::differential::plan::{OWNERS, Theme, owner, target};
use crate::contract::differential::stores::{Run, Stores, TIMEOUT};
use crate::prelude::*;

/// How long a notice that must come may take.
const NOTICE: Duration = secs(1);

/// The same subscription in both stores.
pub(crate) struct Ears {
    channel: String,
    /// Of several channels. One notice of many says nothing of the others, which may come later.
    several: bool,
    memory: Subscription,
    redis: Subscription,
}

impl Run<'_> {
    pub(crate) async fn listen(&mut self) {
        let Some(view) = self.sequence.listeners else { return };
        let mut targets = Vec::new();
        for (name, theme) in self.sequence.themes.iter().enumerate() {
            let mut kinds = theme.kinds().to_vec();
            kinds.dedup();
            if *theme == Theme::Anything {
                kinds.push(HoldKind::Latch);
            }
            for kind in kinds {
                let target = target(kind, &self.keys, name, 1);
                match kind {
                    HoldKind::Fair => {
                        targets.extend((0..OWNERS).map(|number| {
                            Arc::new(target.for_waiter(&owner(&self.client, number)))
                        }))
                    }
                    _ => targets.push(target),
                }
            }
        }
        let Stores { memory, redis, .. } = self.stores;
        let ears = targets.into_iter().map(async |target| Ears {
            channel: format!("{} {}", target.kind(), target.channel()),
            several: target.kind() == HoldKind::Multi,
            memory: memory[view].subscribe(&target, TIMEOUT).await.unwrap(),
            redis: redis[view].subscribe(&target, TIMEOUT).await.unwrap(),
        });
        self.ears = join_all(ears).await;
    }

    /// Whoever is told by one store is told by the other.
    pub(crate) async fn hear(&mut self) -> Result<(), String> {
        for ears in &mut self.ears {
            let told = unconstrained(ears.memory.notified()).now_or_never().is_some();
            if told && timeout(NOTICE, ears.redis.notified()).await.is_err() {
                return Err(format!("memory alone told {}", ears.channel));
            }
            if !told {
                ears.silent()?;
            } else {
                self.stores.note("told".to_owned());
            }
        }
        Ok(())
    }

    /// A notice that came late was one too many.
    pub(crate) fn no_more_notices(&mut self) -> Result<(), String> {
        for ears in &mut self.ears {
            ears.silent()?;
        }
        Ok(())
    }
}

impl Ears {
    /// Notices before now concern nobody. Those that Redis sent in vain are still to be found.
    pub(crate) fn forget_past(&mut self) {
        self.memory.forget_past();
        if self.several {
            self.redis.forget_past();
        }
    }

    /// No listener was told by Redis.
    fn silent(&mut self) -> Result<(), String> {
        let told = unconstrained(self.redis.notified()).now_or_never().is_some();
        if told && !self.several {
            return Err(format!("redis alone told {}", self.channel));
        }
        Ok(())
    }
}
