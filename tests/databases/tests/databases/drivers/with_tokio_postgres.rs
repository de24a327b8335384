use lock_runtime::fence::Fenced;
use tokio_postgres::Transaction;

/// Fences a transaction. Call it first, and roll back after an error.
async fn fence(
    tx: &Transaction<'_>,
    hold: &impl Fenced,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let fences = hold.fences()?;
    let token = i64::try_from(fences.token().get())?;
    let raise = "INSERT INTO lock_fences (name, token) VALUES ($1, $2) \
                 ON CONFLICT (name) DO UPDATE SET token = excluded.token \
                 WHERE lock_fences.token <= excluded.token RETURNING token";
    for name in fences.names() {
        let row = tx.query_opt(raise, &[&name.as_str(), &token]).await?;
        row.ok_or_else(|| format!("a later hold of {name} has fenced"))?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
async fn a_late_hold_is_refused() {
    let postgres = crate::servers::postgres().await;
    let name = crate::servers::fresh_name();
    let pool = sqlx::PgPool::connect(&postgres.create(&name).await).await.unwrap();
    lock_sqlx::migrate(&pool).await.unwrap();
    let config = format!("host={} user=postgres dbname={name}", postgres.sockets());
    let (mut client, connection) =
        tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
    lock_tests::spawn(async { drop(connection.await) });
    let (early, late) = crate::holds::early_and_late("account:7").await;
    for hold in [&early, &late.watch()] {
        let tx = client.transaction().await.unwrap();
        fence(&tx, hold).await.unwrap();
        tx.commit().await.unwrap();
    }
    let tx = client.transaction().await.unwrap();
    super::is_refused::<tokio_postgres::Error>(fence(&tx, &early).await);
}
