//! Checks of the whole workspace that are no tests: spelling, dependencies, the oldest Rust, features, public API, packages.

use std::fs;
use std::path::Path;

use crate::cargo::{self, Step};
use crate::{Failure, ci, install};

/// The crates that are published, in the order in which that is possible.
pub(crate) const PUBLISHED: [&str; 7] = [
    "lock-syntax",
    "lock-macros",
    "lock-runtime",
    "lock-tower",
    "lock-sqlx",
    "lock-console",
    "lock-cli",
];

/// The crates that users name in their code.
const FOR_USERS: [&str; 5] =
    ["lock-runtime", "lock-tower", "lock-sqlx", "lock-macros", "lock-console"];

fn packages(names: &[&'static str]) -> Vec<&'static str> {
    names.iter().flat_map(|name| ["--package", name]).collect()
}

fn tool(name: &str) -> Result<Step, Failure> {
    Ok(Step::program(install::tools()?.join(name), name).in_background())
}

/// Checks the spelling of the files that git keeps, by `typos.toml`.
pub(crate) fn typos() -> Result<(), Failure> {
    // Hidden folders have templates and workflows.
    tool("typos")?.args(&["--hidden", "--exclude", ".git/", "--format", "brief"]).run()
}

/// Checks the dependencies by `deny.toml`; advisories come from the network.
pub(crate) fn deny(advisories: bool) -> Result<(), Failure> {
    let checks: &[_] = if advisories { &[] } else { &["bans", "licenses", "sources"] };
    tool("cargo-deny")?.arg("check").args(checks).run()
}

/// Compiles what is published with the oldest supported Rust, whichever releases of the dependencies `Cargo.lock` names.
pub(crate) fn msrv() -> Result<(), Failure> {
    oldest_rust()?;
    Step::new("check").args(&packages(&PUBLISHED)).arg("--all-features").run()
}

/// Checks that this toolchain is the oldest supported one, so that whatever passes with it passes for all users, and that pages
/// and the workflow name it.
pub(crate) fn oldest_rust() -> Result<(), Failure> {
    let supported = env!("CARGO_PKG_RUST_VERSION");
    let toolchain = cargo::rustc_says("release")?;
    if !toolchain.strip_prefix(supported).is_some_and(|rest| rest.starts_with('.')) {
        return Err(Failure::message(format!(
            "this is Rust {toolchain}, and `rust-version` in Cargo.toml is {supported}; code that passes here may not \
             compile with {supported}: use that toolchain (`rustup default {supported}`), or raise `rust-version`"
        )));
    }
    let pages = PUBLISHED.iter().map(|name| format!("{name}/README.md"));
    let pages = pages.chain(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]);
    let pages = pages.map(|page| (page, format!("Rust {supported}")));
    let workflow = (".github/workflows/ci.yml".to_owned(), format!("TOOLCHAIN: \"{supported}\""));
    for (page, words) in pages.chain([workflow]) {
        let text = fs::read_to_string(Path::new(&cargo::workspace_root()).join(&page));
        if !text.is_ok_and(|text| text.contains(&words)) {
            return Err(Failure::message(format!(
                "{page} does not have the words `{words}`; write them"
            )));
        }
    }
    Ok(())
}

/// Features of `lock-runtime` that CI compiles together, since none uses what another brings: each alone takes twice the time.
const TOGETHER: [&str; 8] = [
    "--group-features",
    "chrono-04,jiff-02,time-03",
    "--group-features",
    "figment-010,toml",
    "--group-features",
    "blocking,lock-order,metrics,tracing",
    "--group-features",
    "macros,sites",
];

/// Checks each feature of `lock-runtime`, and it without any.
///
/// # Errors
///
/// As [`feature_pairs`].
pub(crate) fn features() -> Result<(), Failure> {
    sets(&["lock-runtime"], "1", &TOGETHER)
}

/// Checks that every set of up to `depth` features compiles without a warning, by cargo-hack.
///
/// Clippy, which takes twice the time, sees the crates with all features, when it compiles the tests, and here with none. So
/// it does not see the code for one feature without another.
///
fn sets(crates: &[&'static str], depth: &str, together: &[&str]) -> Result<(), Failure> {
    cargo::ensure_components(&["clippy"])?;
    // The packed crates are compiled with the default set; no user sets the features that begin with `__`.
    let sets = ["--feature-powerset", "--depth", depth, "--skip", "default,__fuzz,__internals"];
    let hack = tool("cargo-hack")?.args(&["hack", "check"]).args(&packages(crates)).args(&sets);
    let hack = hack.args(together);
    let deny_warnings = Path::new(&cargo::workspace_root()).join("xtask/src/deny_warnings.sh");
    hack.env("CLIPPY", ci::clippy()).env("RUSTC_WORKSPACE_WRAPPER", deny_warnings).run()
}

/// Every pair of features of each crate. `lock-macros` has one feature: its tests are compiled with it, and `lock-runtime` with
/// `macros` alone needs it without.
///
/// # Errors
///
/// When cargo-hack or clippy cannot be installed, or a set has a warning.
pub(crate) fn feature_pairs() -> Result<(), Failure> {
    sets(&["lock-runtime", "lock-tower", "lock-sqlx", "lock-console"], "2", &[])
}

/// Compares the public API of each crate with `tests/api/<crate>.txt`, or writes these files.
///
/// rustdoc writes data, not pages. It checks links and examples as for pages, and sets what docs.rs sets; one run for all
/// crates that are published compiles their dependencies once. The other crates have no users, and would take a minute more.
///
/// # Errors
///
/// When the documentation has a warning, or an API is not the one on record.
pub(crate) fn api(accept: bool) -> Result<(), Failure> {
    let root = cargo::workspace_root();
    let rustdoc = Path::new(&root).join("xtask/src/rustdoc_json.sh");
    let features = public_features(Path::new(&root))?;
    let docs = Step::new("doc").in_background().args(&["--no-deps", "--features", &features]);
    let flags = "-D warnings --cfg docsrs -Zunstable-options --output-format json";
    let docs = docs.args(&packages(&PUBLISHED)).env("RUSTDOC", &rustdoc);
    docs.env("RUSTDOCFLAGS", flags).run()?;
    for package in FOR_USERS {
        let json = format!("doc/{}.json", package.replace('-', "_"));
        let json = cargo::build_folder().join(json).display().to_string();
        let on_record = format!("tests/api/{package}.txt");
        // With all features of all packages: the tests are built with the same dependencies.
        let check =
            &["--quiet", "--all-features", "--bin", "lock-api-check", "--", &json, &on_record];
        let step = Step::new("run").in_background().args(check);
        let step = if accept { step.env("UPDATE_SNAPSHOTS", "yes") } else { step };
        step.run().map_err(|Failure { message, code }| Failure {
            message: format!(
                "the public API of {package} is not the one in {on_record}; if that is meant, `cargo xtask api --accept` \
                 and commit the file ({message})"
            ),
            code,
        })?;
    }
    Ok(())
}

/// The features of the published crates, as cargo takes them, but those that begin with `__`: these show what only the tests
/// of the workspace may use.
fn public_features(root: &Path) -> Result<String, Failure> {
    let mut features = Vec::new();
    for package in PUBLISHED {
        let path = root.join(package).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).map_err(|error| {
            Failure::message(format!("cannot read {}: {error}", path.display()))
        })?;
        let section = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
        let section = section.take_while(|line| !line.starts_with('['));
        // A line that goes on with a list, and a comment, have no name before a `=`.
        let names = section.filter_map(|line| line.split_once(" = ").map(|(name, _)| name));
        let names = names.filter(|name| !name.starts_with(['_', '#', ' ']));
        features.extend(names.map(|name| format!("{package}/{name}")));
    }
    Ok(features.join(","))
}

/// Packs the published crates. A registry would refuse what cargo refuses here: files that are missing or changed, a dependency
/// without a version, a crate that comes before one that it needs. Who checks before a commit has changes that are in none yet.
pub(crate) fn pack() -> Result<(), Failure> {
    let step = Step::new("package").in_background();
    let step = step.args(&["--locked", "--no-verify", "--allow-dirty"]);
    step.args(&packages(&PUBLISHED)).run()
}

/// A rehearsal of publishing: cargo packs the crates and compiles each from its package, with the others from theirs.
pub(crate) fn rehearse() -> Result<(), Failure> {
    let step = Step::new("publish").args(&["--workspace", "--dry-run", "--locked"]);
    // Without it, each crate has a folder of its own, and its dependencies are compiled once more.
    step.env("CARGO_TARGET_DIR", cargo::build_folder().join("packed")).run()
}
