//! What the pages of the documentation refer to is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::faults::FAULTS;
use super::{files, root};

/// The pages of the repository: those of its folders of documentation, and those at its top.
fn pages() -> Vec<PathBuf> {
    let folders = [
        "docs",
        "examples",
        "benches",
        "fuzz",
        "models",
        "lock-cli",
        "lock-console",
        "lock-macros",
        "lock-runtime",
        "lock-sqlx",
        "lock-syntax",
        "lock-tower",
        "tests",
    ];
    let mut pages: Vec<_> =
        folders.iter().flat_map(|folder| files(&root().join(folder), "md")).collect();
    let top = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(top.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    pages
}

/// The targets of the links in a page that are files or headings.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.contains("::")).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let anchor = |heading: &str| heading.to_lowercase().chars().filter(kept).collect::<String>();
    headings.map(|heading| anchor(heading).replace(' ', "-")).collect()
}

fn is_there(page: &Path, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    let has_anchor = || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor);
    target.exists() && (anchor.is_empty() || has_anchor())
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            assert!(is_there(&page, link), "{}: `{link}` leads nowhere", page.display());
            count += 1;
        }
    }
    assert!(count > 100, "only {count} links found");
}

/// The numbers of a list such as `1, 6–8`.
fn numbers(list: &str) -> Vec<usize> {
    let parts = list.split(", ").map(|part| part.split_once('–').unwrap_or((part, part)));
    let bounds =
        parts.filter_map(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
    bounds.flat_map(|(from, to): (usize, usize)| from..=to).collect()
}

/// A fault belongs to a promise that it tries to break, or to what is not promised.
#[test]
fn the_safety_page_has_every_fault() {
    let page = fs::read_to_string(root().join("docs/safety.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(4));
    let cited = page.split('[').skip(1).filter_map(|rest| rest.split(']').next());
    let named: BTreeSet<_> = rows.chain(cited).flat_map(numbers).collect();
    let missing: Vec<_> = (1..=FAULTS).filter(|fault| !named.contains(fault)).collect();
    assert!(missing.is_empty(), "docs/safety.md does not name these faults: {missing:?}");
}

#[test]
fn what_is_not_there_is_found() {
    let page = root().join("docs/safety.md");
    assert!(is_there(&page, "faults.md") && is_there(&page, "#assumptions"));
    assert!(!is_there(&page, "no-such-page.md") && !is_there(&page, "faults.md#no-such-heading"));
    assert_eq!(links("[a](b.md#c), [d](https://e) and [`f`](f::g)"), ["b.md#c"]);
    assert_eq!(numbers("1, 6–8, –"), [1, 6, 7, 8]);
}
