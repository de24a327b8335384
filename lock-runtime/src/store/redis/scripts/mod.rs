//! The Lua scripts, one file each, and calls of them. A call names its script by its hash; a server that does
//! not know the script yet must [load](ScriptCall::load) it first.
//!
//! # Numbers
//!
//! A connection answers in the order of the requests, and nothing else ties an answer to its request. If one
//! answer gets lost on the way, each later one would count for the request before: a grant of another lock, the
//! release of another hold. So each call has a number, which the server sends back.

mod answer;
mod packed;

use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Cmd, Pipeline, RedisError, Value};

pub(crate) use self::answer::Answer;
pub(crate) use self::packed::Arguments;
use self::packed::{Packed, pack};
use crate::options::MAX_MULTI_NAMES;

/// The maximum number of keys of one script, which bounds how long it keeps the server busy. A lock of several names
/// has two keys for each name and must fit.
pub(crate) const MAX_KEYS: usize = 256;
const _: () = assert!(2 * MAX_MULTI_NAMES <= MAX_KEYS);

/// Starts at random, since a proxy may confuse the answers to several processes.
static NEXT_NUMBER: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(fastrand::u64(..1 << 48)));

/// How scripts publish notifications of releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publish {
    /// To all nodes, by PUBLISH.
    Everywhere,
    /// To the nodes that have the slot, by SPUBLISH, as Redisson does in a cluster.
    InSlot,
}

/// A script, in a version for each way to publish.
pub(crate) struct Script {
    everywhere: Text,
    in_slot: Text,
}

/// The source of a script and its hash, which is its name on the server.
struct Text {
    source: String,
    sha: String,
    /// The first two parts of each call, as they are sent.
    packed: Vec<u8>,
}

/// A script with fixed numbers of keys and arguments, which can run as part of a batch.
pub(crate) struct Part {
    pub(crate) script: Script,
    body: &'static str,
    /// Its number in the batch scripts, counted from one.
    pub(crate) number: usize,
    pub(crate) keys: usize,
    /// How many arguments each request has of its own. Requests in succession that have the others in common send
    /// those once.
    own_args: usize,
    shared_args: usize,
}

macro_rules! scripts {
    ($($name:ident = $($file:literal)+;)*) => {$(
        pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!($(include_str!($file)),+)));
    )*};
}

/// Numbers the parts in the order in which they are listed.
macro_rules! parts {
    (@ $number:expr;) => {};
    (@ $number:expr; $name:ident = $($function:literal)* => $file:literal, $keys:literal,
     $own_args:literal + $shared_args:literal; $($rest:tt)*) => {
        pub(crate) static $name: LazyLock<Part> = LazyLock::new(|| Part {
            script: Script::new(concat!($(include_str!($function),)* include_str!($file))),
            body: include_str!($file),
            number: $number,
            keys: $keys,
            own_args: $own_args,
            shared_args: $shared_args,
        });
        parts!(@ $number + 1; $($rest)*);
    };
    ($($name:ident = $($function:literal)* => $file:literal, $keys:literal, $own:literal + $shared:literal;)*) => {
        parts!(@ 1; $($name = $($function)* => $file, $keys, $own + $shared;)*);

        /// Requests of all kinds in one script.
        pub(crate) static BATCH: LazyLock<Script> = LazyLock::new(|| batch(FUNCTIONS, &[$(&$name),*]));

        /// The scripts that a server should know before the first request.
        fn preloaded() -> impl Iterator<Item = &'static Script> {
            let others =
                [&*BATCH, &*MUTEX_BATCH, &*FAIR_BATCH, &*RENEW, &*RENEW_PLAIN, &*RAISE_TOKEN];
            [$(&$name.script),*].into_iter().chain(others)
        }
    };
}

/// Requests of mutexes alone in one script, which costs the server less than [`BATCH`].
pub(crate) static MUTEX_BATCH: LazyLock<Script> =
    LazyLock::new(|| batch(TOKENS, &[&MUTEX_ACQUIRE, &MUTEX_RELEASE]));

/// The same for fair mutexes.
pub(crate) static FAIR_BATCH: LazyLock<Script> = LazyLock::new(|| {
    let functions = concat!(
        include_str!("time_in_ms.lua"),
        include_str!("set_end_of_waiters.lua"),
        include_str!("fair_notify.lua"),
        include_str!("fair_places.lua")
    );
    batch(&[TOKENS, functions].concat(), &[&FAIR_ACQUIRE, &FAIR_RELEASE])
});

/// The functions that parts about mutexes call.
const TOKENS: &str =
    concat!(include_str!("time.lua"), include_str!("mint.lua"), include_str!("set_end.lua"));

/// The functions that any part calls.
const FUNCTIONS: &str = concat!(
    include_str!("time.lua"),
    include_str!("time_in_ms.lua"),
    include_str!("mint.lua"),
    include_str!("set_end.lua"),
    include_str!("set_end_of_waiters.lua"),
    include_str!("number.lua"),
    include_str!("owner.lua"),
    include_str!("fair_notify.lua"),
    include_str!("fair_places.lua"),
);

scripts! {
    RENEW = "time.lua" "time_in_ms.lua" "renew.lua";
    RENEW_PLAIN = "time.lua" "time_in_ms.lua" "is_held.lua" "renew_plain.lua";
    FENCED = "is_held.lua" "fenced.lua";
    END_LATER = "time.lua" "time_in_ms.lua" "fair_notify.lua" "end_later.lua";
    MULTI_ACQUIRE = "time.lua" "mint.lua" "set_end.lua" "multi_acquire.lua";
    MULTI_RELEASE = "multi_release.lua";
    RAISE_TOKEN = "time.lua" "mint.lua" "raise_token.lua";
    LATCH = "number.lua" "latch.lua";
    IS_LOCK = "owner.lua" "is_lock.lua";
    INSPECT = "time.lua" "time_in_ms.lua" "number.lua" "owner.lua" "inspect.lua";
    FORCE_RELEASE = "time.lua" "time_in_ms.lua" "owner.lua" "fair_notify.lua" "force_release.lua";
}

// The functions that each calls, its own file, the number of its keys, and those of its own and its shared arguments. A
// number means the same part in each batch script.
parts! {
    MUTEX_ACQUIRE = "time.lua" "mint.lua" "set_end.lua" => "mutex_acquire.lua", 2, 1 + 3;
    MUTEX_RELEASE = => "mutex_release.lua", 1, 2 + 0;
    FAIR_ACQUIRE = "time.lua" "time_in_ms.lua" "mint.lua" "set_end.lua" "set_end_of_waiters.lua" "fair_notify.lua"
        "fair_places.lua" => "fair_acquire.lua", 4, 1 + 5;
    FAIR_RELEASE = "time.lua" "time_in_ms.lua" "fair_notify.lua" "fair_places.lua" => "fair_release.lua", 3, 1 + 1;
    READ_ACQUIRE = "time.lua" "time_in_ms.lua" "mint.lua" "set_end.lua" "set_end_of_waiters.lua" "owner.lua"
        => "read_acquire.lua", 6, 7 + 0;
    READ_RELEASE = "time.lua" "time_in_ms.lua" => "read_release.lua", 4, 3 + 0;
    WRITE_ACQUIRE = "time.lua" "time_in_ms.lua" "mint.lua" "set_end.lua" "set_end_of_waiters.lua" "owner.lua"
        => "write_acquire.lua", 5, 6 + 0;
    WRITE_RELEASE = "time.lua" "time_in_ms.lua" => "write_release.lua", 2, 3 + 0;
    PERMIT_ACQUIRE = "time.lua" "time_in_ms.lua" "mint.lua" "set_end.lua" "number.lua" => "permit_acquire.lua", 3, 7 + 0;
    PERMIT_RELEASE = "time.lua" "time_in_ms.lua" => "permit_release.lua", 2, 3 + 0;
}

/// Names a new connection and loads the scripts that acquire, release and renew. A first request that finds its
/// script missing would be overtaken by the requests behind it, and a slow network has no time for the three round
/// trips of a first renewal. All of it is an optimisation, so errors do not matter.
pub(crate) fn preparation(publish: Publish, name: &str) -> Pipeline {
    let mut prepare = redis::pipe();
    prepare.cmd("CLIENT").arg("SETNAME").arg(name).ignore();
    for script in preloaded() {
        prepare.cmd("SCRIPT").arg("LOAD").arg(&script.text(publish).source).ignore();
    }
    prepare
}

/// Each part becomes a function that reads its keys and arguments behind those of the requests before it: copies of
/// them would cost the server more than all else here.
fn batch(functions: &str, parts: &[&Part]) -> Script {
    let (mut bodies, mut keys_of) = (String::new(), String::new());
    let (mut own_args_of, mut shared_args_of) = (String::new(), String::new());
    let first = parts.first().map_or(1, |part| part.number);
    // The numbers before the first part stand for nothing here.
    for _ in 1..first {
        bodies.push_str("false, ");
        keys_of.push_str("0, ");
        own_args_of.push_str("0, ");
        shared_args_of.push_str("0, ");
    }
    for (number, part) in (first..).zip(parts) {
        debug_assert_eq!(part.number, number, "the parts of a batch follow each other");
        let mut body = part.body.replace("KEYS[", "KEYS[keys_before + ");
        for arg in 1..=part.own_args + part.shared_args {
            let (before, place) = match arg.checked_sub(part.own_args) {
                None | Some(0) => ("args_before", arg),
                Some(shared) => ("shared_before", shared),
            };
            body = body.replace(&format!("ARGV[{arg}]"), &format!("ARGV[{before} + {place}]"));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(bodies, "function(keys_before, args_before, shared_before)\n{body}\nend,");
        let _ = write!(keys_of, "{}, ", part.keys);
        let _ = write!(own_args_of, "{}, ", part.own_args);
        let _ = write!(shared_args_of, "{}, ", part.shared_args);
    }
    let source = format!(
        "{functions}\nlocal KEYS, ARGV = KEYS, ARGV\nlocal scripts = {{\n{bodies}}}\n\
         local keys_of, own_args_of, shared_args_of = {{{keys_of}}}, {{{own_args_of}}}, {{{shared_args_of}}}\n{}",
        include_str!("batch.lua")
    );
    Script::of(source)
}

impl Script {
    fn new(source: &str) -> Self {
        let numbered = include_str!("numbered.lua");
        Self::of(["local function script()\n", source, "\nend\n", numbered].concat())
    }

    fn of(source: String) -> Self {
        // A local variable is found faster than a field of a global one.
        let source = ["local call = redis.call\n", &source].concat();
        // A second version instead of an argument: a single server pays nothing for clusters.
        let in_slot = source.replace("call('PUBLISH'", "call('SPUBLISH'");
        Self { everywhere: Text::new(source), in_slot: Text::new(in_slot) }
    }

    fn text(&self, publish: Publish) -> &Text {
        match publish {
            Publish::Everywhere => &self.everywhere,
            Publish::InSlot => &self.in_slot,
        }
    }

    /// A call with `keys` keys; `write` adds the keys and then the arguments.
    pub(crate) fn call(
        &'static self,
        publish: Publish,
        keys: usize,
        write: impl FnOnce(&mut Cmd),
    ) -> ScriptCall {
        let text = self.text(publish);
        // Room for all arguments at once: growing would cost more than all else here.
        let mut cmd = Cmd::with_capacity(8 + 3 * keys, 128 + 128 * keys);
        cmd.arg("EVALSHA").arg(&text.sha).arg(keys);
        write(&mut cmd);
        let number = next_number();
        cmd.arg(number);
        ScriptCall { text, cmd, number }
    }

    /// As [`call`](Self::call), written as it is sent. Returns the number of the call.
    pub(crate) fn pack(
        &self,
        publish: Publish,
        keys: usize,
        to: &mut Vec<u8>,
        write: impl FnOnce(&mut Packed<'_>),
    ) -> u64 {
        let mut call = Packed::new(to, &self.text(publish).packed, 2);
        call.arg(keys);
        write(&mut call);
        let number = next_number();
        call.arg(number);
        call.end();
        number
    }
}

impl Text {
    fn new(source: String) -> Self {
        let sha = redis::Script::new(&source).get_hash().to_owned();
        let mut packed = Vec::new();
        pack(&mut packed, b"EVALSHA");
        pack(&mut packed, sha.as_bytes());
        Self { source, sha, packed }
    }
}

fn next_number() -> u64 {
    NEXT_NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A call of a script, with its number.
pub(crate) struct ScriptCall {
    text: &'static Text,
    cmd: Cmd,
    number: u64,
}

impl ScriptCall {
    pub(crate) fn cmd(&self) -> &Cmd {
        &self.cmd
    }

    /// The command that loads the script.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.text.source);
        load
    }

    /// The script's answer in a reply, or the answers to so many requests of a batch; `None` if the reply answers
    /// another call.
    pub(crate) fn answers_of(&self, reply: Value, requests: usize) -> Option<Vec<Answer>> {
        Answer::all_in(reply, self.number, requests)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

/// True if the server does not know the script, so that nothing ran.
pub(crate) fn is_noscript(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}
