//! Each fence names a language that is checked, or one of those that are not, for a reason.

use std::fs;

use lock_page_tests::{Page, pages, root};
use lock_runtime::observe::METRICS;

use crate::report;

/// Blocks that a test of this program compiles, runs or parses.
const CHECKED: [&str; 7] = ["conf", "json", "rust", "sh", "sql", "toml", "yaml"];

/// Blocks that nothing here reads. Code of other libraries in other languages shows what a reader comes from, and its
/// compilers are not part of this workspace (`cargo xtask interop` runs Redisson itself). `text` is no code.
const UNCHECKED: [&str; 7] = ["csharp", "go", "java", "js", "python", "text", "ts"];

#[test]
fn each_fence_names_a_language() {
    let mut mistakes = Vec::new();
    let mut looked_at = 0;
    for page in pages() {
        for block in &page.blocks {
            looked_at += 1;
            let language = block.language.as_str();
            if !CHECKED.contains(&language) && !UNCHECKED.contains(&language) {
                let place = page.place(block);
                mistakes.push(format!(
                    "{place}: the language of the fence is `{language}`; write one of \
                     {CHECKED:?} or {UNCHECKED:?}"
                ));
            }
            // `no_run` is for rustdoc, which runs the examples of a README that a crate has as documentation.
            let known: &[&str] = if language == "rust" { &["foreign", "no_run"] } else { &[] };
            if let Some(flag) = block.flags.iter().find(|flag| !known.contains(&flag.as_str())) {
                mistakes.push(format!("{}: `{flag}` would turn a check off", page.place(block)));
            }
        }
    }
    report(mistakes, looked_at, 30);
}

/// Rust blocks show all of their code: GitHub does not hide lines as rustdoc does.
#[test]
fn no_line_is_hidden() {
    let mut mistakes = Vec::new();
    let mut looked_at = 0;
    for page in pages() {
        for block in page.in_language("rust") {
            looked_at += 1;
            let hidden = |line: &str| line.trim() == "#" || line.trim_start().starts_with("# ");
            if block.code.lines().any(hidden) {
                mistakes.push(format!(
                    "{}: GitHub shows lines that begin with `# `",
                    page.place(block)
                ));
            }
        }
    }
    report(mistakes, looked_at, 10);
}

/// Rust that uses other libraries is parsed only: they are no dependencies of this workspace.
#[test]
fn foreign_rust_parses() {
    for page in pages() {
        for block in page.in_language("rust").filter(|block| block.has("foreign")) {
            let place = page.place(block);
            assert!(!block.code.contains("lock_runtime"), "{place}: this code can be compiled");
            let as_body = format!("async fn block() {{ {} }}", block.code);
            let parsed = syn::parse_file(&block.code).or_else(|_| syn::parse_file(&as_body));
            parsed.unwrap_or_else(|error| panic!("{place}: {error}"));
        }
    }
}

/// The lines of a quotation that its source does not have, in that order. `…` stands for lines left out.
fn not_in_source<'a>(quotation: &'a str, source: &str) -> Option<&'a str> {
    let mut source = source.lines().map(code_of);
    let lines = quotation.lines().map(code_of).filter(|line| !line.is_empty() && *line != "…");
    lines.into_iter().find(|line| !source.any(|candidate| candidate == *line))
}

/// A line without its comment and indentation. Quotations have comments of their own.
fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or_default().trim()
}

/// A block whose first line is the path of a test is that test, which is compiled and run where it stands.
#[test]
fn quotations_are_in_their_tests() {
    let mut looked_at = 0;
    for page in pages() {
        for block in page.in_language("rust") {
            let Some(path) = block.quotes() else { continue };
            let place = page.place(block);
            let source = fs::read_to_string(root().join(path));
            let source = source.unwrap_or_else(|error| panic!("{place}: {path}: {error}"));
            let missing = not_in_source(&block.code, &source);
            assert!(missing.is_none(), "{place}: {path} does not have {missing:?} there");
            looked_at += 1;
        }
    }
    assert!(looked_at > 0, "no block quotes a test");
}

/// The names of metrics in a text, without what Prometheus appends.
fn metrics_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| word.starts_with("lock_") && !word.starts_with("lock_runtime");
    words.filter(is_metric).map(|word| {
        let ends = ["_bucket", "_sum", "_count"];
        ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word)
    })
}

/// YAML is alerts for Prometheus: it parses, and each metric in it exists.
#[test]
fn yaml_parses_and_names_metrics() {
    let mut looked_at = 0;
    let mut mistakes = Vec::new();
    for page in pages() {
        for block in page.in_language("yaml") {
            let place = page.place(block);
            if let Err(error) = serde_norway::from_str::<serde_norway::Value>(&block.code) {
                mistakes.push(format!("{place}: {error}"));
            }
            for name in metrics_in(&block.code) {
                looked_at += 1;
                if !METRICS.iter().any(|metric| metric.name == name) {
                    mistakes.push(format!("{place}: there is no metric `{name}`"));
                }
            }
        }
    }
    report(mistakes, looked_at, 5);
}

#[test]
fn json_parses() {
    for page in pages() {
        for block in page.in_language("json") {
            if let Err(error) = serde_json::from_str::<serde_json::Value>(&block.code) {
                panic!("{}: {error}", page.place(block));
            }
        }
    }
}

#[test]
fn blocks_are_found() {
    let text = "# A\n\n```rust,foreign\nx();\n```\n\n- b `cargo run`\n\n  ```sh\n  ls\n  ```\n\n```\n?\n```\n";
    let page = Page::parse("docs/a-b.md", text);
    let found: Vec<_> =
        page.blocks.iter().map(|block| (block.line, &*block.language, &*block.code)).collect();
    assert_eq!(found, [(3, "rust", "x();\n"), (9, "sh", "ls\n"), (13, "", "?\n")]);
    assert!(page.blocks[0].has("foreign") && page.blocks[0].quotes().is_none());
    assert_eq!(
        (page.spans, Page::parse("docs/a-b.md", "").module()),
        (vec!["cargo run".to_owned()], "docs_a_b".to_owned())
    );
    assert_eq!(not_in_source("// p\na // b\n…\nc\n", "x\na\ny\n c // d\n"), None);
    assert_eq!(not_in_source("c\na\n", "a\nc\n"), Some("a"));
    assert_eq!(
        metrics_in("rate(lock_a_total{x=\"y\"}) lock_b_bucket").collect::<Vec<_>>(),
        ["lock_a_total", "lock_b"]
    );
}
