//! The table has every public future.

use std::collections::BTreeSet;

use crate::connecting;
use crate::rows;

const RUNTIME: &str = include_str!("../../api/lock-runtime.txt");
const TOWER: &str = include_str!("../../api/lock-tower.txt");

/// Futures that have no row, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("AnyLock::shadow_lock", "as `lock`, for layers; it is not documented"),
    ("HeldLock::from_request_parts", "never pending"),
    ("Admin::force_release_from", "as `Admin::force_release`"),
    (
        "RedisCommand::run",
        "the store in memory runs none; `it` drops one in `kinds::redis_commands`",
    ),
];

/// Types that are futures; a function that returns one of them returns a future.
fn future_types(api: &str) -> BTreeSet<String> {
    let implements = api.lines().filter_map(|line| {
        let (_, of) = line.split_once(" core::future::future::Future for ")?;
        Some(without_generics(of.split(" where ").next()?))
    });
    implements.collect()
}

/// The text without what stands in angle brackets; an arrow is no bracket.
fn without_generics(text: &str) -> String {
    let (mut depth, mut rest) = (0_usize, String::new());
    for c in text.replace("->", "→").chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            c if depth == 0 => rest.push(c),
            _ => {}
        }
    }
    rest
}

/// `Type::function` of each function of the API that returns a future.
fn functions(api: &str) -> BTreeSet<String> {
    let types = future_types(api);
    let is_future = |returned: &str| {
        let returned = returned.trim();
        returned.starts_with("impl core::future::future::Future") || types.contains(returned)
    };
    let function = |line: &str| {
        let plain = without_generics(line);
        let (signature, is_async) = match plain.strip_prefix("pub async fn ") {
            Some(signature) => (signature, true),
            None => (plain.strip_prefix("pub fn ")?, false),
        };
        let (path, rest) = signature.split_once('(')?;
        let returned = rest.rsplit_once('→').map_or("", |(_, returned)| returned);
        let returned = returned.split(" + ").next().unwrap_or_default();
        let returned = returned.split(" where ").next().unwrap_or_default();
        let (path, name) = path.rsplit_once("::")?;
        let of = path.rsplit("::").next()?;
        (is_async || is_future(returned)).then(|| format!("{of}::{name}"))
    };
    api.lines().filter_map(function).collect()
}

#[test]
fn every_future_is_here() {
    let mut wanted = functions(RUNTIME);
    assert!(wanted.len() > 50, "only {} futures found: the API is not read", wanted.len());
    wanted.extend(functions(TOWER));
    let services = future_types(TOWER);
    assert!(services.len() >= 2, "{services:?}");
    wanted.extend(services.iter().filter_map(|path| path.rsplit("::").next()).map(str::to_owned));
    wanted.insert("distributed_lock".to_owned());
    let rows = rows::rows().map(|row| row.future);
    let known: BTreeSet<_> = rows.chain(connecting::FUTURES.iter().copied()).collect();
    let is_elsewhere = |future: &str| ELSEWHERE.iter().any(|(which, _)| future.starts_with(which));
    let missing: Vec<_> = wanted
        .iter()
        .filter(|future| !known.contains(future.as_str()) && !is_elsewhere(future))
        .collect();
    assert!(missing.is_empty(), "no row drops these at every await: {missing:?}");
    let gone: Vec<_> = known.iter().filter(|future| !wanted.contains(**future)).collect();
    assert!(gone.is_empty(), "the API does not have these: {gone:?}");
}
