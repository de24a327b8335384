//! Keeps processors awake while single round trips are timed.
//!
//! A task that sends one command and waits leaves its processor idle, and an idle processor goes to
//! sleep. Waking it can take longer than the rest of the round trip, above all on virtual machines,
//! and a contender that does needless work would look faster for keeping it awake.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Spins a thread of lowest priority on each processor until it is dropped. Only on Linux: elsewhere, only a whole process can
/// have the lowest priority.
#[derive(Default)]
pub(crate) struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Starts the threads, or none if the system refuses the priority.
    pub(crate) fn keep() -> Self {
        let mut awake = Self::default();
        #[cfg(target_os = "linux")]
        {
            use rustix::thread::{CpuSet, sched_getaffinity};
            let allowed = sched_getaffinity(None).unwrap_or_default();
            let processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
            awake.threads.extend(processors.map(|processor| {
                let over = Arc::clone(&awake.over);
                std::thread::spawn(move || spin(processor, &over))
            }));
        }
        awake
    }
}

#[cfg(target_os = "linux")]
fn spin(processor: usize, over: &AtomicBool) {
    /// The lowest priority: yields to every other thread.
    const IDLE_PRIORITY: i32 = 19;
    let mut only = rustix::thread::CpuSet::new();
    only.set(processor);
    // On Linux both apply to the calling thread.
    if rustix::thread::sched_setaffinity(None, &only).is_ok()
        && rustix::process::nice(IDLE_PRIORITY).is_ok()
    {
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
