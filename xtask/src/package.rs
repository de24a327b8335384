//! A rehearsal of publishing: what a registry and its users would get.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::cargo::{self, Step, build_folder, workspace_root};

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

/// What each packed crate must contain, beside its sources.
const REQUIRED: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The files of a crate that depends on the packed ones as a program of a user does.
const CONSUMER: [(&str, &str); 2] = [
    ("Cargo.toml", include_str!("consumer/Cargo.toml.txt")),
    ("src/main.rs", include_str!("consumer/main.rs")),
];

/// Packs all crates from a clean checkout of the last commit, then compiles the packed crates against each other, and a
/// program against them.
///
/// # Errors
///
/// When a crate cannot be packed, lacks a file, or does not compile.
pub(crate) fn run() -> Result<(), Failure> {
    let folder = build_folder().join("packed");
    let checkout = folder.join("checkout");
    let cannot = |error: io::Error| {
        Failure::message(format!("cannot write to {}: {error}", folder.display()))
    };
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(cannot)?;
    }
    fs::create_dir_all(&folder).map_err(cannot)?;
    pack(&folder, &checkout)?;
    let crates = PUBLISHED.map(|name| unpack(&folder, name));
    let crates = crates.into_iter().collect::<Result<Vec<_>, _>>()?;
    write_workspace(&folder, &checkout, &crates).map_err(cannot)?;
    // Shares the folder of the tests: most dependencies are compiled there already.
    let manifest = folder.join("Cargo.toml").display().to_string();
    let target = build_folder().display().to_string();
    let check = Step::new("check").in_background().args(&["--manifest-path", &manifest]);
    check.args(&["--workspace", "--target-dir", &target]).run()
}

/// Packs the crates. A registry would refuse what cargo refuses here: files that are missing or changed, a dependency without
/// a version, a crate that comes before one that it needs.
fn pack(folder: &Path, checkout: &Path) -> Result<(), Failure> {
    let root = workspace_root();
    let checkout = checkout.display().to_string();
    let clone = Step::program("git", "git").in_background();
    clone.args(&["clone", "--quiet", "--shared", &root.display().to_string(), &checkout]).run()?;
    let manifest = format!("{checkout}/Cargo.toml");
    let package = Step::new("package").in_background().args(&["--manifest-path", &manifest]);
    let package = package.args(&["--locked", "--no-verify", "--target-dir"]);
    let packages = PUBLISHED.iter().flat_map(|name| ["--package", name]).collect::<Vec<_>>();
    package.arg(&folder.display().to_string()).args(&packages).run()
}

/// Unpacks a crate, and returns where.
fn unpack(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let packages = folder.join("package");
    let cannot = |what: &str| Failure::message(format!("cannot unpack {name}: {what}"));
    let files = fs::read_dir(&packages).map_err(|error| cannot(&error.to_string()))?;
    let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let is_it = |file: &String| {
        let version = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        file.ends_with(".crate")
            && version.is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()))
    };
    let file = names.find(is_it).ok_or_else(|| cannot("cargo has not packed it"))?;
    let mut tar = cargo::command("tar");
    // `m`: files of now. A package's files all have one date, by which cargo would take those of an earlier run for the same.
    tar.arg("-xzmf").arg(packages.join(&file)).current_dir(folder);
    let status = tar.status().map_err(|error| cannot(&format!("tar does not run: {error}")))?;
    if !status.success() {
        return Err(cannot(&format!("tar failed: {status}")));
    }
    let unpacked = folder.join(file.trim_end_matches(".crate"));
    match REQUIRED.iter().find(|required| !unpacked.join(required).is_file()) {
        Some(missing) => {
            Err(Failure::message(format!("the packed {name} lacks {missing}; add it to {name}/")))
        }
        None => Ok(unpacked),
    }
}

/// Writes a workspace of the packed crates and of the program, in which every crate is the packed one.
fn write_workspace(folder: &Path, checkout: &Path, crates: &[PathBuf]) -> io::Result<()> {
    let members: Vec<_> = crates.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let patches = PUBLISHED.iter().zip(&members);
    let patches = patches.map(|(name, path)| format!("{name} = {{ path = {path:?} }}\n"));
    // With other profiles than in the checkout, every dependency would be compiled once more.
    let ours = fs::read_to_string(checkout.join("Cargo.toml"))?;
    let no_profile = || io::Error::other("the workspace's Cargo.toml has no `[profile.dev]`");
    let profiles = &ours[ours.find("[profile.dev]").ok_or_else(no_profile)?..];
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"consumer\", {}]\n\n[patch.crates-io]\n{}\n{profiles}",
        members.iter().map(|path| format!("{path:?}")).collect::<Vec<_>>().join(", "),
        patches.collect::<String>()
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    // The same versions, and no need to ask a registry.
    fs::copy(checkout.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    for (file, text) in CONSUMER {
        let file = folder.join("consumer").join(file);
        fs::create_dir_all(file.parent().unwrap_or(folder))?;
        fs::write(file, text)?;
    }
    Ok(())
}
