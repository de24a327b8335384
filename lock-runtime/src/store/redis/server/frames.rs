//! Where the messages of a server end.

/// Finds the end of each message (RESP3) in what a server sends, whatever pieces it arrives in.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The values that the message still lacks.
    values: u64,
    /// The bytes that a text still lacks, its line end included.
    text: u64,
    /// The line that begins a value, as far as it has arrived.
    line: Option<Line>,
    is_broken: bool,
}

#[derive(Debug)]
struct Line {
    kind: u8,
    number: u64,
    /// A missing value has a length of -1.
    is_missing: bool,
    is_number: bool,
    /// True if it ends, so far, with the first half of a line end.
    after_return: bool,
}

impl Frames {
    /// True between two messages.
    pub(crate) fn is_between(&self) -> bool {
        self.values == 0 && self.text == 0 && self.line.is_none() && !self.is_broken
    }

    /// True once the server has sent what is no message. No end is found from then on.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Reads further bytes, of any number of messages.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) {
        while let Some(end) = self.end_in(bytes) {
            bytes = &bytes[end..];
        }
    }

    /// Reads further bytes, up to the end of the message, and returns where that is; `None` if it is not among them.
    pub(crate) fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() && !self.is_broken {
            if self.text > 0 {
                let rest = bytes.len() - at;
                let taken = usize::try_from(self.text).map_or(rest, |text| text.min(rest));
                self.text -= taken as u64;
                at += taken;
            } else {
                at += self.read_line(&bytes[at..]);
            }
            if self.is_between() {
                return Some(at);
            }
        }
        None
    }

    /// Reads a part of a line, and returns how many bytes that was.
    fn read_line(&mut self, bytes: &[u8]) -> usize {
        let (line, start) = match self.line.take() {
            Some(line) => (line, 0),
            None if !begins_a_value(bytes[0]) => {
                self.is_broken = true;
                return bytes.len();
            }
            None => {
                self.values = self.values.max(1);
                (Line::new(bytes[0]), 1)
            }
        };
        let line = self.line.insert(line);
        let mut searched = start;
        // A line feed alone ends no line: an error may say anything.
        while let Some(found) = bytes[searched..].iter().position(|byte| *byte == b'\n') {
            let feed = searched + found;
            let is_end = if feed > start { bytes[feed - 1] == b'\r' } else { line.after_return };
            if is_end {
                line.read(&bytes[start..feed]);
                self.end_line();
                return feed + 1;
            }
            searched = feed + 1;
        }
        line.read(&bytes[start..]);
        bytes.len()
    }

    fn end_line(&mut self) {
        let Some(Line { kind, number, is_missing, is_number, .. }) = self.line.take() else {
            return;
        };
        let length = if is_missing { 0 } else { number };
        let (text, values) = match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => (0, 0),
            _ if !is_number => return self.is_broken = true,
            b'$' | b'!' | b'=' if is_missing => (0, 0),
            b'$' | b'!' | b'=' => (length.saturating_add(2), 0),
            b'*' | b'~' | b'>' => (0, length),
            b'%' => (0, length.saturating_mul(2)),
            // An attribute comes before the value that it is of.
            b'|' => (0, length.saturating_mul(2).saturating_add(1)),
            _ => return self.is_broken = true,
        };
        self.text = text;
        self.values = (self.values - 1).saturating_add(values);
    }
}

fn begins_a_value(kind: u8) -> bool {
    matches!(
        kind,
        b'+' | b'-'
            | b':'
            | b'_'
            | b','
            | b'#'
            | b'('
            | b'$'
            | b'!'
            | b'='
            | b'*'
            | b'~'
            | b'>'
            | b'%'
            | b'|'
    )
}

impl Line {
    fn new(kind: u8) -> Self {
        Self { kind, number: 0, is_missing: false, is_number: true, after_return: false }
    }

    fn read(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.after_return = *last == b'\r';
        }
        for byte in bytes {
            match byte {
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    self.number = self.number.saturating_mul(10).saturating_add(digit);
                }
                b'-' => self.is_missing = true,
                b'\r' => {}
                _ => return self.is_number = false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: [&str; 15] = [
        "+OK\r\n",
        "-NOSCRIPT No matching script.\r\n",
        "-two\nlines\r\n",
        "-\n\r\r\n",
        ":-12\r\n",
        "$5\r\n42 17\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "$8\r\n\r\n\r\n\r\n\r\n\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n_\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\n1\r\n\r\n",
        "%2\r\n+a\r\n#t\r\n+b\r\n,1.5\r\n",
        "|1\r\n+a\r\n:1\r\n*1\r\n=5\r\ntxt:a\r\n",
    ];

    #[test]
    fn a_message_ends_where_it_ends() {
        for message in MESSAGES {
            let followed = [message, "$1\r\n1\r\n"].concat();
            let mut frames = Frames::default();
            assert_eq!(frames.end_in(followed.as_bytes()), Some(message.len()), "{message:?}");
            assert!(frames.is_between());
            redis::parse_redis_value(message.as_bytes()).expect(message);
        }
    }

    #[test]
    fn a_message_may_come_in_any_pieces() {
        let all = MESSAGES.concat();
        for size in 1..all.len() {
            let (mut frames, mut ends, mut before) = (Frames::default(), Vec::new(), 0);
            for piece in all.as_bytes().chunks(size) {
                let mut rest = piece;
                while let Some(end) = frames.end_in(rest) {
                    rest = &rest[end..];
                    ends.push(before + piece.len() - rest.len());
                }
                before += piece.len();
            }
            let mut sum = 0;
            let expected = MESSAGES.map(|message| {
                sum += message.len();
                sum
            });
            assert_eq!(ends, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn between_two_messages_is_nowhere_else() {
        let all = MESSAGES.concat();
        let mut ends = 0;
        for cut in 1..=all.len() {
            let mut frames = Frames::default();
            frames.pass(&all.as_bytes()[..cut]);
            ends += usize::from(frames.is_between());
        }
        assert_eq!(ends, MESSAGES.len());
    }

    #[test]
    fn what_is_no_message_has_no_end() {
        for other in ["hello\r\n", "$x\r\n1\r\n", "$?\r\n;1\r\na\r\n", "*a\r\n", "\r\n"] {
            let mut frames = Frames::default();
            assert_eq!(frames.end_in(other.as_bytes()), None, "{other:?}");
            assert!(frames.is_broken() && !frames.is_between(), "{other:?}");
            frames.pass(b"+OK\r\n");
            assert!(!frames.is_between(), "{other:?}");
        }
    }
}
