//! The slot of a name in a cluster.

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key or channel.
pub(crate) fn slot_of(name: &str) -> u16 {
    tag_of(name).bytes().fold(0, crc16) % SLOTS
}

/// What decides the slot of a name: the text between its first `{` and the next `}` if that is not empty, else the whole.
pub(crate) fn tag_of(name: &str) -> &str {
    let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(name)
}

/// CRC-16/XMODEM; so little code needs no dependency.
fn crc16(crc: u16, byte: u8) -> u16 {
    (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
        let shifted = crc << 1;
        if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x1021 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the server's own CLUSTER KEYSLOT.
    #[test]
    fn slots_are_those_of_the_server() {
        for (name, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}", 12_182),
            ("redisson_lock_token:{foo}", 12_182),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("{bar", 4_015),
            ("", 0),
        ] {
            assert_eq!(slot_of(name), slot, "{name}");
        }
    }
}
