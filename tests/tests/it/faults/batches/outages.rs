//! Batches whose answer, connection or runtime goes away.

use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// S-21, S-22: the answer to one batch is lost, and those who wait ask again as the same owners.
#[tokio::test]
async fn a_batch_without_an_answer_is_asked_for_again() {
    let (server, proxy, client) = world().await;
    let raw = server.client();
    for (lost, number) in [14, 20, 23].into_iter().enumerate() {
        proxy.drop_next_reply_to(&name(number));
        let start = Instant::now();
        let guards = hold_all(&client, SEVERAL).await;
        assert_eq!(proxy.replies_dropped(), lost + 1);
        assert!(start.elapsed() < patience(ms(4_000)), "waited for their own leftovers");
        for number in 0..SEVERAL {
            let hash = raw.hgetall(&name(number)).await;
            assert!(hash.values().eq(["1"]), "{hash:?}");
        }
        release_all(guards).await;
        nothing_is_held(&raw).await;
    }
}

/// S-21, S-33: those who do not wait are told that nobody knows, never "busy", and leave nothing.
#[tokio::test]
async fn a_batch_without_an_answer_is_no_busy_lock() {
    let (server, proxy, client) = world().await;
    let raw = server.client();
    proxy.delay_replies(ms(2_000));
    let tries = (0..SEVERAL).map(|number| {
        let mutex = client.mutex(name(number));
        async move { mutex.try_lock().await.map(drop) }
    });
    let cut = async {
        // The last one's batch has run, and its answer is on its way.
        soon!("all are taken", held(&raw).await.len() == SEVERAL);
        proxy.pass();
        proxy.reset_all();
    };
    let (outcomes, ()) = timeout(SOON, join(join_all(tries), cut)).await.expect("stuck");
    for outcome in outcomes {
        let kind = store_kind(&outcome.unwrap_err());
        let told = [StoreErrorKind::OutcomeUnknown, StoreErrorKind::Unavailable].map(Some);
        assert!(told.contains(&kind), "{kind:?}");
    }
    nothing_is_held(&raw).await;
    all_places_are_free(&server, &client).await;
}

/// S-20: a runtime goes away with requests queued and under way, and those of another, which share
/// the queue with them, go on.
#[test]
fn a_batch_goes_down_with_its_runtime_alone() {
    // Has the connection, which is not what this is about.
    let lasting = runtime();
    let (server, proxy, client) = lasting.block_on(world());
    for round in 0..5 {
        let brief = runtime();
        proxy.delay_replies(ms(100));
        for number in 0..100 {
            brief.spawn(locking(&client, number));
        }
        brief.block_on(eventually(SOON, "some are taken", async || {
            held(&server.client()).await.len() > PLACES
        }));
        let others = lasting.block_on(async {
            let others = polled(&client, 100..140).into_iter();
            others.map(lock_tests::spawn).collect::<Vec<_>>()
        });
        // While the others queue in one round, with more and more of them on the way in the next.
        std::thread::sleep(ms(3) * round);
        drop(brief);
        let start = Instant::now();
        lasting.block_on(async {
            for other in others {
                let guard = timeout(SOON, other).await.expect("stuck").unwrap();
                drop(guard.unwrap());
            }
            assert!(start.elapsed() < patience(ms(4_000)), "held up for {:?}", start.elapsed());
            proxy.pass();
            nothing_is_held(&server.client()).await;
        });
    }
    lasting.block_on(all_places_are_free(&server, &client));
}

/// Places that come free as their runtime shuts down, which starts no task any more.
#[test]
fn a_runtime_takes_no_place_with_it() {
    let lasting = runtime();
    let (server, _proxy, client) = lasting.block_on(world());
    lasting.block_on(all_places_are_free(&server, &client));
    let brief = Builder::new_current_thread().enable_all().build().unwrap();
    // Nothing runs these before their runtime is dropped.
    brief.block_on(async {
        polled(&client, 0..PLACES).into_iter().for_each(|it| drop(lock_tests::spawn(it)))
    });
    let queued = lasting.block_on(async { polled(&client, PLACES..PLACES + 8) });
    drop(brief);
    lasting.block_on(async {
        released(timeout(SOON, join_all(queued)).await.expect("stuck")).await;
        all_places_are_free(&server, &client).await;
    });
}

#[test]
fn a_client_outlives_the_runtime_of_its_batches() {
    let (first, second) = (runtime(), runtime());
    let (server, proxy, client) = first.block_on(world());
    proxy.stall();
    for number in 0..100 {
        first.spawn(locking(&client, number));
    }
    let under_way = second.spawn(locking(&client, 100));
    first.block_on(async { sleep(ms(50)).await });
    drop(first);
    proxy.pass();
    second.block_on(async {
        let start = Instant::now();
        let guard = timeout(SOON, locking(&client, 0)).await.expect("stuck").unwrap();
        let other = timeout(SOON, under_way).await.expect("stuck").unwrap().unwrap();
        assert!(start.elapsed() < patience(ms(4_000)), "held up for {:?}", start.elapsed());
        release_all(vec![guard, other]).await;
        nothing_is_held(&server.client()).await;
        all_places_are_free(&server, &client).await;
    });
}

/// S-33: the first in a batch to be out of time has the connection looked at, not the last.
#[tokio::test]
async fn a_silent_connection_is_found_out_by_the_first() {
    let (_server, proxy, client) = far_world_with(SOON * 2).await;
    proxy.black_hole();
    let mut all: Vec<_> = (0..SEVERAL).map(|number| locking(&client, number)).collect();
    let mutex = client.mutex("brief").with(waits(ms(200)));
    all.insert(12, Box::pin(async move { mutex.lock().await }));
    let anew = eventually(SOON, "it connects anew", async || proxy.accepted() > 1);
    tokio::select! {
        () = anew => {}
        _ = join_all(all) => panic!("no task has an answer"),
    }
}

/// S-33: while there is no connection, the end of one request's time is not that of another's.
#[tokio::test]
async fn who_has_longer_waits_for_the_connection() {
    let (_server, proxy, client) = far_world_with(secs(5)).await;
    cut_off(&proxy, &client).await;
    let brief = |number: usize, after| {
        let mutex = client.mutex(name(number)).with(waits(ms(150)));
        async move {
            sleep(after).await;
            mutex.lock().await.map(drop)
        }
    };
    let mutex = client.mutex("longer");
    let longer = async {
        sleep(ms(200)).await;
        mutex.try_lock().await
    };
    // The first fill the places; of the second, a task then waits for the connection with them.
    let first = join_all((0..PLACES).map(|number| brief(number, ms(0))));
    let second = join_all((PLACES..PLACES + 8).map(|number| brief(number, ms(100))));
    let mend = async {
        sleep(ms(400)).await;
        proxy.pass();
    };
    let (brief, (longer, ())) = join(join(first, second), join(longer, mend)).await;
    assert!(brief.0.into_iter().chain(brief.1).all(|outcome| outcome.is_err()));
    longer.expect("was given another's time").expect("no task has it").release().await.unwrap();
}
