//! Keeps processors awake while single round trips are timed.
//!
//! A task that sends one command and waits leaves its processor idle, and an idle processor goes to
//! sleep. Waking it can take longer than the rest of the round trip, above all on virtual machines,
//! and a contender that does needless work would look faster for keeping it awake.

#[cfg(target_os = "linux")]
pub(crate) use self::linux::Awake;
#[cfg(not(target_os = "linux"))]
pub(crate) use self::other::Awake;

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::JoinHandle;

    use rustix::process::nice;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// The lowest priority: yields to every other thread.
    const IDLE_PRIORITY: i32 = 19;

    /// Spins a thread of lowest priority on each processor until it is dropped.
    pub(crate) struct Awake {
        over: Arc<AtomicBool>,
        threads: Vec<JoinHandle<()>>,
    }

    impl Awake {
        /// Starts the threads, or none if the system refuses the priority.
        pub(crate) fn keep() -> Self {
            let over = Arc::<AtomicBool>::default();
            let allowed = sched_getaffinity(None).unwrap_or_default();
            let processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
            let spin = |processor| {
                let over = Arc::clone(&over);
                std::thread::spawn(move || spin(processor, &over))
            };
            let threads = processors.map(spin).collect();
            Self { over, threads }
        }
    }

    fn spin(processor: usize, over: &AtomicBool) {
        let mut only = CpuSet::new();
        only.set(processor);
        // On Linux both apply to the calling thread.
        if sched_setaffinity(None, &only).is_err() || nice(IDLE_PRIORITY).is_err() {
            return;
        }
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
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
}

#[cfg(not(target_os = "linux"))]
mod other {
    /// Does nothing: elsewhere, only a whole process can have the lowest priority.
    pub(crate) struct Awake;

    impl Awake {
        /// Does nothing.
        pub(crate) fn keep() -> Self {
            Self
        }
    }
}
