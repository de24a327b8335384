//! Names as they are logged.

use crate::observe::recorder::Kept;
use crate::observe::scenario::*;

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
    let (log, (seen, _here)) = (Log::start(), Kept::here());
    let server = RedisServer::start().await;
    let Pair { client, other } = redis(&server).await;
    for name in NASTY {
        // Long enough for those that are refused, also on a busy machine.
        let guard = client.mutex(name).with(fixed(ms(800))).lock().await.unwrap();
        other.mutex(name).with(waits(ms(20))).lock().await.unwrap_err();
        other.fair_mutex(name).lock().await.unwrap_err();
        assert!(guard.run(pending::<()>()).await.unwrap_err().is_lost());
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
    // A name with a line break or an escape sequence is no lock's.
    for name in ["a\nb", "a\u{1b}[31mb", "a\rb", "a\u{9b}b"] {
        let error = LockKey::new(name).unwrap_err();
        assert!(!error.to_string().chars().any(char::is_control), "{error}");
        client.mutex(name).lock().await.unwrap_err();
    }
    assert_eq!(log.text().len(), text.len(), "something was done about them");
}
