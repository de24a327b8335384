//! Switches one mutant on, and records which mutants a process reaches.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

static ACTIVE: LazyLock<u32> = LazyLock::new(|| {
    std::env::var("LOCK_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
});
static RECORD: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("LOCK_MUTANTS_REACHED").ok());
static REACHED: [AtomicBool; 1 << 15] = [const { AtomicBool::new(false) }; 1 << 15];
static SCRIPTS: Mutex<BTreeMap<String, Vec<u32>>> = Mutex::new(BTreeMap::new());

/// True if the mutant of that number is switched on.
pub fn is_on(number: u32) -> bool {
    if let Some(file) = &*RECORD {
        record(file, number);
    }
    *ACTIVE == number
}

fn record(file: &str, number: u32) {
    if REACHED.get(number as usize).is_some_and(|seen| !seen.swap(true, Ordering::Relaxed)) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        let _ = file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
    }
}

/// The text of a script, in which a mark `⟦number|mutant|original⟧` becomes one of the two.
pub fn in_script(mut source: String) -> String {
    let mut numbers = Vec::new();
    // A batch has the scripts of all kinds. Which of them run is known where their requests are written.
    let own = source.find("local keys_of, own_args_of").unwrap_or(0);
    // The last mark has no other inside.
    while let Some((before, mark)) = source.rsplit_once('⟦') {
        let (mark, after) = mark.split_once('⟧').unwrap_or((mark, ""));
        let mut parts = mark.splitn(3, '|');
        let number = parts.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let (mutant, original) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        if before.len() >= own {
            numbers.push(number);
        }
        source = [before, if *ACTIVE == number { mutant } else { original }, after].concat();
    }
    if RECORD.is_some() {
        let mut scripts = SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
        scripts.insert(source.clone(), numbers);
    }
    source
}

/// Records that a script runs.
pub fn runs(source: &str) {
    let Some(file) = &*RECORD else { return };
    let scripts = SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
    for number in scripts.get(source).into_iter().flatten() {
        record(file, *number);
    }
}
