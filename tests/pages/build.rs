//! Makes a module of each Rust block, so that the tests compile it.
//!
//! The code keeps the line numbers that it has on its page: an error in `docs_http/block_12.rs:20` is at line 20 of
//! `docs/http.md`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "src/lib.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use all of it")]
mod library;

use library::{Block, Page, pages};

fn main() {
    println!("cargo::rerun-if-changed={}", library::root().join("docs").display());
    println!("cargo::rerun-if-changed=preludes");
    // Packages of other systems need not be there.
    println!("cargo::rustc-env=TARGET={}", env::var("TARGET").expect("cargo sets it"));
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut modules = String::new();
    for page in pages() {
        println!("cargo::rerun-if-changed={}", library::root().join(&page.path).display());
        write_page(&page, &to, &mut modules);
    }
    fs::write(to.join("blocks.rs"), modules).expect("the build's folder can be written to");
}

/// Writes a file for each block of a page, and the page's module, which has the names of its prelude.
fn write_page(page: &Page, to: &Path, modules: &mut String) {
    let name = page.module();
    let prelude = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("preludes/{name}.rs"));
    let prelude = fs::read_to_string(&prelude).unwrap_or_default();
    let to = to.join(&name);
    fs::create_dir_all(&to).expect("the build's folder can be written to");
    writeln!(modules, "mod {name} {{\n{prelude}").expect("it is memory");
    for block in page.in_language("rust") {
        if block.has("foreign") || block.quotes().is_some() {
            continue;
        }
        let file = to.join(format!("block_{}.rs", block.line));
        fs::write(&file, module(block, &prelude)).expect("the build's folder can be written to");
        writeln!(modules, "#[path = {file:?}]\nmod block_{};", block.line).expect("it is memory");
    }
    modules.push_str("}\n");
}

/// The code of a block as a module: a block of statements becomes the body of a function.
fn module(block: &Block, prelude: &str) -> String {
    // Bodies that a page leaves out.
    let code = block.code.replace("{ … }", "{ panic!() }");
    let before_code = "\n".repeat(block.line);
    if has_items_only(&code) {
        return format!("use super::*;{before_code}{code}");
    }
    let after = |start: &str| prelude.lines().find_map(|line| line.strip_prefix(start));
    let arguments = after("// Statements have: ").unwrap_or_default();
    let test = after("// Statements run with:").filter(|_| !block.has("no_run"));
    let test = test.map(|values| {
        format!("#[tokio::test] async fn runs() {{ block({values}).await.unwrap() }}\n")
    });
    format!(
        "use super::*; async fn block({arguments}) -> \
         Result<(), Box<dyn std::error::Error + Send + Sync>> {{ let _ = {{{before_code}{code}}}; Ok(()) }}\n{}",
        test.unwrap_or_default()
    )
}

/// Whether the code is a file by itself. A macro that is called at the top of a block is a statement.
fn has_items_only(code: &str) -> bool {
    let is_call = |item: &syn::Item| matches!(item, syn::Item::Macro(item) if item.ident.is_none());
    syn::parse_file(code).is_ok_and(|file| !file.items.iter().any(is_call))
}
