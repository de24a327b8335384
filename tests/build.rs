//! Makes a module of each Rust block in the README, so that the tests compile them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    println!("cargo::rerun-if-changed={}", readme.display());
    let text = fs::read_to_string(&readme).expect("the README can be read");
    let mut modules = String::new();
    for (number, block) in text.split("```rust\n").skip(1).enumerate() {
        let code = block.split("```").next().unwrap_or_default().replace("{ … }", "{ panic!() }");
        let has_items = code.lines().any(|line| line.contains("fn ") || line.starts_with("#["));
        let code = match has_items {
            true => code,
            false => format!("async fn block(client: LockClient) -> Done {{\n{code}Ok(())\n}}\n"),
        };
        writeln!(modules, "mod block_{number} {{\nuse super::*;\n{code}}}").expect("it is memory");
    }
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("readme.rs");
    fs::write(to, modules).expect("the build's folder can be written to");
}
