//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::prelude::*;

use crate::case::CASES;
use crate::counts::Load;
use crate::peers::{Contender, Row};
use crate::timing::Timing;

/// The answer to `--help`.
pub(crate) const HELP: &str = include_str!("help.txt");

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Measures rows and cases.
    Time(Plan),
    /// Counts what a pair of ours costs, and compares that with the counts on record, or puts it there.
    Counts {
        accept: bool,
        strict: bool,
    },
    /// Counts what a pair costs each contender.
    Instructions {
        strict: bool,
    },
    /// Runs the load whose costs are counted.
    Work(Load),
    /// Drives a contender that the comparison asks for.
    Drive(String),
    Help,
}

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Names the files of results: two runs of one name measured the same.
    pub(crate) name: String,
    pub(crate) timing: Timing,
    pub(crate) rows: Vec<Row>,
    pub(crate) cases: Vec<&'static str>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) strict: bool,
}

/// Reads the command line, the program's name first.
pub(crate) fn parse<I>(words: I) -> Result<Command, lexopt::Error>
where
    I: IntoIterator<Item: Into<OsString>>,
{
    let (mut name, mut timing, mut strict, mut accept) = ("full", Timing::FULL, false, false);
    let (mut counts, mut instructions, mut peers) = (false, false, false);
    let (mut rows, mut cases, mut named) = (Vec::new(), Vec::new(), Vec::new());
    let mut parser = lexopt::Parser::from_iter(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => timing = Timing::QUICK,
            Long("peers") => (name, peers) = ("peers", true),
            Long("only") => {
                let only = parser.value()?.string()?;
                match CASES.iter().find(|case| **case == only) {
                    Some(case) => cases.push(*case),
                    None => rows.push(only.parse().map_err(lexopt::Error::from)?),
                }
            }
            Long("peer") => named.push(parser.value()?.parse_with(Contender::named)?),
            Long("rounds") => timing.rounds = parser.value()?.parse::<usize>()?.max(1),
            Long("seconds") => timing.turn = parser.value()?.parse_with(turn_length)?,
            Long("strict") => strict = true,
            Long("counts") => counts = true,
            Long("instructions") => instructions = true,
            Long("accept") => accept = true,
            Long("work") => return Ok(Command::Work(parser.value()?.parse()?)),
            Long("drive") => return Ok(Command::Drive(parser.value()?.string()?)),
            Short('h') | Long("help") => return Ok(Command::Help),
            _ => return Err(argument.unexpected()),
        }
    }
    if counts {
        return Ok(Command::Counts { accept, strict });
    }
    if instructions {
        return Ok(Command::Instructions { strict });
    }
    if rows.is_empty() && cases.is_empty() {
        rows = Row::ALL.to_vec();
        cases = if peers { Vec::new() } else { CASES.to_vec() };
    }
    let takes_part = |contender: &Contender| {
        contender.is_always_there()
            || if named.is_empty() {
                peers || contender.is_rust()
            } else {
                named.contains(contender)
            }
    };
    let contenders = Contender::ALL.into_iter().filter(takes_part).collect();
    Ok(Command::Time(Plan { name: name.to_owned(), timing, rows, cases, contenders, strict }))
}

fn turn_length(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "give a number of seconds such as 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_change_the_plan() {
        let words = "lock-benches --quick --only hot-8 --peer Redisson --rounds=2";
        let Ok(Command::Time(plan)) = parse(words.split(' ')) else { panic!("it should measure") };
        assert_eq!(plan.timing, Timing { rounds: 2, ..Timing::QUICK });
        assert_eq!((plan.rows.len(), plan.cases.len()), (1, 0));
        let names: Vec<_> = plan.contenders.iter().map(|contender| contender.name).collect();
        assert_eq!(names, ["PING", "floor", "ours", "Redisson"]);
    }

    #[test]
    fn nonsense_is_refused() {
        for word in ["--only=pears", "--only=hot", "--peer=pears", "--seconds=NaN", "pair"] {
            assert!(parse(["lock-benches", word]).is_err(), "{word}");
        }
    }
}
