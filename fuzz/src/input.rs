//! From bytes to input that is worth parsing.

/// Puts fragments in place of the bytes above 127; the others stand for themselves.
///
/// Random bytes thus become input of the right vocabulary, and a corpus in ASCII stays readable.
pub(crate) fn spoken(input: &[u8], vocabulary: &[&[u8]]) -> Vec<u8> {
    let mut text = Vec::with_capacity(2 * input.len());
    for byte in input {
        match byte.checked_sub(128) {
            None => text.push(*byte),
            Some(number) => text.extend(vocabulary[usize::from(number) % vocabulary.len()]),
        }
    }
    text
}

/// As [`spoken`], as text.
pub(crate) fn text(input: &[u8], vocabulary: &[&str]) -> String {
    let vocabulary: Vec<_> = vocabulary.iter().map(|fragment| fragment.as_bytes()).collect();
    String::from_utf8_lossy(&spoken(input, &vocabulary)).into_owned()
}

/// The parts of an input between the bytes `|`: `N` of them, of which the last may contain more, and the missing
/// ones are empty.
pub(crate) fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut parts = input.splitn(N, |byte| *byte == b'|');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
