//! Drops each future of the table after every number of polls.

use crate::prelude::*;
use crate::rows::{Row, Start, Under, rows};
use crate::stage::{HELD_FOR, Kind, ROUND_TRIP, Stage};

/// In what state the lock is when the future is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// No task has it, or the future needs no lock.
    Free,
    /// Another process has it for a while.
    Held,
    /// Another task of the same process has it for a while.
    Queued,
}

/// A future, ready to be polled, and the task that holds the lock before it.
struct Scene {
    stage: Stage,
    under: Under,
    holder: Option<JoinHandle<()>>,
}

async fn scene(row: &Row, setting: Setting) -> Scene {
    // Timers that an earlier scene has left behind would poll the future once more.
    sleep(secs(60)).await;
    let stage = Stage::new();
    let holder = match setting {
        Setting::Held => Some(stage.hold(&stage.near, row.kind).await),
        Setting::Queued => Some(stage.hold(&stage.far, row.kind).await),
        Setting::Free => None,
    };
    let under = match row.start {
        Start::Acquire(make) => make(&stage.far),
        Start::Prepared(prepare) => prepare(stage.far.clone(), stage.store.peer(), row.kind).await,
    };
    Scene { stage, under, holder }
}

/// Within one round trip nothing of the future is in the store; once the holder has released, nothing at all, and
/// the lock can be taken at once.
async fn leaves_nothing(scene: Scene, kind: Kind, what: &str) {
    let Scene { stage, under, holder } = scene;
    drop(under);
    sleep(ROUND_TRIP).await;
    if let Some(holder) = holder {
        if !holder.is_finished() {
            let left = stage.left().await;
            let waits = left.iter().any(|left| left.ends_with("a waiter"));
            assert!(!waits, "{what}: {left:?} besides the holder");
        }
        holder.await.unwrap();
    }
    assert_eq!(stage.left().await, [""; 0], "{what}");
    stage.is_free(kind).await;
    if !matches!(kind, Kind::Client | Kind::Latch) {
        // Past the local queue of the client that gave up.
        let again = timeout(2 * ROUND_TRIP, stage.far.take(kind)).await;
        let guard = again.unwrap_or_else(|_| panic!("{what}: its own process has to wait"));
        guard.unwrap().release().await.unwrap();
    }
}

/// When a future is dropped that has a task of its own process behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// At once.
    Now,
    /// When its answer, or its turn, has come and it was not polled any more.
    Woken,
}

/// A task of the same process that waits behind the future gets the lock.
async fn lets_others_in(scene: Scene, kind: Kind, when: When, what: &str) {
    let Scene { stage, under, mut holder } = scene;
    let far = stage.far.clone();
    let behind = tokio::spawn(async move { far.take(kind).await });
    sleep(ms(1)).await;
    if when == When::Woken {
        if let Some(holder) = holder.take() {
            holder.await.unwrap();
        }
        sleep(ROUND_TRIP).await;
    }
    drop(under);
    // Until the holder releases, and then a few round trips.
    let bound = if holder.is_some() { HELD_FOR + 2 * ROUND_TRIP } else { 2 * ROUND_TRIP };
    let guard = timeout(bound, behind).await.unwrap_or_else(|_| panic!("{what}: it still waits"));
    guard.unwrap().unwrap().release().await.unwrap();
    assert_eq!(stage.left().await, [""; 0], "{what}, with a waiter behind");
}

/// Sweeps over one future, and returns after how many polls it completed.
async fn sweep(row: &Row, setting: Setting) -> usize {
    for polls in 0..1_000 {
        let what = format!("{} ({setting:?}) dropped after {polls} polls", row.future);
        let mut scene_of = scene(row, setting).await;
        let polled = poll_then_drop(scene_of.under.as_mut(), polls);
        let polled = timeout(secs(60), polled).await;
        let polled = polled.unwrap_or_else(|_| panic!("{what}: it is not woken"));
        leaves_nothing(scene_of, row.kind, &what).await;
        if polled == Polled::Completed(()) {
            return polls;
        }
        if matches!(row.start, Start::Acquire(_)) && row.kind != Kind::Latch {
            for when in [When::Now, When::Woken] {
                let mut scene = scene(row, setting).await;
                let polled = poll_then_drop(scene.under.as_mut(), polls).await;
                assert_eq!(polled, Polled::Dropped, "{what}, once more");
                lets_others_in(scene, row.kind, when, &format!("{what}, {when:?}")).await;
            }
        }
    }
    panic!("{} does not complete", row.future);
}

/// S-17, S-20, S-21: nothing is left wherever a future is dropped.
#[tokio::test(start_paused = true)]
async fn every_future_is_dropped_at_every_await() {
    let mut drops = 0;
    for row in rows() {
        let Start::Acquire(_) = row.start else {
            drops += sweep(row, Setting::Free).await;
            continue;
        };
        let free = sweep(row, Setting::Free).await;
        let held = sweep(row, Setting::Held).await;
        let queued = sweep(row, Setting::Queued).await;
        // Its request is an await point; so is the wait, unless it does not wait.
        let waits = !row.future.contains("::try_") || row.future.contains("try_run");
        assert!(free >= 2 && (!waits || held >= 2), "{}: {free}, {held} polls", row.future);
        drops += free + held + queued;
    }
    assert!(drops > 500, "only {drops} drops");
}
