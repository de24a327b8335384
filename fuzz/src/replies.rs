//! Replies of the lock scripts.

use lock_runtime::fuzz::{self, Parsed};
use lock_runtime::store::AcquireReply;

use crate::input::spoken;

/// The number of the call that the replies answer, or do not.
const CALL: u64 = 42;

/// Pieces of replies, in the protocol of Redis.
const RESP: &[&[u8]] = &[
    b"*2\r\n$2\r\n42\r\n",
    b"*3\r\n$2\r\n42\r\n",
    b"$4\r\n42 7\r\n",
    b"$7\r\n42 :-1\r\n",
    b"$2\r\n42\r\n",
    b"$3\r\n170\r\n",
    b"$2\r\n:5\r\n",
    b"*1\r\n",
    b"*0\r\n",
    b":0\r\n",
    b":1\r\n",
    b":-1\r\n",
    b":9223372036854775807\r\n",
    b"$-1\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",1.5\r\n",
    b"+42 7\r\n",
    b"-ERR no\r\n",
    b"-NOSCRIPT no\r\n",
    b"=8\r\ntxt:42 7\r\n",
    b"%1\r\n",
    b"~1\r\n",
    b">2\r\n",
    b"|1\r\n",
    b"(42\r\n",
    b"*-1\r\n",
    b"*2147483647\r\n",
    b"$2147483647\r\n",
    b"\r\n",
    b"\xff",
];

/// A grant only if the reply says the number of the call and the token; the reply to one call answers no other; one
/// request alone is answered as in a batch.
pub fn acquire_reply(input: &[u8]) {
    let reply = spoken(input, RESP);
    let alone = fuzz::acquired(&reply, CALL, 1);
    let has = |number: u64| {
        let digits = number.to_string();
        reply.windows(digits.len()).any(|part| part == digits.as_bytes())
    };
    if let Some(Ok(AcquireReply::Granted(token))) = &alone {
        assert!(has(CALL) && has(token.get()), "granted {token:?}, which the server did not say");
    }
    let together = fuzz::acquired_together(&reply, CALL, 1, 1);
    let outcome = |read: &Result<AcquireReply, _>| read.as_ref().ok().cloned();
    let (one, other) = (alone.as_ref().map(outcome), together.as_ref().map(|all| outcome(&all[0])));
    assert_eq!(one, other, "alone and in a batch");
    for other in [4, 2, 421, 142, CALL + 1, u64::MAX] {
        let answers_both = alone.is_some() && fuzz::acquired(&reply, other, 1).is_some();
        assert!(!answers_both, "the reply answers the calls {CALL} and {other}");
    }
    // A block of tokens ends with the one that the server says.
    if let Some(Ok(AcquireReply::Granted(first))) = fuzz::acquired(&reply, CALL, 256) {
        let last = first.get().checked_add(255);
        assert!(last.is_some_and(has), "a block that the server did not reserve: {first:?}");
    }
}

/// The text form of a reply means what a slow second parser reads in it.
pub fn reply_text(input: &[u8]) {
    let vocabulary: &[&[u8]] = &[
        b" ",
        b":",
        b"42 ",
        b"-",
        b"18446744073709551615",
        b"18446744073709551616",
        b"9223372036854775807",
        b"0",
        b"\xff",
    ];
    let mut text = b"42".to_vec();
    text.extend(spoken(input, vocabulary));
    let mut reply = format!("${}\r\n", text.len()).into_bytes();
    reply.extend(&text);
    reply.extend(b"\r\n");
    let expected = expected(&text);
    for requests in 0..6 {
        let wanted = expected.clone().filter(|answers| answers.len() == requests);
        assert_eq!(fuzz::answers_in(&reply, CALL, requests), wanted, "of {requests} requests");
    }
}

/// The answers in the text of a reply: words after the number of the call, with one space before each. A word is a
/// token, or a colon and a number.
fn expected(text: &[u8]) -> Option<Vec<Parsed>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split(' ');
    if words.next() != Some("42") {
        return None;
    }
    let is_digits = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let answer = |word: &str| match word.strip_prefix(':') {
        None if is_digits(word) => word.parse().ok().map(Parsed::Token),
        Some(number) if is_digits(number.strip_prefix('-').unwrap_or(number)) => {
            // No script answers the least number of all.
            number.parse().ok().filter(|number| *number != i64::MIN).map(Parsed::Number)
        }
        _ => None,
    };
    words.map(answer).collect()
}

/// A renewal is confirmed only by a zero, and what it names as lost was asked for.
pub fn renew_reply(input: &[u8]) {
    let reply = spoken(input, RESP);
    for locks in [1, 3] {
        let Some(Ok(lost)) = fuzz::renewed(&reply, CALL, locks) else { continue };
        assert!(lost.iter().all(|place| *place < locks), "lost {lost:?} of {locks}");
        assert!(!lost.is_empty() || says_zero(&reply), "renewed without a word of the server");
    }
}

/// True if the reply has a line that says zero; the client library also reads `: 0` and `:-0` as one.
fn says_zero(reply: &[u8]) -> bool {
    let is_zero = |number: &[u8]| {
        let end = number.windows(2).position(|end| end == b"\r\n");
        let number = &number[..end.unwrap_or(number.len())];
        std::str::from_utf8(number).is_ok_and(|text| text.trim().parse() == Ok(0))
    };
    reply.split(|byte| *byte == b':').skip(1).any(is_zero)
}

/// An inspection shows no owner id, and no end of a lock that is not held.
pub fn inspect_reply(input: &[u8]) {
    let vocabulary: &[&[u8]] = &[
        b"*2\r\n$2\r\n42\r\n*6\r\n",
        b"*2\r\n$2\r\n42\r\n*8\r\n",
        b"*2\r\n$2\r\n42\r\n*10\r\n",
        b"$5\r\nmutex\r\n",
        b"$0\r\n\r\n",
        b"$9\r\nsemaphore\r\n",
        b"$4\r\nread\r\n",
        b":30000\r\n",
        b":-1\r\n",
        b":4294967296\r\n",
        b"$16\r\n1700000000000000\r\n",
        b"$5\r\nabc:7\r\n",
        b"$3\r\n\xff:7\r\n",
        b"$1\r\n:\r\n",
        b"$4\r\nabcd\r\n",
        b"*0\r\n",
        b"*1\r\n$5\r\nabc:7\r\n",
    ];
    let reply = spoken(input, vocabulary);
    let Some(Ok(inspection)) = fuzz::inspected(&reply, CALL) else { return };
    for holder in &inspection.holders {
        assert!(!holder.client.contains(':'), "an owner id: {holder:?}");
    }
    for waiter in &inspection.queue {
        assert!(!waiter.client.contains(':'), "an owner id: {waiter:?}");
    }
    assert!(inspection.kind.is_some() || inspection.remaining.is_none(), "{inspection:?}");
}

/// A message ends at the same place in whatever pieces it arrives, and not later than where the client library reads it whole.
pub fn messages(input: &[u8]) {
    let sent = spoken(input, RESP);
    let ends = fuzz::message_ends(&sent, sent.len().max(1));
    for size in [1, 2, 3, 7, 64] {
        assert_eq!(fuzz::message_ends(&sent, size), ends, "in pieces of {size}");
    }
    let Some(end) = ends.first() else { return };
    // The library reads from the beginning again for each of these.
    for shorter in 0..(*end).min(128) {
        assert!(
            !fuzz::is_message(&sent[..shorter]),
            "a message ends at {shorter} and not at {end}"
        );
    }
}
