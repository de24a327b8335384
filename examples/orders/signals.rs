//! The signals of the process: stop, and read the configuration again.

#[cfg(unix)]
mod system {
    use std::io;

    use lock_runtime::LockClient;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// Receives signals from the moment of its construction.
    pub(crate) struct Signals {
        interrupt: Signal,
        terminate: Signal,
        hang_up: Signal,
    }

    impl Signals {
        pub(crate) fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hang_up: signal(SignalKind::hangup())?,
            })
        }

        /// Returns at Ctrl-C, or at SIGTERM, which supervisors send. Until then each SIGHUP makes it read
        /// the configuration again.
        pub(crate) async fn asked_to_stop(mut self, client: LockClient) {
            loop {
                tokio::select! {
                    _ = self.interrupt.recv() => return,
                    _ = self.terminate.recv() => return,
                    _ = self.hang_up.recv() => crate::config::reload(&client),
                }
            }
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::io;

    use lock_runtime::LockClient;

    pub(crate) struct Signals;

    impl Signals {
        pub(crate) fn listen() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) async fn asked_to_stop(self, _: LockClient) {
            if let Err(error) = tokio::signal::ctrl_c().await {
                tracing::error!("cannot hear Ctrl-C: {error}");
                std::future::pending::<()>().await;
            }
        }
    }
}

pub(crate) use self::system::Signals;
