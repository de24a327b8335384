//! A process that adds one to a balance under a lock, over and over, and halts where it is told to.
//!
//! `fence_worker <job in JSON>`, then the commands of [`lock_database_tests::protocol`].
//!
//! It does not look at whether its hold is lost: this is the code that a pause has made late.

use std::error::Error;

use lock_database_tests::protocol::{Command, Job, Outcome, Report, Shape, Step};
use lock_runtime::{Lease, LockClient, LockGuard, LockOptions};
use lock_sqlx::{Fence, FenceDatabase, FenceError};
use lock_tests::history::Stamp;
use sqlx::pool::PoolOptions;
use sqlx::{
    AssertSqlSafe, ColumnIndex, Decode, Executor, MySql, Pool, Postgres, Sqlite, Transaction, Type,
};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

/// More than the other workers take on a busy machine.
const WAIT: std::time::Duration = std::time::Duration::from_secs(60);

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let job = std::env::args().nth(1).ok_or("usage: fence_worker <job>")?;
    let job: Job = serde_json::from_str(&job)?;
    match job.database.split(':').next() {
        Some("postgres") => Worker::<Postgres>::start(job).await?.serve().await,
        Some("mysql") => Worker::<MySql>::start(job).await?.serve().await,
        _ => Worker::<Sqlite>::start(job).await?.serve().await,
    }
}

struct Worker<DB: FenceDatabase> {
    job: Job,
    client: LockClient,
    /// Of one connection. It rolls a dropped transaction back at once; a connection by itself would do so when it is used next.
    database: Pool<DB>,
    commands: Lines<BufReader<Stdin>>,
    /// The place where the present round halts.
    halt: Option<Step>,
}

impl<DB: FenceDatabase> Worker<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> i64: Decode<'r, DB>,
    i64: Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    async fn start(job: Job) -> Result<Self, Box<dyn Error>> {
        let setup = job.setup.clone();
        let pool =
            PoolOptions::<DB>::new().max_connections(1).after_connect(move |connection, _| {
                let setup = sqlx::raw_sql(AssertSqlSafe(setup.clone()));
                Box::pin(async move { setup.execute(connection).await.map(drop) })
            });
        let database = pool.connect(&job.database).await?;
        let client = LockClient::connect(&job.redis).await?;
        let commands = BufReader::new(tokio::io::stdin()).lines();
        Ok(Self { job, client, database, commands, halt: None })
    }

    async fn serve(mut self) -> Result<(), Box<dyn Error>> {
        say(&Report::Ready)?;
        while let Some(command) = self.commands.next_line().await? {
            match serde_json::from_str(&command)? {
                Command::Create => self.create().await?,
                Command::Round(halt) => {
                    self.halt = halt;
                    let outcome = self.round().await;
                    let failed = |error: Box<dyn Error>| Outcome::Failed(error.to_string());
                    say(&Report::Ended(outcome.unwrap_or_else(failed)))?;
                }
                Command::Go => return Err("it did not halt".into()),
                Command::Tell => {
                    let mut database = self.database.acquire().await?;
                    let balance = read(&mut *database).await?;
                    let tokens = sqlx::raw_sql("SELECT token FROM entries");
                    let tokens = tokens.fetch_all(&mut *database).await?;
                    let tokens = tokens.iter().map(|row| sqlx::Row::try_get::<i64, _>(row, 0));
                    let tokens = tokens.map(|token| Ok(u64::try_from(token?)?));
                    let tokens = tokens.collect::<Result<_, Box<dyn Error>>>()?;
                    say(&Report::Told(u64::try_from(balance)?, tokens))?;
                }
            }
        }
        Ok(())
    }

    async fn create(&mut self) -> Result<(), Box<dyn Error>> {
        lock_sqlx::migrate(&self.database).await?;
        let tables = "CREATE TABLE accounts (balance BIGINT NOT NULL); \
                      CREATE TABLE entries (token BIGINT NOT NULL PRIMARY KEY); \
                      INSERT INTO accounts VALUES (0)";
        sqlx::raw_sql(tables).execute(&mut *self.database.acquire().await?).await?;
        say(&Report::Ready)
    }

    async fn round(&mut self) -> Result<Outcome, Box<dyn Error>> {
        let options = LockOptions::new().lease(Lease::Watchdog(self.job.lease)).wait(WAIT);
        let hold = self.client.mutex(self.job.name.as_str()).with(options).lock().await?;
        say(&Report::Held(hold.token().get()))?;
        let outcome = loop {
            match self.work(&hold).await {
                Ok(()) => break Outcome::Written,
                Err(error) => match error.downcast::<FenceError>() {
                    Ok(error) if matches!(*error, FenceError::Stale { .. }) => {
                        break Outcome::Stale;
                    }
                    Ok(error) if is_worth_a_retry(&error) => say(&Report::Retried)?,
                    Ok(error) => return Err(error),
                    Err(error) => return Err(error),
                },
            }
        };
        // It may be lost.
        let _ = hold.release().await;
        Ok(outcome)
    }

    async fn work(&mut self, hold: &LockGuard) -> Result<(), Box<dyn Error>> {
        let Self { job, database, commands, halt, .. } = self;
        let mut pause = Pause { commands, halt };
        let begin = || AssertSqlSafe(job.begin.clone());
        let mut tx = database.begin_with(begin()).await.map_err(FenceError::Sql)?;
        let balance = match job.shape {
            Shape::One => {
                pause.at(Step::Begun).await?;
                pause.at(Step::Fencing).await?;
                fence(job, hold, &mut tx).await?;
                pause.at(Step::Fenced).await?;
                let balance = read(&mut *tx).await.map_err(FenceError::Sql)?;
                pause.at(Step::Read).await?;
                balance
            }
            Shape::Two => {
                fence(job, hold, &mut tx).await?;
                let balance = read(&mut *tx).await.map_err(FenceError::Sql)?;
                commit(hold, tx).await?;
                pause.at(Step::Between).await?;
                tx = database.begin_with(begin()).await.map_err(FenceError::Sql)?;
                pause.at(Step::Begun).await?;
                pause.at(Step::Fencing).await?;
                fence(job, hold, &mut tx).await?;
                pause.at(Step::Fenced).await?;
                balance
            }
        };
        let write = format!(
            "UPDATE accounts SET balance = {}; INSERT INTO entries VALUES ({})",
            balance + 1,
            hold.token()
        );
        let written = sqlx::raw_sql(AssertSqlSafe(write)).execute(&mut *tx).await;
        written.map_err(FenceError::Sql)?;
        pause.at(Step::Written).await?;
        pause.at(Step::Committing).await?;
        commit(hold, tx).await
    }
}

/// The place where a round halts, and where the command to go on comes from.
struct Pause<'w> {
    commands: &'w mut Lines<BufReader<Stdin>>,
    halt: &'w mut Option<Step>,
}

impl Pause<'_> {
    /// Halts if this is the place. A retry does not halt again.
    async fn at(&mut self, step: Step) -> Result<(), Box<dyn Error>> {
        if self.halt.take_if(|halt| *halt == step).is_none() {
            return Ok(());
        }
        say(&Report::Halted)?;
        // The test stops or kills the worker during what it does next.
        if !step.is_halt() {
            return Ok(());
        }
        let command = self.commands.next_line().await?.ok_or("the test has gone")?;
        match serde_json::from_str(&command)? {
            Command::Go => Ok(()),
            _ => Err(format!("`{command}` during a halt").into()),
        }
    }
}

async fn fence<DB: FenceDatabase>(
    job: &Job,
    hold: &LockGuard,
    tx: &mut Transaction<'_, DB>,
) -> Result<(), Box<dyn Error>> {
    if job.is_fenced {
        hold.fence(tx).await?;
        say(&Report::Fenced(hold.token().get(), Stamp::now()))?;
    }
    Ok(())
}

async fn commit<DB: FenceDatabase>(
    hold: &LockGuard,
    tx: Transaction<'_, DB>,
) -> Result<(), Box<dyn Error>> {
    let sent = Stamp::now();
    tx.commit().await.map_err(FenceError::Sql)?;
    say(&Report::Committed(hold.token().get(), sent))
}

async fn read<'c, DB: FenceDatabase>(
    database: impl Executor<'c, Database = DB>,
) -> Result<i64, sqlx::Error>
where
    for<'r> i64: Decode<'r, DB>,
    i64: Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let row = sqlx::raw_sql("SELECT balance FROM accounts").fetch_one(database).await?;
    sqlx::Row::try_get(&row, 0)
}

/// A serialization failure, a deadlock, or SQLite's SQLITE_BUSY, with what it adds to it.
fn is_worth_a_retry(error: &FenceError) -> bool {
    let FenceError::Sql(sqlx::Error::Database(error)) = error else { return false };
    matches!(error.code().as_deref(), Some("40001" | "40P01" | "5" | "261" | "517"))
}

fn say(report: &Report) -> Result<(), Box<dyn Error>> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
