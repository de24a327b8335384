//! What one server says of itself.

use std::time::Duration;

use lock_runtime::admin::{ServerFacts, ServerReport};
use lock_runtime::error::StoreErrorKind;

use super::{Check, Verdict};
use crate::failure::with_causes;
use crate::text::time;

/// The first version with all commands of the scripts.
const FIRST_VERSION: [u64; 2] = [7, 0];

/// A round trip that each acquire, renewal and release would feel.
const SLOW: Duration = Duration::from_millis(50);

/// More than a synchronised clock is ever wrong.
const CLOCK: Duration = Duration::from_secs(1);

/// The share of its memory, in percent, from which a server is nearly full.
const FULL: u64 = 90;

pub(super) fn checks(report: &ServerReport<ServerFacts>) -> Vec<Check> {
    let check = |(check, verdict, found, advice): Finding| Check {
        server: report.address.clone(),
        check,
        verdict,
        found,
        advice,
    };
    match &report.answer {
        Ok(facts) => {
            let all = [version, role, round_trip, clock, eviction, memory, persistence, replicas];
            all.iter().map(|look| check(look(facts))).collect()
        }
        Err(error) => {
            // Locks work without the right to ask.
            let verdict = match error.kind() {
                StoreErrorKind::Denied => Verdict::Warning,
                _ => Verdict::Problem,
            };
            let advice = "Without an answer nothing else is known; check the address and the user's permissions.";
            vec![check(("answer", verdict, with_causes(error), advice))]
        }
    }
}

/// The check, its verdict, what was found, and advice.
type Finding = (&'static str, Verdict, String, &'static str);

fn field<'a>(facts: &'a ServerFacts, name: &str) -> &'a str {
    facts.info.get(name).map_or("unknown", String::as_str)
}

fn number(facts: &ServerFacts, name: &str) -> Option<u64> {
    facts.info.get(name)?.parse().ok()
}

fn version(facts: &ServerFacts) -> Finding {
    let found = field(facts, "redis_version");
    let mut parts = found.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
    let version = [parts.next().unwrap_or(0), parts.next().unwrap_or(0)];
    let verdict = if version >= FIRST_VERSION { Verdict::Ok } else { Verdict::Problem };
    let advice = "The scripts need commands of Redis 7.0; upgrade the server.";
    ("version", verdict, found.to_owned(), advice)
}

fn role(facts: &ServerFacts) -> Finding {
    let found = field(facts, "role");
    let verdict = if found == "slave" { Verdict::Problem } else { Verdict::Ok };
    let advice = "A replica refuses writes, so every acquire fails; give the address of the master, or of the sentinels.";
    ("role", verdict, found.replace("slave", "replica"), advice)
}

fn round_trip(facts: &ServerFacts) -> Finding {
    let verdict = if facts.round_trip < SLOW { Verdict::Ok } else { Verdict::Warning };
    let advice = "Each acquire and release takes at least one round trip; run the services near their server.";
    ("round trip", verdict, format!("{:.1} ms", facts.round_trip.as_secs_f64() * 1_000.0), advice)
}

fn clock(facts: &ServerFacts) -> Finding {
    let (ahead, word) = match facts.clock.duration_since(facts.own_clock) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    let verdict = if ahead < CLOCK { Verdict::Ok } else { Verdict::Warning };
    let advice = "Leases are measured by the server, so a wrong clock does no harm to this library; Redisson's fair locks compare \
                  clocks of clients, and a clock that is being corrected in a jump ends leases early. Synchronise the clocks.";
    ("clock", verdict, format!("{} {word} this machine's", time(ahead)), advice)
}

fn eviction(facts: &ServerFacts) -> Finding {
    let found = field(facts, "maxmemory_policy");
    let verdict = if found == "noeviction" { Verdict::Ok } else { Verdict::Problem };
    let advice = "A server that is full evicts locks that are held, and another process acquires them; set \
                  `maxmemory-policy noeviction`, or keep locks on a server of their own.";
    ("eviction", verdict, found.to_owned(), advice)
}

fn memory(facts: &ServerFacts) -> Finding {
    let (most, used) = (number(facts, "maxmemory"), number(facts, "used_memory"));
    let advice =
        "A server without memory refuses to grant locks; raise `maxmemory`, or remove other data.";
    match (most, used) {
        (Some(most), Some(used)) if most > 0 => {
            let share = used.saturating_mul(100) / most;
            let verdict = if share < FULL { Verdict::Ok } else { Verdict::Warning };
            ("memory", verdict, format!("{share} % of maxmemory in use"), advice)
        }
        _ => ("memory", Verdict::Ok, "no limit".to_owned(), advice),
    }
}

fn persistence(facts: &ServerFacts) -> Finding {
    let is = |name: &str, value: &str| field(facts, name) == value;
    let fails = is("aof_last_write_status", "err") || is("rdb_last_bgsave_status", "err");
    let advice = "A server that restarts without an append-only file forgets the locks that are held, and grants them again; set \
                  `appendonly yes`, or let it stay down for longer than the longest lease.";
    match (fails, is("aof_enabled", "1")) {
        (true, _) => {
            let advice = "The last write to disk failed, after which the server may refuse all writes; look into its log.";
            ("persistence", Verdict::Problem, "writing to disk fails".to_owned(), advice)
        }
        (false, true) => ("persistence", Verdict::Ok, "append-only file".to_owned(), advice),
        (false, false) => {
            ("persistence", Verdict::Warning, "no append-only file".to_owned(), advice)
        }
    }
}

fn replicas(facts: &ServerFacts) -> Finding {
    let replicas = number(facts, "connected_slaves").unwrap_or(0);
    let good = number(facts, "min_slaves_good_slaves");
    let advice = "A master that is cut off from its replicas goes on granting locks that a fail-over forgets; set \
                  `min-replicas-to-write 1` and `min-replicas-max-lag 10`, or ask for replicas in the locks' options.";
    match (replicas, good) {
        (0, _) => ("replicas", Verdict::Ok, "none".to_owned(), advice),
        (_, Some(good)) => {
            ("replicas", Verdict::Ok, format!("{replicas}, {good} of them good"), advice)
        }
        (_, None) => {
            ("replicas", Verdict::Warning, format!("{replicas}, and writes need none"), advice)
        }
    }
}
