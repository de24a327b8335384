//! Calls in the form in which they are sent.

use std::io::{self, Write};

use redis::{Cmd, RedisWrite, ToRedisArgs};

/// What the keys and arguments of a call are written to.
pub(crate) trait Arguments {
    /// Writes a key or an argument, or several.
    fn arg(&mut self, arg: impl ToRedisArgs) -> &mut Self;
}

impl Arguments for Cmd {
    fn arg(&mut self, arg: impl ToRedisArgs) -> &mut Self {
        Self::arg(self, arg)
    }
}

/// The room for the number of parts, which comes first and is known last.
const HEAD: usize = "*100000\r\n".len();

/// A call that is written as it is sent, which takes half as long as to collect its parts in a [`Cmd`] first.
pub(crate) struct Packed<'a> {
    to: &'a mut Vec<u8>,
    parts: usize,
}

impl<'a> Packed<'a> {
    /// Begins with so many parts that are in this form already. The buffer is empty.
    pub(super) fn new(to: &'a mut Vec<u8>, first: &[u8], parts: usize) -> Self {
        to.extend_from_slice(&[0; HEAD]);
        to.extend_from_slice(first);
        Self { to, parts }
    }

    pub(super) fn end(self) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(self.parts).as_bytes();
        let unused = HEAD - 3 - digits.len();
        self.to[unused] = b'*';
        self.to[unused + 1..HEAD - 2].copy_from_slice(digits);
        self.to[HEAD - 2..HEAD].copy_from_slice(b"\r\n");
        self.to.drain(..unused);
    }
}

/// One part of a command.
pub(super) fn pack(to: &mut Vec<u8>, part: &[u8]) {
    // The most that the length and the ends of the lines take.
    to.reserve(part.len() + 25);
    match u8::try_from(part.len()) {
        // Nearly all; as arrays of a fixed length these are no calls.
        Ok(ones @ 0..10) => to.extend_from_slice(&[b'$', b'0' + ones, b'\r', b'\n']),
        Ok(length @ 10..100) => {
            let (tens, ones) = (b'0' + length / 10, b'0' + length % 10);
            to.extend_from_slice(&[b'$', tens, ones, b'\r', b'\n']);
        }
        _ => {
            to.push(b'$');
            to.extend_from_slice(itoa::Buffer::new().format(part.len()).as_bytes());
            to.extend_from_slice(b"\r\n");
        }
    }
    to.extend_from_slice(part);
    to.extend_from_slice(b"\r\n");
}

impl Arguments for Packed<'_> {
    fn arg(&mut self, arg: impl ToRedisArgs) -> &mut Self {
        arg.write_redis_args(self);
        self
    }
}

impl RedisWrite for Packed<'_> {
    fn write_arg(&mut self, arg: &[u8]) {
        self.parts += 1;
        pack(self.to, arg);
    }

    fn writer_for_next_arg(&mut self) -> impl Write + '_ {
        Part { packed: self, written: Vec::new() }
    }
}

/// Collects a part whose length is not known.
struct Part<'a, 'b> {
    packed: &'a mut Packed<'b>,
    written: Vec<u8>,
}

impl Write for Part<'_, '_> {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        self.written.write(more)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Part<'_, '_> {
    fn drop(&mut self) {
        let written = std::mem::take(&mut self.written);
        self.packed.write_arg(&written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_a_command_is_sent_as() {
        for count in [0, 1, 7, 8, 98, 5000] {
            let (mut cmd, mut packed) = (redis::cmd("EVALSHA"), Vec::new());
            let mut first = Vec::new();
            pack(&mut first, b"EVALSHA");
            let mut call = Packed::new(&mut packed, &first, 1);
            for number in 0..count {
                cmd.arg(number);
                Arguments::arg(&mut call, number);
            }
            for length in [0, 1, 9, 10, 99, 100, 255, 256, 1000] {
                let text = &*"x".repeat(length);
                cmd.arg(text).arg(&[text, "b"]);
                Arguments::arg(&mut call, text).arg(&[text, "b"]);
            }
            write!(cmd.writer_for_next_arg(), "{count} of {count}").unwrap();
            write!(call.writer_for_next_arg(), "{count} of {count}").unwrap();
            call.end();
            let (expected, packed) = (cmd.get_packed_command(), packed);
            assert_eq!(String::from_utf8(packed), String::from_utf8(expected));
        }
    }
}
