//! What servers say about themselves and each other.

use lock_runtime::fuzz;

use crate::input::{parts, spoken, text};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// Every slot exists, and every node has a host.
pub fn slots_reply(input: &[u8]) {
    let vocabulary: &[&[u8]] = &[
        b"*1\r\n",
        b"*2\r\n",
        b"*3\r\n",
        b":0\r\n",
        b":16383\r\n",
        b":16384\r\n",
        b":65536\r\n",
        b":-1\r\n",
        b"$1\r\na\r\n",
        b"$0\r\n\r\n",
        b"$1\r\n?\r\n",
        b"$-1\r\n",
        b"+b\r\n",
        b":7000\r\n",
        b"*3\r\n:0\r\n:100\r\n*2\r\n$1\r\na\r\n:7000\r\n",
        b"$1\r\n\xff\r\n",
    ];
    let Some(slots) = fuzz::slots(&spoken(input, vocabulary)) else { return };
    for slots in slots {
        assert!(slots.first < SLOTS && slots.last < SLOTS, "{slots:?}");
        assert!(!matches!(slots.node.0.as_str(), "" | "?"), "{slots:?}");
    }
}

/// A redirection keeps host and port apart, and never leads nowhere.
pub fn redirection(input: &[u8]) {
    let text = text(input, &[":", "::1", ":7000", "?", "[::1]", ":65536", ":+1", "ü"]);
    let Some((host, port)) = fuzz::redirection(&text) else { return };
    assert!(!matches!(host.as_str(), "" | "?"), "{text:?}");
    let (named, number) = text.rsplit_once(':').expect("an address has a colon");
    assert_eq!(number.parse(), Ok(port), "{text:?}");
    assert!(host == named || host == "asked", "{text:?}");
}

/// A master is the one that the sentinel's address names, whatever the sentinel says of its state; only the word
/// `master` is a role of one.
pub fn sentinel_reply(input: &[u8]) {
    let vocabulary: &[&[u8]] = &[
        b"*2\r\n$1\r\nh\r\n$4\r\n6379\r\n",
        b"*2\r\n",
        b"*4\r\n",
        b"$1\r\nh\r\n",
        b"$4\r\n6379\r\n",
        b"$5\r\n65536\r\n",
        b"$12\r\nconfig-epoch\r\n",
        b"$1\r\n7\r\n",
        b"$23\r\ndown-after-milliseconds\r\n",
        b"$20\r\n18446744073709551615\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"$6\r\nmaster\r\n",
        b"$5\r\nslave\r\n",
        b"$2\r\n-1\r\n",
        b"\xff",
    ];
    let [address, state] = parts(input);
    let (address, state) = (spoken(address, vocabulary), spoken(state, vocabulary));
    let has = |bytes: &[u8], part: &str| {
        part.is_empty() || bytes.windows(part.len()).any(|found| found == part.as_bytes())
    };
    let named = fuzz::master(&address, &state).flatten();
    if let Some(master) = &named {
        // As text: the client library writes other values, such as floats, in a form of its own.
        let is_text = !address.contains(&b',') && !address.contains(&b'(');
        assert!(!is_text || has(&address, &master.at.0), "{master:?}");
        assert!(!is_text || has(&address, &master.at.1.to_string()), "{master:?}");
        let elsewhere = fuzz::master(&address, b"$-1\r\n").flatten().expect("the same address");
        assert_eq!(elsewhere.at, master.at, "the state moves the master");
        assert!(master.epoch == 0 || has(&state, &master.epoch.to_string()), "{master:?}");
    }
    if fuzz::is_master(&address) == Some(true) {
        assert!(has(&address, "master"));
    }
}

/// A value is one line of the text, behind the name of its field.
pub fn info_text(input: &[u8]) {
    const FIELD: &str = "uptime_in_seconds";
    let text = text(input, &[FIELD, ":", "\r\n", "\n", "\r", "75", "# Server", "ü", " "]);
    if let Some(value) = fuzz::info(&text, FIELD) {
        assert!(!value.contains('\n'), "{value:?}");
        let is_there = |line: &str| line.starts_with(&format!("{FIELD}:")) && line.contains(&value);
        assert!(text.split('\n').any(is_there), "{value:?}");
    }
}
