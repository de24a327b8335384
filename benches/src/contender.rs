//! The contenders in Rust: each acquires and releases a lock in its own way.

use std::time::Duration;

use lock_runtime::{FairMutex, LockGuard, Mutex, RwLock};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, ProtocolVersion, Value};
use rslock::LockManager;
use tokio::time::sleep;

use crate::Result;

/// One task's handle on one lock. All clones are handles on the same lock.
pub(crate) trait Contender: Clone + Send + 'static {
    /// The guard.
    type Hold: Send;

    /// Acquires the lock, and waits if it is busy.
    fn take(&mut self) -> impl Future<Output = Result<Self::Hold>> + Send;

    /// Releases the lock and waits for the confirmation.
    fn give(&mut self, hold: Self::Hold) -> impl Future<Output = Result<()>> + Send;
}

const ACQUIRE: &str = concat!(
    "local call = redis.call\n",
    include_str!("../../lock-runtime/src/store/redis/scripts/time.lua"),
    include_str!("../../lock-runtime/src/store/redis/scripts/mint.lua"),
    include_str!("../../lock-runtime/src/store/redis/scripts/set_end.lua"),
    include_str!("../../lock-runtime/src/store/redis/scripts/mutex_acquire.lua")
);
const RELEASE: &str = concat!(
    "local call = redis.call\n",
    include_str!("../../lock-runtime/src/store/redis/scripts/mutex_release.lua")
);

/// As long as an owner id of `lock-runtime`.
const OWNER: &str = "6f9d1c52-3c0e-4f6a-9d0b-2f6f1f0c7a11:1234567";

const LEASE_MS: u64 = 30_000;
const COUNTER_EXPIRY_MS: u64 = 24 * 60 * 60 * 1000;

/// The floor: only the scripts that acquire and release a mutex, as two commands for one key, on the connection that all of them
/// share. No lock with two requests can be faster: there is no gate, no lease, no timeout and no owner id for each hold, and
/// the commands are built once, before the measurement.
#[derive(Clone)]
pub(crate) struct Bare {
    connection: MultiplexedConnection,
    acquire_sha: String,
    release_sha: String,
    acquire: Cmd,
    release: Cmd,
}

impl Bare {
    /// Connects with the settings of `lock-runtime`, and loads the scripts.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let info = url.into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let client = Client::open(info.set_redis_settings(settings).set_tcp_settings(tcp))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(2)))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(1024)
            .set_push_sender(|_| Ok::<_, redis::aio::SendError>(()));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut load = async |source: &str| -> Result<String> {
            Ok(redis::cmd("SCRIPT").arg("LOAD").arg(source).query_async(&mut connection).await?)
        };
        let (acquire_sha, release_sha) = (load(ACQUIRE).await?, load(RELEASE).await?);
        let (acquire, release) = (redis::cmd("PING"), redis::cmd("PING"));
        Ok(Self { connection, acquire_sha, release_sha, acquire, release })
    }

    /// The commands for this key.
    pub(crate) fn on(&self, key: &str) -> Self {
        let mut acquire = redis::cmd("EVALSHA");
        acquire.arg(&self.acquire_sha).arg(2);
        acquire.arg(key).arg(format!("redisson_lock_token:{{{key}}}"));
        acquire.arg(OWNER).arg(LEASE_MS).arg(1).arg(COUNTER_EXPIRY_MS);
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release_sha).arg(1).arg(key);
        release.arg(OWNER).arg(format!("redisson_lock__channel:{{{key}}}"));
        Self { acquire, release, ..self.clone() }
    }
}

impl Contender for Bare {
    type Hold = ();

    async fn take(&mut self) -> Result<()> {
        match self.connection.send_packed_command(&self.acquire).await?.extract_error()? {
            Value::BulkString(_) => Ok(()),
            other => Err(format!("the bare acquire script answered {other:?}").into()),
        }
    }

    async fn give(&mut self, (): ()) -> Result<()> {
        match self.connection.send_packed_command(&self.release).await?.extract_error()? {
            Value::Int(0..) => Ok(()),
            other => Err(format!("the bare release script answered {other:?}").into()),
        }
    }
}

/// A single `PING` on the same connection: the bare round trip.
#[derive(Clone)]
pub(crate) struct Ping(pub(crate) Bare);

impl Contender for Ping {
    type Hold = ();

    async fn take(&mut self) -> Result<()> {
        self.0.connection.send_packed_command(&redis::cmd("PING")).await?.extract_error()?;
        Ok(())
    }

    async fn give(&mut self, (): ()) -> Result<()> {
        Ok(())
    }
}

/// The pause of a probe after its two round trips: it is to load the machine with next to nothing.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// Now and then the two bare scripts of a mutex on a lock of its own, to time round trips while others work. A hand-over
/// is made of these scripts, and a server needs longer for one than for a `PING`.
#[derive(Clone)]
pub(crate) struct Probe(pub(crate) Bare);

impl Contender for Probe {
    type Hold = ();

    async fn take(&mut self) -> Result<()> {
        self.0.take().await?;
        self.0.give(()).await
    }

    async fn give(&mut self, (): ()) -> Result<()> {
        sleep(PROBE_PAUSE).await;
        Ok(())
    }
}

/// One of so many acquires of a read/write lock is a write.
const WRITE_EVERY: usize = 10;

/// Whether a task's acquire of a read/write lock is a write; both are counted from zero.
pub(crate) fn is_write(task: usize, acquire: usize) -> bool {
    (task + acquire).is_multiple_of(WRITE_EVERY)
}

/// A lock of this library, with default options: a 30 s watchdog lease, no limit to the wait.
#[derive(Clone)]
pub(crate) enum Ours {
    Mutex(Mutex),
    Fair(FairMutex),
    /// With the task's number, and that of its next acquire.
    ReadWrite(RwLock, usize, usize),
}

impl Contender for Ours {
    type Hold = LockGuard;

    async fn take(&mut self) -> Result<LockGuard> {
        Ok(match self {
            Self::Mutex(lock) => lock.lock().await?,
            Self::Fair(lock) => lock.lock().await?,
            Self::ReadWrite(lock, task, acquire) => {
                *acquire += 1;
                match is_write(*task, *acquire - 1) {
                    true => lock.write().await?,
                    false => lock.read().await?,
                }
            }
        })
    }

    async fn give(&mut self, guard: LockGuard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// The lease of this library's default options.
const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// A lock of rslock on one server, with its default settings.
#[derive(Clone)]
pub(crate) struct Peer {
    manager: LockManager,
    key: String,
}

impl Peer {
    pub(crate) fn new(manager: LockManager, key: String) -> Self {
        Self { manager, key }
    }
}

impl Contender for Peer {
    type Hold = rslock::LockGuard;

    async fn take(&mut self) -> Result<Self::Hold> {
        Ok(self.manager.acquire(self.key.as_str(), LEASE).await?)
    }

    async fn give(&mut self, guard: Self::Hold) -> Result<()> {
        guard.release().await;
        Ok(())
    }
}
