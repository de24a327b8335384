//! What nobody gets to read in errors, `Debug` and log lines: passwords and owner ids.

use std::fmt::Debug;
use std::fmt::Write as _;

use crate::observe::recorder::Kept;
use crate::prelude::*;
use crate::support::kinds;

/// The password of these tests, and what of it must not show.
const SECRET: &str = "s3cr3t";

/// An error in all its forms, with all its causes.
fn everything(error: &LockError) -> String {
    let mut all = String::new();
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        writeln!(all, "{error}\n{error:?}\n{error:#?}").unwrap();
        next = error.source();
    }
    all
}

/// What can be shown of things, to look through.
#[derive(Default)]
struct Shown(String);

impl Shown {
    fn add(&mut self, thing: impl Debug) {
        writeln!(self.0, "{thing:?}\n{thing:#?}").unwrap();
    }

    fn add_error<T>(&mut self, outcome: Result<T, LockError>) {
        self.0.push_str(&everything(&outcome.map(drop).unwrap_err()));
    }

    /// The owners that the servers know of are nowhere to be found, nor is the password.
    fn check(&self, log: &Log, owners: &BTreeSet<String>) {
        let shown = format!("{}{}", self.0, log.text());
        assert!(!owners.is_empty() && self.0.len() > 1_000, "there is nothing to look for");
        for secret in owners.iter().map(String::as_str).chain([SECRET]) {
            let lines: Vec<_> = shown.lines().filter(|line| line.contains(secret)).collect();
            assert!(lines.is_empty(), "{secret} shows:\n{}", lines.join("\n"));
        }
    }
}

/// The uuids of all that hold anything there or wait for it.
async fn owners(server: &RedisServer) -> BTreeSet<String> {
    let raw = server.client();
    let mut found = BTreeSet::new();
    for key in raw.keys().await {
        let words: Vec<String> = match &*raw.get::<String>(&["TYPE", &key]).await {
            "hash" => raw.get(&["HKEYS", &key]).await,
            "zset" => raw.get(&["ZRANGE", &key, "0", "-1"]).await,
            "list" => raw.get(&["LRANGE", &key, "0", "-1"]).await,
            _ => Vec::new(),
        };
        let uuids = words.iter().filter_map(|word| word.split_once(':').map(|(uuid, _)| uuid));
        found.extend(uuids.filter(|uuid| uuid.len() == 36).map(str::to_owned));
    }
    found
}

/// S-4: whoever knows an owner can release its lock. All kinds, all that can be shown of them, while
/// they are held, waited for, refused, lost, and given back; nor is it, the password or a name in a metric.
#[tokio::test]
async fn neither_owners_nor_passwords_show() {
    let (log, (seen, _here)) = (Log::start(), Kept::here());
    let mut shown = Shown::default();
    let server = RedisServer::builder().password(SECRET).start().await;
    let brief = ms(300);
    let builder = LockClient::builder().command_timeout(brief).store_patience(brief);
    let connect = async || builder.clone().connect(&server.url()).await.unwrap();
    let (client, other) = (connect().await, connect().await);
    shown.add(RedisStore::connect(&server.url()).await.unwrap());
    let mut guards = Vec::new();
    for (kind, _) in KINDS {
        guards.push(take_named(&client, kind, LockOptions::default()).await.unwrap());
        // A second reader gets in.
        let wanted = if kind == "read" { "write" } else { kind };
        shown.add_error(kinds::take(&other, wanted, kind, waits(ms(30))).await);
    }
    let permits = client.semaphore("permits", 2).acquire_many(2).await.unwrap();
    let quorum =
        LockClient::builder().connect_quorum([server.url()], RestartGuard::Off).await.unwrap();
    let majority = quorum.mutex("quorum").lock().await.unwrap();
    let lock = client.rw_lock("together");
    let joint = MultiLock::of([other.mutex("both").into(), MultiMember::write(&lock)]);
    let several = joint.lock().await.unwrap();
    let fair = other.fair_mutex("fair");
    let mut waiting = Box::pin(fair.lock());
    assert!(timeout(ms(50), &mut waiting).await.is_err());
    let kept = client.mutex("private").with(watched(ms(900))).lock().await.unwrap();
    let mut known = owners(&server).await;
    // The clients and the quorum.
    assert_eq!(known.len(), 3, "{known:?}");

    shown.add((&client, client.admin().held(), client.health(), &guards, &permits, &several));
    shown.add((&majority, client.mutex("m"), client.rw_lock("r"), client.semaphore("s", 2)));
    shown.add((&fair, &waiting, &joint, &quorum, quorum.mutex("q"), client.latch("l")));
    shown.add(guards[0].run(client.mutex("mutex").lock()).await.unwrap().unwrap());
    let owner = OwnerId::new(known.first().unwrap(), 7, 1);
    let target = Target::fair(LockKey::new("fair").unwrap());
    shown.add((&owner, &target, target.for_waiter(&owner)));
    shown.check(&log, &known);

    // Lost, refused for another kind, not allowed, away.
    drop(waiting);
    server.client().cmd(&["DEL", "mutex"]).await;
    let lease = fixed(SOON);
    shown.add_error(guards.remove(0).release().await);
    shown.add_error(client.fair_mutex("read").with(lease.clone()).lock().await);
    shown.add_error(other.rw_lock("fair").with(lease.clone()).write().await);
    shown.add_error(client.multi_lock(["fair", "x"]).with(lease).lock().await);
    let rights = ["hset", "pexpire", "pexpireat"];
    for right in rights {
        server.client().cmd(&["ACL", "SETUSER", "default", &format!("-{right}")]).await;
    }
    shown.add_error(client.mutex("denied").lock().await);
    soon!("a renewal is refused", log.text().contains("renewal failed"));
    for right in rights {
        server.client().cmd(&["ACL", "SETUSER", "default", &format!("+{right}")]).await;
    }
    let late = client.mutex("late").lock().await.unwrap();
    let dropped = client.mutex("dropped").with(fixed(ms(200))).lock().await.unwrap();
    known.extend(owners(&server).await);
    server.pause();
    drop((guards, permits, several, majority, dropped));
    shown.add_error(client.mutex("away").try_lock().await);
    shown.add_error(late.release().await);
    assert!(kept.lost().await.is_lost());
    server.resume();
    soon!("all is given back", owners(&server).await.is_empty());
    shown.add((client.shutdown(SOON).await, &client));
    shown.add_error(client.mutex("closed").lock().await);
    shown.check(&log, &known);
    let text = log.text();
    for word in ["lock.acquire", "lock.hold", "lock lost", "release failed", "has no answer yet"] {
        assert!(text.contains(word), "{word} was not logged");
    }
    let metrics = seen.text();
    let names = ["private", "together", "permits", "dropped", SECRET];
    for secret in known.iter().map(String::as_str).chain(names) {
        assert!(!metrics.contains(secret), "{secret} is in {metrics}");
    }
}

/// S-33: whatever is wrong with an address, and wherever its password has ended up by that, the error
/// does not show it; nor do its causes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_shows_its_password() {
    // Each with the password `s3cr3t`, alone or as a part of one: beside characters that mean something else in an address,
    // with escapes, right and wrong, with other schemes, without a host or an `@`, with ports and databases that are none,
    // and behind the address.
    let words = "
        redis://:s3cr3t#x@127.0.0.1:1 redis://:x#s3cr3t@127.0.0.1:1 redis://:s3cr3t/x@127.0.0.1:1
        redis://:x/s3cr3t@127.0.0.1:1 redis://:s3cr3t?x@127.0.0.1:1 redis://:x?s3cr3t@127.0.0.1:1
        redis://:x@s3cr3t@127.0.0.1:1 redis://:s3cr3t@x@127.0.0.1:1 redis://:s3cr3t:x@127.0.0.1:1
        redis://:x://s3cr3t@127.0.0.1:1 redis://:[s3cr3t@127.0.0.1:1 redis://:/s3cr3t@127.0.0.1:1
        redis:///s3cr3t@127.0.0.1:1 redis:////s3cr3t@127.0.0.1:1 redis://:s3cr3t\\x@127.0.0.1:1
        redis://:s3cr3t%23%40x@127.0.0.1:1 redis://:s3cr3t%@127.0.0.1:1
        redis://:s3cr3t%ff@127.0.0.1:1 redis://%ff:s3cr3t@127.0.0.1:1
        REDIS://:s3cr3t@127.0.0.1:1 Rediss://:s3cr3t#@127.0.0.1:1 http://:s3cr3t@127.0.0.1:1
        redis+sentinel://:s3cr3t@127.0.0.1:1 redis:/:s3cr3t@127.0.0.1:1 redis//:s3cr3t@127.0.0.1:1
        redis::s3cr3t@127.0.0.1:1 user:s3cr3t@127.0.0.1:1 user:s3cr3t://x@127.0.0.1:1
        redis://:s3cr3t@ redis://:s3cr3t@:1 redis://user:s3cr3t@/0 redis://user:s3cr3t
        redis://user:s3cr3t/0 redis://:s3cr3t redis:user:s3cr3t redis//user:s3cr3t redis//s3cr3t
        user:s3cr3t :s3cr3t @s3cr3t:x redis://:s3cr3t@127.0.0.1:99999 redis://:s3cr3t@127.0.0.1:x
        redis://:s3cr3t@127.0.0.1:1/x redis://:x@127.0.0.1:s3cr3t redis://127.0.0.1:1/s3cr3t
        redis://127.0.0.1:1?password=s3cr3t redis://127.0.0.1:1/x?password=s3cr3t
        redis://127.0.0.1:x#s3cr3t redis://:s3cr3t@127.0.0.1:1?protocol=9
        unix:///no/such/socket?pass=s3cr3t unix:///no/such/socket?db=x&pass=s3cr3t
        UNIX:///no/such/socket?db=x&pass=s3cr3t unix://:s3cr3t@/no/such/socket?db=x
        redis+unix:///no/such/socket?db=x&pass=s3cr3t";
    let spaced = ["redis://:s3cr3t\n@127.0.0.1:1", " redis://:s3cr3t@127.0.0.1:x"];
    let addresses = words.split_whitespace().chain(spaced);
    let check = async |address: &str| {
        assert!(address.contains(SECRET));
        let tls = LockClient::builder().tls(TlsOptions::new());
        for outcome in [
            LockClient::connect(address).await.map(drop),
            tls.clone().connect(address).await.map(drop),
            LockClient::builder().connect_quorum([address], RestartGuard::Off).await.map(drop),
            tls.clone().connect_quorum([address, "x"], RestartGuard::Off).await.map(drop),
            LockClient::builder().connect_sentinel("locks", [address]).await.map(drop),
            tls.connect_sentinel(address, ["redis://127.0.0.1:1"]).await.map(drop),
        ] {
            let Err(error) = outcome else { panic!("{address} can be used") };
            assert!(matches!(error, LockError::Store(_)), "{address}: {error:?}");
            let shown = everything(&error);
            assert!(!shown.contains(SECRET), "{address}: the password shows: {shown}");
        }
    };
    for address in addresses {
        timeout(SOON, check(address)).await.expect("it hangs");
    }
}

/// S-32: an error about a malformed address quotes no part of it, since any part may be the password.
#[tokio::test]
async fn no_part_of_an_address_is_shown() {
    for address in [
        "nonsense",
        "http://one.example:80",
        "redis://user:one@one.example:port",
        "redis://h:63redis//:one@hpasswoone",
        "redis://one.example/one",
        "unix:///one/redis.sock?db=one",
    ] {
        let error = LockClient::connect(address).await.unwrap_err();
        let shown = everything(&error);
        assert!(shown.contains("the address cannot be used; expected redis://"), "{shown}");
        assert!(!shown.contains("one") && !shown.contains("nonsense"), "{address}: {shown}");
    }
}
