//! Commands on the pages, in `sh` blocks and between backticks: the examples, commands, flags and features they name
//! exist, and `redis-cli` lines run against a server.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use clap::Parser as _;
use clap::error::ErrorKind;
use lock_page_tests::{pages, root};
use lock_tests::RedisServer;

use crate::args::Args;
use crate::manifests::PACKAGES;
use crate::report;

/// What stands for a redirection once words have lost their quotation marks.
const REDIRECTION: char = '\u{1}';

/// The line with its redirections marked: `'>SECRET'` in quotation marks is none.
fn with_marks(line: &str) -> String {
    let mut quote = None;
    let mark = |c: char| {
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '>' || c == '<' => return REDIRECTION,
            _ => {}
        }
        c
    };
    line.chars().map(mark).collect()
}

/// The commands of a script, each as its words, without comments, variables before them and redirections after them.
pub(crate) fn commands(script: &str) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ");
    let mut commands = Vec::new();
    for line in script.lines() {
        let words = shlex::split(&with_marks(line)).unwrap_or_default();
        for command in words.split(|word| ["&&", "||", "|", "&", ";"].contains(&word.as_str())) {
            let is_variable = |word: &&String| {
                let name = word.split('=').next().unwrap_or_default();
                name.len() < word.len() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            };
            let words = command.iter().skip_while(is_variable);
            let words = words.take_while(|word| !word.contains(REDIRECTION));
            let words: Vec<_> = words.map(|word| word.trim_end_matches(';').to_owned()).collect();
            if !words.is_empty() {
                commands.push(words);
            }
        }
    }
    commands
}

/// The commands of `cargo xtask`, from its help.
fn xtasks() -> BTreeSet<String> {
    let help = fs::read_to_string(root().join("xtask/src/help.txt")).expect("it can be read");
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter(|line| !line.starts_with(' '));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// What is wrong with a command line of `cargo`.
fn cargo_mistake(words: &[String]) -> Option<String> {
    let (subcommand, rest) = words.split_first()?;
    let end = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
    let (own, passed_on) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
    if subcommand == "xtask" {
        let command = rest.first()?;
        let is_there = xtasks().contains(command);
        return (!is_there).then(|| format!("there is no `cargo xtask {command}`"));
    }
    let value = |names: [&str; 2]| {
        let at = own.iter().position(|word| names.contains(&word.as_str()))?;
        own.get(at + 1)
    };
    let package = match value(["-p", "--package"]) {
        None => None,
        Some(name) => match PACKAGES.get(name).filter(|package| package.is_member) {
            None => return Some(format!("there is no package `{name}` here")),
            Some(package) => Some((name.as_str(), package)),
        },
    };
    for kind in ["example", "bin", "test"] {
        let flag = format!("--{kind}");
        let is_placeholder = |name: &&String| name.chars().all(|c| c.is_ascii_uppercase());
        let Some(name) = value([&flag, &flag]).filter(|name| !is_placeholder(name)) else {
            continue;
        };
        let is_it = |target: &(String, String)| target.0 == kind && target.1 == *name;
        let mut members = PACKAGES.iter().filter(|(member, of)| {
            of.is_member && package.is_none_or(|(named, _)| named == member.as_str())
        });
        if !members.any(|(_, package)| package.targets.iter().any(is_it)) {
            return Some(format!("there is no {kind} `{name}`"));
        }
    }
    if ["add", "install"].contains(&subcommand.as_str()) {
        if let Some(path) = value(["--path", "--path"]) {
            let is_member = root().join(path.rsplit('/').next()?).join("Cargo.toml").is_file();
            return (!is_member).then(|| format!("there is no crate in `{path}`"));
        }
        let name = rest.iter().find(|word| !word.starts_with('-'))?;
        let Some(package) = PACKAGES.get(name) else {
            return Some(format!("this workspace knows no package `{name}`"));
        };
        let features = value(["-F", "--features"])?.split(',');
        let unknown =
            features.into_iter().find(|feature| !package.features.iter().any(|f| f == feature));
        return unknown.map(|feature| format!("`{name}` has no feature `{feature}`"));
    }
    let runs_lockctl = subcommand == "run" && package.is_some_and(|(name, _)| name == "lock-cli");
    runs_lockctl.then(|| lockctl_mistake(passed_on)).flatten()
}

/// What the parser of `lockctl` says of these arguments, if it refuses them.
fn lockctl_mistake(words: &[String]) -> Option<String> {
    let is_mention = words.len() == 1;
    let words = std::iter::once("lockctl").chain(words.iter().map(String::as_str));
    let error = Args::try_parse_from(words).err()?;
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        // A command that a sentence mentions: `lockctl release`.
        ErrorKind::MissingRequiredArgument => is_mention,
        _ => false,
    };
    (!is_fine).then(|| error.to_string())
}

/// What is wrong with a command, as far as it is one of this workspace.
fn mistake(words: &[String]) -> Option<String> {
    let (program, rest) = words.split_first()?;
    match program.rsplit('/').next()? {
        "cargo" => cargo_mistake(rest),
        "nice" | "exec" | "time" => mistake(rest),
        "lockctl" => lockctl_mistake(rest),
        _ => None,
    }
}

#[test]
fn scripts_parse() {
    let mut looked_at = 0;
    let mut mistakes = Vec::new();
    for page in pages() {
        for block in page.in_language("sh") {
            looked_at += 1;
            let bash = Command::new("bash").args(["-n", "-c", &block.code]).output();
            let bash = bash.expect("bash is installed");
            if !bash.status.success() {
                let said = String::from_utf8_lossy(&bash.stderr);
                mistakes.push(format!("{}: {said}", page.place(block)));
            }
            for line in block.code.replace("\\\n", " ").lines() {
                // Quotation marks that end in another line would hide the command from the other checks.
                let opens =
                    ["cargo ", "lockctl ", "redis-cli "].iter().any(|name| line.starts_with(name));
                if opens && shlex::split(line).is_none() {
                    mistakes
                        .push(format!("{}: `{line}` goes on in the next line", page.place(block)));
                }
            }
        }
    }
    report(mistakes, looked_at, 10);
}

#[test]
fn commands_exist() {
    let mut looked_at = 0;
    let mut mistakes = Vec::new();
    for page in pages() {
        let blocks = page.in_language("sh").map(|block| (page.place(block), &block.code));
        let is_command =
            |span: &&String| span.starts_with("cargo ") || span.starts_with("lockctl ");
        let spans = page.spans.iter().filter(is_command).map(|span| (page.path.clone(), span));
        for (place, script) in blocks.chain(spans) {
            for words in commands(script) {
                looked_at += 1;
                mistakes.extend(mistake(&words).map(|mistake| format!("{place}: {mistake}")));
            }
        }
    }
    report(mistakes, looked_at, 60);
}

/// The words of a `redis-cli` command for the server, without where the server is.
pub(crate) fn for_the_server(words: &[String]) -> Option<&[String]> {
    let (program, mut rest) = words.split_first()?;
    if program != "redis-cli" {
        return None;
    }
    while let [flag, _, after @ ..] = rest
        && ["-h", "-p", "-u", "-a", "-n", "--user", "--pass"].contains(&flag.as_str())
    {
        rest = after;
    }
    (!rest.is_empty()).then_some(rest)
}

/// Each page has a server of its own, on which its commands run in their order.
#[tokio::test]
async fn redis_accepts_each_command() {
    let mut mistakes = Vec::new();
    for page in pages() {
        let mut server = None;
        for block in page.in_language("sh") {
            for command in commands(&block.code) {
                let Some(words) = for_the_server(&command) else { continue };
                let server: &RedisServer = match server {
                    Some(ref server) => server,
                    None => server.insert(RedisServer::start().await),
                };
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                if let Err(error) = server.client().try_cmd(&words).await {
                    mistakes.push(format!("{}: `{}`: {error}", page.place(block), words.join(" ")));
                }
            }
        }
    }
    report(mistakes, 0, 0);
}

#[test]
fn wrong_commands_are_found() {
    let only = |script: &str| {
        let found = commands(script).iter().filter_map(|words| mistake(words)).collect::<Vec<_>>();
        found.join("\n")
    };
    assert!(only("A=b cargo run --example quikstart > log").contains("no example `quikstart`"));
    assert!(only("cargo xtask test && cargo xtask tset").contains("no `cargo xtask tset`"));
    assert!(only("nice cargo test -p lock-test").contains("no package"));
    assert!(only("lockctl ls --held-long 3s   # comment").contains("--held-long"));
    assert!(only("cargo run -p lock-cli -- --url redis://h sl").contains("sl"));
    assert!(only("cargo add lock-runtime --features metrics,no").contains("no feature `no`"));
    assert!(only("cargo install --path lock-cil").contains("no crate"));
    let fine = "cargo run -p quickstart --example quickstart; cargo xtask bench --peers\n\
                lockctl --json ls order: --held-longer 3s && cargo install --path lock-cli\n\
                cargo add lock-runtime -F metrics,sites";
    assert_eq!(only(fine), "");
    let words = commands("redis-cli -u redis://h:1 ACL '>LIST' > log  # all");
    assert_eq!(for_the_server(&words[0]), Some(&["ACL".to_owned(), ">LIST".to_owned()][..]));
}
