//! What a test's program logs, as text.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Level, Subscriber};
use tracing_subscriber::fmt::format::FmtSpan;

/// All that this thread logs from now on, so all of a runtime of one thread.
#[must_use = "nothing is kept once it is dropped"]
#[derive(Debug)]
pub struct Log {
    lines: Lines,
    _here: DefaultGuard,
}

#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps events of every level, and when spans begin and end.
    pub fn start() -> Self {
        Self::with(Level::TRACE, FmtSpan::FULL)
    }

    /// Keeps events of this level and above.
    pub fn start_at(level: Level) -> Self {
        Self::with(level, FmtSpan::NONE)
    }

    fn with(level: Level, spans: FmtSpan) -> Self {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        let here = here(log.with_max_level(level).with_span_events(spans).finish());
        Self { lines, _here: here }
    }

    /// All lines.
    ///
    /// Panics when they are no text.
    pub fn text(&self) -> String {
        let lines = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(lines.clone()).expect("text")
    }

    /// The lines that contain this text.
    pub fn lines_with(&self, text: &str) -> Vec<String> {
        self.text().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Installs a subscriber for this thread.
#[must_use = "it is asked no more once this is dropped"]
pub fn here(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    // While there is one dispatcher only, `tracing` asks that of the thread which meets an event first; if
    // this thread has none, the event is taken for unwanted everywhere.
    static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&ANOTHER);
    tracing::dispatcher::set_default(&Dispatch::new(subscriber))
}
