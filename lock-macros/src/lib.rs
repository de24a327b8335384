//! The `#[distributed_lock]` attribute of `lock_runtime`, which re-exports it: depend on that crate,
//! not on this one.
//!
//! The manual is at [`macro@distributed_lock`]. The code reads in the order of the work: `args` parses
//! the argument list and `item` the function, `template` takes keys apart, `validate` knows what must
//! fit together, and `expand` writes the one call of the runtime that remains.

mod args;
mod errors;
mod expand;
mod form;
mod item;
mod template;
mod validate;

use proc_macro::TokenStream;

/// Runs an `async fn` in one place at a time, across tasks, processes and machines.
///
/// Before the body starts, the lock named by `key` is taken; while the body runs, the lock is kept;
/// when the body has ended, in whatever way, the lock is given back. Two calls with the same key
/// never run their bodies at the same time, and calls with different keys do not wait for each other.
///
/// ```
/// use lock_runtime::{LockClient, LockError, distributed_lock};
///
/// struct Order {
///     id: u64,
/// }
///
/// #[distributed_lock(key = "order:{order.id}", wait = "2s")]
/// async fn pay(order: &Order) -> Result<(), LockError> {
///     // Nobody else is here for this order.
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// LockClient::in_memory().install(); // or `LockClient::connect("redis://…").await?`
/// pay(&Order { id: 42 }).await?;
/// # Ok::<_, LockError>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// The same by hand:
///
/// ```
/// # use lock_runtime::{LockClient, LockError, LockKey};
/// # use std::time::Duration;
/// # struct Order { id: u64 }
/// async fn pay(order: &Order) -> Result<(), LockError> {
///     let key = LockKey::builder().text("order:").part(&order.id).build()?;
///     let client = LockClient::current()
///         .ok_or_else(|| LockError::NoClient { site: "shop::pay".to_owned() })?;
///     let options = client.options().to_builder().wait(Duration::from_secs(2)).build()?;
///     let guard = client.mutex(key).with(options).lock().await?;
///     let result = guard.run(async move { Ok(()) }).await?;
///     if let Err(error) = guard.release().await {
///         eprintln!("{error}"); // the attribute logs it
///     }
///     result
/// }
/// # let _ = pay;
/// ```
///
/// # Arguments
///
/// | argument | values | default |
/// |---|---|---|
/// | [`key`](#key) | a template, a template with values, or an expression | required |
/// | [`wait`](#wait) | `"2s"`, `none`, `forever`, or an expression | the client's; at first `forever` |
/// | [`lease`](#lease) | `"10s"`, `watchdog`, `watchdog("45s")`, or an expression | the client's; at first `watchdog("30s")` |
/// | [`client`](#client) | an expression | the enclosing scope's, else the installed one |
/// | [`guard`](#guard) | a new name | none |
/// | [`on_busy`](#on_busy) | `error`, `skip` | `error` |
/// | [`on_lost`](#on_lost) | `cancel`, `finish` | `cancel` |
/// | [`crate`](#crate) | the path of `lock_runtime` | `::lock_runtime` |
///
/// Expressions see `self` and the arguments of the function. They are evaluated once per call,
/// before the body gets the arguments.
///
/// ## `key`
///
/// What is locked. As a template, its placeholders name arguments, also those bound inside a
/// pattern, and may go on to fields and to methods without arguments. `{{` and `}}` are braces.
///
/// ```
/// # use lock_runtime::{LockError, distributed_lock};
/// # struct Path<T>(T);
/// # struct Line { sku: String, place: (u8, u8) }
/// # impl Line { fn shelf(&self) -> u8 { self.place.1 } }
/// # struct Shop { tenant: String }
/// # impl Shop {
/// #[distributed_lock(key = "{self.tenant}:{id}:{line.sku}:{line.place.0}:{line.shelf()}")]
/// async fn pick(&self, Path(id): Path<u64>, line: &Line) -> Result<(), LockError> {
///     Ok(())
/// }
/// # }
/// ```
///
/// By hand:
///
/// ```
/// # use lock_runtime::{LockError, LockKey};
/// # struct Line { sku: String, place: (u8, u8) }
/// # impl Line { fn shelf(&self) -> u8 { self.place.1 } }
/// # fn key(tenant: &str, id: u64, line: &Line) -> Result<LockKey, LockError> {
/// LockKey::builder()
///     .part(tenant).text(":")
///     .part(&id).text(":")
///     .part(&line.sku).text(":")
///     .part(&line.place.0).text(":")
///     .part(&line.shelf())
///     .build()
/// # }
/// ```
///
/// Values are integers, strings, `bool`, `char`, `Uuid` and whatever else is a `KeyPart`. They are
/// escaped, so that different values never make the same key; that is also why two placeholders need a
/// `:` between them. `{name:raw}` leaves a value as it is, for keys that programs in other languages
/// write. An empty value is refused at run time, as `LockError::InvalidKey`.
///
/// Expressions that a placeholder cannot hold follow the text:
///
/// ```
/// # use lock_runtime::{LockError, distributed_lock};
/// # const SHARDS: u64 = 16;
/// #[distributed_lock(key("user:{}:{}", id % SHARDS, name.to_lowercase()))]
/// async fn rename(id: u64, name: &str) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// Anything else that is not a literal is the key itself: a `LockKey`, a `Result` with one, or text.
///
/// ```
/// # use lock_runtime::{LockError, LockKey, distributed_lock};
/// # struct Job { name: String }
/// # impl Job {
/// fn key(&self) -> Result<LockKey, LockError> {
///     LockKey::builder().text("job:").part(&self.name).build()
/// }
///
/// #[distributed_lock(key = self.key())]
/// async fn run(&self) -> Result<(), LockError> {
///     Ok(())
/// }
/// # }
/// ```
///
/// ## `wait`
///
/// How long to wait for the lock: a duration, `none` to ask once, or `forever`. A longer wait rides
/// out longer holds; a shorter one sheds load earlier. The time in line counts, and so does the network.
/// When it is over, the function returns `LockError::Timeout`, or `LockError::Busy` after `none`.
/// A store that cannot be reached ends the wait all the same, after the client's `store_patience`
/// (5 s unless told otherwise).
///
/// ```
/// # use lock_runtime::{LockError, distributed_lock};
/// # use std::time::Duration;
/// #[distributed_lock(key = "report", wait = "1m 30s")]
/// async fn literal() -> Result<(), LockError> {
///     Ok(())
/// }
///
/// #[distributed_lock(key = "report", wait = patience)]
/// async fn computed(patience: Duration) -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// By hand: `LockOptions::builder().wait(Duration::from_secs(90))`. An expression is anything that is
/// `Into<Wait>`.
///
/// ## `lease`
///
/// How long the store keeps the lock without hearing from us. `watchdog` renews it for as long as the
/// body runs: a longer one survives longer outages of the store, a shorter one frees the locks of a
/// dead process sooner. A plain duration is fixed: the lock ends with it, and so does the body.
///
/// ```
/// # use lock_runtime::{LockError, distributed_lock};
/// #[distributed_lock(key = "import", lease = watchdog("45s"))]
/// async fn renewed() -> Result<(), LockError> {
///     Ok(())
/// }
///
/// #[distributed_lock(key = "import", lease = "10s")]
/// async fn cut_off_after_ten_seconds() -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// By hand: `.lease(Lease::Watchdog(Duration::from_secs(45)))` and
/// `.lease(Lease::Fixed(Duration::from_secs(10)))`. An expression is a `Duration`. Literals outside
/// 100 ms to 24 h do not compile; computed ones give `LockError::InvalidOptions`.
///
/// ## `client`
///
/// Whose lock it is: a `LockClient`, a reference to one, or an `Arc` of one. It is not moved.
///
/// ```
/// # use lock_runtime::{LockClient, LockError, distributed_lock};
/// struct Shop {
///     locks: LockClient,
/// }
///
/// impl Shop {
///     #[distributed_lock(key = "stock", client = self.locks)]
///     async fn count(&self) -> Result<(), LockError> {
///         Ok(())
///     }
/// }
/// ```
///
/// By hand: `self.locks.mutex("stock")`. Without it the function uses the client of the enclosing
/// `client.scope(…)`, else the one that `client.install()` installed, else it returns
/// `LockError::NoClient`.
///
/// ## `guard`
///
/// A name for the hold, as `&LockGuard`, in the body: for its fencing token, its remaining time, or to
/// extend it.
///
/// ```
/// # use lock_runtime::{LockError, distributed_lock};
/// # async fn write(balance: u64, fence: u64) -> Result<(), LockError> { Ok(()) }
/// #[distributed_lock(key = "account:{id}", guard = hold)]
/// async fn post(id: u64, balance: u64) -> Result<(), LockError> {
///     // The database refuses a token lower than the highest it has seen.
///     write(balance, hold.token().get()).await
/// }
/// ```
///
/// By hand: `let hold = &guard;` in front of the body.
///
/// ## `on_busy`
///
/// What a call that does not get the lock in time returns: with `error` a `LockError`, with `skip` the
/// value of the return type that says "skipped". `skip` does not wait unless `wait` says so; it is
/// the form for jobs that every replica starts and one should run.
///
/// ```
/// # use lock_runtime::distributed_lock;
/// #[distributed_lock(key = "nightly-report", on_busy = skip)]
/// async fn nightly() -> Option<String> {
///     Some("sent".to_owned())
/// }
/// ```
///
/// By hand: `let Some(guard) = client.mutex("nightly-report").try_lock().await? else { return None };`
///
/// ## `on_lost`
///
/// What happens to the body when its lock is lost: because a fixed lease ran out, the store could not be
/// reached for a whole lease, or somebody removed the lock. `cancel` drops the body at its next
/// `.await`; `finish` lets it run to its end, for bodies that must not stop half way and whose writes
/// are fenced. Either way the function returns `LockError::Lost`.
///
/// ```
/// # use lock_runtime::{LockError, distributed_lock};
/// #[distributed_lock(key = "export", on_lost = finish, guard = hold)]
/// async fn export() -> Result<u64, LockError> {
///     Ok(hold.token().get())
/// }
/// ```
///
/// By hand: `LockOptions::builder().on_lost(OnLost::Finish)`.
///
/// ## `crate`
///
/// Where the runtime is, for crates that re-export it.
///
/// ```
/// mod facade {
///     pub use lock_runtime as locks;
/// }
///
/// #[facade::locks::distributed_lock(key = "here", crate = crate::facade::locks)]
/// async fn here() -> Result<(), facade::locks::LockError> {
///     Ok(())
/// }
/// # fn main() {}
/// ```
///
/// # Functions
///
/// Any `async fn` with a body: free functions, methods with any `self`, methods of traits and their
/// impls, also under `#[async_trait]`, with generics, lifetimes, patterns and `impl Trait`. Functions
/// that return `impl Future` or a future in a pinned box, also by an alias whose name ends in `Future`:
/// nothing of their body runs before the lock is held, and so the future borrows whatever arguments
/// the body uses. The future is `Send` when the body and what it returns are.
///
/// Several attributes on a function are several locks, taken in the order in which they are written.
///
/// The return type is found by trait, so aliases work:
///
/// - with `on_busy = error`: `Result<T, E>` where `E: From<LockError>`;
/// - with `on_busy = skip`: `()`, `Option<T>`, `Result<(), E>` and `Result<Option<T>, E>`. The first
///   two have no room for other errors, which are logged.
///
/// Arguments that the body speaks of are dropped before the lock is given back. `?` and `return` leave
/// the body, not the lock: it is given back all the same.
///
/// # Re-entry
///
/// What the body calls may lock the same key again; that takes no second lock and no round trip. Two
/// calls side by side, as in `join!`, exclude each other.
///
/// # Cancel safety
///
/// Dropping the future before the body has started gives up the place in line. Dropping it later drops
/// the body, and then the lock is given back in the background.
///
/// # When not to use it
///
/// A lock ends when its lease does, even if the process that had it is only asleep. Where a late write
/// would do harm, have the place that stores it check the fencing token of the [`guard`](#guard). Where
/// all callers live in one process, a mutex of that process is enough.
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}
