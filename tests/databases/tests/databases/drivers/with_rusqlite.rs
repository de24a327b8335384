use lock_runtime::fence::Fenced;
use rusqlite::{OptionalExtension, Transaction};

/// Fences a transaction. Call it first, and roll back after an error.
fn fence(
    tx: &Transaction<'_>,
    hold: &impl Fenced,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let fences = hold.fences()?;
    let token = i64::try_from(fences.token().get())?;
    let raise = "INSERT INTO lock_fences (name, token) VALUES (?1, ?2) \
                 ON CONFLICT (name) DO UPDATE SET token = excluded.token \
                 WHERE lock_fences.token <= excluded.token RETURNING token";
    for name in fences.names() {
        let row = tx.query_row(raise, (name.as_str(), token), |_| Ok(())).optional()?;
        row.ok_or_else(|| format!("a later hold of {name} has fenced"))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_late_hold_is_refused() {
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.execute_batch(<sqlx::Sqlite as lock_sqlx::FenceDatabase>::MIGRATION).unwrap();
    let (early, late) = crate::holds::early_and_late("account:7").await;
    for hold in [&early, &late.watch()] {
        let tx = connection.transaction().unwrap();
        fence(&tx, hold).unwrap();
        tx.commit().unwrap();
    }
    super::is_refused::<rusqlite::Error>(fence(&connection.transaction().unwrap(), &early));
}
