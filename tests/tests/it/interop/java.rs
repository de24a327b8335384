//! A Java process with a Redisson client, told what to do line by line.

use std::collections::HashMap;
use std::env;

use crate::interop::world::*;

/// How long a JVM may take to start and connect on a busy machine.
const START: Duration = secs(60);

/// How its Redisson client is configured.
pub(crate) struct Redisson {
    /// Lease of what is locked without one; renewed at a third of it.
    pub(crate) watchdog: Duration,
    /// For how long a place in a fair lock's line is kept, beside what those ahead may take.
    pub(crate) fair_wait: Duration,
    /// What its `NameMapper` puts in front of each name, with a colon.
    pub(crate) namespace: Option<&'static str>,
}

impl Default for Redisson {
    /// Redisson's own defaults.
    fn default() -> Self {
        let (watchdog, fair_wait) = (secs(30), secs(300));
        Self { watchdog, fair_wait, namespace: None }
    }
}

/// The process. Killed when dropped.
pub(crate) struct Java {
    worker: Worker,
    asked: u64,
    /// Those that no task has looked at yet, by number.
    answers: HashMap<u64, String>,
}

/// What `cargo xtask interop` has compiled, and the libraries that it has written down beside it.
fn class_path() -> String {
    let build = env::var("INTEROP_BUILD")
        .expect("these tests need their Java side: run them by `cargo xtask interop`");
    let libraries = fs::read_to_string(format!("{build}/dependencies")).unwrap();
    format!("{build}/classes:{}", libraries.trim())
}

/// A command whose answer is to come.
#[must_use]
pub(crate) struct Asked {
    number: u64,
    words: String,
}

impl Java {
    pub(crate) async fn start(server: &RedisServer, redisson: &Redisson) -> Self {
        let classes = class_path();
        let java = env::var_os("INTEROP_JAVA").unwrap_or_else(|| "java".into());
        let url = server.url();
        let [watchdog, fair_wait] =
            [redisson.watchdog, redisson.fair_wait].map(|time| time.as_millis().to_string());
        // It starts in half the time without the second compiler.
        let mut args = vec!["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"];
        args.extend(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", &classes]);
        args.extend(["locks.Peer", &url, &watchdog, &fair_wait]);
        args.extend(redisson.namespace);
        let mut worker = Worker::spawn(java, &args, &[]);
        assert_eq!(worker.next_line(START).await, "ready");
        Self { worker, asked: 0, answers: HashMap::new() }
    }

    /// Has the thread obey, after what it was told before. The commands are those of `Commands.java`.
    pub(crate) fn begin(&mut self, thread: &str, words: &str) -> Asked {
        self.asked += 1;
        self.worker.send(&format!("{} {thread} {words}", self.asked));
        Asked { number: self.asked, words: words.to_owned() }
    }

    /// What the command answered, or the exception that it threw.
    pub(crate) async fn outcome(
        &mut self,
        asked: Asked,
        bound: Duration,
    ) -> Result<String, String> {
        loop {
            if let Some(answer) = self.answers.remove(&asked.number) {
                return match answer.split_once(' ') {
                    Some(("ok", value)) => Ok(value.to_owned()),
                    Some(("error", error)) => Err(error.to_owned()),
                    _ => panic!("`{}` was answered by `{answer}`", asked.words),
                };
            }
            let line = self.worker.next_line(bound).await;
            self.sort_in(&line);
        }
    }

    /// What the command answered.
    pub(crate) async fn end(&mut self, asked: Asked, bound: Duration) -> String {
        let words = asked.words.clone();
        let outcome = self.outcome(asked, bound).await;
        outcome.unwrap_or_else(|error| panic!("`{words}` threw {error}"))
    }

    /// Has the thread obey, and waits for the answer.
    pub(crate) async fn ask(&mut self, thread: &str, words: &str) -> String {
        let asked = self.begin(thread, words);
        self.end(asked, SOON).await
    }

    /// Has the thread obey, and waits for what it throws.
    pub(crate) async fn throws(&mut self, thread: &str, words: &str) -> String {
        let asked = self.begin(thread, words);
        self.outcome(asked, SOON).await.expect_err(words)
    }

    /// Whether the answer is still to come.
    pub(crate) async fn is_busy(&mut self, asked: &Asked) -> bool {
        while let Some(line) = self.worker.try_next_line(Duration::ZERO).await {
            self.sort_in(&line);
        }
        !self.answers.contains_key(&asked.number)
    }

    /// Waits until the thread waits for a message. Listening is not enough: on the message of a writer
    /// that has gone, Redisson wakes those who have gone to sleep. Whoever is about to misses it, and
    /// sleeps for as long as the lease was.
    pub(crate) async fn is_parked(&mut self, thread: &str) {
        soon!("the thread is parked", self.ask(thread, "parked").await == "true");
    }

    /// Ends the process as a crash does.
    pub(crate) fn kill(&mut self) {
        self.worker.sigkill();
    }

    fn sort_in(&mut self, line: &str) {
        let numbered = line.split_once(' ').and_then(|(n, rest)| Some((n.parse().ok()?, rest)));
        let (number, answer) = numbered.unwrap_or_else(|| panic!("Java wrote `{line}`"));
        self.answers.insert(number, answer.to_owned());
    }
}
