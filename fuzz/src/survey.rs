//! Messages of surveys, which any client of the server may publish.

use lock_runtime::fuzz;
use uuid::Uuid;

use crate::input::spoken;

/// The request whose answers the targets read.
const REQUEST: Uuid = Uuid::from_u128(7);

/// The most that a message may have.
const PART: usize = 64 * 1024;

const VOCABULARY: [&[u8]; 24] = [
    b"{\"v\":1,",
    b"\"id\":\"00000000-0000-0000-0000-000000000007\",",
    b"\"id\":\"",
    b"\"prefix\":\"",
    b"\"limit\":",
    b"\"client\":{\"id\":\"6b1b36cb-04e6-4b3a-8d19-27b1f5ed7d3b\",\"service\":\"s\",\"host\":\"h\",\"pid\":7,\"started\":8,\"version\":\"1\"},",
    b"\"holds\":[",
    b"{\"hold\":1,\"name\":\"a\",\"kind\":\"mutex\",\"held_for\":1,\"left\":2},",
    b"{\"hold\":1,\"name\":\"a\",\"kind\":\"mutex\",\"held_for\":1,\"left\":2}",
    b"\"waits\":[",
    b"{\"began\":1,\"name\":\"a\",\"kind\":\"fair\",\"waited_for\":1,\"inside\":[1,2]}",
    b"\"more\":true",
    b"\"cut\":true",
    b"],",
    b"]",
    b"}",
    b"\"",
    b",",
    b"18446744073709551615",
    b"-1",
    b"1000",
    b"\\u0000",
    b"\xff",
    b"null",
];

/// A request only has a client publish on the channel of its own id.
pub fn survey_request(input: &[u8]) {
    let message = spoken(input, &VOCABULARY);
    if let Some(channel) = fuzz::reply_channel(&message) {
        let id = channel.strip_prefix("survey:").expect("a channel of surveys");
        assert_eq!(Uuid::parse_str(id).expect("an id").to_string(), id);
        assert!(message.len() <= 4096, "{} bytes", message.len());
    }
}

/// What one client publishes, every other reads as the same.
pub fn survey_answer(input: &[u8]) {
    let message = spoken(input, &VOCABULARY);
    let Some(parts) = fuzz::answer_repeated(&message, REQUEST) else { return };
    for part in &parts {
        assert!(
            part.len() <= PART || parts.len() == 1 || message.len() > PART,
            "{} bytes",
            part.len()
        );
        let again = fuzz::answer_repeated(part, REQUEST).expect("an answer");
        assert_eq!(again.len(), 1, "a part is one part");
    }
}
