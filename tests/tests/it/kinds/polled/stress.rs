//! Futures polled at random, some of them not for seconds.

use crate::kinds::polled::*;

/// One that wants the lock again and again. True if it excludes all others.
enum State {
    Idle,
    Waiting(Acquiring, bool),
    Inside(LockGuard, bool),
}

/// How many tasks there are; one of how many polls is the last of a wait, or the last for a while; and for how many
/// milliseconds a task is inside.
pub(crate) struct Pace {
    pub(crate) tasks: usize,
    pub(crate) gives_up: usize,
    pub(crate) sleeps: usize,
    pub(crate) inside: u64,
}

/// Polls what `start` makes for each task until each has been inside four times, and checks that none is beside one that
/// excludes it.
pub(crate) async fn at_random(
    (seed, what): (u64, &str),
    pace: Pace,
    start: impl Fn(usize, bool) -> (Acquiring, bool),
    mut granted: impl FnMut(&LockGuard),
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut states: Vec<_> = (0..pace.tasks).map(|_| State::Idle).collect();
    let (mut grants, mut until) = (vec![0; pace.tasks], vec![Instant::now(); pace.tasks]);
    let begun = Instant::now();
    while grants.iter().any(|grants| *grants < 4) {
        assert!(begun.elapsed() < secs(300), "{what}: hangs with {grants:?}");
        let (number, now) = (random.usize(..pace.tasks), Instant::now());
        if until[number] <= now {
            let (state, pause) = match std::mem::replace(&mut states[number], State::Idle) {
                State::Idle => {
                    let (waiting, is_alone) = start(number, random.bool());
                    (State::Waiting(waiting, is_alone), 0)
                }
                State::Waiting(..) if random.usize(..pace.gives_up) == 0 => (State::Idle, 0),
                State::Waiting(mut waiting, is_alone) => match poll!(&mut waiting) {
                    Poll::Ready(guard) => {
                        let guard = guard.unwrap();
                        let beside = states.iter().filter(|state| match state {
                            State::Inside(other, alone) => !other.is_lost() && (is_alone || *alone),
                            _ => false,
                        });
                        assert_eq!(beside.count(), 0, "{what}: two are inside");
                        granted(&guard);
                        grants[number] += 1;
                        (State::Inside(guard, is_alone), random.u64(..pace.inside))
                    }
                    Poll::Pending => {
                        let sleeps = random.usize(..pace.sleeps) == 0;
                        let pause = if sleeps { random.u64(..3_000) } else { 0 };
                        (State::Waiting(waiting, is_alone), pause)
                    }
                },
                State::Inside(..) => (State::Idle, 0),
            };
            (states[number], until[number]) = (state, now + ms(pause));
        }
        if random.usize(..4) == 0 {
            sleep(ms(random.u64(1..5))).await;
        }
    }
}

/// S-17, S-21, S-34: whatever sleeps and for however long, one at a time has the lock, and everybody
/// gets it in the end.
#[tokio::test(start_paused = true)]
async fn random_sleepers_exclude_each_other_and_all_get_on() {
    for (kind, seed) in KINDS.into_iter().flat_map(|kind| (0..12).map(move |seed| (kind, seed))) {
        let what = format!("{kind} {seed}");
        let clients = clients(kind, ms(900));
        let pace = Pace { tasks: 8, gives_up: 400, sleeps: 60, inside: 40 };
        let start = |number, _| (lock(&clients[number % 2], kind, "k"), true);
        let mut last = FencingToken::new(0);
        at_random((seed, &what), pace, start, |guard| {
            assert!(guard.token() > last, "{what}: tokens go back");
            last = guard.token();
        })
        .await;
        for client in clients {
            let report = client.shutdown(secs(2)).await;
            assert!(report.is_clean(), "{what}: {report:?}");
        }
    }
}
