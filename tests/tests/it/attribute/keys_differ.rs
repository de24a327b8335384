//! S-3: two different lists of arguments never lock one name, through the attribute itself.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_runtime::key::MAX_KEY_BYTES;
use lock_runtime::{KeyPart, LockClient, LockError, LockKey, distributed_lock};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tokio::runtime::Builder;

#[derive(Debug, Clone, PartialEq, KeyPart)]
struct Tenant(String);

#[derive(Debug, Clone, Copy, PartialEq, KeyPart)]
struct AccountId {
    id: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, KeyPart)]
enum Payment {
    Card,
    CreditCard,
    #[key_part(name = "credit:card")]
    Other,
}

/// Rows of `name(parameters) [arguments]`: functions that say which lock they hold.
macro_rules! keys {
    ($($name:ident($($parameter:ident: $ty:ty),*) [$($arguments:tt)*];)*) => {$(
        #[distributed_lock($($arguments)*, client = client, guard = hold)]
        async fn $name(client: &LockClient, $($parameter: $ty),*) -> Result<LockKey, LockError> {
            Ok(hold.key().clone())
        }
    )*};
}

keys! {
    two(a: &str, b: &str) [key = "two:{a}:{b}"];
    three(a: &str, b: &str, c: &str) [key = "three:{a}:{b}:{c}"];
    tagged(a: &str, b: &str) [key = "tag:{{{a}}}:{b}"];
    filled(a: String, b: u8) [key("filled:{}:{}", a.as_str(), b)];
    newtypes(tenant: Tenant, account: AccountId, how: Payment) [key = "{tenant}:{account}:{how}"];
    mixed(letter: char, number: i128, text: &str) [key = "mixed:{letter}:{number}:{text}"];
}

/// The values of a call that gets its key only if its body runs.
#[distributed_lock(key = "two:{a.0}:{b}", client = client)]
async fn watched(
    client: &LockClient,
    a: Tenant,
    b: &str,
    ran: &AtomicBool,
) -> Result<(), LockError> {
    ran.store(true, Ordering::SeqCst);
    Ok(())
}

fn with_client<T>(test: impl AsyncFnOnce(&LockClient) -> T) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { test(&LockClient::in_memory()).await })
}

/// Different arguments make different keys and equal ones the same; every key is a valid one.
fn check<A: PartialEq + Debug>(
    (left, right): (A, A),
    call: impl AsyncFn(&LockClient, &A) -> Result<LockKey, LockError>,
) -> Result<(), TestCaseError> {
    let keys = with_client(async |client| [call(client, &left).await, call(client, &right).await]);
    let [left_key, right_key] = keys.map(Result::unwrap);
    for key in [&left_key, &right_key] {
        prop_assert!(key.as_str().len() <= MAX_KEY_BYTES, "{key}");
        prop_assert_eq!(&LockKey::new(key.as_str()).unwrap(), key);
    }
    prop_assert_eq!(left_key == right_key, left == right, "{} and {}", left_key, right_key);
    Ok(())
}

/// What could be mistaken for a separator, an escape, a hash or another text that looks the same; between bars.
const PIECES: &str = concat!(
    ":|::|{|}|{}|{a}|%|%%|%3A|%3a|%25|%253A|%7B|%7D|%~|~|3A|*|?|[|]|\\|a|b|A|0| |\t|\n|\0|",
    "\u{7f}|\u{85}|\u{a0}|\u{2028}|é|e\u{301}|\u{202e}|👩\u{200d}👧|\u{200b}|א",
);

/// A long value, what it is shortened to, or both mixed up.
fn long() -> impl Strategy<Value = String> {
    let start =
        prop_oneof![Just("x".repeat(10_000)), Just("é:".repeat(3_000)), Just("x".repeat(93))];
    let value = (start, "[ab]{0,3}").prop_map(|(start, end)| start + &end);
    (value, 0..3_u8).prop_map(|(value, how)| {
        let shortened = LockKey::builder().part(&value).build().unwrap().to_string();
        match how {
            0 => value,
            1 => shortened,
            _ => {
                value[..value.floor_char_boundary(94)].to_owned()
                    + "%~0123456789abcdef0123456789abcdef"
            }
        }
    })
}

fn text() -> impl Strategy<Value = String> {
    let pieces = |count| {
        vec(select(PIECES.split('|').collect::<Vec<_>>()), count).prop_map(|pieces| pieces.concat())
    };
    // Around the limit of 128 bytes, as it is and escaped.
    let filled = (120..131_usize, pieces(0..3)).prop_map(|(end, tail)| "y".repeat(end) + &tail);
    let escaped =
        (40..45_usize, 0..3_usize).prop_map(|(n, more)| ":".repeat(n) + &"z".repeat(more));
    prop_oneof![
        6 => pieces(1..7),
        2 => "[ab:]{1,4}",
        1 => "[^a]{1,20}",
        1 => filled,
        1 => escaped,
        1 => long(),
    ]
}

/// The same text, or one that a careless escaping would take for the same.
fn twin(text: &str, how: u8) -> String {
    match how {
        0 => text.replace(':', "%3A").replace('{', "%7B"),
        1 => text.replace("%3A", ":").replace("%25", "%"),
        2 => text.to_uppercase(),
        3 => LockKey::builder().part(text).build().unwrap().to_string(),
        4 => text.replace("e\u{301}", "é"),
        5 => text.to_owned() + " ",
        _ => text.to_owned(),
    }
}

/// Texts for `N` placeholders, twice: unrelated, alike one by one, or with the colons elsewhere.
fn texts<const N: usize>() -> impl Strategy<Value = ([String; N], [String; N])> {
    let each = || vec(text(), N).prop_map(|texts| <[String; N]>::try_from(texts).unwrap());
    let unrelated = (each(), each());
    let alike = (each(), vec(0..12_u8, N)).prop_map(|(left, hows)| {
        let right = std::array::from_fn(|at| twin(&left[at], hows[at]));
        (left, right)
    });
    let moved = (vec("[ab%{}]{1,2}", N + 1), 0..N, 0..N).prop_map(|(words, one, other)| {
        let split = |double: usize| {
            std::array::from_fn(|at| match at.cmp(&double) {
                std::cmp::Ordering::Less => words[at].clone(),
                std::cmp::Ordering::Equal => format!("{}:{}", words[at], words[at + 1]),
                std::cmp::Ordering::Greater => words[at + 1].clone(),
            })
        };
        (split(one), split(other))
    });
    prop_oneof![1 => unrelated, 3 => alike, 2 => moved]
}

/// Two of the same kind, often equal.
fn twice<T: Debug + Clone>(
    one: impl Strategy<Value = T>,
    other: impl Strategy<Value = T>,
) -> impl Strategy<Value = (T, T)> {
    (one, other, any::<bool>())
        .prop_map(|(one, other, same)| if same { (one.clone(), one) } else { (one, other) })
}

fn text_twice() -> impl Strategy<Value = (String, String)> {
    texts::<1>().prop_map(|([left], [right])| (left, right))
}

fn numbers<T: Arbitrary + From<i8> + Clone>() -> impl Strategy<Value = T> {
    prop_oneof![any::<i8>().prop_map(T::from), any::<T>()]
}

fn letters() -> impl Strategy<Value = char> {
    prop_oneof![select(vec![':', '{', '}', '%', ' ', '\n', '3', 'A', '-', '1']), any::<char>()]
}

fn payments() -> impl Strategy<Value = Payment> {
    select(vec![Payment::Card, Payment::CreditCard, Payment::Other])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// S-3: two texts.
    #[test]
    fn two_texts(texts in texts::<2>()) {
        check(texts, async |client, [a, b]| two(client, a, b).await)?;
    }

    /// S-3: three texts.
    #[test]
    fn three_texts(texts in texts::<3>()) {
        check(texts, async |client, [a, b, c]| three(client, a, b, c).await)?;
    }

    /// S-2, S-3: a hash tag around a text, which may have braces of its own.
    #[test]
    fn a_text_in_a_hash_tag(texts in texts::<2>()) {
        check(texts, async |client, [a, b]| tagged(client, a, b).await)?;
    }

    /// S-3: a text and a number, as expressions behind the template.
    #[test]
    fn texts_and_numbers_as_expressions(a in text_twice(), b in twice(0..12_u8, any::<u8>())) {
        let calls = ((a.0, b.0), (a.1, b.1));
        check(calls, async |client, (a, b)| filled(client, a.clone(), *b).await)?;
    }

    /// S-3: newtypes and an enum by `#[derive(KeyPart)]`.
    #[test]
    fn derived_parts(
        tenant in text_twice(),
        account in twice(numbers::<i64>(), numbers::<i64>()),
        how in twice(payments(), payments()),
    ) {
        let left = (Tenant(tenant.0), AccountId { id: account.0 }, how.0);
        let right = (Tenant(tenant.1), AccountId { id: account.1 }, how.1);
        check((left, right), async |client, (tenant, account, how)| {
            newtypes(client, tenant.clone(), *account, *how).await
        })?;
    }

    /// S-3: a letter, a number and a text.
    #[test]
    fn mixed_parts(
        letter in twice(letters(), letters()),
        number in twice(numbers::<i128>(), numbers::<i128>()),
        text in text_twice(),
    ) {
        let calls = ((letter.0, number.0, text.0), (letter.1, number.1, text.1));
        check(calls, async |client, (letter, number, text)| {
            mixed(client, *letter, *number, text).await
        })?;
    }
}

/// S-3: what an escaping is easily fooled with, case by case.
#[test]
fn pairs_that_look_alike() {
    let long = "x".repeat(10_000);
    let shortened = LockKey::builder().part(&long).build().unwrap().to_string();
    let cases: [([&str; 2], [&str; 2]); 20] = [
        (["a:b", "c"], ["a", "b:c"]),
        ([":", "a"], ["a", ":"]),
        (["a:", "b"], ["a", ":b"]),
        (["%3A", "a"], [":", "a"]),
        (["%3a", "a"], ["%3A", "a"]),
        (["%253A", "a"], ["%3A", "a"]),
        (["a%", "3Ab"], ["a", "%3Ab"]),
        (["{a}", "b"], ["a", "b"]),
        (["{a", "b}"], ["a", "b"]),
        (["%7Ba%7D", "b"], ["{a}", "b"]),
        (["a ", "b"], ["a", "b"]),
        (["a", " b"], ["a ", "b"]),
        (["a\n", "b"], ["a", "b"]),
        (["a\u{200b}", "b"], ["a", "b"]),
        (["é", "b"], ["e\u{301}", "b"]),
        (["\u{202e}a", "b"], ["a", "b"]),
        (["A", "b"], ["a", "b"]),
        ([&long, "b"], [&long[1..], "b"]),
        ([&long, "b"], [&shortened, "b"]),
        ([&long[..128], "b"], [&long[..129], "b"]),
    ];
    for (left, right) in cases {
        let owned = |texts: [&str; 2]| texts.map(str::to_owned);
        check((owned(left), owned(right)), async |client, [a, b]| two(client, a, b).await).unwrap();
        check((owned(left), owned(right)), async |client, [a, b]| tagged(client, a, b).await)
            .unwrap();
    }
}

/// S-3: the text of a key is what Redis shows and what another version of a program must make too.
#[test]
fn keys_stay_as_they_are() {
    let hash = "%~0ec9eb33e74510bcdd1f2ea55206e82f";
    let long = "x".repeat(129);
    let cases = [
        ("a:b", "{c}", "two:a%3Ab:%7Bc%7D".to_owned()),
        ("100%", "*?[\\]", "two:100%25:%2A%3F%5B%5C%5D".to_owned()),
        ("a b", "\t\u{a0}", "two:a%20b:%09%C2%A0".to_owned()),
        ("é", "👧", "two:é:👧".to_owned()),
        ("-+._~@/", "'\"", "two:-+._~@/:'\"".to_owned()),
        (&long[..128], "1", format!("two:{}:1", &long[..128])),
        (&long, "1", format!("two:{}{hash}:1", &long[..94])),
    ];
    with_client(async |client| {
        for (a, b, expected) in cases {
            assert_eq!(two(client, a, b).await.unwrap().as_str(), expected);
        }
        let how = Payment::Other;
        let key = newtypes(client, Tenant("t".to_owned()), AccountId { id: -1 }, how).await;
        assert_eq!(key.unwrap().as_str(), "t:-1:credit%3Acard");
        assert_eq!(tagged(client, "{a}", "b").await.unwrap().as_str(), "tag:{%7Ba%7D}:b");
    });
}

/// S-3: an empty value names nothing: no body runs, and nothing is locked.
#[test]
fn empty_values_lock_nothing() {
    with_client(async |client| {
        let ran = AtomicBool::new(false);
        for (a, b) in [("", "b"), ("a", ""), ("", "")] {
            let result = watched(client, Tenant(a.to_owned()), b, &ran).await;
            assert!(matches!(result, Err(LockError::InvalidKey { .. })), "{result:?}");
            assert!(matches!(two(client, a, b).await, Err(LockError::InvalidKey { .. })));
            assert!(matches!(tagged(client, a, b).await, Err(LockError::InvalidKey { .. })));
            let result =
                newtypes(client, Tenant(String::new()), AccountId { id: 0 }, Payment::Card);
            assert!(matches!(result.await, Err(LockError::InvalidKey { .. })));
        }
        assert!(!ran.load(Ordering::SeqCst));
        assert!(client.admin().held().is_empty());
        watched(client, Tenant("a".to_owned()), "b", &ran).await.unwrap();
        assert!(ran.load(Ordering::SeqCst));
    });
}
