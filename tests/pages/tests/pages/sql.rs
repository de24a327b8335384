//! SQL on the pages. The first line of a block says which database it is for.
//!
//! Statements for SQLite run, page by page, in a database in memory that has the table of `lock-sqlx`. For PostgreSQL and
//! MySQL the tests have no server; their statements are parsed with the grammar of each.

use lock_page_tests::pages;
use lock_sqlx::FenceDatabase;
use rusqlite::Connection;
use rusqlite::fallible_iterator::FallibleIterator as _;
use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect};
use sqlparser::parser::Parser;

use crate::report;

/// Runs each statement with `1` for each of its parameters.
fn run(connection: &Connection, code: &str) -> rusqlite::Result<()> {
    let mut batch = rusqlite::Batch::new(connection, code);
    while let Some(mut statement) = batch.next()? {
        for parameter in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(parameter, 1)?;
        }
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
    }
    Ok(())
}

fn parse(dialect: &dyn Dialect, code: &str) -> Result<(), String> {
    let statements = Parser::parse_sql(dialect, code).map_err(|error| error.to_string())?;
    if statements.is_empty() { Err("there is no statement".to_owned()) } else { Ok(()) }
}

/// What is wrong with a block; statements for SQLite find the tables of the blocks before them.
fn check(connection: &Connection, code: &str) -> Result<(), String> {
    match code.lines().next().unwrap_or_default() {
        "-- SQLite" => run(connection, code).map_err(|error| error.to_string()),
        "-- PostgreSQL" => parse(&PostgreSqlDialect {}, code),
        "-- MySQL" => parse(&MySqlDialect {}, code),
        other => Err(format!(
            "the first line is `{other}`; write `-- SQLite`, `-- PostgreSQL` or `-- MySQL`"
        )),
    }
}

#[test]
fn statements_run_or_parse() {
    let mut mistakes = Vec::new();
    for page in pages() {
        let connection = Connection::open_in_memory().expect("SQLite is part of this program");
        connection.execute_batch(sqlx::Sqlite::MIGRATION).expect("the table can be created");
        for block in page.in_language("sql") {
            if let Err(error) = check(&connection, &block.code) {
                mistakes.push(format!("{}: {error}", page.place(block)));
            }
        }
    }
    report(mistakes, 0, 0);
}

#[test]
fn wrong_statements_are_found() {
    let connection = Connection::open_in_memory().unwrap();
    let wrong = |code: &str| check(&connection, code).unwrap_err();
    assert!(wrong("-- SQLite\nUPDATE a SET b = 1").contains("no such table"));
    assert!(wrong("-- PostgreSQL\nUPDATE a SETT b = 1").contains("Expected: SET"));
    assert!(wrong("-- MySQL\nINSERT 1").contains("found: 1"));
    assert!(wrong("UPDATE a SET b = 1").contains("first line"));
    assert!(wrong("-- MySQL\n").contains("no statement"));
    check(
        &connection,
        "-- SQLite\nCREATE TABLE a (b INTEGER);\nUPDATE a SET b = ?1 WHERE b <= :c;",
    )
    .unwrap();
    check(
        &connection,
        "-- PostgreSQL\nSELECT pg_advisory_lock($1); UPDATE a SET b = $1 WHERE b <= $1",
    )
    .unwrap();
}
