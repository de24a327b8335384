//! What one task of a crew does.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_runtime::options::Replicas;
use lock_runtime::{
    Lease, LockClient, LockError, LockGuard, LockKey, LockOptions, distributed_lock,
};
use lock_tower::LockLayer;
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tower::{ServiceBuilder, ServiceExt, service_fn};

use super::{CALLED, Habits, Job};
use crate::history::{Recorder, Share};
use crate::witness::{Witness, Witnessed};

/// The longest work of a usual hold.
const MOMENT: Duration = Duration::from_millis(2);

/// One task of a crew.
pub(super) struct Member {
    pub(super) client: LockClient,
    pub(super) job: Job,
    pub(super) number: u64,
    pub(super) habits: Habits,
    pub(super) values: MultiplexedConnection,
    pub(super) grants: Arc<BTreeMap<&'static str, AtomicU64>>,
    pub(super) choices: fastrand::Rng,
}

impl Member {
    pub(super) async fn run(mut self, recorder: Arc<Recorder>, stopped: watch::Receiver<bool>) {
        let (name, share) = self.job.uses();
        let witness = Arc::new(Witness::new(&recorder, self.number, name, share));
        while !*stopped.borrow() {
            let patience = self.patience();
            if matches!(self.job, Job::Function | Job::Service) {
                self.call(&witness, patience).await;
            } else if let Ok(Ok(held)) = timeout(patience, witness.acquire(self.acquire())).await {
                self.grants[name].fetch_add(1, Ordering::Relaxed);
                self.hold(held).await;
            }
            sleep(self.habits.pause * self.choices.u32(..1000) / 1000).await;
        }
    }

    /// After what time an acquire or a call is dropped.
    fn patience(&mut self) -> Duration {
        if self.habits.cancel && self.choices.u8(..8) == 0 {
            return Duration::from_micros(self.choices.u64(..3_000));
        }
        Duration::MAX
    }

    /// The lease of its holds, and how long it waits for one.
    fn lease_and_wait(&self) -> (Duration, Duration) {
        let Habits { lease, wait, patience, .. } = self.habits;
        let times = if self.number.is_multiple_of(2) { 1 } else { patience };
        (lease * times, wait * times)
    }

    fn options(&self) -> LockOptions {
        let (lease, wait) = self.lease_and_wait();
        let replicas = self.habits.replicas;
        let mut options = LockOptions::new().lease(Lease::Watchdog(lease)).wait(wait);
        if replicas > 0 {
            options = options.replicas(Replicas::new(replicas, lease / 4));
        }
        options
    }

    fn acquire(&self) -> impl Future<Output = Result<LockGuard, LockError>> + use<> {
        let (job, client, options) = (self.job, self.client.clone(), self.options());
        async move { job.acquire(&client, job.lock(), options).await }
    }

    /// Uses the lock: for a moment as a rule, and now and then for so long that it has to be renewed.
    async fn hold(&mut self, mut held: Witnessed<'_>) {
        match (self.job.uses().1, self.work()) {
            (Share::Readers, work) => held.reread(&mut self.values, work).await,
            (Share::Permits { .. }, work) => held.count(&mut self.values, work).await,
            (Share::Exclusive, work) if work > MOMENT => held.work(work).await,
            (Share::Exclusive, work) if self.choices.u8(..4) == 0 => {
                let (client, job, options) = (self.client.clone(), self.job, self.options());
                let acquire = || job.acquire(&client, job.lock(), options.clone());
                held.update_in_reentries(&mut self.values, work, acquire).await;
            }
            (Share::Exclusive, work) => held.update(&mut self.values, work).await,
        }
        if self.habits.cancel && self.choices.u8(..8) == 0 {
            return drop(held);
        }
        // That it was lost, or that the store was away, is in the history.
        let _ = held.release().await;
    }

    /// How long the next hold works.
    fn work(&mut self) -> Duration {
        match self.choices.u16(..1024) {
            0 if self.habits.linger => self.habits.lease * 2,
            0..4 => self.habits.lease / 2,
            _ => MOMENT * self.choices.u32(..1000) / 1000,
        }
    }

    /// Calls a function or a service, which acquire the lock and update the value under it.
    async fn call(&mut self, witness: &Arc<Witness>, patience: Duration) {
        let call = Call {
            witness: Arc::clone(witness),
            values: self.values.clone(),
            work: self.work(),
            grants: Arc::clone(&self.grants),
        };
        let (job, client, options) = (self.job, self.client.clone(), self.options());
        let (lease, wait) = self.lease_and_wait();
        let calling = witness.call(async move {
            match job {
                Job::Service => service(&client, options, call).await,
                _ => function(&client, lease, wait, call).await.map_err(drop),
            }
        });
        // That it was refused, lost or dropped is in the history.
        let _ = timeout(patience, calling).await;
    }
}

/// A call under a lock.
struct Call {
    witness: Arc<Witness>,
    values: MultiplexedConnection,
    work: Duration,
    grants: Arc<BTreeMap<&'static str, AtomicU64>>,
}

impl Call {
    async fn body(mut self) {
        let mut holding = self.witness.is_inside();
        self.grants[CALLED].fetch_add(1, Ordering::Relaxed);
        holding.update(&mut self.values, self.work).await;
    }
}

#[distributed_lock(key = "called", client = client, lease = lease, wait = wait)]
async fn function(
    client: &LockClient,
    lease: Duration,
    wait: Duration,
    call: Call,
) -> Result<(), LockError> {
    call.body().await;
    Ok(())
}

async fn service(client: &LockClient, options: LockOptions, call: Call) -> Result<(), ()> {
    let layer = LockLayer::new(client.clone(), |_: &Call| LockKey::new(CALLED).map(Some));
    let inner = service_fn(async |call: Call| {
        call.body().await;
        Ok::<_, Infallible>(())
    });
    let service = ServiceBuilder::new().layer(layer.options(options)).service(inner);
    service.oneshot(call).await.map_err(|_| ())
}
