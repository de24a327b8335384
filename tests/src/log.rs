//! What a test's program logs.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing::subscriber::{DefaultGuard, set_default};

/// Lines of the log, from debug on.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// For what this thread does until the guard is dropped, so for all of a runtime of one thread.
    #[must_use = "nothing is logged any more once it is dropped"]
    pub fn start(&self) -> DefaultGuard {
        let writer = self.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        set_default(log.with_max_level(Level::DEBUG).finish())
    }

    /// The lines that have this text in them.
    pub fn lines(&self, with: &str) -> Vec<String> {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&log);
        text.lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
