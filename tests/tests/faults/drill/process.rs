//! The process of a drill.

use std::path::Path;

use lock_tests::crew::Habits;

use crate::prelude::*;

/// What the choices of the process's tasks follow from; in the history it has its own number.
const SEED: u64 = 4;

/// What a process of a drill is started with.
pub(crate) struct ProcessStart {
    args: [String; 5],
    envs: Vec<(String, String)>,
}

impl ProcessStart {
    /// With this configuration of its client, and these variables in its environment.
    pub(super) fn new(
        config: String,
        values: &str,
        history: &Path,
        habits: Habits,
        envs: Vec<(String, String)>,
    ) -> Self {
        let history = history.to_str().unwrap().to_owned();
        let answer = ANSWER.as_millis().to_string();
        let habits = serde_json::to_string(&Habits { seed: SEED, ..habits }).unwrap();
        Self { args: [config, values.to_owned(), history, answer, habits], envs }
    }

    pub(super) async fn start(&self) -> Worker {
        let mut process = self.spawn("crew", &self.envs);
        assert_eq!(process.next_line(SOON).await, "ready");
        process
    }

    /// A process of that role, with the same arguments.
    pub(crate) fn spawn(&self, role: &str, envs: &[(String, String)]) -> Worker {
        let args: Vec<_> = [role].into_iter().chain(self.args.iter().map(String::as_str)).collect();
        let envs: Vec<_> = envs.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        Worker::spawn(env!("CARGO_BIN_EXE_worker"), &args, &envs)
    }
}
