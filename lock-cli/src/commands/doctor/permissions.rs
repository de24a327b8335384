//! What the user may do: each kind of lock is tried at a name of its own, with a short lease, and released.
use std::time::Duration;

use lock_runtime::__layer_v1::client_id;
use lock_runtime::{LockClient, LockError, LockGuard, LockOptions, Semaphore};

use super::{Check, Verdict};
use crate::failure::with_causes;

/// The lease of what is tried: a trial that is cut off leaves nothing for longer.
const LEASE: Duration = Duration::from_secs(5);

/// How long a second acquire waits for the first, which is long enough to subscribe to its release.
const WAIT: Duration = Duration::from_millis(100);

const ADVICE: &str = "What is refused does not work; docs/operations.md lists what to grant under \"The user's rights\".";

pub(super) async fn checks(client: &LockClient) -> Vec<Check> {
    let name = format!("lock_runtime:doctor:{}", client_id());
    let options = LockOptions::new().lease(LEASE).wait(WAIT);
    let with = || options.clone();
    let (mutex, fair) = (client.mutex(&*name).with(with()), client.fair_mutex(&*name).with(with()));
    let rw = client.rw_lock(&*name).with(with());
    let semaphore = client.semaphore(format!("{name}:permits"), 1).with(with());
    let multi = client.multi_lock([format!("{{{name}}}:a"), format!("{{{name}}}:b")]).with(with());
    vec![
        check("mutexes", tried(mutex.lock().await).await),
        check("fair mutexes", tried(fair.lock().await).await),
        check("read locks", tried(rw.read().await).await),
        check("write locks", tried(rw.write().await).await),
        check("semaphores", permitted(&semaphore).await),
        check("several at once", tried(multi.lock().await).await),
        check("latches", latch(client, &name).await),
        check("waiting", waited(client, &name, options).await),
        check("inspection", client.admin().inspect(&*name).await.map(drop)),
        check("forced release", client.admin().force_release(&*name).await.map(drop)),
        surveyed(client).await,
    ]
}

async fn tried(acquired: Result<LockGuard, LockError>) -> Result<(), LockError> {
    acquired?.release().await
}

async fn permitted(semaphore: &Semaphore) -> Result<(), LockError> {
    semaphore.acquire().await?.release().await
}

/// Whether a waiter is told of a release.
async fn waited(client: &LockClient, name: &str, options: LockOptions) -> Result<(), LockError> {
    let mutex = client.mutex(name).with(options);
    let held = mutex.lock().await?;
    let waited = mutex.lock().await;
    held.release().await?;
    match waited {
        Err(LockError::Timeout { .. }) => Ok(()),
        other => tried(other).await,
    }
}

async fn latch(client: &LockClient, name: &str) -> Result<(), LockError> {
    let latch = client.latch(format!("{name}:latch"));
    latch.try_set_count(1).await?;
    latch.count_down().await.map(drop)
}

async fn surveyed(client: &LockClient) -> Check {
    let survey = client.admin().survey().prefix("lock_runtime:doctor:").within(WAIT).await;
    check(
        "surveys",
        match survey {
            Ok(survey) => match survey.not_listed {
                Some(error) => Err(error.into()),
                None => Ok(()),
            },
            Err(error) => Err(error),
        },
    )
}

fn check(check: &'static str, tried: Result<(), LockError>) -> Check {
    let (verdict, found, advice) = match tried {
        Ok(()) => (Verdict::Ok, "permitted".to_owned(), ""),
        Err(error) => (Verdict::Problem, with_causes(&error), ADVICE),
    };
    Check { server: String::new(), check, verdict, found, advice }
}
