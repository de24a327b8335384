//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::prelude::*;

use crate::case::Case;
use crate::counts::Load;
use crate::peers::{self, Contender, Drive};
use crate::timing::Timing;

/// The answer to `--help`.
pub(crate) const HELP: &str = "\
Usage: lock-benches [--quick] [--only CASE]… [--rounds N] [--seconds S] [--strict]
       lock-benches --counts [--accept] [--strict]
       lock-benches --instructions [--strict]
       lock-benches [--quick] --peers [--curves] [--row ROW]… [--peer NAME]… [--rounds N] [--seconds S]
       lock-benches --docs

  --quick       a short run, well under two minutes
  --only CASE   only this case: pair, own-keys, hot-key, fair, nested, cluster,
                holds, waiters, survey, attribute, layer, load; may be repeated
  --rounds N    how often the contenders take turns
  --seconds S   how long each turn lasts, such as 0.5
  --strict      exit with 1 if a target is missed
  --counts      counts instructions, allocations, commands and system calls of a pair in
                place of time, by valgrind, and compares them with those on record; a run by
                `cargo xtask bench` builds what valgrind can run
  --accept      puts these counts on record
  --instructions
                the same counts beside those of the bare commands and of another library
  --peers       compares with other libraries, each in processes of its own, whose drivers are
                built by the tools of their languages; writes report.md
  --curves      more and fewer tasks, locks and processes in place of the usual rows
  --row ROW     only this row, such as own-64 or hot-4x16; may be repeated
  --peer NAME   only this contender beside ours, such as Redisson; may be repeated
  --docs        draws the charts and fills the tables of docs/performance.md and docs/scale.md
                from the last --peers, --peers --curves and --only holds

Needs `redis-server`: the one named in REDIS_SERVER, else the one on the PATH.";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Run(Args),
    /// Runs the load whose costs are counted.
    Work(Load),
    /// Compares with other libraries.
    Peers(peers::Plan),
    /// Writes the pages on performance.
    Docs,
    /// Drives a contender that the comparison asks for.
    Drive(Drive),
    Help,
}

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The time that cases take.
    Cases,
    /// What a pair of ours costs, compared with the counts on record.
    Counts,
    /// What a pair costs each contender.
    Instructions,
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Args {
    /// Names the file of results: two runs of one name measured the same.
    pub(crate) name: String,
    pub(crate) timing: Timing,
    pub(crate) cases: Vec<Case>,
    pub(crate) strict: bool,
    pub(crate) plan: Plan,
    /// Whether to put the counts on record.
    pub(crate) accept: bool,
}

const FULL: Timing =
    Timing { rounds: 9, turn: Duration::from_secs(1), slow_turn: Duration::from_secs(5) };
const QUICK: Timing =
    Timing { rounds: 7, turn: Duration::from_millis(250), slow_turn: Duration::from_millis(1500) };

/// Reads the command line, the program's name first.
pub(crate) fn parse<I>(words: I) -> Result<Command, lexopt::Error>
where
    I: IntoIterator<Item: Into<OsString>>,
{
    let (mut quick, mut strict, mut accept) = (false, false, false);
    let mut plan = Plan::Cases;
    let (mut rounds, mut seconds) = (None, None);
    let mut only = Vec::new();
    let mut parser = lexopt::Parser::from_iter(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => quick = true,
            Long("strict") => strict = true,
            Long("counts") => plan = Plan::Counts,
            Long("instructions") => plan = Plan::Instructions,
            Long("accept") => accept = true,
            Long("work") => return Ok(Command::Work(parser.value()?.parse()?)),
            Long("drive") => return Ok(Command::Drive(parser.value()?.parse()?)),
            Long("docs") => return Ok(Command::Docs),
            Long("peers") => return Ok(Command::Peers(comparison(&mut parser, quick)?)),
            Long("only") => only.push(parser.value()?.parse_with(case)?),
            Long("rounds") => rounds = Some(parser.value()?.parse_with(round_count)?),
            Long("seconds") => seconds = Some(parser.value()?.parse_with(turn_length)?),
            Short('h') | Long("help") => return Ok(Command::Help),
            _ => return Err(argument.unexpected()),
        }
    }
    let timing = if quick { QUICK } else { FULL };
    let timing = Timing {
        rounds: rounds.unwrap_or(timing.rounds),
        turn: seconds.unwrap_or(timing.turn),
        slow_turn: seconds.map_or(timing.slow_turn, |turn| timing.slow_turn.max(turn)),
    };
    let mut name = match plan {
        Plan::Cases if quick => "quick",
        Plan::Cases => "full",
        Plan::Counts => "counts",
        Plan::Instructions => "instructions",
    }
    .to_owned();
    only.iter().for_each(|case: &Case| name = format!("{name}-{}", case.name()));
    let cases = if only.is_empty() { Case::ALL.to_vec() } else { only };
    Ok(Command::Run(Args { name, timing, cases, strict, plan, accept }))
}

/// What follows `--peers`.
fn comparison(parser: &mut lexopt::Parser, quick: bool) -> Result<peers::Plan, lexopt::Error> {
    let mut plan = peers::Plan::new(quick);
    let (mut rows, mut peers) = (Vec::new(), Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => plan.timing = peers::Plan::new(true).timing,
            Long("curves") => plan = peers::Plan { timing: plan.timing, ..peers::Plan::curves() },
            Long("row") => rows.push(parser.value()?.parse()?),
            Long("peer") => peers.push(parser.value()?.parse_with(contender)?),
            Long("rounds") => plan.timing.rounds = parser.value()?.parse_with(round_count)?,
            Long("seconds") => plan.timing.turn = parser.value()?.parse_with(turn_length)?,
            _ => return Err(argument.unexpected()),
        }
    }
    if !rows.is_empty() {
        plan.rows = rows;
    }
    if !peers.is_empty() {
        plan.contenders.retain(|name| Contender::is_ours(name) || peers.contains(name));
    }
    Ok(plan)
}

fn contender(text: &str) -> Result<&'static str, String> {
    let names = Contender::ALL.map(|contender| contender.name);
    names
        .into_iter()
        .find(|name| *name == text)
        .ok_or_else(|| format!("there is no such contender; expected one of: {}", names.join(", ")))
}

fn case(text: &str) -> Result<Case, String> {
    Case::ALL.iter().copied().find(|case| case.name() == text).ok_or_else(|| {
        let names: Vec<_> = Case::ALL.iter().map(|case| case.name()).collect();
        let names = names.join(", ");
        format!("there is no such case; expected one of: {names}")
    })
}

fn round_count(text: &str) -> Result<usize, String> {
    let rounds = text.parse().ok().filter(|rounds| (1..=1000).contains(rounds));
    rounds.ok_or_else(|| "give a number of rounds from 1 to 1000".to_owned())
}

fn turn_length(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a number of seconds from 0.01 to 600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Args {
        match parse(std::iter::once(&"lock-benches").chain(words)) {
            Ok(Command::Run(args)) => args,
            other => panic!("{words:?} should be a run: {other:?}"),
        }
    }

    #[test]
    fn without_options_everything_is_measured() {
        let args = args(&[]);
        assert_eq!((args.name.as_str(), args.timing), ("full", FULL));
        assert_eq!((args.plan, args.cases.as_slice()), (Plan::Cases, Case::ALL));
        assert!(!args.strict);
    }

    #[test]
    fn options_change_the_plan() {
        let (case, rounds) = (Case::ALL[0].name(), "--rounds=3");
        let args = args(&["--quick", "--only", case, rounds, "--seconds", "2", "--strict"]);
        let turn = Duration::from_secs(2);
        assert_eq!(args.timing, Timing { rounds: 3, turn, slow_turn: turn });
        assert_eq!(args.name, format!("quick-{case}"));
        assert_eq!(args.cases, [Case::ALL[0]]);
        assert!(args.strict);
    }

    #[test]
    fn a_comparison_is_limited_to_rows_and_peers() {
        let words = ["lock-benches", "--quick", "--peers", "--row", "hot-8", "--peer", "rslock"];
        let Ok(Command::Peers(plan)) = parse(words) else { panic!("{words:?} should compare") };
        assert_eq!(plan.contenders, ["PING", "floor", "ours", "rslock"]);
        assert_eq!(plan.rows.len(), 1);
        assert_eq!(plan.timing, peers::Plan::new(true).timing);
        for words in [&["--peers", "--row", "hot"][..], &["--peers", "--peer", "pears"]] {
            assert!(parse(std::iter::once(&"lock-benches").chain(words)).is_err(), "{words:?}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            &["--only", "pears"][..],
            &["--rounds", "0"],
            &["--seconds", "-1"],
            &["--seconds", "NaN"],
            &["--only"],
            &["pair"],
        ] {
            assert!(parse(std::iter::once(&"lock-benches").chain(words)).is_err(), "{words:?}");
        }
    }
}
