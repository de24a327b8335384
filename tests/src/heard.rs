//! [`Heard`]: what is published on a channel.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_runtime::store::{Listening, RedisStore, Store as _};

use crate::RedisServer;

/// How long a busy machine may take to subscribe.
const SOON: Duration = Duration::from_secs(30);

/// What is published on a channel, as it comes.
#[expect(missing_debug_implementations, reason = "a store has none")]
pub struct Heard {
    messages: Arc<Mutex<Vec<String>>>,
    _listening: Listening,
    _store: RedisStore,
}

impl Heard {
    /// Listens from now on.
    pub async fn on(server: &RedisServer, channel: &str) -> Self {
        let store = RedisStore::connect(&server.url()).await.expect("the server answers");
        let messages = Arc::<Mutex<Vec<String>>>::default();
        let to = Arc::clone(&messages);
        let on_message = move |message: &[u8]| {
            let message = String::from_utf8_lossy(message).into_owned();
            to.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        };
        let listening = store.listen(channel, Arc::new(on_message));
        store.listened(channel, SOON).await.expect("the server takes the subscription");
        Self { messages, _listening: listening, _store: store }
    }

    /// All messages until now.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
