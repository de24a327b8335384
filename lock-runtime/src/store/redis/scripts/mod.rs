//! Lua scripts: one file each, sent by their hash, loaded where the server does not know them.

pub(crate) mod numbered;

use std::fmt::Write;
use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, Value};
use tokio::time::Instant;

use crate::options::MAX_MULTI_NAMES;
use crate::store::redis::link::{CallError, Link, Notices};
use crate::store::redis::scripts::numbered::NumberedCall;

/// The most keys of one script: bounds how long the server is busy with it. A lock of several names has to fit,
/// with two keys for each name.
pub(crate) const MAX_KEYS: usize = 256;
const _: () = assert!(2 * MAX_MULTI_NAMES <= MAX_KEYS);

/// The functions that scripts which take a lock begin with.
const FUNCTIONS: &str = concat!(
    include_str!("mint.lua"),
    include_str!("set_end.lua"),
    include_str!("number.lua"),
    include_str!("owner.lua"),
);

/// What scripts that count permits or latches begin with.
const NUMBER: &str = include_str!("number.lua");

/// What all scripts end with.
const NUMBERED: &str = include_str!("numbered.lua");

/// What scripts that tell a lock from a user's data begin with.
const OWNER: &str = include_str!("owner.lua");

/// A script, as it publishes notices to everybody and as it does in a cluster.
pub(crate) struct Script {
    everywhere: Text,
    in_slot: Text,
}

/// What the server knows a script by.
struct Text {
    source: String,
    sha: String,
}

/// A script that also runs as part of [`BATCH`].
pub(crate) struct Part {
    pub(crate) script: Script,
    body: &'static str,
    /// Its number in the batch script, counted from one.
    number: usize,
    keys: usize,
    args: usize,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {$(
        pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!($file).to_owned()));
    )*};
}

/// Numbers the parts in the order in which they are listed.
macro_rules! parts {
    (@ $number:expr;) => {};
    (@ $number:expr; $name:ident = $file:literal, $keys:literal, $args:literal; $($rest:tt)*) => {
        pub(crate) static $name: LazyLock<Part> = LazyLock::new(|| Part {
            script: Script::new([FUNCTIONS, include_str!($file)].concat()),
            body: include_str!($file),
            number: $number,
            keys: $keys,
            args: $args,
        });
        parts!(@ $number + 1; $($rest)*);
    };
    ($($name:ident = $file:literal, $keys:literal, $args:literal;)*) => {
        parts!(@ 1; $($name = $file, $keys, $args;)*);

        /// All parts, and all of them in one script.
        fn all() -> impl Iterator<Item = &'static Script> {
            [$(&$name.script),*].into_iter().chain([&*BATCH])
        }

        /// All parts in one script.
        pub(crate) static BATCH: LazyLock<Script> = LazyLock::new(|| batch(&[$(&$name),*]));
    };
}

scripts! {
    RENEW = "renew.lua";
    END_LATER = "end_later.lua";
    SHOW_COUNT = "show_count.lua";
    MULTI_RELEASE = "multi_release.lua";
}

pub(crate) static RAISE_TOKEN: LazyLock<Script> = LazyLock::new(|| {
    Script::new([include_str!("mint.lua"), include_str!("raise_token.lua")].concat())
});

pub(crate) static FORCE_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new([OWNER, include_str!("force_release.lua")].concat()));

/// Takes any number of keys, so it cannot be a part.
pub(crate) static MULTI_ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new([FUNCTIONS, include_str!("multi_acquire.lua")].concat()));

pub(crate) static LATCH: LazyLock<Script> =
    LazyLock::new(|| Script::new([NUMBER, include_str!("latch.lua")].concat()));

pub(crate) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new([NUMBER, OWNER, include_str!("inspect.lua")].concat()));

// How many keys and arguments each takes.
parts! {
    MUTEX_ACQUIRE = "mutex_acquire.lua", 2, 4;
    MUTEX_RELEASE = "mutex_release.lua", 1, 2;
    FAIR_ACQUIRE = "fair_acquire.lua", 4, 6;
    FAIR_RELEASE = "fair_release.lua", 3, 2;
    READ_ACQUIRE = "read_acquire.lua", 6, 7;
    READ_RELEASE = "read_release.lua", 4, 3;
    WRITE_ACQUIRE = "write_acquire.lua", 5, 6;
    WRITE_RELEASE = "write_release.lua", 2, 3;
    PERMIT_ACQUIRE = "permit_acquire.lua", 3, 7;
    PERMIT_RELEASE = "permit_release.lua", 2, 3;
}

/// Makes a server know what takes and frees locks before the first request finds that it does not:
/// that one would be overtaken by those behind it. And what renews: asked for first, it would take three
/// round trips, and a slow network has no time for them. It stays an optimisation, so errors do not matter.
pub(crate) async fn prepare(connection: &mut MultiplexedConnection, notices: &Notices, name: &str) {
    let mut load = redis::pipe();
    // A user who may not do that takes locks all the same.
    load.cmd("CLIENT").arg("SETNAME").arg(name).ignore();
    for script in all().chain([&*RENEW, &*RAISE_TOKEN]) {
        load.cmd("SCRIPT").arg("LOAD").arg(&script.text(notices).source).ignore();
    }
    let _: RedisResult<()> = load.query_async(connection).await;
}

/// Each part becomes a function whose parameters stand in for the script's own KEYS and ARGV.
fn batch(parts: &[&Part]) -> Script {
    let mut source = [FUNCTIONS, "local scripts, keys_of, args_of = {}, {}, {}\n"].concat();
    for Part { body, number, keys, args, .. } in parts {
        // Writing to a string cannot fail.
        let _ = write!(
            source,
            "keys_of[{number}], args_of[{number}] = {keys}, {args}\n\
             scripts[{number}] = function(KEYS, ARGV)\n{body}\nend\n"
        );
    }
    source.push_str(include_str!("batch.lua"));
    Script::new(source)
}

impl Part {
    /// Adds the part's number, by which the batch script finds it.
    pub(crate) fn write_number(&self, batch: &mut Cmd) {
        batch.arg(self.number);
    }

    pub(crate) fn keys(&self) -> usize {
        self.keys
    }
}

impl Script {
    fn new(source: String) -> Self {
        let source = ["local function script()\n", &source, "\nend\n", NUMBERED].concat();
        // Not an argument of the scripts: whoever has one server pays nothing for clusters.
        let in_slot = source.replace("redis.call('PUBLISH'", "redis.call('SPUBLISH'");
        Self { everywhere: Text::new(source), in_slot: Text::new(in_slot) }
    }

    fn text(&self, notices: &Notices) -> &Text {
        match notices {
            Notices::Everywhere => &self.everywhere,
            Notices::InSlot(_) => &self.in_slot,
        }
    }

    /// Starts a call with `keys` keys on a server of that kind; add the keys and then the arguments.
    pub(crate) fn call(&self, notices: &Notices, keys: usize) -> Cmd {
        // Room for all arguments at once: growing would cost more than all else here.
        let mut cmd = Cmd::with_capacity(8 + 3 * keys, 128 + 128 * keys);
        cmd.arg("EVALSHA").arg(&self.text(notices).sha).arg(keys);
        cmd
    }

    /// Runs a call of this script, which has all keys and arguments.
    ///
    /// NOSCRIPT says that nothing ran, so loading and asking again is safe at any time. It can come
    /// again if somebody flushes the scripts in between.
    pub(crate) async fn run(
        &self,
        link: &Link,
        call: Cmd,
        deadline: Instant,
    ) -> Result<Value, CallError> {
        let call = NumberedCall::new(call);
        loop {
            match link.run(&call, deadline).await {
                Err(CallError::Server(error)) if is_noscript(&error) => {
                    self.load(link, deadline).await?;
                }
                result => return result,
            }
        }
    }

    /// Makes the server know the script.
    pub(crate) async fn load(&self, link: &Link, deadline: Instant) -> Result<(), CallError> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.text(link.notices()).source);
        link.call(&load, deadline).await.map_err(CallError::nothing_ran).map(drop)
    }
}

impl Text {
    fn new(source: String) -> Self {
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha }
    }
}

pub(crate) fn is_noscript(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

pub(crate) fn is_noperm(error: &RedisError) -> bool {
    error.code() == Some("NOPERM")
}
