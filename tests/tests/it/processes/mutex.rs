//! Several processes on one Redis: killed, stopped, competing.

use lock_tests::history::{Op, Recorder, Rules};

use crate::prelude::*;
use crate::support::workers::{ANSWER, Workers as World, numbers, told};

async fn holding(worker: &mut Worker, name: &str, lease: Duration) -> u64 {
    let hold = format!("hold mutex {name} {}", lease.as_millis());
    told(worker, &hold, "held ").await.parse().unwrap()
}

/// S-12, S-13, S-19: stopped past its lease and continued, the body is not polled again, the loss
/// is reported, and the successor's lock is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_holder_wakes_up_without_its_lock() {
    // A stop in the middle of a poll lets that one poll end later on, which happens seldom twice.
    for round in 1.. {
        let world = World::new().await;
        let polled = polls_after_a_stop_beyond_the_lease(&world).await;
        if polled == 0 {
            break;
        }
        assert!(polled == 1 && round < 3, "polled {polled} times after its lease in round {round}");
    }
}

async fn polls_after_a_stop_beyond_the_lease(world: &World) -> usize {
    let mut worker = world.worker().await;
    let token = holding(&mut worker, "s", secs(1)).await;
    let effects = || {
        let is_effect = |event: &&lock_tests::history::Event| event.op == Op::Effect;
        world.history().events().iter().filter(is_effect).count()
    };
    eventually(ANSWER, "the body runs", async || effects() > 0).await;
    let recorder = Recorder::create(world.history.path()).unwrap();
    recorder.record_stop("SIGSTOP", worker.id());
    worker.sigstop();
    let client = &world.client;
    let successor = timeout(ANSWER, client.mutex("s").lock()).await.expect("never free").unwrap();
    assert!(successor.token().get() > token);
    let before = effects();
    worker.sigcont();
    let line = worker.next_line(ANSWER).await;
    assert!(line.starts_with("lost "), "{line}");
    recorder.record_end_of_fault("SIGSTOP");
    let polled = effects() - before;
    // Its clean-up has reached the server by the time a command sent later has been answered.
    told(&mut worker, "lock other", "locked ").await;
    assert!(!successor.is_lost());
    successor.extend(secs(40)).await.unwrap();
    successor.release().await.unwrap();
    polled
}

/// S-14, S-23: neither process nor any task starves, and tokens have the order of the holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_a_hot_key() {
    let world = World::new().await;
    let mut workers = world.workers::<2>().await;
    for worker in &mut workers {
        worker.send("hammer hot 16 3000");
    }
    let mut grants = Vec::new();
    for worker in &mut workers {
        let [sum, fewest, most] = numbers(worker).await;
        assert!(fewest > 0, "a task starved: {sum} grants, at most {most} to a task");
        grants.push(sum);
    }
    let (fewest, all) = (*grants.iter().min().unwrap(), grants.iter().sum::<u64>());
    assert!(fewest * 3 >= all, "grants by process: {grants:?}");
    let report = world.history().check(&Rules::default());
    report.assert_clean();
    assert!(report.updates > 0, "{report}");
}

/// S-15: woken by the notice, not by a timer: far below the holder's lease and the poll cap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_a_waiter_in_another_process() {
    let world = World::new().await;
    let mut worker = world.worker().await;
    let client = &world.client;
    let mut latencies = Vec::new();
    for _ in 0..20 {
        told(&mut worker, "lock wake", "locked ").await;
        let mutex = client.mutex("wake");
        let waiter = lock_tests::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            (Instant::now(), guard)
        });
        eventually(ANSWER, "the waiter listens", async || {
            world.server.pubsub_numsub("redisson_lock__channel:{wake}").await > 0
        })
        .await;
        told(&mut worker, "release", "released").await;
        let told = Instant::now();
        let (woken, guard) = timeout(ANSWER, waiter).await.expect("not woken").unwrap();
        latencies.push(woken.saturating_duration_since(told));
        guard.release().await.unwrap();
    }
    latencies.sort();
    // A few round trips are below a millisecond; any timer that could stand in for the notice takes
    // four seconds or more. The bound in between leaves room for a busy machine.
    assert!(latencies[10] < ms(100), "{latencies:?}");
    assert!(latencies[19] < secs(2), "a notice was lost: {latencies:?}");
}

/// S-14: also a lone task in a loop lets another process have its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_loop_does_not_shut_others_out() {
    let world = World::new().await;
    let mut worker = world.worker().await;
    worker.send("hammer lone 1 2500");
    let client = &world.client;
    let limit = waits(secs(1));
    let mut turns = 0;
    let until = Instant::now() + secs(2);
    while Instant::now() < until {
        client.mutex("lone").with(limit.clone()).lock().await.unwrap().release().await.unwrap();
        turns += 1;
    }
    assert!(turns >= 20, "only {turns} turns in two seconds");
    let line = worker.next_line(ANSWER).await;
    assert!(line.starts_with("hammered "), "{line}");
    eventually(secs(2), "nothing is left", async || {
        world.server.client().keys().await == ["redisson_lock_token:{lone}"]
    })
    .await;
}
