//! A corpus as one text file: a line for each input, with escapes for what is no printable ASCII. `xtask` contains
//! this file too.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// Reads the inputs of a corpus; a file that does not exist has none.
///
/// # Errors
///
/// When it cannot be read, or a line has an escape that [`write()`] does not make.
pub fn read(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let wrong = |line: &str| io::Error::new(io::ErrorKind::InvalidData, format!("in {line:?}"));
    text.lines().map(|line| unescaped(line).ok_or_else(|| wrong(line))).collect()
}

/// Writes inputs as a corpus, the short ones first.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(path: &Path, inputs: BTreeSet<Vec<u8>>) -> io::Result<()> {
    let mut inputs: Vec<_> = inputs.into_iter().collect();
    inputs.sort_by_key(Vec::len);
    let lines: String = inputs.iter().map(|input| format!("{}\n", input.escape_ascii())).collect();
    fs::write(path, lines)
}

fn unescaped(line: &str) -> Option<Vec<u8>> {
    let mut input = Vec::with_capacity(line.len());
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            input.push(byte);
            continue;
        }
        input.push(match bytes.next()? {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'x' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(16 * digit()? + digit()?).ok()?
            }
            quoted @ (b'\\' | b'\'' | b'"') => quoted,
            _ => return None,
        });
    }
    Some(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(unescaped(&all.escape_ascii().to_string()), Some(all));
        assert_eq!(unescaped(""), Some(Vec::new()));
        for broken in ["\\", "\\x", "\\x1", "\\q"] {
            assert_eq!(unescaped(broken), None, "{broken}");
        }
    }
}
