//! Input from an attacker: names, messages on our channels, a flood of them, replies of the wrong shape.
//! Nothing panics, makes two names one, or grants a lock that is held.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod flood;
mod names;
mod notices;
mod replies;
mod resp;

use std::panic;
use std::sync::{Mutex, Once};
use std::time::Duration;

use lock_runtime::{LockClient, LockOptions};
use lock_tests::RedisServer;

/// More than anything that has to happen takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A client of the server, as another process would have it.
async fn connect(server: &RedisServer) -> LockClient {
    LockClient::connect(&server.url()).await.unwrap()
}

/// Where the library panicked, in whichever task.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Call it before a test; [`no_panics`] after it sees the panics of every task, also of those that no task awaits.
fn watch_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            if !place.contains("tests/hostile") {
                PANICS.lock().unwrap().push(place);
            }
            print(info);
        }));
    });
}

fn no_panics() {
    assert_eq!(*PANICS.lock().unwrap(), [""; 0]);
}

/// Options that wait so long for a busy lock.
fn waits(wait: Duration) -> LockOptions {
    LockOptions::new().wait(wait)
}
