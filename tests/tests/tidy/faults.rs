//! `docs/faults.md` is made of the heads of `tests/tests/faults/fNN_*.rs`.

use std::fmt::Write as _;
use std::fs;

use super::{files, root};

/// What the page says before its table.
const PREFACE: &str = "\
# What goes wrong, and what then happens

Each row is a fault that a test injects for real, in every run of the tests. In most of them, tasks of three parties (a client
beside the server, a client behind a proxy, another process) use a mutex, a fair mutex, a read/write lock, a semaphore and a
lock of two names all the while. They record what they do, and the history is checked by the rules in
[its checker](../tests/src/history/mod.rs): no two holders, no effect outside a hold, tokens in order, permits within
their limit, no task waits for a free lock, nothing is left on the server.

*Promised* is what the test asks for: where it ends with a time, each party must have every lock again within that time after
the fault. *Seen* is what it measured on a machine with 2 cores that runs ten tests at once. Leases are 1 s unless a row says
otherwise. This page is made from the heads of the tests, by `cargo xtask faults`.
";

/// How many faults the list has.
pub(crate) const FAULTS: usize = 75;

/// The head of a test: what its documentation says.
#[derive(Debug)]
struct Row {
    number: usize,
    file: String,
    fault: String,
    promised: String,
    seen: String,
}

impl Row {
    /// The row of the file with that name and text.
    fn of(file: &str, text: &str) -> Result<Self, String> {
        let number = file.get(1..3).and_then(|number| number.parse().ok());
        let number: usize = number.ok_or("its name does not begin with `fNN_`")?;
        let head = text.lines().map_while(|line| line.strip_prefix("//!"));
        let head = head.map(str::trim).collect::<Vec<_>>().join(" ");
        let (fault, rest) = head.split_once(" - Promised: ").ok_or("`- Promised: ` is missing")?;
        let (promised, seen) = rest.split_once(" - Seen: ").ok_or("`- Seen: ` is missing")?;
        let start = format!("Fault {number}: ");
        let fault = fault.strip_prefix(&start).ok_or(format!("does not begin with `{start}`"))?;
        let [fault, promised, seen] = [fault, promised, seen].map(|text| text.trim().to_owned());
        if [&fault, &promised, &seen].iter().any(|text| text.len() < 10) {
            return Err("says too little".to_owned());
        }
        Ok(Self { number, file: file.to_owned(), fault, promised, seen })
    }
}

/// All rows, by their numbers.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for path in files(&root().join("tests/tests/faults"), "rs") {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with('f') {
            let row = Row::of(name, &fs::read_to_string(&path).unwrap());
            rows.push(row.unwrap_or_else(|why| panic!("the head of {name}: {why}")));
        }
    }
    rows.sort_by_key(|row| row.number);
    rows
}

fn page(rows: &[Row]) -> String {
    let mut page = format!("{PREFACE}\n| # | fault | promised | seen |\n|---|---|---|---|\n");
    for Row { number, file, fault, promised, seen } in rows {
        let link = format!("../tests/tests/faults/{file}");
        writeln!(page, "| [{number}]({link}) | {fault} | {promised} | {seen} |").unwrap();
    }
    page
}

#[test]
fn every_fault_has_a_test_that_says_what_it_is() {
    let numbers: Vec<_> = rows().iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=FAULTS).collect::<Vec<_>>());
}

#[test]
fn the_page_of_faults_is_current() {
    let (file, page) = (root().join("docs/faults.md"), page(&rows()));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), page, "`cargo xtask faults` writes it");
}

#[test]
fn a_head_is_read_and_a_bad_one_refused() {
    let head = "//! Fault 7: the holder\n//! vanishes.\n//!\n//! - Promised: it comes\n//!   back.\n\
                //! - Seen: it did, each time.\n\nuse x;\n";
    let row = Row::of("f07_gone.rs", head).unwrap();
    assert_eq!(row.fault, "the holder vanishes.");
    assert_eq!((&*row.promised, &*row.seen), ("it comes back.", "it did, each time."));
    for bad in ["", "//! Fault 8: the holder vanishes.", "//! Fault 7: x - Promised: y - Seen: z"] {
        assert!(Row::of("f07_gone.rs", bad).is_err(), "{bad}");
    }
    assert!(Row::of("gone.rs", head).is_err());
}
