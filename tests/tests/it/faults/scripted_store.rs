//! A store that does something at a chosen moment, for interleavings that no timing would hit.

use std::sync::MutexGuard;

use crate::prelude::*;
use crate::support::handed_on::handed_on;

type Step = BoxFuture<'static, ()>;

const MINUTE: Duration = secs(60);

/// The in-memory store, with a script to follow.
#[derive(Clone)]
struct Scripted {
    inner: MemoryStore,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    before_subscribing: Option<Step>,
    /// How many fencing tokens each acquire has asked for.
    tokens_asked: Vec<u32>,
    /// How late the answer to an acquire comes after its effect.
    acquire_answers_after: Duration,
    /// How many more acquires are answered before the store falls silent.
    acquires_before_silence: Option<usize>,
    /// How late the effect of a release comes.
    release_starts_after: Duration,
}

impl Script {
    /// Counts an acquire. True if it gets no answer.
    fn falls_silent(&mut self) -> bool {
        let Some(left) = &mut self.acquires_before_silence else { return false };
        let is_silent = *left == 0;
        *left = left.saturating_sub(1);
        is_silent
    }
}

impl Scripted {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Waits until it was asked so many times to acquire.
    async fn asked(&self, count: usize) {
        eventually(SOON, "it asks", async || self.script().tokens_asked.len() >= count).await;
    }
}

/// Such a store, and a client of it.
fn scripted(inner: MemoryStore) -> (Scripted, LockClient) {
    let scripted = Scripted { inner, script: Arc::default() };
    let client = LockClient::builder().store(scripted.clone()).unwrap();
    (scripted, client)
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

impl Store for Scripted {
    handed_on!(renew clock);

    fn acquire(&self, request: AcquireRequest) -> StoreFuture<'_, AcquireReply> {
        self.script().tokens_asked.push(request.tokens);
        let late = self.script().acquire_answers_after;
        let is_silent = self.script().falls_silent();
        StoreFuture::new(async move {
            if is_silent {
                sleep(request.timeout).await;
                return Err(StoreError::new(StoreErrorKind::OutcomeUnknown, "silence"));
            }
            let reply = self.inner.acquire(request).await;
            sleep(late).await;
            reply
        })
    }

    fn release(&self, request: ReleaseRequest) -> StoreFuture<'_, ReleaseReply> {
        let late = self.script().release_starts_after;
        StoreFuture::new(async move {
            sleep(late).await;
            self.inner.release(request).await
        })
    }

    fn subscribe(&self, target: &Arc<Target>, timeout: Duration) -> StoreFuture<'_, Subscription> {
        let target = Arc::clone(target);
        StoreFuture::new(async move {
            let step = self.script().before_subscribing.take();
            if let Some(step) = step {
                step.await;
            }
            self.inner.subscribe(&target, timeout).await
        })
    }
}

/// S-15: a release between the refusal and the subscription is found by the try that follows it,
/// and not only when the holder's lease or the poll cap is over.
#[tokio::test(start_paused = true)]
async fn a_release_before_the_subscription_is_found() {
    let store = MemoryStore::new();
    let holder = LockClient::builder().store(store.peer()).unwrap();
    let (scripted, client) = scripted(store);
    let guard = holder.mutex("gap").lock().await.unwrap();
    let release: Step = Box::pin(async move { guard.release().await.unwrap() });
    scripted.script().before_subscribing = Some(release);
    let start = Instant::now();
    let guard = client.mutex("gap").lock().await.unwrap();
    assert!(start.elapsed() < ms(100), "slept for {:?}", start.elapsed());
    guard.release().await.unwrap();
}

/// S-14, S-23: each microsecond from the request of a busy hold to the answer to its release earns a token, so the counter
/// does not run ahead of the clock.
#[tokio::test(start_paused = true)]
async fn tokens_follow_the_clock() {
    /// How often eight tasks have the lock in turns.
    const TURNS: u32 = 8 * 1000;
    for (drops, takes) in [true, false]
        .into_iter()
        .flat_map(|drops| [[ms(1), ms(0)], [ms(0), ms(1)], [ms(0); 2]].map(|takes| (drops, takes)))
    {
        let (scripted, client) = scripted(MemoryStore::new());
        [scripted.script().acquire_answers_after, scripted.script().release_starts_after] = takes;
        let tasks = (0..8).map(async |_| {
            for _ in 0..TURNS / 8 {
                let guard = client.mutex("busy").lock().await.unwrap();
                if drops {
                    drop(guard);
                } else {
                    guard.release().await.unwrap();
                }
            }
        });
        join_all(tasks).await;
        let asked = &scripted.script().tokens_asked;
        let (most, all) = (*asked.iter().max().unwrap(), asked.iter().sum::<u32>());
        // Where next to no time passes: the credit of a new gate, and what each hold needs.
        let expected = if takes == [ms(0); 2] { 2..=256 } else { 800..=4096 };
        assert!(expected.contains(&most), "{most}, {takes:?}");
        // All that were granted were used, but for the last block.
        assert!(takes == [ms(0); 2] || all <= TURNS + 4096, "{all}");
    }
}

/// S-8, S-33: a store whose every grant comes after its own deadline is one that fails: patience
/// ends even an endless wait, for the whole line at once.
#[tokio::test(start_paused = true)]
async fn patience_ends_with_grants_that_are_all_late() {
    let (scripted, _) = scripted(MemoryStore::new());
    let (lease, patience, late) = (ms(200), secs(2), ms(300));
    let builder = LockClient::builder().store_patience(patience);
    let client = builder.store(scripted.clone()).unwrap();
    scripted.script().acquire_answers_after = late;
    let start = Instant::now();
    let line = (0..3).map(|_| async {
        let outcome = client.mutex("late").with(fixed(lease)).lock().await;
        (outcome.map(drop), start.elapsed())
    });
    let line = timeout(MINUTE, join_all(line)).await.expect("waits for ever");
    for (outcome, waited) in line {
        assert_eq!(store_kind(&outcome.unwrap_err()), Some(StoreErrorKind::NotReady));
        // It begins with the first late answer, and a pause and an answer may follow its end.
        assert!(waited >= patience && waited < late + patience + ms(50) + late, "{waited:?}");
    }
    // What was granted late has been given back, and a store that is in time again is trusted.
    scripted.script().acquire_answers_after = Duration::ZERO;
    let guard = client.mutex("late").with(fixed(lease)).lock().await.unwrap();
    guard.release().await.unwrap();
    assert!(client.shutdown(MINUTE).await.is_clean());
}

/// S-20: a shutdown that runs out of grace counts what is under way; a second one, alone or beside
/// the first, counts the same and waits for it.
#[tokio::test(start_paused = true)]
async fn a_second_shutdown_waits_for_releases_under_way() {
    for beside in [false, true] {
        let (scripted, client) = scripted(MemoryStore::new());
        let late = ms(800);
        scripted.script().release_starts_after = late;
        let start = Instant::now();
        for number in 0..3 {
            drop(client.mutex(format!("slow:{number}")).lock().await.unwrap());
        }
        let first = async {
            let report = client.shutdown(ms(300)).await;
            assert_eq!((report.still_held, report.not_given_back), (0, 3), "beside: {beside}");
            assert_eq!(start.elapsed().as_millis() / 100, 3, "{:?}", start.elapsed());
        };
        let second = async {
            assert!(client.shutdown(MINUTE).await.is_clean(), "beside: {beside}");
            assert_eq!(start.elapsed().as_millis() / 100, 8, "{:?}", start.elapsed());
        };
        if beside {
            tokio::join!(second, first);
        } else {
            first.await;
            let none = client.shutdown(Duration::ZERO).await;
            assert_eq!((none.still_held, none.not_given_back), (0, 3));
            second.await;
        }
        for number in 0..3 {
            assert!(scripted.inner.holders(&format!("slow:{number}")).0.is_empty());
        }
    }
}

/// S-27: who comes while a reader's first request is under way has that one's hold, whether he
/// waits or tries, and no task waits for more than that answer and whether he may join.
#[tokio::test(start_paused = true)]
async fn readers_who_ask_at_once_share_one_hold() {
    let (store, client) = scripted(MemoryStore::new());
    let (lock, late) = (client.rw_lock("r"), ms(300));
    store.script().acquire_answers_after = late;
    let asked = Instant::now();
    let tries = join_all((0..25).map(|_| lock.try_read()));
    let (tried, read) = tokio::join!(tries, join_all((0..25).map(|_| lock.read())));
    let mut guards: Vec<_> = tried.into_iter().map(|tried| tried.unwrap().unwrap()).collect();
    guards.extend(read.into_iter().map(Result::unwrap));
    assert!(guards.iter().all(|guard| guard.token() == guards[0].token()), "{guards:?}");
    assert!(asked.elapsed() < late * 2 + ms(10), "took {:?}", asked.elapsed());
    drop(guards);
    store.script().acquire_answers_after = Duration::ZERO;
    timeout(MINUTE, lock.write()).await.unwrap().unwrap().release().await.unwrap();
}

/// S-31, S-33: when the wait ends while the store is silent, the store's last answer says why there is no guard: too few
/// replicas know of the hold, or another process has the lock. Without any answer, the store has failed.
#[tokio::test(start_paused = true)]
async fn the_last_answer_before_a_silence_ends_the_wait() {
    let wait = secs(1);
    let options = LockOptions::new().replicas(Replicas::new(2, ms(50))).wait(Wait::UpTo(wait));
    for (is_held, answers) in [(false, 1), (false, 2), (true, 1), (true, 2), (false, 0), (true, 0)]
    {
        let store = MemoryStore::new();
        store.set_replicas(1);
        let holder = LockClient::builder().store(store.peer()).unwrap();
        let held = match is_held {
            true => Some(holder.mutex("m").lock().await.unwrap()),
            false => None,
        };
        let (scripted, client) = scripted(store);
        scripted.script().acquires_before_silence = Some(answers);
        let start = Instant::now();
        let error = client.mutex("m").with(options.clone()).lock().await.unwrap_err();
        let is_right = match (is_held, answers) {
            (_, 0) => matches!(error, LockError::Store(_)),
            (true, _) => matches!(error, LockError::Timeout { .. }),
            (false, _) => matches!(error, LockError::NotReplicated { acked: 1, wanted: 2, .. }),
        };
        assert!(is_right, "held: {is_held}, {answers} answers: {error:?}");
        let waited = start.elapsed();
        assert!(waited >= wait && waited < wait + ms(200), "{waited:?}");
        drop(held);
    }
}

/// How many may wait in that client.
const MOST: usize = 20;

/// A store where another client holds the mutex `m`, and a client.
async fn contended() -> (LockGuard, Scripted, LockClient) {
    let store = MemoryStore::new();
    let holder = LockClient::builder().store(store.peer()).unwrap();
    let held = holder.mutex("m").lock().await.unwrap();
    let (scripted, _) = scripted(store);
    let client = LockClient::builder().max_waiters(MOST).store(scripted.clone()).unwrap();
    (held, scripted, client)
}

/// S-14, S-33: when their wait ends together with that of the waiter that the store was asked for, waiters that have heard no
/// answer are told what one more request says: that the lock is busy, or nothing.
#[tokio::test(start_paused = true)]
async fn one_request_tells_all_that_are_out_of_time() {
    for (answers, count) in [(1, 1), (1, MOST), (0, 1)] {
        let (_held, scripted, client) = contended().await;
        let waits = |time| lock_tests::spawn(client.mutex("m").wait(ms(time)).lock());
        let asked = waits(300);
        sleep(ms(10)).await;
        let waiters: Vec<_> = (0..count).map(|_| waits(290)).collect();
        sleep(ms(200)).await;
        scripted.script().acquires_before_silence = Some(answers);
        assert!(asked.await.unwrap().unwrap_err().is_timeout());
        for outcome in join_all(waiters).await {
            let error = outcome.unwrap().unwrap_err();
            let is_right = match answers {
                0 => matches!(error, LockError::Store(_)),
                _ => error.is_timeout() && error.holder_remaining() > Some(secs(10)),
            };
            assert!(is_right, "{answers} answers to {count}: {error:?}");
        }
        assert_eq!(scripted.script().acquires_before_silence, Some(0), "it does not ask");
        // S-18: their places are free again, for one behind another that asks.
        let again = || client.mutex("m").wait(ms(50)).lock();
        let (one, other) = tokio::join!(again(), again());
        for error in [one.unwrap_err(), other.unwrap_err()] {
            assert!(!matches!(error, LockError::Busy { .. }), "{error:?}");
        }
    }
}

/// S-33: a try does not wait for the answer to another task's request for longer than a moment: then it asks itself.
#[tokio::test(start_paused = true)]
async fn a_try_beside_a_request_without_an_answer_asks_itself() {
    let (_held, scripted, client) = contended().await;
    scripted.script().acquires_before_silence = Some(0);
    let _waiter = lock_tests::spawn(client.mutex("m").lock());
    sleep(ms(10)).await;
    scripted.script().acquires_before_silence = None;
    let start = Instant::now();
    assert!(client.mutex("m").try_lock().await.unwrap().is_none());
    assert!(start.elapsed() < ms(200), "{:?}", start.elapsed());
}

/// S-33: a waiter that was passed over, because it was not polled, asks itself after all others have left.
#[tokio::test(start_paused = true)]
async fn a_waiter_asks_when_no_other_task_is_left() {
    let (_held, scripted, client) = contended().await;
    scripted.script().acquires_before_silence = Some(2);
    let mut first = Box::pin(client.mutex("m").wait(ms(300)).lock());
    assert!(poll!(first.as_mut()).is_pending());
    sleep(ms(10)).await;
    let mut not_polled = Box::pin(client.mutex("m").wait(ms(280)).lock());
    assert!(poll!(not_polled.as_mut()).is_pending());
    let (first, last) = tokio::join!(first, client.mutex("m").wait(ms(2500)).lock());
    assert!(matches!(first, Err(LockError::Timeout { .. })), "{first:?}");
    // The gate ends when what the last one may hold is given back.
    sleep(ms(500)).await;
    for outcome in [last, not_polled.await] {
        assert!(matches!(outcome, Err(LockError::Store(_))), "{outcome:?}");
    }
}

/// S-27: readers who waited together share what the first was granted, however soon each ends: also if that took one request of
/// its own, and also if another client's writer waits, which would otherwise have a turn between them.
#[tokio::test(start_paused = true)]
async fn quick_readers_share_one_grant() {
    for waits_for_writer in [false, true] {
        let (store, late) = (MemoryStore::new(), ms(20));
        let [other, third] = [(); 2].map(|()| LockClient::builder().store(store.peer()).unwrap());
        let held = match waits_for_writer {
            true => Some(other.rw_lock("r").write().await.unwrap()),
            false => None,
        };
        let (scripted, _) = scripted(store);
        // For as long as an answer takes, and longer: then a hold is kept for those who wait.
        let client = LockClient::builder().handoff_window(SOON).store(scripted.clone()).unwrap();
        scripted.script().acquire_answers_after = late;
        let read = |_| {
            let lock = client.rw_lock("r");
            lock_tests::spawn(async move { lock.read().await.unwrap().token() })
        };
        let reads: Vec<_> = (0..8).map(read).collect();
        // All wait, for the answer to the first or for the writer.
        sleep(late / 2).await;
        let next_writer = lock_tests::spawn({
            let writing = third.rw_lock("r").write();
            async move { writing.await.unwrap().release().await.unwrap() }
        });
        if let Some(held) = held {
            sleep(late).await;
            held.release().await.unwrap();
        }
        let tokens = joined(reads).await;
        assert!(tokens.iter().all(|token| *token == tokens[0]), "{waits_for_writer}: {tokens:?}");
        next_writer.await.unwrap();
    }
}

/// A waiter of that client that the store has refused, and that has asked again, of a store that is silent by now.
async fn asks_into_silence() -> (Scripted, LockClient, JoinHandle<Result<LockGuard, LockError>>) {
    let (held, store, client) = contended().await;
    let waiter = lock_tests::spawn(client.mutex("m").lock());
    // Refused twice: before and after it listens.
    store.asked(2).await;
    store.script().acquires_before_silence = Some(0);
    held.release().await.unwrap();
    store.asked(3).await;
    (store, client, waiter)
}

/// S-33: a request that gets no answer does not end the wait of a caller that was refused before, and has time left.
#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_after_a_refusal_and_a_silence() {
    let (store, _client, waiter) = asks_into_silence().await;
    store.asked(4).await;
    store.script().acquires_before_silence = None;
    timeout(MINUTE, waiter).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

/// S-20: a shutdown ends a wait at once, also if its request has no answer yet.
#[tokio::test(start_paused = true)]
async fn a_wait_without_an_answer_ends_with_a_shutdown() {
    let (_store, client, waiter) = asks_into_silence().await;
    let start = Instant::now();
    let ended = async { (waiter.await.unwrap().map(drop), start.elapsed()) };
    let (report, (result, waited)) = tokio::join!(client.shutdown(MINUTE), ended);
    assert!(matches!(result, Err(LockError::Closed)), "{result:?}");
    assert!(waited < ms(10), "waited for {waited:?}");
    assert!(report.is_clean(), "{report:?}");
}
