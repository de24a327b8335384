//! What the future of an annotated function is, beside its output: how large, how deep on the stack,
//! and when it drops what it was given.
#![allow(dead_code, clippy::items_after_statements, reason = "of the two ways one is never called")]
#![allow(unused_assignments, reason = "the compiler says so of a field that only a drop reads")]

use std::cell::Cell;
use std::rc::Rc;

use tokio::task::yield_now;

use crate::prelude::*;

type Length = Result<usize, LockError>;

/// One body twice: as it is, and locked.
macro_rules! both {
    ($(#[$more:meta])* ($plain:ident, $locked:ident)($($parameters:tt)*) $body:block) => {
        async fn $plain($($parameters)*) -> Length $body

        #[distributed_lock(key = "k")]
        $(#[$more])*
        async fn $locked($($parameters)*) -> Length $body
    };
}

both! { (nothing, nothing_locked)() { yield_now().await; Ok(0) } }
both! { (large, large_locked)(x: [u8; 16384]) { yield_now().await; Ok(x.len()) } }
both! { (lent, lent_locked)(x: [u8; 16384]) { let x = &x; yield_now().await; Ok(x.len()) } }
both! { (moved, moved_locked)(x: [u8; 16384]) { let mine = x; yield_now().await; Ok(mine.len()) } }
both! { (big, big_locked)(x: u8) { let x = [x; 16384]; yield_now().await; Ok(x.len()) } }
both! { (calls, calls_locked)(x: u8) { big(x).await?; yield_now().await; big(x).await } }
both! {
    #[distributed_lock(key = "l")]
    #[distributed_lock(key = "m")]
    (three, three_locked)(x: [u8; 16384]) { yield_now().await; Ok(x.len()) }
}

#[distributed_lock(key = "k", guard = hold)]
async fn with_guard(x: [u8; 16384]) -> Length {
    yield_now().await;
    Ok(x.len() + usize::from(hold.is_lost()))
}

#[distributed_lock(key = "k")]
fn hidden(x: [u8; 16384]) -> impl Future<Output = Length> {
    async move {
        yield_now().await;
        Ok(x.len())
    }
}

/// What a lock adds to a future, its span included, at most.
const LOCK: usize = 480;
const LARGE: [u8; 16384] = [0; 16384];

/// A plain `async fn` keeps what it gets by value twice, as an argument and as a variable. The locked
/// one has it as an argument and in its body, and so adds the lock alone.
///
/// The compiler gives each future that takes an argument over a place of its own for it: so many more
/// there are than in the plain function, so often it is kept.
#[test]
fn a_lock_adds_a_constant() {
    fn added<A, B>(plain: &A, locked: &B) -> usize {
        size_of_val(locked).saturating_sub(size_of_val(plain))
    }
    let (array, most) = (LARGE, |copies: usize| copies * LARGE.len() + 3 * LOCK);
    for (name, added, most) in [
        ("nothing", added(&nothing(), &nothing_locked()), LOCK),
        ("16 KiB", added(&large(array), &large_locked(array)), LOCK),
        ("16 KiB, lent to a variable", added(&lent(array), &lent_locked(array)), LOCK),
        ("16 KiB in the body", added(&big(1), &big_locked(1)), LOCK),
        ("16 KiB in what it calls", added(&calls(1), &calls_locked(1)), LOCK),
        ("with its guard", added(&large(array), &with_guard(array)), LOCK),
        ("moved to a variable", added(&moved(array), &moved_locked(array)), most(1)),
        ("three locks", added(&three(array), &three_locked(array)), most(2)),
        // A function that is not `async` has no future of its own; the lock's has two.
        ("a future made in the body", size_of_val(&hidden(array)) - array.len(), most(2)),
    ] {
        assert!(added <= most, "{name}: {added} of {most}");
    }
}

thread_local! {
    static DEEPEST: Cell<usize> = const { Cell::new(usize::MAX) };
    static DROPPED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Where the stack is now.
fn here() -> usize {
    let mark = 0_u8;
    std::hint::black_box(&raw const mark).addr()
}

async fn bottom() -> Result<u64, LockError> {
    // The second poll comes down through all the bodies.
    yield_now().await;
    DEEPEST.set(here());
    Ok(0)
}

#[distributed_lock(key = "nested")]
async fn same_key(depth: u64) -> Result<u64, LockError> {
    if depth == 0 { bottom().await } else { Ok(Box::pin(same_key(depth - 1)).await? + 1) }
}

#[distributed_lock(key = "nested:{depth}")]
fn many_keys(depth: u64) -> BoxFuture<'static, Result<u64, LockError>> {
    Box::pin(async move {
        if depth == 0 { bottom().await } else { Ok(many_keys(depth - 1).await? + 1) }
    })
}

/// Bytes of stack for each level of `nested`, which is polled from here.
async fn stack_of<F: Future<Output = Result<u64, LockError>>>(nested: impl Fn(u64) -> F) -> usize {
    const LEVELS: u64 = 64;
    let mut ends = [0; 2];
    for (end, depth) in ends.iter_mut().zip([1, 1 + LEVELS]) {
        assert_eq!(nested(depth).await.unwrap(), depth);
        *end = DEEPEST.get();
    }
    (ends[0] - ends[1]) / usize::try_from(LEVELS).unwrap()
}

/// A body that calls itself needs little stack for each call: no state of a lock is moved about
/// while a body is polled. Measured without optimisation; with it there is less of it.
#[tokio::test]
async fn nested_bodies_need_little_stack() {
    let client = LockClient::in_memory();
    let (same, many) =
        client.scope(async { (stack_of(same_key).await, stack_of(many_keys).await) }).await;
    assert!(same <= 6400, "{same} bytes for each call on one key");
    assert!(many <= 7 * 1024, "{many} bytes for each call on a key of its own");
}

struct Noisy(&'static str);

impl Drop for Noisy {
    fn drop(&mut self) {
        let name = if LockClient::current().is_some_and(|client| client.admin().held().is_empty()) {
            "after the lock"
        } else {
            self.0
        };
        DROPPED.with_borrow_mut(|dropped| dropped.push(name));
    }
}

both! {
    (drops_as_it_is, drops)(a: Noisy, b: Noisy, mut c: Noisy, d: Noisy) {
        let local = Noisy("local");
        yield_now().await;
        c.0 = "c, changed";
        drop(b);
        let _ = (&d, a.0, &local);
        Ok(0)
    }
}

#[distributed_lock(key = "drops", guard = hold)]
#[distributed_lock(key = "again:{a.0}")]
async fn drops_stacked(mut a: Noisy, b: Noisy) -> Result<bool, LockError> {
    yield_now().await;
    a.0 = "a, changed";
    drop(b);
    Ok(hold.is_lost())
}

#[distributed_lock(key = "drops:{b.0}", on_busy = fallback(instead_of_drops))]
fn drops_hidden(mut a: Noisy, b: Noisy) -> impl Future<Output = Result<(), LockError>> {
    a.0 = "a, changed";
    async move {
        yield_now().await;
        let _ = (&a, &b);
        Ok(())
    }
}

async fn instead_of_drops(_: Noisy, _: Noisy) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "drops:{b.0}")]
async fn drops_unnamed(a: Noisy, b: Noisy, _: Noisy) -> Result<(), LockError> {
    yield_now().await;
    let _ = &a;
    Ok(())
}

/// S-13: what a body speaks of is gone before the lock is: each thing once, in the order in which the
/// function without a lock drops it, and with the values that the body gave to it.
#[tokio::test]
async fn arguments_are_dropped_before_the_lock() {
    let client = LockClient::in_memory();
    let inside = Noisy("outside");
    // The mark of a drop without the lock.
    client.scope(async { drop(inside) }).await;
    assert_eq!(DROPPED.take(), ["after the lock"]);

    let four = || (Noisy("a"), Noisy("b"), Noisy("c"), Noisy("d"));
    let (a, b, c, d) = four();
    drops_as_it_is(a, b, c, d).await.unwrap();
    let expected = ["b", "local", "d", "c, changed", "a"];
    assert_eq!(DROPPED.take(), expected);
    let (a, b, c, d) = four();
    client.scope(drops(a, b, c, d)).await.unwrap();
    assert_eq!(DROPPED.take(), expected);
    client.scope(drops_stacked(Noisy("a"), Noisy("b"))).await.unwrap();
    assert_eq!(DROPPED.take(), ["b", "a, changed"]);
    client.scope(drops_hidden(Noisy("a"), Noisy("b"))).await.unwrap();
    assert_eq!(DROPPED.take(), ["a, changed", "b"]);
    // What the body does not speak of stays outside.
    client.scope(drops_unnamed(Noisy("a"), Noisy("b"), Noisy("unnamed"))).await.unwrap();
    assert_eq!(DROPPED.take(), ["a", "after the lock", "after the lock"]);
}

/// Dropped half way or before it has begun, it drops everything once.
#[tokio::test]
async fn an_unfinished_call_drops_its_arguments() {
    let call = || drops(Noisy("a"), Noisy("b"), Noisy("c"), Noisy("d"));
    drop(call());
    assert_eq!(DROPPED.take().len(), 4);
    let client = LockClient::in_memory();
    let held = client.mutex("k").lock().await.unwrap();
    let waiting = tokio::time::timeout(ms(10), client.scope(call()));
    assert!(waiting.await.is_err());
    assert_eq!(DROPPED.take().len(), 4);
    held.release().await.unwrap();
}

/// True for types that are `Send`, found out by which of two implementations applies.
macro_rules! is_send {
    ($value:expr) => {{
        struct Probe<T>(std::marker::PhantomData<T>);
        trait Otherwise {
            fn is_send(&self) -> bool {
                false
            }
        }
        impl<T> Otherwise for Probe<T> {}
        impl<T: Send> Probe<T> {
            fn is_send(&self) -> bool {
                true
            }
        }
        fn probe<T>(_: &T) -> Probe<T> {
            Probe(std::marker::PhantomData)
        }
        probe(&$value).is_send()
    }};
}

/// Rows of `name(argument) { body }`: functions under two attributes.
macro_rules! annotated {
    ($($name:ident($x:ident: $ty:ty) $body:block)*) => {$(
        #[distributed_lock(key = "s")]
        #[distributed_lock(key = "t")]
        async fn $name($x: $ty) -> Length $body
    )*};
}

annotated! {
    sent(x: String) { yield_now().await; Ok(x.len()) }
    drops_its_rc(x: u64) { let more = usize::from(*Rc::new(x) > 0); yield_now().await; Ok(more) }
    takes_a_cell(x: Cell<u64>) { yield_now().await; Ok(usize::from(x.get() > 0)) }
    holds_an_rc(x: u64) { let x = Rc::new(x); yield_now().await; Ok(usize::from(*x > 0)) }
    takes_an_rc(x: Rc<u64>) { Ok(usize::from(*x > 0)) }
    borrows_a_cell(x: &Cell<u64>) { Ok(usize::from(x.get() > 0)) }
}

#[distributed_lock(key = "s", on_busy = fallback(holds_an_rc))]
async fn with_a_local_fallback(x: u64) -> Length {
    Ok(usize::from(x > 0))
}

#[distributed_lock(key = "s")]
async fn generic<T>(x: T) -> Result<T, LockError> {
    yield_now().await;
    Ok(x)
}

#[distributed_lock(key = "s")]
fn hidden_rc() -> impl Future<Output = Length> {
    let x = Rc::new(1);
    async move {
        yield_now().await;
        Ok(*x)
    }
}

/// `Send` when the body is, and what it was given and gives; not otherwise.
#[test]
fn a_locked_future_is_send_when_its_body_is() {
    assert!(is_send!(sent(String::new())) && is_send!(with_guard(LARGE)));
    assert!(is_send!(drops_its_rc(1)));
    assert!(is_send!(takes_a_cell(Cell::new(1))));
    assert!(is_send!(generic(1)));
    assert!(!is_send!(holds_an_rc(1)));
    assert!(!is_send!(takes_an_rc(Rc::new(1))));
    assert!(!is_send!(borrows_a_cell(&Cell::new(1))));
    assert!(!is_send!(with_a_local_fallback(1)));
    assert!(!is_send!(generic(Rc::new(1))));
    assert!(!is_send!(hidden_rc()));
}
