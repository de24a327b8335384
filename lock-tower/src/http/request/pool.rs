//! [`ReadAheadPool`]: the bytes that the waiting requests of a layer may keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes the requests of a layer keep together.
const POOL: usize = 16 * 1024 * 1024;

/// The bytes that the requests of a layer may still keep.
#[derive(Debug)]
pub(crate) struct ReadAheadPool(AtomicUsize);

impl ReadAheadPool {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(POOL)))
    }

    /// Returns a share of that many bytes; `None` if the pool has fewer.
    pub(crate) fn share(self: &Arc<Self>, bytes: usize) -> Option<PoolShare> {
        let bytes = bytes.min(POOL);
        let take = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(PoolShare { pool: Arc::clone(self), bytes, unused: bytes })
    }
}

/// A request's share of the pool.
#[derive(Debug)]
pub(crate) struct PoolShare {
    pool: Arc<ReadAheadPool>,
    bytes: usize,
    /// How many of the bytes are not used yet.
    unused: usize,
}

impl PoolShare {
    /// Uses bytes of the share. If they are more than it has, takes the others out of the pool, as far as it has some.
    pub(crate) fn use_up(&mut self, bytes: usize) {
        let over = bytes.saturating_sub(self.unused);
        self.unused = self.unused.saturating_sub(bytes);
        if over > 0 {
            let take = |left: usize| Some(left.saturating_sub(over));
            let left = self.pool.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            self.bytes += left.map_or(0, |left| left.min(over));
        }
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.unused == 0
    }

    /// Gives back the bytes that are not used.
    pub(crate) fn give_back_rest(&mut self) {
        self.pool.0.fetch_add(self.unused, Ordering::Relaxed);
        self.bytes -= self.unused;
        self.unused = 0;
    }

    /// Gives back all bytes.
    pub(crate) fn give_back(&mut self) {
        self.pool.0.fetch_add(self.bytes, Ordering::Relaxed);
        (self.bytes, self.unused) = (0, 0);
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        self.give_back();
    }
}
