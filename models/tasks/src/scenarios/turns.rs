//! Three tasks at a key: one has the seat, two wait, and any may be cancelled.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use shuttle::future::{block_on, spawn, yield_now};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, advance};

use super::{Inside, SOMEBODY, TERMS, a_caller, target, unless};
use crate::admin::waits::Asker;
use crate::lease::releaser::ClientJob;
use crate::queue::{Admission, Asked, Asking, Queues, Seat, Ticket, Turn, Wanted};
use crate::store::{OwnerId, Target};

/// What is handed over: the seat, as if it were a hold.
struct Handed(Seat<Handed>);

/// Asks a store that grants everything, some time later.
struct Ask;

impl Wanted<Handed> for Ask {
    fn asker(&self) -> Asker {
        SOMEBODY
    }

    fn have_asked(&self, asking: Asking<Handed>) {
        let asking = async move {
            yield_now().await;
            if let Some(request) = Box::new(asking).start() {
                request.await;
            }
        };
        drop(spawn(asking));
    }

    fn run(self: Arc<Self>, asked: Asked<Handed>, seat: Seat<Handed>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            yield_now().await;
            assert!(seat.granted(true), "nobody passes over a task of the client");
            let number = seat.id().place();
            asked.hand(Arc::new(Handed(seat)), number);
        })
    }
}

/// How a task leaves the key.
#[derive(Debug, Clone, Copy)]
pub enum Leave {
    /// It drops its seat, and the store is asked for the next waiter.
    Drop,
    /// It hands over to the next waiter if there is one.
    HandOff,
}

struct Room {
    queues: Arc<Queues<Handed>>,
    target: Arc<Target>,
    inside: Inside,
}

impl Room {
    fn new() -> Arc<Self> {
        Arc::new(Self { queues: Queues::new(8), target: target(), inside: Inside::default() })
    }

    fn enter(&self) -> Admission<Handed> {
        let owner = || OwnerId::new("client", 1, 1);
        self.queues.enter(&self.target, a_caller(), owner, || Arc::new(Ask))
    }

    /// One task: waits for its turn unless it is cancelled, works, and leaves.
    async fn take_turn(self: Arc<Self>, leave: Leave, cancelled: Option<oneshot::Receiver<()>>) {
        match self.enter() {
            Admission::First(seat, _) => self.first(seat, leave).await,
            Admission::Waits(ticket) => {
                if let Some(turn) = unless(cancelled, ticket).await {
                    self.accept(turn, leave).await;
                }
            }
            Admission::Closed => {}
            _ => panic!("the key refused a caller that waits"),
        }
    }

    async fn first(&self, seat: Seat<Handed>, leave: Leave) {
        yield_now().await;
        assert!(seat.granted(true), "nobody looks here");
        self.work(seat, leave).await;
    }

    async fn accept(&self, turn: Turn<Handed>, leave: Leave) {
        match turn {
            Turn::Handed(handed) => {
                let Handed(seat) = Arc::into_inner(handed).expect("handed to one waiter only");
                self.work(seat, leave).await;
            }
            Turn::Closed => {}
            Turn::Failed(_) | Turn::Shared(_) | Turn::Busy => panic!("the store grants everything"),
        }
    }

    async fn work(&self, seat: Seat<Handed>, leave: Leave) {
        self.inside.work().await;
        match leave {
            Leave::Drop => drop(seat),
            Leave::HandOff => {
                if let Some(next) = seat.next_holder(TERMS, None) {
                    next.hand(Arc::new(Handed(seat)));
                }
            }
        }
    }

    /// The key is unused, and no task is counted as waiting.
    fn assert_free(&self) {
        for _ in 0..2 {
            assert!(matches!(self.enter(), Admission::First(..)), "a seat was lost");
        }
        let Admission::First(_seat, _) = self.enter() else { panic!("a seat was lost") };
        // As many may wait as at first.
        let places = (0..8).map(|_| self.enter()).collect::<Vec<_>>();
        assert!(places.iter().all(|place| matches!(place, Admission::Waits(_))), "a lost place");
    }

    /// The same, once the client's tasks have ended.
    fn is_free_soon(&self) {
        block_on(async {
            while self.queues.is_in_use(&self.target) {
                yield_now().await;
            }
        });
        self.assert_free();
    }
}

/// Three tasks, none of them cancelled: each has its turn.
///
/// # Panics
///
/// When they do not.
pub fn each_has_its_turn(leave: Leave) {
    let room = Room::new();
    let tasks = [0; 3].map(|_| spawn(Arc::clone(&room).take_turn(leave, None)));
    block_on(async {
        for task in tasks {
            task.await.expect("it ends");
        }
    });
    assert_eq!(room.inside.turns(), 3);
    room.assert_free();
}

/// One of three tasks is cancelled at any time: the others have their turns, and nothing of it is left.
///
/// # Panics
///
/// When they have not.
pub fn a_cancelled_waiter_passes_its_turn_on(leave: Leave) {
    let room = Room::new();
    let (cancel, cancelled) = oneshot::channel();
    let tasks = [None, Some(cancelled), None]
        .map(|cancelled| spawn(Arc::clone(&room).take_turn(leave, cancelled)));
    // It may have ended already.
    let _ = cancel.send(());
    block_on(async {
        for task in tasks {
            task.await.expect("it ends");
        }
    });
    assert!(room.inside.turns() >= 2);
    room.is_free_soon();
}

/// The client shuts down while tasks wait: each ends.
///
/// # Panics
///
/// When one does not.
pub fn a_close_ends_all(leave: Leave) {
    let room = Room::new();
    let tasks = [0; 2].map(|_| spawn(Arc::clone(&room).take_turn(leave, None)));
    room.queues.close();
    block_on(async {
        for task in tasks {
            task.await.expect("it ends");
        }
    });
    assert!(matches!(room.enter(), Admission::Closed));
}

/// A task of the client ends with its runtime while it asks for a waiter: that waits on, and is asked for anew.
///
/// # Panics
///
/// When it has no turn.
pub fn a_request_that_is_dropped_is_made_anew(leave: Leave) {
    let room = Room::new();
    let Admission::First(seat, _) = room.enter() else { panic!("the key is unused") };
    let Admission::Waits(ticket) = room.enter() else { panic!("the key is used") };
    let waits = seat.wait(TERMS, Instant::now(), Arc::new(Ask));
    let Ok((first, asked, seat)) = waits else { panic!("nobody passes it over") };
    // What its caller has begun, and the task that goes on with it.
    let ended = spawn(async move {
        yield_now().await;
        drop((asked, seat));
    });
    let waiters = [first, ticket].map(|ticket| {
        let room = Arc::clone(&room);
        spawn(async move {
            let turn = ticket.await;
            room.accept(turn, leave).await;
        })
    });
    block_on(async {
        ended.await.expect("it ends");
        for waiter in waiters {
            waiter.await.expect("it ends");
        }
    });
    assert_eq!(room.inside.turns(), 2);
    room.is_free_soon();
}

/// A waiter is not polled when its turn comes: the next one passes it over, and it has a turn later.
///
/// # Panics
///
/// When one of them has none.
pub fn a_waiter_that_is_not_polled_is_passed_over(leave: Leave) {
    let room = Room::new();
    let Admission::First(seat, _) = room.enter() else { panic!("the key is unused") };
    assert!(seat.granted(true), "nobody looks yet");
    let Admission::Waits(stuck) = room.enter() else { panic!("the key is used") };
    let (polls, polled) = oneshot::channel();
    let waiter = spawn(wait_and_look(Arc::clone(&room), leave, polls));
    let stuck = spawn(poll_late(Arc::clone(&room), leave, stuck, polled));
    let holder = Arc::clone(&room);
    let holder = spawn(async move { holder.work(seat, leave).await });
    block_on(async {
        for task in [waiter, stuck, holder] {
            task.await.expect("it ends");
        }
    });
    assert_eq!(room.inside.turns(), 3);
    room.is_free_soon();
}

/// Joins the queue, and looks once after the waiter before it has not been polled for long.
async fn wait_and_look(room: Arc<Room>, leave: Leave, looked: oneshot::Sender<()>) {
    match room.enter() {
        Admission::Waits(ticket) => {
            advance(Duration::from_secs(1));
            assert!(ticket.look().len() <= 1, "one caller asked itself");
            let _ = looked.send(());
            let turn = ticket.await;
            room.accept(turn, leave).await;
        }
        Admission::First(seat, _) => {
            let _ = looked.send(());
            room.first(seat, leave).await;
        }
        _ => panic!("the key refused a caller that waits"),
    }
}

/// Is polled only after another task has looked.
async fn poll_late(
    room: Arc<Room>,
    leave: Leave,
    ticket: Ticket<Handed>,
    looked: oneshot::Receiver<()>,
) {
    looked.await.expect("the other task looks");
    assert!(ticket.look().len() <= 1, "one caller asked itself");
    let turn = ticket.await;
    room.accept(turn, leave).await;
}
