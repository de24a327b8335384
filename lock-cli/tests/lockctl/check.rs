//! `lockctl check`.

use std::fs;
use std::path::PathBuf;

use lock_runtime::policy::LockConfig;
use lock_tests::bad_config::{WRONG_FOR_LAYERS, WRONG_TYPES, WRONG_WHOLES};
use tempfile::TempDir;

use crate::world::{Ran, lockctl};

/// Writes the file and checks it.
async fn check(folder: &TempDir, name: &str, text: &str, more: &[&str]) -> (PathBuf, Ran) {
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    let ran = lockctl(&[&["check", file.to_str().unwrap()], more].concat()).await;
    (file, ran)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_file_is_refused_as_the_service_would() {
    let folder = tempfile::tempdir().unwrap();
    let types = WRONG_TYPES.iter().map(|(text, _)| *text);
    let wholes = WRONG_WHOLES.iter().map(|(text, _)| *text);
    let mut checked = 0;
    for text in types.chain(wholes).chain(["lock = ", "[lock]\nurl = 'redis://:secret@host' junk"])
    {
        let service = LockConfig::from_toml(text).unwrap_err().to_string();
        let (file, ran) = check(&folder, "app.toml", text, &[]).await;
        let expected = format!("lockctl: {}: {service}\n", file.display());
        assert_eq!((ran.code, ran.stderr, &*ran.stdout), (1, expected, ""), "{text}");
        checked += 1;
    }
    for (text, expected) in WRONG_FOR_LAYERS {
        let (file, ran) = check(&folder, "app.toml", text, &[]).await;
        let expected = format!("lockctl: {}: {}\n", file.display(), expected.join("\n"));
        assert_eq!((ran.code, ran.stderr, &*ran.stdout), (1, expected, ""), "{text}");
        checked += 1;
    }
    assert!(checked > 90, "{checked} files");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_value_of_a_policy_has_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[lock]\nurl = 'memory:'\n\n[lock.defaults]\nwait = '3s'\nlease = 'watchdog 30s'\n\n\
                [lock.base.strict]\non_lost = 'cancel'\nhttp = { busy = 423, hold = 'body' }\n\n\
                [lock.policies.pay]\nbase = 'strict'\nwait = '1s'\nkey = 'pay:{path.id}'\nhttp = { busy = 409 }\n\n\
                [lock.policies.tenant]\n";
    let (_, ran) = check(&folder, "app.toml", text, &[]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{ran:?}");
    let lines: Vec<Vec<&str>> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    for expected in [
        &["wait", "'1s'", "[lock.policies.pay],", "line", "14"][..],
        &["lease", "'watchdog", "30s'", "[lock.defaults],", "line", "6"],
        &["on_lost", "'cancel'", "[lock.base.strict],", "line", "9"],
        &["http.busy", "409", "[lock.policies.pay],", "line", "16"],
        &["http.hold", "'body'", "[lock.base.strict],", "line", "10"],
        &["wait", "'3s'", "[lock.defaults],", "line", "5"],
        &["on_lost", "\"cancel\"", "built", "in,", "unless", "the", "program", "sets", "it"],
        &["release_timeout", "\"250ms\"", "built", "in,", "unless", "the", "program", "sets", "it"],
        &["enforce", "true", "built", "in,", "unless", "the", "program", "sets", "it"],
        &[
            "http.on_missing",
            "\"reject\"",
            "built",
            "in,",
            "unless",
            "the",
            "program",
            "sets",
            "it",
        ],
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected:?} is not in\n{}",
            ran.stdout
        );
    }
    // Only of the policy that layers use.
    assert_eq!(ran.stdout.matches("http.on_missing").count(), 1, "{}", ran.stdout);
    let max_waiters = ran.stdout.matches("16384, in HTTP layers 1024").count();
    assert_eq!(max_waiters, 2, "{}", ran.stdout);
    let (_, json) = check(&folder, "app.toml", text, &["--json"]).await;
    let json = json.json();
    assert_eq!((&json["valid"], &json["policies"][0]["name"]), (&true.into(), &"pay".into()));

    let text = r#"{ "lock": { "url": "memory:", "policies": { "p": { "wait": "2s" } } } }"#;
    let (_, ran) = check(&folder, "app.json", text, &[]).await;
    assert!(ran.code == 0 && ran.stdout.contains(r#""2s""#), "{ran:?}");
    for rest in ["junk", "{}", "]"] {
        let (file, ran) = check(&folder, "app.json", &format!("{text} {rest}"), &[]).await;
        ran.failed(1, &format!("{}: trailing characters", file.display()));
    }
    lockctl(&["check", "/nowhere/app.toml"]).await.failed(2, "/nowhere/app.toml cannot be read");
}

/// What a file leaves to the code is no mistake, and worth a sentence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_file_leaves_to_the_code_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[lock.policies.p]\nkey = 'a:{path.id}'\n[lock.policies.keyless]\n\
                [[lock.routes]]\npath = '/a/{id}'\npolicy = 'p'\n\
                [[lock.routes]]\npath = '/b'\npolicy = 'keyless'\n";
    let (_, ran) = check(&folder, "app.toml", text, &[]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{ran:?}");
    let hints: Vec<_> = ran.stdout.lines().filter(|line| line.starts_with("hint: ")).collect();
    let [server, key] = hints[..] else { panic!("{}", ran.stdout) };
    assert!(server.contains("it names no server") && server.contains("lock.url"), "{server}");
    assert!(key.contains("lock.routes[1] and its policy have no key"), "{key}");
    let (_, json) = check(&folder, "app.toml", text, &["--json"]).await;
    assert_eq!(json.json()["hints"].as_array().unwrap().len(), 2, "{json:?}");

    let complete =
        format!("{}\n[lock]\nurl = 'memory:'", text.replace("keyless]", "keyless]\nkey = 'b'"));
    let (_, ran) = check(&folder, "app.toml", &complete, &[]).await;
    assert!(ran.code == 0 && !ran.stdout.contains("hint:"), "{ran:?}");
}
