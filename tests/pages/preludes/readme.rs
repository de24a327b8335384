// Statements have: client: LockClient, pool: sqlx::SqlitePool, hold: lock_runtime::LockGuard
use lock_runtime::{FencingToken, LockClient, LockError, distributed_lock};

type AccountId = u64;
type Uuid = u64;
type BankError = LockError;
type ShopError = LockError;
struct Report;
struct Order;
