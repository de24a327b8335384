//! The dependencies that the pages tell a reader to add: their names, versions and features exist.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::LazyLock;

use lock_page_tests::{pages, root};
use serde_json::Value;

use crate::report;

/// What `cargo metadata` says of a package.
pub(crate) struct Package {
    pub(crate) versions: Vec<String>,
    pub(crate) features: Vec<String>,
    pub(crate) is_member: bool,
    /// The names of its targets, by their kind: `example`, `bin`, `test`.
    pub(crate) targets: Vec<(String, String)>,
}

/// The packages of this workspace and those that it depends on.
pub(crate) static PACKAGES: LazyLock<BTreeMap<String, Package>> = LazyLock::new(|| {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["metadata", "--format-version", "1"]);
    cargo.args(["--filter-platform", env!("TARGET")]);
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let mut packages = BTreeMap::new();
    for found in metadata["packages"].as_array().expect("a list of packages") {
        let package = packages.entry(text(&found["name"])).or_insert_with(|| Package {
            versions: Vec::new(),
            features: Vec::new(),
            is_member: found["source"].is_null(),
            targets: Vec::new(),
        });
        package.versions.push(text(&found["version"]));
        package.features.extend(found["features"].as_object().expect("features").keys().cloned());
        // A dependency that is optional and that no feature names is a feature itself.
        let optional =
            list(&found["dependencies"]).filter(|dependency| dependency["optional"] == true);
        package.features.extend(optional.map(|dependency| text(&dependency["name"])));
        for target in list(&found["targets"]) {
            package.targets.push((text(&target["kind"][0]), text(&target["name"])));
        }
    }
    packages
});

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Whether a version is what `"0.1"` asks for.
fn satisfies(version: &str, requirement: &str) -> bool {
    let rest = version.strip_prefix(requirement.trim_start_matches('='));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What is wrong with a dependency, which is a version or a table.
fn mistake(name: &str, dependency: &toml::Value) -> Option<String> {
    let name = dependency.get("package").and_then(toml::Value::as_str).unwrap_or(name);
    let Some(package) = PACKAGES.get(name) else {
        return Some(format!("this workspace knows no package `{name}`"));
    };
    let version = dependency.as_str().or_else(|| dependency.get("version")?.as_str());
    if let Some(version) = version
        && !package.versions.iter().any(|found| satisfies(found, version))
    {
        return Some(format!("`{name}` is at {:?} and not at `{version}`", package.versions));
    }
    if let Some(path) = dependency.get("path").and_then(toml::Value::as_str)
        && !(package.is_member && root().join(path.rsplit('/').next()?).is_dir())
    {
        return Some(format!("there is no folder `{path}`"));
    }
    if version.is_none() && dependency.get("path").is_none() {
        return Some(format!("`{name}` has neither a version nor a path"));
    }
    let features = dependency.get("features").and_then(toml::Value::as_array);
    let mut features = features.into_iter().flatten().filter_map(toml::Value::as_str);
    let unknown =
        features.find(|feature| !package.features.iter().any(|found| found == feature))?;
    Some(format!("`{name}` has no feature `{unknown}`"))
}

/// What is wrong with the tables of dependencies of a `Cargo.toml`, or with its lines if it has no table.
fn mistakes(manifest: &str) -> (Vec<String>, usize) {
    let manifest: toml::Table = match manifest.parse() {
        Ok(manifest) => manifest,
        Err(error) => return (vec![error.to_string()], 0),
    };
    let is_table = |name: &str| name.ends_with("dependencies");
    let tables: Vec<_> = manifest.iter().filter(|(name, _)| is_table(name)).collect();
    let dependencies: Vec<_> = if tables.is_empty() {
        manifest.iter().collect()
    } else {
        tables.into_iter().filter_map(|(_, table)| table.as_table()).flatten().collect()
    };
    let count = dependencies.len();
    (dependencies.into_iter().filter_map(|(name, value)| mistake(name, value)).collect(), count)
}

#[test]
fn dependencies_exist() {
    let mut found = Vec::new();
    let mut looked_at = 0;
    for page in pages() {
        for block in page.in_language("toml").filter(|block| !block.code.contains("[lock")) {
            let (mistakes, count) = mistakes(&block.code);
            looked_at += count;
            found.extend(
                mistakes.into_iter().map(|mistake| format!("{}: {mistake}", page.place(block))),
            );
        }
    }
    report(found, looked_at, 4);
}

#[test]
fn wrong_dependencies_are_found() {
    let only = |manifest: &str| mistakes(manifest).0.pop().unwrap_or_default();
    assert!(only("lock-runtime = \"9\"").contains("is at"));
    assert!(only("lock-runtim = \"0.1\"").contains("no package"));
    assert!(
        only("[dependencies]\ntokio = { version = \"1\", features = [\"no\"] }")
            .contains("no feature")
    );
    assert!(only("lock-tower = { path = \"../x/lock-towr\" }").contains("no folder"));
    assert!(only("lock-tower = { features = [\"axum\"] }").contains("neither"));
    assert_eq!(
        only("[dev-dependencies]\ntokio = { version = \"1\", features = [\"test-util\"] }"),
        ""
    );
    assert!(satisfies("0.13.6", "0.13") && !satisfies("0.13.6", "0.1"));
}
