#![allow(unused)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "from", keys = ["to"])]
async fn both() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from"], key("to"))]
async fn turned_round() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = ["from:{from}", "to:{to}"])]
async fn list_in_key(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = "from:{from}")]
async fn text_in_keys(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = [])]
async fn empty(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys("from:{from}", "to:{to}"))]
async fn called(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from:{from}", "from:{from}"])]
async fn twice(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from:{from}", 7])]
async fn number(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from:{from}", ["to:{to}"]])]
async fn nested(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

// Each key of a list is checked like a single one, and all that is wrong is said.
#[distributed_lock(keys = ["from:{frm}", "to:{to", key("via:{}"), "{to:?}"])]
async fn templates(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["from:{from}", key(to, 1), 5, "from:{from}"])]
async fn forms(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
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
