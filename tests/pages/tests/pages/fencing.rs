//! The statements of `docs/fencing.md` refuse a late writer, in SQLite.

use lock_page_tests::{Page, pages};
use lock_sqlx::FenceDatabase;
use rusqlite::{Connection, ToSql};

const EARLIER: i64 = 7;
const LATER: i64 = 8;
const ID: i64 = 42;

/// The statements of the page's blocks for SQLite, a list for each block.
fn statements(page: &Page) -> Vec<Vec<String>> {
    let blocks = page.in_language("sql").filter(|block| block.code.starts_with("-- SQLite\n"));
    let is_statement = |statement: &String| !statement.is_empty();
    let without_comments = |code: &str| {
        let lines = code.lines().filter(|line| !line.starts_with("--"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let split = |code: String| {
        code.split(';').map(|part| part.trim().to_owned()).filter(is_statement).collect()
    };
    blocks.map(|block| split(without_comments(&block.code))).collect()
}

/// The first column of the rows that a statement returns.
fn rows(database: &Connection, statement: &str, parameters: &[&dyn ToSql]) -> Vec<i64> {
    let mut statement = database.prepare(statement).unwrap();
    // Bound one by one: a statement may leave out a number that its neighbours have.
    for (parameter, value) in (1..=statement.parameter_count()).zip(parameters) {
        statement.raw_bind_parameter(parameter, value).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        found.push(row.get(0).unwrap());
    }
    found
}

#[test]
fn a_late_writer_is_refused() {
    let pages = pages();
    let page = pages.iter().find(|page| page.path == "docs/fencing.md").expect("the page is there");
    let blocks = statements(page);
    let [fences, table, account] = &blocks[..] else {
        panic!("{} blocks for SQLite", blocks.len())
    };
    let [stamp, write, upsert] = &account[..] else { panic!("{} statements", account.len()) };
    let [check] = &fences[..] else { panic!("{} statements", fences.len()) };

    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(&table[0]).unwrap();
    assert_eq!(rows(&database, upsert, &[&EARLIER, &ID, &1000]), [ID], "a new row");
    assert_eq!(rows(&database, stamp, &[&EARLIER, &ID]), [1000], "the balance");
    assert_eq!(rows(&database, stamp, &[&EARLIER, &ID]), [1000], "a hold may read twice");

    // The later holder has only read, and the earlier one is refused all the same.
    assert_eq!(rows(&database, stamp, &[&LATER, &ID]), [1000]);
    assert_eq!(rows(&database, write, &[&EARLIER, &ID, &1]), [] as [i64; 0]);
    assert_eq!(rows(&database, upsert, &[&EARLIER, &ID, &1]), [] as [i64; 0]);
    assert_eq!(rows(&database, stamp, &[&EARLIER, &ID]), [] as [i64; 0]);
    assert_eq!(rows(&database, write, &[&LATER, &ID, &950]), [ID]);
    assert_eq!(rows(&database, upsert, &[&LATER, &ID, &960]), [ID]);
    assert_eq!(rows(&database, "SELECT cents FROM account", &[]), [960]);

    database.execute_batch(sqlx::Sqlite::MIGRATION).unwrap();
    assert_eq!(rows(&database, check, &[&"order:42", &LATER]), [LATER]);
    assert_eq!(rows(&database, check, &[&"order:42", &EARLIER]), [] as [i64; 0]);
    assert_eq!(rows(&database, check, &[&"order:42", &LATER]), [LATER]);
    assert_eq!(rows(&database, check, &[&"order:43", &EARLIER]), [EARLIER], "another name");
}
