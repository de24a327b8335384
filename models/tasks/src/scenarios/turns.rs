//! Three tasks at a gate: one has the gate guard, two wait, and any may be cancelled.

use std::sync::Arc;

use shuttle::future::{block_on, spawn};
use tokio::sync::oneshot;
use tokio::time::{Duration, advance};

use super::{Inside, LEASE, target, unless};
use crate::gate::{Admission, GateGuard, Gates, Ticket, Turn, WaitsFor};
use crate::store::Target;

/// What is handed over: the gate guard, as if it were a hold.
struct Handed(GateGuard<Handed>);

/// How a task leaves the gate.
#[derive(Debug, Clone, Copy)]
pub enum Leave {
    /// It drops its gate guard, and the next waiter contends.
    Drop,
    /// It hands over to the next waiter if there is one.
    HandOff,
}

struct Room {
    gates: Arc<Gates<Handed>>,
    target: Arc<Target>,
    inside: Inside,
}

impl Room {
    fn new() -> Arc<Self> {
        Arc::new(Self { gates: Gates::new(8), target: target(), inside: Inside::default() })
    }

    fn enter(&self) -> Admission<Handed> {
        self.gates.enter(&self.target, LEASE, 8, WaitsFor::Turn, None, super::a_newcomer)
    }

    /// One task: waits for its turn unless it is cancelled, works, and leaves.
    async fn take_turn(self: Arc<Self>, leave: Leave, cancelled: Option<oneshot::Receiver<()>>) {
        match self.enter() {
            Admission::Turn(guard) => self.work(guard, leave).await,
            Admission::Queued(ticket) => {
                if let Some(turn) = unless(cancelled, ticket).await {
                    self.accept(turn, leave).await;
                }
            }
            Admission::Closed => {}
            _ => panic!("the gate refused a caller that waits"),
        }
    }

    async fn accept(&self, turn: Turn<Handed>, leave: Leave) {
        match turn {
            Turn::Contend(guard) => self.work(guard, leave).await,
            Turn::Handed(handed) => {
                let Handed(guard) = Arc::into_inner(handed).expect("handed to one waiter only");
                self.work(guard, leave).await;
            }
            Turn::Closed => {}
            Turn::Failed(_) | Turn::Shared(_) => panic!("no store, and nothing to share"),
        }
    }

    async fn work(&self, guard: GateGuard<Handed>, leave: Leave) {
        self.inside.work().await;
        match leave {
            Leave::Drop => drop(guard),
            Leave::HandOff => {
                if let Some(next) = guard.next_holder(LEASE, 0) {
                    next.hand(Arc::new(Handed(guard)));
                }
            }
        }
    }

    /// The gate is free, and no task is counted as waiting.
    fn assert_free(&self) {
        for _ in 0..2 {
            assert!(matches!(self.enter(), Admission::Turn(_)), "a gate guard was lost");
        }
        let Admission::Turn(_guard) = self.enter() else { panic!("a gate guard was lost") };
        // As many may wait as at first.
        let places = (0..8).map(|_| self.enter()).collect::<Vec<_>>();
        assert!(places.iter().all(|place| matches!(place, Admission::Queued(_))), "a lost place");
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
    room.assert_free();
}

/// The client shuts down while tasks wait: each ends.
///
/// # Panics
///
/// When one does not.
pub fn a_close_ends_all(leave: Leave) {
    let room = Room::new();
    let tasks = [0; 2].map(|_| spawn(Arc::clone(&room).take_turn(leave, None)));
    room.gates.close();
    block_on(async {
        for task in tasks {
            task.await.expect("it ends");
        }
    });
    assert!(matches!(room.enter(), Admission::Closed));
}

/// A waiter is not polled when its turn comes: the next one passes it over, and it has a turn later.
///
/// # Panics
///
/// When one of them has none.
pub fn a_waiter_that_is_not_polled_is_passed_over(leave: Leave) {
    let room = Room::new();
    let Admission::Turn(guard) = room.enter() else { panic!("the gate is free") };
    let Admission::Queued(stuck) = room.enter() else { panic!("the gate is taken") };
    let (polls, polled) = oneshot::channel();
    let waiter = spawn(wait_and_look(Arc::clone(&room), leave, polls));
    let stuck = spawn(poll_late(Arc::clone(&room), leave, stuck, polled));
    let holder = Arc::clone(&room);
    let holder = spawn(async move { holder.work(guard, leave).await });
    block_on(async {
        for task in [waiter, stuck, holder] {
            task.await.expect("it ends");
        }
    });
    assert_eq!(room.inside.turns(), 3);
    room.assert_free();
}

/// Joins the queue, and looks once after the waiter before it has not been polled for long.
async fn wait_and_look(room: Arc<Room>, leave: Leave, looked: oneshot::Sender<()>) {
    match room.enter() {
        Admission::Queued(ticket) => {
            advance(Duration::from_secs(1));
            assert!(ticket.look().is_none(), "no contender asks the store here");
            let _ = looked.send(());
            let turn = ticket.await;
            room.accept(turn, leave).await;
        }
        Admission::Turn(guard) => {
            let _ = looked.send(());
            room.work(guard, leave).await;
        }
        _ => panic!("the gate refused a caller that waits"),
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
    assert!(ticket.look().is_none(), "no contender asks the store here");
    let turn = ticket.await;
    room.accept(turn, leave).await;
}
