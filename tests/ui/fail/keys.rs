#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

include!("../annotated.rs");

annotated! {
    both() [key = "from", keys = ["to"]]
    turned_round() [keys = ["from"], key("to")]
    list_in_key(from: u64, to: u64) [key = ["from:{from}", "to:{to}"]]
    text_in_keys(from: u64, to: u64) [keys = "from:{from}"]
    empty(from: u64, to: u64) [keys = []]
    called(from: u64, to: u64) [keys("from:{from}", "to:{to}")]
    twice(from: u64, to: u64) [keys = ["from:{from}", "from:{from}"]]
    number(from: u64, to: u64) [keys = ["from:{from}", 7]]
    nested(from: u64, to: u64) [keys = ["from:{from}", ["to:{to}"]]]
}

// Each key of a list is checked like a single one, and all that is wrong is said.
annotated! {
    templates(from: u64, to: u64) [keys = ["from:{frm}", "to:{to", key("via:{}"), "{to:?}"]]
    forms(from: u64, to: u64) [keys = ["from:{from}", key(to, 1), 5, "from:{from}"]]
}

#[distributed_lock(keys = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9",
    "10", "11", "12", "13", "14", "15", "16", "17", "18", "19",
    "20", "21", "22", "23", "24", "25", "26", "27", "28", "29",
    "30", "31", "32", "33", "34", "35", "36", "37", "38", "39",
    "40", "41", "42", "43", "44", "45", "46", "47", "48", "49",
    "50", "51", "52", "53", "54", "55", "56", "57", "58", "59",
    "60", "61", "62", "63", "64", "65", "66", "67", "68", "69",
    "70", "71", "72", "73", "74", "75", "76", "77", "78", "79",
    "80", "81", "82", "83", "84", "85", "86", "87", "88", "89",
    "90", "91", "92", "93", "94", "95", "96", "97", "98", "99",
    "100", "101", "102", "103", "104", "105", "106", "107", "108", "109",
    "110", "111", "112", "113", "114", "115", "116", "117", "118", "119",
    "120", "121", "122", "123", "124", "125", "126", "127", "128",
])]
async fn keys_too_many() -> Result<(), lock_runtime::LockError> {
    Ok(())
}

fn main() {}
