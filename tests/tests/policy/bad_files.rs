//! What is wrong is refused when it is read, in one sentence with the path to it.

use super::read;
use lock_runtime::policy::LockFile;

const UNKNOWN_IN_POLICY: &str = "expected one of `base`, `key`, `kind`, `wait`, `lease`, `on_lost`, \
                                 `on_release_lost`, `at_least`, `max_hold`, `max_waiters`, \
                                 `replicas`, `http`, `enforce`";

/// The wrong file, and the exact message without where in the text it is.
#[rustfmt::skip]
const WRONG_TYPES: [(&str, &str); 36] = [
    ("[server]\nport = 80", "missing field `lock`"),
    ("lock = 3", "lock: invalid type: integer `3`, expected the table [lock]"),
    ("lock = 'redis://:secret@one'", "lock: invalid type: text, expected the table [lock]"),
    ("lock = []", "lock: invalid type: sequence, expected the table [lock]"),
    ("[lock]\npolicies = ['p']", "lock.policies: invalid type: sequence, expected tables by name"),
    ("[lock.policies]\np = ['b']", "lock.policies.p: invalid type: sequence, expected a table of lock settings"),
    ("[lock]\nroutes = [['POST', '/', 'p']]", "lock.routes[0]: invalid type: sequence, expected a table with a path and a policy"),
    ("[lock]\nurll = 'memory:'", "lock.urll: unknown field `urll`, expected one of `url`, `cluster`, `sentinel`, `quorum`, `restart_guard`, `namespace`, `token_ttl`, `override`, `defaults`, `base`, `policies`, `routes`; did you mean `url`?"),
    ("[lock]\nurl = 6379", "lock.url: invalid type: integer, expected a string"),
    ("[lock]\nnamespace = true", "lock.namespace: invalid type: boolean `true`, expected a string"),
    ("[lock]\noverride = 'confg'", "lock.override: unknown variant `confg`, expected `literals` or `config`; did you mean `config`?"),
    ("[lock]\nrestart_guard = 30", "lock.restart_guard: invalid type: integer `30`, expected how long a restarted server does not count: \"30s\" or \"none\""),
    ("[lock]\nquorum = 'redis://:secret@one'", "lock.quorum: invalid type: text, expected a list of addresses"),
    ("[lock]\ncluster = [1]", "lock.cluster[0]: invalid type: integer, expected a string"),
    ("[lock]\nsentinel = 'redis://:secret@one'", "lock.sentinel: invalid type: text, expected { master = \"…\", nodes = […] }"),
    ("[lock.sentinel]\nmaster = 'm'", "lock.sentinel: missing field `nodes`"),
    ("[lock.policies.checkout]\nwait = '3 parsecs'", "lock.policies.checkout.wait: invalid value: string \"3 parsecs\", expected how long to wait: \"3s\", \"none\" or \"forever\""),
    ("[lock.policies.checkout]\nwait = 3", "lock.policies.checkout.wait: invalid type: integer `3`, expected how long to wait: \"3s\", \"none\" or \"forever\""),
    ("[lock.policies.checkout]\nwait = '3'", "lock.policies.checkout.wait: invalid value: string \"3\", expected how long to wait: \"3s\", \"none\" or \"forever\""),
    ("[lock.defaults]\nwait = '0'", "lock.defaults.wait: invalid value: string \"0\", expected how long to wait: \"3s\", \"none\" or \"forever\""),
    ("[lock.base.strict]\nlease = 'watchdog30s'", "lock.base.strict.lease: invalid value: string \"watchdog30s\", expected a lease: \"10s\", \"watchdog\" or \"watchdog 30s\""),
    ("[lock.base.strict]\nkind = 'semaphore(0)'", "lock.base.strict.kind: invalid value: string \"semaphore(0)\", expected a kind: \"mutex\", \"fair\", \"read\", \"write\" or \"semaphore(3)\""),
    ("[lock.base.strict]\non_lost = 'panic'", "lock.base.strict.on_lost: invalid value: string \"panic\", expected \"cancel\" or \"finish\""),
    ("[lock.base.strict]\non_release_lost = 'cancel'", "lock.base.strict.on_release_lost: invalid value: string \"cancel\", expected \"log\" or \"error\""),
    ("[lock.base.strict]\nat_least = 1.5", "lock.base.strict.at_least: invalid type: floating point `1.5`, expected a duration with its unit, such as \"250ms\" or \"1m 30s\""),
    ("[lock.base.strict]\nmax_waiters = -1", "lock.base.strict.max_waiters: invalid value: integer `-1`, expected a number of tasks, such as 100"),
    ("[lock.base.strict]\nenforce = 101", "lock.base.strict.enforce: invalid value: integer `101`, expected a share in percent, from 0 to 100"),
    ("[lock.base.strict]\nreplicas = 1", "lock.base.strict.replicas: invalid type: integer `1`, expected { at_least = 1, timeout = \"200ms\" }"),
    ("[lock.base.strict]\nreplicas = { at_least = 1 }", "lock.base.strict.replicas: missing field `timeout`"),
    ("[lock.base.strict]\nreplicas = { at_least = 1, timeout = 200 }", "lock.base.strict.replicas.timeout: invalid type: integer `200`, expected a duration with its unit, such as \"250ms\" or \"1m 30s\""),
    ("[lock.policies.'a.b']\nhttp = { busy = 404 }", "lock.policies.\"a.b\".http.busy: invalid value: integer `404`, expected a status: 409, 423, 429 or 503"),
    ("[lock.policies.checkout]\nhttp = { hold = 'bodi' }", "lock.policies.checkout.http.hold: unknown variant `bodi`, expected one of `auto`, `response`, `body`; did you mean `body`?"),
    ("[lock.policies.checkout]\nhttp = { bussy = 409 }", "lock.policies.checkout.http.bussy: unknown field `bussy`, expected one of `busy`, `hold`, `methods`, `safe_methods`, `on_missing`, `on_disconnect`, `release_timeout`, `max_body_hold`; did you mean `busy`?"),
    ("[[lock.routes]]\npath = '/'", "lock.routes[0]: missing field `policy`"),
    ("[[lock.routes]]\npath = '/'\npolicy = 'a'\nmethod = ['POST']", "lock.routes[0].method: unknown field `method`, expected one of `methods`, `path`, `policy`, `key`, `hold`; did you mean `methods`?"),
    ("[[lock.routes]]\npath = '/'\npolicy = 'a'\nmethods = 'POST'", "lock.routes[0].methods: invalid value: string \"POST\", expected methods: a list such as [\"POST\"], \"all\", or \"all but GET, OPTIONS\""),
];

#[test]
fn wrong_types_are_named_by_path() {
    for (text, expected) in WRONG_TYPES {
        let message = read(text).unwrap_err().to_string();
        // TOML knows the place of some; the one-pass readers of other formats do not.
        let said = message.strip_prefix(expected).unwrap_or_else(|| panic!("{text}\n{message}"));
        assert!(said.is_empty() || said.starts_with(" (line "), "{text}\n{message}");
    }
}

#[test]
fn an_unknown_name_suggests_the_nearest() {
    let error = read("[lock.policies.checkout]\nwiat = '3s'").unwrap_err().to_string();
    assert!(error.starts_with("lock.policies.checkout.wiat: unknown field `wiat`, "), "{error}");
    assert!(error.contains(UNKNOWN_IN_POLICY), "{error}");
    assert!(error.ends_with("; did you mean `wait`? (line 2, column 1)"), "{error}");
    let error = read("[lock.policies.checkout]\nretries = 3").unwrap_err().to_string();
    assert!(error.contains(UNKNOWN_IN_POLICY) && !error.contains("did you mean"), "{error}");
}

/// The wrong file, and everything that is wrong with it.
#[rustfmt::skip]
const WRONG_WHOLES: [(&str, &[&str]); 44] = [
    ("[lock]\nurl = 'memory:'\nquorum = ['redis://a']\nrestart_guard = '30s'", &["lock.url: is given beside lock.quorum; locks live in one place, keep one"]),
    ("[lock]\nurl = 'localhost:6379'", &["lock.url: is no address; write redis://host:port, rediss://host:port or unix:///path, or memory: for locks of this process"]),
    ("[lock]\nquorum = ['redis://a']", &["lock.restart_guard: is not given, and a quorum needs a choice; write the longest lease in use, such as \"30s\", or \"none\" where no server forgets a lock in a restart"]),
    ("[lock]\nquorum = ['redis://a']\nrestart_guard = '0s'", &["lock.restart_guard: \"0s\" guards nothing; write the longest lease in use, such as \"30s\", or \"none\" where no server forgets a lock in a restart"]),
    ("[lock]\nquorum = ['redis://a']\nrestart_guard = '1s'", &["lock.restart_guard: \"1s\" is shorter than the 30s for which lock.defaults keeps locks; write at least \"30s\""]),
    ("[lock]\nquorum = ['redis://a']\nrestart_guard = '1m'\n[lock.policies.p]\nlease = '5m'\n[lock.policies.'q-*']\nat_least = '3m'", &["lock.restart_guard: \"1m\" is shorter than the 5m for which lock.policies.p keeps locks; write at least \"5m\""]),
    ("[lock]\nurl = 'memory:'\nrestart_guard = 'none'", &["lock.restart_guard: is only for lock.quorum, which is not given; take it out"]),
    ("[lock]\nrestart_guard = 'none'\nquorum = []", &["lock.quorum: is empty; list at least one address"]),
    ("[lock]\nrestart_guard = '30s'\nquorum = ['redis://a', 'redis://b', 'redis://a']", &["lock.quorum[2]: is an address that the list has already; list each once"]),
    ("[lock]\nsentinel = { master = '', nodes = ['redis://a'] }", &["lock.sentinel.master: is empty; name what the sentinels watch"]),
    ("[lock]\nsentinel = { master = 'unix:///m', nodes = ['a:26379'] }", &["lock.sentinel.master: is no master; write its name, or redis://user:password@name/database (rediss:// for TLS)", "lock.sentinel.nodes[0]: is no address; write redis://host:port, rediss://host:port or unix:///path, or memory: for locks of this process"]),
    ("[lock]\nnamespace = ''", &["lock.namespace: invalid lock key \"\": it is empty; give it a name"]),
    ("[lock.defaults]\nkind = 'fair'\nkey = 'a'", &["lock.defaults.key: belongs into a policy: the defaults are those of all locks; move it", "lock.defaults.kind: belongs into a policy: the defaults are those of all locks; move it"]),
    ("[lock.policies.p]\nwait = '0s'", &["lock.policies.p.wait: \"0s\" never waits; write \"none\" to say so"]),
    ("[lock.policies.p]\nlease = '20ms'", &["lock.policies.p.lease: a lease of \"20ms\" does not work; give between \"100ms\" and \"1day\""]),
    ("[lock.policies.p]\nlease = 'watchdog 2days'", &["lock.policies.p.lease: a lease of \"watchdog 2days\" does not work; give between \"100ms\" and \"1day\""]),
    ("[lock.policies.p]\nat_least = '0s'\nmax_hold = '0s'", &["lock.policies.p.at_least: \"0s\" says nothing; omit it, or set a positive duration", "lock.policies.p.max_hold: \"0s\" says nothing; omit it, or set a positive duration"]),
    ("[lock.policies.p]\nat_least = '25h'", &["lock.policies.p.at_least: \"1day 1h\" is too long; a lock is kept for \"1day\" at most"]),
    ("[lock.policies.p]\nreplicas = { at_least = 0, timeout = '1us' }", &["lock.policies.p.replicas.at_least: 0 asks for none; leave replicas out or ask for one", "lock.policies.p.replicas.timeout: \"1us\" gives them no time; give at least \"1ms\""]),
    ("[lock.policies.p]\nreplicas = { at_least = 1, timeout = '5s' }\nlease = '5s'", &["lock.policies.p.replicas.timeout: \"5s\" is not less than the lease \"5s\" of lock.policies.p.lease; give them less"]),
    ("[lock.defaults]\nlease = '10s'\n[lock.policies.p]\nmax_hold = '5m'", &["lock.policies.p.max_hold: \"5m\" has no meaning with the fixed lease \"10s\" of lock.defaults.lease, which is never renewed; take one out or write lease = \"watchdog\""]),
    ("[lock.base.b]\nat_least = '1m'\n[lock.policies.p]\nbase = 'b'\nlease = '10s'\n[lock.policies.q]\nbase = 'b'\nlease = '2m'", &["lock.base.b.at_least: \"1m\" is longer than the fixed lease \"10s\" of lock.policies.p.lease; make the lease as long"]),
    ("[lock.defaults]\nlease = '10s'\nmax_hold = '5m'\n[lock.policies.p]\n[lock.policies.q]", &["lock.defaults.max_hold: \"5m\" has no meaning with the fixed lease \"10s\" of lock.defaults.lease, which is never renewed; take one out or write lease = \"watchdog\""]),
    ("[lock.policies.p]\nbase = 'strct'\n[lock.base.strict]", &["lock.policies.p.base: there is no lock.base.strct; did you mean \"strict\"?"]),
    ("[lock.policies.p]\nbase = 'nothing'\n[lock.policies.q]\nbase = 'nothing'", &["lock.policies.p.base: there is no lock.base.nothing; add it, or take this out", "lock.policies.q.base: there is no lock.base.nothing; add it, or take this out"]),
    ("[lock.base.c]\nbase = 'a'\n[lock.base.a]\nbase = 'b'\n[lock.base.b]\nbase = 'c'\n[lock.policies.p]\nbase = 'b'", &["lock.base.a.base: bases go round in a circle: a → b → c → a; break it"]),
    ("[lock.base.me]\nbase = 'me'", &["lock.base.me.base: bases go round in a circle: me → me; break it"]),
    ("[lock.policies.'tenant-*']\n[lock.policies.'*-tenant']", &["lock.policies.*-tenant: is ambiguous with lock.policies.tenant-*; make one of the patterns longer"]),
    ("[lock.policies.'a**b']", &["lock.policies.a**b: has two `*` side by side, which says no more than one; write one"]),
    ("[lock.policies.none]\n[lock.base.none]", &["lock.policies.none: has the name that metrics and logs give to locks without a policy; rename it"]),
    ("[lock.policies.'']\n[lock.base.'x*']", &["lock.base.x*: is a pattern, and bases are named; take the `*` out", "lock.policies.\"\": has no name; give it one"]),
    ("[lock.policies.p]\nkey = 'cart:{id'", &["lock.policies.p.key: \"cart:{id\" has a `{` that is never closed; write `{{` for a brace of the key"]),
    ("[lock.policies.p]\nkey = 'cart:}'\n[lock.base.b]\nkey = 'a:{}'", &["lock.base.b.key: \"a:{}\" has a `{}` that names nothing; write `{path.id}` or the like", "lock.policies.p.key: \"cart:}\" has a `}` that closes nothing; write `}}` for a brace of the key"]),
    ("[lock.policies.p]\nhttp = { methods = ['post'] }\n[lock.policies.q]\nhttp = { methods = [] }", &["lock.policies.p.http.methods[0]: \"post\" is no method; write them in capitals, such as \"POST\"", "lock.policies.q.http.methods: is empty, so nothing would lock; list methods or leave it out"]),
    ("[[lock.routes]]\npath = '/'\npolicy = 'chekout'\n[lock.policies.checkout]", &["lock.routes[0].policy: no lock policy \"chekout\": did you mean \"checkout\"?"]),
    ("[[lock.routes]]\npath = 'orders'\npolicy = 'p'\nkey = ''\n[lock.policies.p]", &["lock.routes[0].path: \"orders\" does not start with `/`; write it as in the router, such as \"/orders/{id}\"", "lock.routes[0].key: \"\" is empty; give the lock a name, such as \"order:{path.id}\""]),
    ("[lock.policies.q]\nhttp = { methods = 'all but PUT, get', max_body_hold = '0s' }", &["lock.policies.q.http.methods[1]: \"get\" is no method; write them in capitals, such as \"POST\"", "lock.policies.q.http.max_body_hold: \"0s\" sends no body; give it time, or write hold = \"response\""]),
    // A route that an earlier one shadows, by whatever each says of its methods.
    ("[[lock.routes]]\npath = '/a/{id}'\npolicy = 'p'\n[[lock.routes]]\npath = '/a/{nr}'\npolicy = 'p'\n[lock.policies.p]", &["lock.routes[1]: locks nothing: lock.routes[0], \"/a/{id}\", takes all its requests; put this one in front of it, or take it out"]),
    ("[[lock.routes]]\npath = '/a b/{*all}'\npolicy = 'p'\n[[lock.routes]]\nmethods = ['POST', 'PUT']\npath = '/a%20b/{*rest}'\npolicy = 'q'\n[lock.policies]\np = {}\nq = {}", &["lock.routes[1]: locks nothing: lock.routes[0], \"/a b/{*all}\", takes all its requests; put this one in front of it, or take it out"]),
    ("[[lock.routes]]\npath = '/{a}'\npolicy = 'p'\n[[lock.routes]]\nmethods = ['HEAD', 'POST']\npath = '/{b}'\npolicy = 'q'\n[lock.policies]\np = { http = { safe_methods = 'shared' } }\nq = {}", &["lock.routes[1]: locks nothing: lock.routes[0], \"/{a}\", takes all its requests; put this one in front of it, or take it out"]),
    // Of one path, and one policy or several: what is left for it counts, not how it is written.
    ("[[lock.routes]]\npath = '/a'\npolicy = 'p'\n[[lock.routes]]\npath = '/a'\npolicy = 'p'\n[lock.policies.p]", &["lock.routes[1]: locks nothing: lock.routes[0], \"/a\", takes all its requests; put this one in front of it, or take it out"]),
    ("[[lock.routes]]\npath = '/a'\npolicy = 'get'\n[[lock.routes]]\npath = '/a'\npolicy = 'post'\n[[lock.routes]]\npath = '/{a}'\npolicy = 'get'\n[[lock.routes]]\npath = '/a'\npolicy = 'both'\n[lock.policies]\nget = { http = { methods = ['GET'] } }\npost = { http = { methods = ['POST'] } }\nboth = { http = { methods = ['POST', 'HEAD'] } }", &["lock.routes[3]: locks nothing: lock.routes[0], \"/a\", and lock.routes[1], \"/a\", take all its requests; put this one in front of them, or take it out"]),
    ("[[lock.routes]]\nmethods = ['PUT', 'POST']\npath = '/a'\npolicy = 'p'\n[[lock.routes]]\nmethods = ['POST']\npath = '/a'\npolicy = 'p'\n[lock.policies.p]", &["lock.routes[1]: POST \"/a\" is lock.routes[0] already; take one out"]),
    ("[lock]\nquorum = ['redis://a']\nrestart_guard = '30s'\n[lock.policies.p]\nkind = 'fair'", &["lock.policies.p.kind: \"fair\" is not supported with lock.quorum; use \"mutex\""]),
];

#[test]
fn everything_wrong_with_the_whole_is_reported_at_once() {
    for (text, expected) in WRONG_WHOLES {
        let error = read(text).unwrap_err();
        let found: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(error.to_string(), expected.join("\n"));
        // As part of a program's own configuration it says the same.
        let error = toml::from_str::<LockFile>(text).unwrap_err().to_string();
        assert!(error.contains(expected[0]), "{error}");
    }
}

/// What looks wrong to this test's author, and is right.
#[test]
fn what_is_right_is_accepted() {
    for text in [
        "[lock]",
        "[lock]\nurl = 'memory:'\n[server]\nport = 80",
        "[lock.policies.p]\nkey = '{{cart}}:{path.id:raw}'",
        "[lock.defaults]\nlease = '10s'\n[lock.policies.p]\nlease = 'watchdog'\nmax_hold = '5m'",
        "[lock.policies.p]\nmax_waiters = 0\nenforce = 0",
        "[lock.policies.p]\nwait = '1m30s'\nlease = 'watchdog  1m 30s'\nkind = 'semaphore( 3 )'",
        "[lock.policies.'tenant-*']\n[lock.policies.'tenant-a-*']\n[lock.policies.'tenant-a-1']",
        "[[lock.routes]]\npath = '/files/{*rest}'\npolicy = 't-1'\n[lock.policies.'t-*']",
        "[[lock.routes]]\npath = '/a'\npolicy = 'get'\n[[lock.routes]]\npath = '/a'\npolicy = 'post'\n[[lock.routes]]\npath = '/{a}'\npolicy = 'get'\n[[lock.routes]]\npath = '/a'\npolicy = 'rest'\n[lock.policies]\nget = { http = { methods = ['GET'] } }\npost = { http = { methods = ['POST'] } }\nrest = {}",
    ] {
        read(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    }
}

/// Addresses have passwords in them.
#[test]
fn no_message_repeats_an_address() {
    for text in [
        "lock = 'redis://:secret@one'",
        "[lock]\nurl = 'redis//:secret@one'",
        "[lock]\nurl = 'redis://:secret@one'\ncluster = ['redis://:secret@one']",
        "[lock]\nurl = 'redis://:secret@one'\nnamespace = ''",
        "[lock]\nquorum = 'redis://:secret@one'",
        "[lock]\nsentinel = 'redis://:secret@one'",
        "[lock]\nsentinel = { master = 'redis://:secret@one', node = ['redis://:secret@one'] }",
        "[lock]\nquorum = ['redis://:secret@one', 'redis://:secret@one', 3]",
    ] {
        let error = read(text).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    for text in [
        "[lock]\nquorum = ['redis://:secret@one']\nrestart_guard = 'none'",
        "[lock]\nsentinel = { master = 'redis://:secret@one', nodes = ['redis://:secret@one'] }",
    ] {
        let config = read(text).unwrap();
        assert!(!format!("{config:?}").contains("secret"));
    }
}
