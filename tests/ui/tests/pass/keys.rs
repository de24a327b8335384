//! What a key is made of: templates, values, expressions, patterns, derived parts, lists of keys.

use std::marker::PhantomData;

use lock_runtime::key::KeyPartWriter;
use lock_runtime::{KeyPart, LockClient, LockError, LockKey, distributed_lock};

const KEY: &str = "constant";
const SHARDS: u64 = 16;

struct Order {
    id: u64,
    place: (u8, String),
    r#type: char,
}

impl Order {
    fn number(&self) -> u64 {
        self.id + 1000
    }
}

fn order() -> Order {
    Order { id: 7, place: (1, "x y".into()), r#type: 'k' }
}

struct Path<T>(T);

struct Transfer {
    from: u64,
    to: u64,
}

struct Shop {
    tenant: String,
}

impl Shop {
    fn key(&self) -> Result<LockKey, LockError> {
        LockKey::builder().text("job:").part(&self.tenant).build()
    }

    #[distributed_lock(key = self.key(), guard = hold)]
    async fn of_a_method(&self) -> Result<String, LockError> {
        Ok(hold.key().to_string())
    }

    #[distributed_lock(key = "{self.tenant}:{order.id}:{order.place.1}", guard = hold)]
    async fn fields(&self, order: &Order) -> Result<String, LockError> {
        Ok(hold.key().to_string())
    }

    #[distributed_lock(key = "{ self.tenant.len() }:{order.number()}:{order.r#type}", guard = hold)]
    async fn methods(self, order: Order) -> Result<String, LockError> {
        drop(order);
        Ok(hold.key().to_string())
    }

    #[distributed_lock(
        key("shop:{}:{}:{:raw}", self.tenant.to_uppercase(), id % SHARDS, if id > 9 { "many" } else { "few" }),
        guard = hold,
    )]
    async fn sell(&mut self, id: u64) -> Result<String, LockError> {
        self.tenant.push('!');
        Ok(hold.key().to_string())
    }
}

#[distributed_lock(key("both:{}", *items.first().unwrap_or(&0)), guard = hold)]
async fn moved(items: Vec<u8>) -> Result<(Vec<u8>, String), LockError> {
    Ok((items, hold.key().to_string()))
}

#[distributed_lock(key = "{from}:{target}", guard = hold)]
async fn taken_apart(Transfer { from, to: target }: Transfer) -> Result<String, LockError> {
    Ok(format!("{} {from} {target}", hold.key()))
}

#[distributed_lock(key = "{name}", guard = hold)]
async fn mutable(mut name: String, &count: &usize) -> Result<String, LockError> {
    name.push_str(&"!".repeat(count));
    Ok(format!("{} {name}", hold.key()))
}

/// The field of the same name is not the argument, which went into the key.
#[distributed_lock(key = tenant)]
async fn given_away(tenant: String, of: &Shop) -> Result<usize, LockError> {
    Ok(of.tenant.len())
}

#[tokio::test]
async fn keys_are_made_of_what_the_function_has() -> Result<(), LockError> {
    let made = async {
        keys! {
            [key = "job:{r#type}:{type:raw}"] (r#type: &str) ("a:b") => "job:a%3Ab:a:b";
            [key = "slot:{{{id}}}:x"] (id: u64) (4) => "slot:{4}:x";
            [key = r#"nightly "report""#] () () => "nightly \"report\"";
            [key = KEY] () () => "constant";
            [key = &name] (name: String) ("named".into()) => "named";
            [key = format!("a{}b", n + 1)] (n: u8) (3) => "a4b";
            [key = concat!("a", "b")] () () => "ab";
            [key = "{id}"] (Path(id): Path<u64>) (Path(1)) => "1";
            [key = "{a}:{c}"] ((a, (_, c)): (u8, (u8, u8))) ((1, (2, 3))) => "1:3";
            [key = "{whole.from}:{first}"]
                (whole @ Transfer { .. }: &Transfer, [first, ..]: [u8; 3], _: u8, _ignored: u8)
                (&Transfer { from: 1, to: 2 }, [7, 8, 9], 0, 0) => "1:7";
            [key = "{kind}:{account}:{name}"] (kind: Kind, account: AccountId, name: Name<'_>)
                (Kind::CreditCard, AccountId(7), Name { text: "a:b" }) => "credit-card:7:a%3Ab";
            [key = "{kind:raw}"] (kind: &Kind) (&Kind::Transfer) => "SEPA:2";
            [key("{}", part)] (part: &Unsized<dyn KeyPart>) (&Unsized(8)) => "8";
        }
        let mut shop = Shop { tenant: "a:b".into() };
        assert_eq!(shop.of_a_method().await?, "job:a%3Ab");
        assert_eq!(shop.fields(&order()).await?, "a%3Ab:7:x%20y");
        assert_eq!(shop.sell(33).await?, "shop:A%3AB:1:many");
        assert_eq!(shop.sell(2).await?, "shop:A%3AB!:2:few");
        assert_eq!(shop.methods(order()).await?, "5:1007:k");
        assert_eq!(moved(vec![5, 6]).await?, (vec![5, 6], "both:5".into()));
        assert_eq!(taken_apart(Transfer { from: 1, to: 2 }).await?, "1:2 1 2");
        assert_eq!(mutable("x".into(), &2).await?, "x x!!");
        assert_eq!(given_away("k".into(), &Shop { tenant: "four".into() }).await?, 4);
        assert!(Shop { tenant: String::new() }.of_a_method().await.is_err());
        Ok(())
    };
    LockClient::in_memory().scope(made).await
}

trait Entity {
    type Id;
}

struct User;

impl Entity for User {
    type Id = u32;
}

#[derive(KeyPart)]
struct AccountId(u64);

#[derive(KeyPart)]
struct Name<'a> {
    text: &'a str,
}

#[derive(KeyPart)]
struct Generic<T: ?Sized>(Box<T>);

/// No bound on `E` itself.
#[derive(KeyPart)]
struct IdOf<E: Entity>(PhantomData<E>, E::Id);

#[derive(KeyPart)]
struct Qualified<E: Entity>(<E as Entity>::Id);

#[derive(KeyPart)]
struct Fix<const N: usize, T = u64>(Fixed<N>, PhantomData<T>);

struct Fixed<const N: usize>;

impl<const N: usize> KeyPart for Fixed<N> {
    fn write_key_part(&self, out: &mut KeyPartWriter<'_>) {
        N.write_key_part(out);
    }
}

#[derive(KeyPart)]
#[allow(non_camel_case_types)]
struct r#struct {
    r#type: u8,
}

/// A newtype without a size, made by coercion.
#[derive(KeyPart)]
struct Unsized<T: ?Sized>(T);

#[derive(KeyPart)]
enum Kind {
    Order,
    CreditCard,
    #[key_part(name = "SEPA:2")]
    Transfer,
    r#Async,
    Empty(),
    Braces {},
}

#[derive(KeyPart)]
#[allow(dead_code)]
enum Typed<T> {
    Here,
    There(PhantomData<T>),
}

#[distributed_lock(key = "{part}", guard = hold)]
async fn key(part: &dyn KeyPart) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[tokio::test]
async fn derived_parts_are_values_of_a_template() -> Result<(), LockError> {
    let made = async {
        let parts: [(&dyn KeyPart, &str); 12] = [
            (&Generic(Box::new("x".to_owned())), "x"),
            (&Generic::<str>(Box::from("y")), "y"),
            (&IdOf::<User>(PhantomData, 3), "3"),
            (&Qualified::<User>(4), "4"),
            (&Fix::<5, f64>(Fixed, PhantomData), "5"),
            (&r#struct { r#type: 6 }, "6"),
            (&Kind::Order, "order"),
            (&Kind::Transfer, "SEPA%3A2"),
            (&Kind::r#Async, "async"),
            (&Kind::Empty(), "empty"),
            (&Kind::Braces {}, "braces"),
            (&Typed::<f64>::Here, "here"),
        ];
        for (part, expected) in parts {
            assert_eq!(key(part).await?, expected);
        }
        assert_eq!(key(&Typed::<f64>::There(PhantomData)).await?, "there");
        // S-3: an empty value names nothing, by a newtype too.
        for empty in [&"" as &dyn KeyPart, &Generic(Box::new(""))] {
            assert!(matches!(key(empty).await, Err(LockError::InvalidKey { .. })));
        }
        Ok(())
    };
    LockClient::in_memory().scope(made).await
}

struct Account {
    id: u64,
}

fn key_of(account: &Account) -> Result<LockKey, LockError> {
    LockKey::builder().text("acct:").part(&account.id).build()
}

fn account(id: u64) -> Account {
    Account { id }
}

#[distributed_lock(keys = ["acct:{from.id}", "acct:{to.id}"], guard = hold, wait = none)]
async fn templates(from: &Account, to: Account) -> Result<u64, LockError> {
    drop(to);
    Ok(hold.token().get())
}

#[distributed_lock(
    keys = ["acct:{id}", key("acct:{}", id + 1), format!("acct:{}", id + 2), KEY, key_of(other)],
    wait = none,
)]
async fn mixed(id: u64, other: &Account) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = accounts.iter().map(key_of), wait = none)]
async fn computed(accounts: Vec<Account>) -> Result<usize, LockError> {
    Ok(accounts.into_iter().count())
}

#[distributed_lock(keys = names, wait = none)]
async fn whole(names: [&str; 2]) -> Result<usize, LockError> {
    Ok(names.len())
}

#[distributed_lock(keys = ["acct:1", "acct:3"], kind = write, wait = none)]
async fn of_a_kind() -> Result<(), LockError> {
    Ok(())
}

/// `keys`: all of them or none.
#[tokio::test]
async fn lists_of_keys_lock_each_of_them() -> Result<(), LockError> {
    let client = LockClient::in_memory();
    client
        .scope(async {
            assert!(templates(&account(1), account(2)).await? > 0);
            // The same lock twice is one lock.
            assert!(templates(&account(1), account(1)).await? > 0);
            assert_eq!(mixed(1, &account(9)).await?, 1);
            assert_eq!(computed(vec![account(1), account(2)]).await?, 2);
            assert_eq!(whole(["acct:1", "acct:2"]).await?, 2);
            of_a_kind().await?;
            assert!(computed(vec![]).await.is_err());

            for (name, is_in) in [
                ("acct:1", [true, true, true, true, true]),
                ("acct:2", [true, true, true, true, false]),
                ("acct:3", [false, true, false, false, true]),
                (KEY, [false, true, false, false, false]),
                ("acct:9", [false, true, false, false, false]),
            ] {
                let held = client.mutex(name).lock().await?;
                let found = [
                    templates(&account(1), account(2)).await.is_err(),
                    mixed(1, &account(9)).await.is_err(),
                    computed(vec![account(1), account(2)]).await.is_err(),
                    whole(["acct:1", "acct:2"]).await.is_err(),
                    of_a_kind().await.is_err(),
                ];
                assert_eq!(found, is_in, "{name}");
                held.release().await?;
            }
            Ok(())
        })
        .await
}
