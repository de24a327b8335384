use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use lock_runtime::fence::Fenced;

/// Fences a transaction. Call it first in the closure of `transaction`, and return its error.
async fn fence(
    tx: &mut AsyncPgConnection,
    hold: &impl Fenced,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let fences = hold.fences()?;
    let token = i64::try_from(fences.token().get())?;
    // An error outside of a transaction, where each statement would be committed at once.
    tx.batch_execute("SAVEPOINT lock_fence; RELEASE SAVEPOINT lock_fence").await?;
    for name in fences.names() {
        let raise = diesel::sql_query(
            "INSERT INTO lock_fences (name, token) VALUES ($1, $2) \
             ON CONFLICT (name) DO UPDATE SET token = excluded.token \
             WHERE lock_fences.token <= excluded.token",
        );
        let raise = raise.bind::<Text, _>(name.as_str()).bind::<BigInt, _>(token);
        if raise.execute(tx).await? == 0 {
            return Err(format!("a later hold of {name} has fenced").into());
        }
    }
    Ok(())
}

/// What the closure of a transaction returns: diesel's own errors become it.
type Done = Result<(), Failure>;

#[derive(Debug)]
struct Failure(Box<dyn std::error::Error + Send + Sync>);

impl From<diesel::result::Error> for Failure {
    fn from(error: diesel::result::Error) -> Self {
        Self(error.into())
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
async fn a_late_hold_is_refused() {
    use diesel_async::AsyncConnection as _;

    let postgres = crate::servers::postgres().await;
    let name = crate::servers::fresh_name();
    let pool = sqlx::PgPool::connect(&postgres.create(&name).await).await.unwrap();
    lock_sqlx::migrate(&pool).await.unwrap();
    let config = format!("host={} user=postgres dbname={name}", postgres.sockets());
    let mut connection = AsyncPgConnection::establish(&config).await.unwrap();
    let (early, late) = crate::holds::early_and_late("account:7").await;

    // Had this fenced, the earlier hold would be refused.
    let error = fence(&mut connection, &late.watch()).await.unwrap_err();
    assert!(error.to_string().contains("can only be used in transaction blocks"), "{error}");
    assert!(error.is::<diesel::result::Error>(), "{error:?}");

    let mut results = Vec::new();
    for hold in [&early, &late.watch(), &early] {
        let result: Done =
            connection.transaction(async |tx| fence(tx, hold).await.map_err(Failure)).await;
        results.push(result);
    }
    let last = results.pop().unwrap();
    super::is_refused::<diesel::result::Error>(last.map_err(|Failure(error)| error));
    results.into_iter().for_each(Result::unwrap);
}
