//! What nobody gets to read: owners, passwords, names as they are.

use crate::observe::recorder::Kept;
use crate::observe::scenario::*;
use crate::observe::secrets::owners;

const SECRET: &str = "s3cr3t";

/// Names that would look like something else, if they were written as they are.
const NASTY: [&str; 5] = [
    "say \"hello\" lock.outcome=\"acquired\"",
    "back\\slash\\n",
    "name WARN lock_runtime: all is well",
    "right\u{202e}left\u{200b}",
    "c'est l'été 日本 🔒",
];

/// S-1, S-3: a name is one string literal wherever it is logged: when it is taken, waited for, lost,
/// refused, and run under.
#[tokio::test]
async fn names_are_escaped() {
    let (log, seen) = (Log::start(), Kept::default());
    let _here = metrics::set_default_local_recorder(&seen);
    let server = RedisServer::start().await;
    let client = builder().connect(&server.url()).await.unwrap();
    let other = builder().connect(&server.url()).await.unwrap();
    for name in NASTY {
        // Long enough for those who are refused, also on a busy machine.
        let brief = fixed(ms(800));
        let guard = client.mutex(name).with(brief).lock().await.unwrap();
        other.mutex(name).with(waits(ms(20))).lock().await.unwrap_err();
        other.fair_mutex(name).lock().await.unwrap_err();
        let body = std::future::pending::<()>();
        assert!(guard.run(body).await.unwrap_err().is_lost());
        guard.release().await.unwrap_err();
    }
    let (text, metrics) = (log.text(), seen.text());
    for name in NASTY {
        let literal = format!("{name:?}");
        assert!(text.contains(&format!("lock.name={literal}")), "{literal} is not logged:\n{text}");
        let lost = format!("lock lost lock.name={literal}");
        assert!(text.contains(&lost), "{literal} was not lost:\n{text}");
        assert!(!text.replace(&literal, "").contains(name), "{name} is logged as it is:\n{text}");
        assert!(!metrics.contains(name), "{name} is in {metrics}");
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    assert!(!text.contains(['\u{202e}', '\u{200b}']), "what is not seen must be escaped");
    // Whoever logs a line break or an escape sequence never gets to a lock.
    for name in ["a\nb", "a\u{1b}[31mb", "a\rb", "a\u{9b}b"] {
        let error = LockKey::new(name).unwrap_err();
        assert!(!error.to_string().chars().any(char::is_control), "{error}");
        client.mutex(name).lock().await.unwrap_err();
    }
    assert_eq!(log.text().len(), text.len(), "something was done about them");
}

/// S-4: no owner, password or name in logs or metrics, whatever fails.
#[tokio::test]
async fn nothing_secret_is_seen() {
    let (log, seen) = (Log::start(), Kept::default());
    let _here = metrics::set_default_local_recorder(&seen);
    let server = RedisServer::builder().password(SECRET).start().await;
    let connect = async || builder().connect(&server.url()).await.unwrap();
    let pair = Pair { client: connect().await, other: connect().await };
    acquires(&pair, &seen, "tenant:7:private").await;
    taken_away(&pair.client, &seen).await;
    let short = watched(ms(900));
    let kept = pair.client.mutex("private").with(short).lock().await.unwrap();
    let brief = fixed(ms(200));
    let dropped = pair.other.mutex("dropped").with(brief).lock().await.unwrap();
    let mut known = owners(&server).await;
    assert_eq!(known.len(), 2, "{known:?}");
    server.client().cmd(&["ACL", "SETUSER", "default", "-hset", "-pexpire", "-pexpireat"]).await;
    pair.client.mutex("private:denied").lock().await.unwrap_err();
    let refused = async || log.text().contains("renewal failed");
    eventually(SOON, "a renewal is refused", refused).await;
    server.client().cmd(&["ACL", "SETUSER", "default", "+hset", "+pexpire", "+pexpireat"]).await;
    server.client().cmd(&["SET", "private:text", "1"]).await;
    pair.client.mutex("private:text").lock().await.unwrap_err();
    server.pause();
    drop(dropped);
    pair.client.mutex("private:away").try_lock().await.unwrap_err();
    assert!(kept.lost().await.is_lost());
    server.resume();
    drop(kept);
    known.extend(owners(&server).await);
    soon!("all is given back", owners(&server).await.is_empty());
    pair.client.shutdown(SOON).await;

    let (text, metrics) = (log.text(), seen.text());
    let all = ["lock.acquire", "lock.hold", "lock lost", "renewal failed", "release failed"];
    for word in all.into_iter().chain(["renewal has no answer yet"]) {
        assert!(text.contains(word), "{word} was not logged");
    }
    for secret in known.iter().map(String::as_str).chain([SECRET]) {
        let lines: Vec<_> = text.lines().filter(|line| line.contains(secret)).collect();
        assert!(lines.is_empty(), "{secret} shows:\n{}", lines.join("\n"));
        assert!(!metrics.contains(secret), "{secret} is in {metrics}");
    }
    for name in ["private", "job:", "sides", "taken", "dropped", "tenant-7", "tenant:"] {
        assert!(!metrics.contains(name), "{name} is in {metrics}");
    }
}
