//! What the system tells a process, changed: small libraries in C that the process loads before all others.
//!
//! Each is compiled with `cc` when a test asks for it: they replace functions of the C library, and unsafe code is forbidden in the
//! workspace. Linux only: another system does not know `LD_PRELOAD`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use tempfile::TempDir;

/// A host that only processes with a [`Host`] know.
pub const HOST: &str = "redis.test";

/// What the library of a [`WallClock`] and that of a [`Host`] read.
const VALUE: &str = "value";

/// Shifts the time of day of processes, or has it run fast. Clocks that only count time stay as they are.
#[derive(Debug)]
pub struct WallClock(Library);

impl WallClock {
    /// One that is right at first.
    ///
    /// Panics when there is no C compiler.
    pub fn new() -> Self {
        let clock = Self(Library::build(include_str!("wall_clock.c")));
        clock.shift(0);
        clock.run_fast(0);
        clock
    }

    /// The environment of a process that is to have it.
    pub fn envs(&self) -> Vec<(String, String)> {
        self.0.envs("LOCK_TESTS_WALL_CLOCK")
    }

    /// From now on it is so many seconds ahead of the real time, or behind it.
    pub fn shift(&self, seconds: i64) {
        self.write(0, seconds);
    }

    /// From now on it is ahead of the real time by so many milliseconds for each second since the start of the process.
    pub fn run_fast(&self, permille: i64) {
        self.write(8, permille);
    }

    fn write(&self, at: u64, value: i64) {
        // Not truncated in between, because processes have mapped it.
        let file = File::options().create(true).truncate(false).write(true).open(self.0.value());
        let written = file.and_then(|file| file.write_all_at(&value.to_ne_bytes(), at));
        written.expect("the library's own directory is writable");
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The address of [`HOST`].
#[derive(Debug)]
pub struct Host(Library);

impl Host {
    /// At this address.
    ///
    /// Panics when there is no C compiler.
    pub fn at(address: &str) -> Self {
        let host = Self(Library::build(include_str!("host.c")));
        host.moves_to(address);
        host
    }

    /// The environment of a process that is to know it.
    pub fn envs(&self) -> Vec<(String, String)> {
        self.0.envs("LOCK_TESTS_HOST")
    }

    /// From now on it is at this address.
    pub fn moves_to(&self, address: &str) {
        // At once: a process must not read half of it.
        let new = self.0.dir.path().join("new");
        let moved = fs::write(&new, address).and_then(|()| fs::rename(&new, self.0.value()));
        moved.expect("the library's own directory is writable");
    }
}

/// Has a process fork when it asks for its parent's id, which safe code can do.
#[derive(Debug)]
pub struct Fork(Library);

impl Fork {
    /// Panics when there is no C compiler.
    pub fn new() -> Self {
        Self(Library::build(include_str!("fork.c")))
    }

    /// The environment of a process that is to fork.
    pub fn envs(&self) -> Vec<(String, String)> {
        vec![self.0.preload()]
    }
}

impl Default for Fork {
    fn default() -> Self {
        Self::new()
    }
}

/// A library in a directory of its own.
#[derive(Debug)]
struct Library {
    dir: TempDir,
}

impl Library {
    fn build(source: &str) -> Self {
        let dir = tempfile::tempdir().expect("the directory for temporary files is writable");
        let [code, library] = ["source.c", "library.so"].map(|name| dir.path().join(name));
        fs::write(&code, source).expect("a directory of one's own is writable");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &code]).arg("-ldl");
        match cc.output() {
            Ok(output) if output.status.success() => Self { dir },
            Ok(output) => panic!("cc refuses: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                panic!("this test needs the C compiler `cc`, which cannot be run: {error}")
            }
        }
    }

    fn value(&self) -> std::path::PathBuf {
        self.dir.path().join(VALUE)
    }

    fn preload(&self) -> (String, String) {
        let library = self.dir.path().join("library.so").display().to_string();
        ("LD_PRELOAD".to_owned(), library)
    }

    fn envs(&self, variable: &str) -> Vec<(String, String)> {
        vec![self.preload(), (variable.to_owned(), self.value().display().to_string())]
    }
}
