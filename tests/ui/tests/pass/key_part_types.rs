//! Newtypes and enums by `#[derive(KeyPart)]`, as values of a template.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use lock_runtime::{KeyPart, LockClient, LockError, distributed_lock};

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

#[derive(KeyPart)]
struct Shared<'a, T>
where
    T: ToOwned + ?Sized,
{
    of: PhantomData<fn() -> T>,
    value: Arc<Cow<'a, T>>,
}

/// No bound on `E` itself.
#[derive(KeyPart)]
struct IdOf<E: Entity>(PhantomData<E>, E::Id);

#[derive(KeyPart)]
struct Qualified<E: Entity>(<E as Entity>::Id);

#[derive(KeyPart)]
struct Fix<const N: usize, T = u64>(Fixed<N>, PhantomData<T>);

struct Fixed<const N: usize>;

impl<const N: usize> KeyPart for Fixed<N> {
    fn write_key_part(&self, out: &mut lock_runtime::key::KeyPartWriter<'_>) {
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

#[distributed_lock(key = "{kind}:{account}:{name}", guard = hold)]
async fn pay(kind: Kind, account: AccountId, name: Name<'_>) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key = "{kind:raw}", guard = hold)]
async fn raw(kind: &Kind) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[distributed_lock(key("{}", part), guard = hold)]
async fn without_size(part: &Unsized<dyn KeyPart>) -> Result<String, LockError> {
    Ok(hold.key().to_string())
}

#[tokio::test]
async fn runs() -> Result<(), LockError> {
    LockClient::in_memory()
        .scope(async {
            let name = Name { text: "a:b" };
            assert_eq!(pay(Kind::CreditCard, AccountId(7), name).await?, "credit-card:7:a%3Ab");
            assert_eq!(key(&Generic(Box::new("x".to_owned()))).await?, "x");
            assert_eq!(key(&Generic::<str>(Box::from("y"))).await?, "y");
            let shared = Shared::<str> { of: PhantomData, value: Arc::new(Cow::Borrowed("z")) };
            assert_eq!(key(&shared).await?, "z");
            assert_eq!(key(&IdOf::<User>(PhantomData, 3)).await?, "3");
            assert_eq!(key(&Qualified::<User>(4)).await?, "4");
            assert_eq!(key(&Fix::<5, f64>(Fixed, PhantomData)).await?, "5");
            assert_eq!(key(&r#struct { r#type: 6 }).await?, "6");
            assert_eq!(key(&Kind::Order).await?, "order");
            assert_eq!(key(&Kind::Transfer).await?, "SEPA%3A2");
            assert_eq!(raw(&Kind::Transfer).await?, "SEPA:2");
            assert_eq!(key(&Kind::r#Async).await?, "async");
            assert_eq!(key(&Kind::Empty()).await?, "empty");
            assert_eq!(key(&Kind::Braces {}).await?, "braces");
            assert_eq!(key(&Typed::<f64>::Here).await?, "here");
            assert_eq!(key(&Typed::<f64>::There(PhantomData)).await?, "there");
            assert_eq!(without_size(&Unsized(8)).await?, "8");
            // S-3: an empty value names nothing, by a newtype too.
            let empty = key(&Generic(Box::new(""))).await;
            assert!(matches!(empty, Err(LockError::InvalidKey { .. })));
            Ok(())
        })
        .await
}
