//! The rights of Redis' ACL that the user of a connection needs, and a trial of each.
//!
//! `docs/operations.md` has the same rights; a test of `lockctl doctor` compares the two.

use futures_util::future::try_join_all;
use redis::{Cmd, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use crate::error::StoreError;
use crate::store::MissingRight;
use crate::store::redis::link::{Connection, Link, is_broken};
use crate::store::redis::scripts::Publish;
use crate::store::redis::server::errors::{CallError, Denial, denial};

/// A right to run one command.
struct Right {
    /// As `ACL SETUSER` grants it, without the sign.
    name: &'static str,
    trial: Trial,
    needed_for: &'static str,
    /// True if all locks work without it.
    is_optional: bool,
}

/// A request that changes no key. The server checks the right as soon as the command and the number of arguments are
/// known, so every answer but a denial proves the right.
enum Trial {
    /// `KEY` stands for a key that does not exist, which is also the name of a channel without subscribers.
    Words(&'static str),
    /// A command that would create the key: a script that must not write runs it, which fails after the check. It
    /// proves nothing while the user may not run scripts.
    InScript(&'static str),
    Subscribe,
    Unsubscribe,
    Asking,
}

const EVERY_LOCK: &str = "every lock";
const FAIR: &str = "fair mutexes";
const RW: &str = "read/write locks";
const SEMAPHORES: &str = "semaphores";
const FAIR_SEMAPHORES: &str = "fair mutexes and semaphores";
const FAIR_RW: &str = "fair mutexes and read/write locks";
const RW_SEMAPHORES: &str = "read/write locks and semaphores";
const ORDERED: &str = "fair mutexes, read/write locks and semaphores";
const WAITING: &str = "waiting for a lock";
const RELEASING: &str = "the release of every lock";
const SLOTS: &str = "a cluster whose slots move";

const fn right(name: &'static str, trial: &'static str, needed_for: &'static str) -> Right {
    Right { name, trial: Trial::Words(trial), needed_for, is_optional: false }
}

const fn optional(name: &'static str, trial: &'static str, needed_for: &'static str) -> Right {
    Right { name, trial: Trial::Words(trial), needed_for, is_optional: true }
}

const fn tried(name: &'static str, trial: Trial, needed_for: &'static str) -> Right {
    Right { name, trial, needed_for, is_optional: false }
}

/// On every server.
const RIGHTS: &[Right] = &[
    right("evalsha", "EVALSHA x 0", EVERY_LOCK),
    right("script|load", "SCRIPT LOAD (", EVERY_LOCK),
    right("ping", "PING", "noticing that a connection is dead"),
    right("wait", "WAIT x x", "locks that ask for replicas"),
    right("scan", "SCAN x", "the list of locks, as in `lockctl ls`"),
    right("exists", "EXISTS KEY", "fair mutexes, read/write locks, semaphores and latches"),
    right("type", "TYPE KEY", "`lockctl show` and forced releases"),
    right("del", "DEL KEY", EVERY_LOCK),
    right("pttl", "PTTL KEY", EVERY_LOCK),
    right("pexpire", "PEXPIRE KEY x", EVERY_LOCK),
    optional("pexpireat", "PEXPIREAT KEY x", "renewals that cost the server less"),
    right("persist", "PERSIST KEY", SEMAPHORES),
    right("rename", "RENAME KEY KEY", RW),
    right("time", "TIME", EVERY_LOCK),
    right("get", "GET KEY", EVERY_LOCK),
    right("set", "SET KEY x NX XX", EVERY_LOCK),
    right("incrby", "INCRBY KEY x", EVERY_LOCK),
    tried("decr", Trial::InScript("DECR KEY"), "latches"),
    right("hexists", "HEXISTS KEY x", EVERY_LOCK),
    right("hget", "HGET KEY x", "renewals, read/write locks and `lockctl show`"),
    right("hgetall", "HGETALL KEY", "read/write locks and `lockctl show`"),
    right("hkeys", "HKEYS KEY", RW),
    right("hmget", "HMGET KEY x", FAIR),
    right("hrandfield", "HRANDFIELD KEY", FAIR_RW),
    right("hset", "HSET KEY x x x", EVERY_LOCK),
    right("hdel", "HDEL KEY x", RELEASING),
    right("lindex", "LINDEX KEY 0", FAIR),
    right("llen", "LLEN KEY", FAIR),
    right("lpop", "LPOP KEY", FAIR),
    right("lpos", "LPOS KEY x", FAIR),
    right("lrange", "LRANGE KEY 0 0", FAIR),
    right("lrem", "LREM KEY 0 x", FAIR),
    tried("rpush", Trial::InScript("RPUSH KEY x"), FAIR),
    right("zadd", "ZADD KEY x x", ORDERED),
    right("zcard", "ZCARD KEY", ORDERED),
    right("zcount", "ZCOUNT KEY 0 0", SEMAPHORES),
    right("zrange", "ZRANGE KEY 0 0", FAIR_SEMAPHORES),
    right("zrangebyscore", "ZRANGEBYSCORE KEY 0 0", SEMAPHORES),
    right("zrem", "ZREM KEY x", ORDERED),
    right("zremrangebyscore", "ZREMRANGEBYSCORE KEY 0 0", RW_SEMAPHORES),
    right("zrevrange", "ZREVRANGE KEY 0 0", FAIR_RW),
    right("zscore", "ZSCORE KEY x", ORDERED),
    optional("info", "INFO server", "`lockctl doctor` and the `restart_guard` of a quorum"),
    optional("client|setname", "CLIENT SETNAME é", "the names of connections in `CLIENT LIST`"),
    optional("client|list", "CLIENT LIST x", "the names of holders that do not answer a survey"),
];

/// On a server that is not part of a cluster.
const OUTSIDE_CLUSTERS: &[Right] = &[
    tried("subscribe", Trial::Subscribe, WAITING),
    tried("unsubscribe", Trial::Unsubscribe, WAITING),
    right("publish", "PUBLISH KEY x", WAITING),
];

/// On each node of a cluster. The channels `a` and `b` are in different slots, which the server refuses.
const IN_CLUSTERS: &[Right] = &[
    right("cluster|slots", "CLUSTER SLOTS", EVERY_LOCK),
    tried("asking", Trial::Asking, SLOTS),
    right("ssubscribe", "SSUBSCRIBE a b", WAITING),
    right("sunsubscribe", "SUNSUBSCRIBE KEY", WAITING),
    right("spublish", "SPUBLISH KEY x", WAITING),
];

/// On a server that sentinels name.
const WITH_SENTINELS: &[Right] = &[right("role", "ROLE", "finding the master")];

/// The rights that the user lacks.
pub(crate) async fn missing(
    link: &Link,
    deadline: Instant,
) -> Result<Vec<MissingRight>, StoreError> {
    let connection = link.connected(deadline).await?;
    let key = format!("lock_runtime:doctor:{}:absent", link.name.id);
    let of_kind = match link.publish() {
        Publish::Everywhere => OUTSIDE_CLUSTERS,
        Publish::InSlot => IN_CLUSTERS,
    };
    let of_sentinels = if link.has_sentinels() { WITH_SENTINELS } else { &[] };
    let rights = RIGHTS.iter().chain(of_kind).chain(of_sentinels);
    let trials = rights.map(|right| right.missing(link, &connection, &key, deadline));
    Ok(try_join_all(trials).await?.into_iter().flatten().collect())
}

impl Right {
    async fn missing(
        &self,
        link: &Link,
        connection: &Connection,
        key: &str,
        deadline: Instant,
    ) -> Result<Option<MissingRight>, StoreError> {
        let answer = timeout_at(deadline, self.trial.run(connection, key)).await;
        let is_missing = match answer.map_err(|_| link.late())? {
            Ok(()) => false,
            Err(error) if is_broken(&error) => {
                return Err(CallError::Broken(error, link.address_of(connection)).into());
            }
            // Inside a script, some versions do not name the command. A denial of another command says nothing.
            Err(error) => match denial(&error) {
                Some(Denial::Command(denied)) => denied.is_none_or(|denied| denied == self.name),
                // As after `rename-command`.
                _ => error.detail().is_some_and(|detail| detail.starts_with("unknown command")),
            },
        };
        let missing = || MissingRight {
            right: format!("+{}", self.name),
            needed_for: self.needed_for,
            is_optional: self.is_optional,
        };
        Ok(is_missing.then(missing))
    }
}

impl Trial {
    /// Past the link, which would give up the connection to a replica at its refusal to write.
    async fn run(&self, connection: &Connection, key: &str) -> RedisResult<()> {
        match self {
            Self::Words(words) => connection.ask(&cmd(words, key)).await.map(drop),
            Self::InScript(words) => in_script(connection, words, key).await.map(drop),
            Self::Subscribe => connection.subscribe(key).await,
            Self::Asking => connection.ask_asking().await.map(drop),
            Self::Unsubscribe => connection.unsubscribe(&[key.to_owned()]).await,
        }
    }
}

fn cmd(words: &str, key: &str) -> Cmd {
    let mut cmd = Cmd::new();
    words.split(' ').map(|word| if word == "KEY" { key } else { word }).for_each(|word| {
        cmd.arg(word);
    });
    cmd
}

async fn in_script(connection: &Connection, words: &str, key: &str) -> RedisResult<Value> {
    let source = "#!lua flags=no-writes\nreturn redis.pcall(unpack(ARGV))";
    connection.ask(redis::cmd("SCRIPT").arg("LOAD").arg(source)).await?;
    let script = redis::Script::new(source);
    let command = format!("EVALSHA {} 0 {words}", script.get_hash());
    connection.ask(&cmd(&command, key)).await
}
