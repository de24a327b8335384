//! What the outside asks of the process: to stop, and to read its configuration again.

#[cfg(unix)]
mod system {
    use std::io;

    use lock_runtime::LockClient;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// Signals are heard from the moment in which this is made.
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

        /// Returns at Ctrl-C, or at SIGTERM, which is what supervisors send. Until then it has the
        /// configuration read again at each SIGHUP.
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
