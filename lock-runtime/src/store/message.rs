//! Messages on channels between the clients of a store, and the functions that receive them.
// S-35.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::opaque::opaque_debug;

/// A function that receives the messages of a channel. It runs on the task that reads the connection, so it
/// must return at once: it must not block, and every other answer of that connection waits for it.
pub type OnMessage = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Listens to a channel until dropped. A call of the function that is under way may end after the drop.
#[must_use = "dropping it ends the listening"]
pub struct Listening {
    _registrations: Vec<Box<dyn Send + Sync>>,
}

impl Listening {
    /// Wraps a value whose drop ends the listening.
    pub fn new(registration: impl Send + Sync + 'static) -> Self {
        Self { _registrations: vec![Box::new(registration)] }
    }

    /// Listens to nothing: for a store without messages.
    pub fn none() -> Self {
        Self { _registrations: Vec::new() }
    }

    /// Combines several: each receives its own messages until the whole is dropped.
    pub fn all_of(listenings: impl IntoIterator<Item = Self>) -> Self {
        let registrations = listenings.into_iter().flat_map(|one| one._registrations);
        Self { _registrations: registrations.collect() }
    }
}

opaque_debug!(Listening);

/// The functions that receive the messages of one channel.
#[derive(Default)]
pub(crate) struct Callbacks {
    all: Mutex<Vec<OnMessage>>,
}

impl Callbacks {
    /// Adds a function, until the result is dropped.
    pub(crate) fn add(self: &Arc<Self>, on_message: OnMessage) -> Callback {
        self.all.lock().push(Arc::clone(&on_message));
        Callback { callbacks: Arc::clone(self), on_message }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.lock().is_empty()
    }

    #[cfg(feature = "redis")]
    pub(crate) fn len(&self) -> usize {
        self.all.lock().len()
    }

    /// Calls every function, and returns how many there are. A function may end its own listening, so none is called
    /// under the mutex. A panic ends only its own call.
    pub(crate) fn call(&self, message: &[u8]) -> u32 {
        let all = self.all.lock().clone();
        for on_message in &all {
            if catch_unwind(AssertUnwindSafe(|| on_message(message))).is_err() {
                tracing::error!("a function that receives messages of a channel panicked");
            }
        }
        u32::try_from(all.len()).unwrap_or(u32::MAX)
    }
}

/// The registration of one function.
pub(crate) struct Callback {
    callbacks: Arc<Callbacks>,
    on_message: OnMessage,
}

impl Drop for Callback {
    fn drop(&mut self) {
        let mut all = self.callbacks.all.lock();
        let own = all.iter().position(|one| Arc::ptr_eq(one, &self.on_message));
        // Dropped after the unlock: its captures may end another listening of the same channel.
        let removed = own.map(|place| all.swap_remove(place));
        drop(all);
        drop(removed);
    }
}
