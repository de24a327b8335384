use lock_runtime::fence::Fenced;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, Statement};

/// Fences a transaction. Call it first, and roll back after an error.
async fn fence(
    tx: &DatabaseTransaction,
    hold: &impl Fenced,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let fences = hold.fences()?;
    let token = i64::try_from(fences.token().get())?;
    let raise = "INSERT INTO lock_fences (name, token) VALUES ($1, $2) \
                 ON CONFLICT (name) DO UPDATE SET token = excluded.token \
                 WHERE lock_fences.token <= excluded.token";
    for name in fences.names() {
        let values = [name.as_str().into(), token.into()];
        let raise = Statement::from_sql_and_values(DbBackend::Postgres, raise, values);
        if tx.execute_raw(raise).await?.rows_affected() == 0 {
            return Err(format!("a later hold of {name} has fenced").into());
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs PostgreSQL: cargo xtask test --with-databases"]
async fn a_late_hold_is_refused() {
    use sea_orm::TransactionTrait as _;

    let postgres = crate::servers::postgres().await;
    let url = postgres.create(&crate::servers::fresh_name()).await;
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    lock_sqlx::migrate(&pool).await.unwrap();
    let database = sea_orm::Database::connect(&url).await.unwrap();
    let (early, late) = crate::holds::early_and_late("account:7").await;
    for hold in [&early, &late.watch()] {
        let tx = database.begin().await.unwrap();
        fence(&tx, hold).await.unwrap();
        tx.commit().await.unwrap();
    }
    let tx = database.begin().await.unwrap();
    super::is_refused::<sea_orm::DbErr>(fence(&tx, &early).await);
}
