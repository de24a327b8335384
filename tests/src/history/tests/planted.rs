//! Histories that are made up: each rule finds what is planted against it, and nothing in the same history without; a fault
//! allows what it explains, and nothing else that happens at that time.
//!
//! A history has parts, with a `;` between. A part is what one task did: `w4` holds alone, `r4` reads, and `p4/2/5` has two
//! permits of five. Three tasks are in a process, so `w4` is the second of process 1. Then come its deeds:
//!
//! | deed | what it is |
//! |---|---|
//! | `1+10-30` | it asks at 1, has the lock from 10, and releases it at 30, at once |
//! | `1+10<20#7` | it asks at 1 and has it from 10, with a deadline at 20 and the token 7; without `#` that is the time, and `#-` is none |
//! | `+10` | it has the lock, and has not asked |
//! | `did@12`, `read@12:7` | an effect; it has read 7, and writes 8 |
//! | `busy@22:15` | it runs at 22, and was due at 15 |
//!
//! `op` has the others. Another part is a fault: `delay 20-30`, `stop 20-` for one without an end, `stop/1 20-30` for one of
//! process 1 alone.

use super::*;

/// The kinds of faults.
const MAYS: [(&str, May); 5] = [
    ("delay", May::Delay),
    ("stop", May::Stop),
    ("repeat", May::Repeat),
    ("forget-in-part", May::ForgetInPart),
    ("forget", May::Forget),
];

/// The history of that text.
pub(super) fn history(text: &str) -> History {
    History::from_events(text.split(';').flat_map(part).collect())
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

fn part(text: &str) -> Vec<Event> {
    let (who, deeds) = text.trim().split_once(' ').unwrap_or_else(|| panic!("`{text}`"));
    let (kind, befalls) = who.split_once('/').map_or((who, None), |(kind, of)| (kind, Some(of)));
    if let Some((_, may)) = MAYS.iter().find(|(name, _)| *name == kind) {
        let (fault, befalls) = ("a fault".to_owned(), befalls.map(|of| number(of) as u32));
        let (began, ended) = deeds.split_once('-').expect("from when to when");
        let begins = Op::FaultBegan { fault: fault.clone(), may: *may, befalls };
        let began = event(number(began), 15, begins);
        let ended = (!ended.is_empty()).then(|| event(number(ended), 15, Op::FaultEnded { fault }));
        return [began].into_iter().chain(ended).collect();
    }
    let numbers: Vec<u32> = who[1..].split('/').map(|it| number(it) as u32).collect();
    let share = match (&who[..1], &numbers[1..]) {
        ("r", _) => Share::Readers,
        ("p", [count, limit]) => Share::Permits { count: *count, limit: *limit },
        _ => Share::Exclusive,
    };
    let ops = deeds.split(' ').flat_map(|deed| match deed.split_once('@') {
        Some((name, args)) => vec![op(name, &args.split(':').map(number).collect::<Vec<_>>())],
        None => hold(share, deed),
    });
    let events = ops.map(|(nanos, op)| match op {
        Op::Killed => Event { object: String::new(), task: 0, ..event(nanos, numbers[0], op) },
        op => event(nanos, numbers[0], op),
    });
    events.collect()
}

/// `1+10-30<40#7`, or a part of that.
fn hold(share: Share, deed: &str) -> Vec<(u64, Op)> {
    let (deed, token) = deed.split_once('#').map_or((deed, None), |(it, token)| (it, Some(token)));
    let (deed, until) = deed.split_once('<').map_or((deed, None), |(it, until)| (it, Some(until)));
    let (asked, deed) = deed.split_once('+').unwrap_or_else(|| panic!("`{deed}` is no hold"));
    let (start, end) = deed.split_once('-').map_or((deed, None), |(it, end)| (it, Some(end)));
    let token = token.unwrap_or(start).parse().ok();
    let got = Op::Acquired { share, token, valid_until: until.map(|it| at(number(it))) };
    let asks = (!asked.is_empty()).then(|| (number(asked), Op::AcquireInvoked));
    let ends = end.map(|end| [Op::ReleaseInvoked, Op::Released].map(|op| (number(end), op)));
    let ends = ends.into_iter().flatten();
    asks.into_iter().chain([(number(start), got)]).chain(ends).collect()
}

fn op(name: &str, args: &[u64]) -> (u64, Op) {
    let op = match (name, &args[1..]) {
        ("asks", []) => Op::AcquireInvoked,
        ("refused", []) => Op::NotAcquired,
        ("place", [place]) => Op::Queued { place: *place },
        ("moved", [until]) => Op::Extended { valid_until: at(*until) },
        ("did", []) => Op::Effect,
        ("read", [from]) => Op::Updated { from: *from, to: from + 1 },
        ("cancel", []) => Op::WriteCancelled,
        ("reread", [before, after]) => Op::Reread { before: *before, after: *after },
        ("in", [inside]) => Op::Entered { inside: *inside },
        ("lost", []) => Op::Lost,
        ("ends", []) => Op::ReleaseInvoked,
        ("ended", []) => Op::Released,
        ("failed", []) => Op::NotReleased { lost: true },
        ("silent", []) => Op::NotReleased { lost: false },
        ("kill", []) => Op::Killed,
        ("endless", []) => Op::Endless,
        ("passed", []) => Op::Passed { waiter: "a".to_owned(), by: "b".to_owned() },
        ("part", [ends_in]) => Op::Parts { held: 1, of: 2, ends_in: *ends_in },
        ("busy", [since]) => Op::Busy { since: at(*since) },
        _ => panic!("{name} {args:?} is no deed"),
    };
    (args[0], op)
}

/// What was found, by the names of violations, and what tells it from others of that name.
fn names(found: &[Violation]) -> String {
    let name = |it: &Violation| match it {
        Violation::TooManyPermits(_, sum) => format!("TooManyPermits={sum}"),
        Violation::Crowd(_, limit) => format!("Crowd={limit}"),
        Violation::LostUpdate(_, later) => format!("LostUpdate@{}", later.at),
        Violation::LeftFree(wait, from, to) => {
            format!("LeftFree@{}-{}:{from}-{to}", wait.from, wait.to)
        }
        Violation::NoRecovery(_, recovery) => format!("NoRecovery={}", recovery.took.as_nanos()),
        other => format!("{other:?}").split('(').next().unwrap_or_default().to_owned(),
    };
    let mut names: Vec<_> = found.iter().map(name).collect();
    names.sort();
    names.join(" ")
}

fn span(nanos: u64) -> std::time::Duration {
    std::time::Duration::from_nanos(nanos)
}

/// Lines of what happens, the history, what is found in it, and behind a `|` what a fault allows. The rules of a `[…]` hold for
/// the lines below it.
const PLANTED: &str = "
[]
C1, C3, a grant after its deadline is no claim: w0 2+4<20#2; w1 1+10<9#1 =>
C3, that was asked for after the other had begun: w0 2+4<20#2; w1 6+10<9#1 => TokenOrder
C3, a hold without a token: w0 1+2#- => NoToken
C3, readers share the token of the writer before them: w1 1+10-15#7; r2 1+20-25#7; r3 1+22-27#7; w4 1+30-35#8 =>
C3, a later writer has it: w1 1+10-15#7; r2 1+20-25#7; w3 1+30-35#7 => TokenOrder
C3, a writer has that of a reader: r1 1+10-15#7; w2 1+20-25#7 => TokenOrder
C3, a reader has a smaller one: w1 1+10-15#7; r2 1+20-25#6 => TokenOrder
C3, a writer has a smaller one: r1 1+10-15#7; w2 1+20-25#6 => TokenOrder
C3, a reader joined an earlier hold: r1 1+10-15#7; r2 1+20-25#6 =>
C3, the answer to a permit's request is late: p1/1/5 1+10-15#7; p2/1/5 9+20-25#6 =>
C3, a permit was asked for later: p1/1/5 1+10-15#7; p2/1/5 10+20-25#6 => TokenOrder
C5, readers share, and writers do not: r1 1+10-30; r2 1+20-40; w3 1+40-50; r4 1+50-60 =>
C5, a writer beside the last reader: r1 1+10-30; r2 1+20-40; w3 1+35-50 => Overlap
C5, a writer beside the first reader: r1 1+10-30; r2 1+20-40; w3 1+5-11 => Overlap
C5, a writer within a reader: r1 1+10-30; r2 1+20-40; w3 1+12-13 => Overlap
C6, as many permits as there are: p1/3/5 1+10-20; p2/2/5 1+12-30; p3/3/5 1+20-25 =>
C6, one permit more: p1/3/5 1+10-20; p2/2/5 1+12-30; p3/1/5 1+19-25 => TooManyPermits=6
C6, the limit is lowered while more are in use: p1/3/5 1+10-20; p2/2/5 1+12-30; p3/1/2 1+20-25 =>
C2, each update has read the one before: w1 1+10-20 read@15:0; w4 1+20-30 read@25:1 =>
C2, a lost update: w1 1+10-20 read@15:0; w4 1+20-30 read@25:0 => LostUpdate@25
C2, killed before it could write: w1 1+10 read@15:0 kill@16; w4 1+20-30 read@25:0 =>
C2, killed long after: w1 1+10-20 read@15:0 kill@24; w4 1+20-30 read@25:0 => LostUpdate@25
C2, cancelled before it could write: w1 1+10-20 read@15:0 cancel@16; w4 1+20-30 read@25:0 =>
C2, another task was cancelled: w1 1+10-20 read@15:0; w2 cancel@16; w4 1+20-30 read@25:0 => LostUpdate@25
C2, the other may have read what the first read: w1 1+10-40 read@15:0 cancel@24; w4 1+20-30 read@25:0 => LostUpdate@25 Overlap
C4, a loss at the deadline: w0 1+2<50 lost@50 =>
C4, a loss before it: w0 1+2<51 lost@50 => Lost
C4, a server has forgotten it: w0 1+2<51 lost@50; forget-in-part 40-45 => | Lost
C4, the store has forgotten it: w0 1+2<51 lost@50; forget 40-45 => | Lost
C4, a late release fails: w0 1+2<20 ends@40 failed@41; w3 5+30-50 =>
C4, a late release takes something away: w0 1+2<20 ends@40 ended@41; w3 5+30-50 => StaleRelease
C4, no other task had it meanwhile: w0 1+2<20 ends@40 ended@41; w3 5+40-50 =>
C4, a late release beside a reader: r0 1+2<20 ends@40 ended@41; r3 5+22-30 =>
C4, a late release behind a reader: r0 1+2<20 ends@40 ended@41; r3 5+22-30; w6 5+31-50 => StaleRelease
C4, a late release beside a permit: p0/1/2 1+2<20 ends@40 ended@41; p3/1/2 1+5-50 =>
C4, a late release of one permit too many: p0/1/2 1+2<20 ends@40 ended@41; p3/1/2 1+5-50; p6/1/2 1+25-50 => StaleRelease
C4, a release fails before the deadline: w0 1+2<50 ends@30 failed@49 => NotReleased
C4, the lease may have ended: w0 1+2<50 ends@30 failed@50 =>
C4, the first has no answer, and the second is lost and has none: w0 1+2<50 ends@30; w0 32+33<40 lost@40 failed@41 =>
C7, in the order of the places: w1 1+10-15 place@2:7; w2 2+15-20 place@3:8; w3 3+20-25 place@4:9 =>
C7, overtaken: w1 1+15-20 place@2:7; w2 2+10-15 place@3:8; w3 3+20-25 place@4:9 => Overtaken
C7, it joined when the other had the lock: w2 2+10-15 place@3:8; w1 11+15-20 place@12:7 =>
C12, the keys of one hold end some milliseconds apart: w0 part@1:50 =>
C12, a part: w0 part@1:51 => InPart
C3, tokens grow whatever happens: w9 0+1#200 ends@2; w1 1+10#90; w2 1+20-40#80; forget 2- => Overlap TokenOrder TokenOrder
C3, forgotten before its answer arrived: w1 4+30-40#7; w2 5+10-20#8; forget 2- => | TokenOrder
C3, that was asked for after the next: w1 12+30-40#7; w2 5+10-20#8; forget 2- => TokenOrder
a grant out of nowhere: w0 +1 => OutOfPlace
a grant on top of a hold: w0 1+2 +3 => OutOfPlace
a grant on top of a hold, asked for: w0 1+2 3+4 => OutOfPlace
a grant after a refusal: w0 asks@1 refused@2 +3 => OutOfPlace
a deadline out of nowhere: w0 moved@1:9 => OutOfPlace

[notice=40]
C6, one that could not leave is still counted: p1/1/2 1+10<20 in@11:1 lost@50; p3/1/2 1+30<90 in@31:2 ends@50; p6/1/2 1+31<90 in@32:3 ends@50 =>
C6, a crowd: p1/1/2 1+10<20 in@11:1 lost@50; p3/1/2 1+30<90 in@31:2 ends@50; p6/1/2 1+31<90 in@32:4 ends@50 => Crowd=2

[aftermath=4]
C4, a loss long after a fault: w0 1+2<51 lost@50; forget 40-45 => Lost
C4, a loss before a fault: w0 1+2<51 lost@50; forget 51-60 => Lost
C4, a loss that a delay does not explain: w0 1+2<51 lost@50; delay 40-49 => Lost
C4, a loss that a repetition does not explain: w0 1+2<51 lost@50; repeat 40-60 => Lost

[notice=3]
C10, it is told soon: w0 1+2<20 lost@23 =>
C10, it is told late: w0 1+2<20 lost@24 => LateNotice
C10, it stood still: w0 1+2<20 lost@24; stop 15- => | LateNotice
C10, it releases soon: w0 1+2<20 ends@23 =>
C10, it releases late: w0 1+2<20 ends@24 => LateNotice
C10, it stood still before: w0 1+2<20 ends@24; stop 15- => | LateNotice
C10, it was killed: w0 1+2<20 kill@99 =>

[free=5]
C8, the next has it soon: w1 1+2-20; w2 10+25-99 =>
C8, the next has it late: w1 1+2-20; w2 10+26-99 => LeftFree@10-26:20-26
C8, no task waited before: w1 1+2-20; w2 90+95-99 =>
C8, it gives up soon: w3 1+2-20; w6 30+31-99; w1 asks@10 refused@25 =>
C8, it gives up late: w3 1+2-20; w6 30+31-99; w1 asks@10 refused@26 => LeftFree@10-26:20-26
C8, it is killed soon: w3 1+2-20; w6 30+31-99; w1 asks@10 kill@25 =>
C8, it is killed late: w3 1+2-20; w6 30+31-99; w1 asks@10 kill@26 => LeftFree@10-26:20-26
C8, it asks to the end, and gives up in between: w3 1+2-20; w1 asks@10 refused@11 asks@12; w6 30+31-99 => LeftFree@10-99:20-31
C8, a newcomer has it first: w3 1+2-20; w4 10+45-50; w8 27+28-44 => LeftFree@10-45:20-28

[recovery=10]
C11, it recovers soon: delay 2-20; w1 1+30-99 =>
C11, it recovers late: delay 2-20; w1 1+31-99 => NoRecovery=11
C11, tasks ask and get nothing: delay 2-20; w1 asks@25 refused@45 => NoRecovery=20

[aftermath=100 notice=3]
granted, forgotten, and granted to the next: w1 4+30-40#7; w5 5+10-20#8; forget 6-7 => | TokenOrder
both were granted after it: w1 4+30-40#7; w5 5+10-20#8; forget 2-3 => TokenOrder
both were granted before it: w1 4+30-40#7; w5 5+10-20#8; forget 12-13 => TokenOrder
nothing was forgotten: w1 4+30-40#7; w5 5+10-20#8; stop 6-7 => TokenOrder
no token is given twice: w1 4+30-40#8; w5 5+10-20#8; forget 6-7 => TokenOrder
before the one between, so maybe before the fault: w1 4+30-40#50; w5 20+22-30#80; w7 13+14-16#60; forget 10-12 => | TokenOrder
after the one between, which was after the fault: w1 4+30-40#70; w5 20+22-30#80; w7 13+14-16#60; forget 10-12 => TokenOrder
a greater token that was forgotten: w1 4+40-45#50; w5 13+14-16#90; forget 10-12 => | TokenOrder
that hides no greater one of before the fault: w1 4+40-45#50; w5 13+14-16#90; w7 1+2-3#70; forget 10-12 => TokenOrder
a greater token of one before: w1 2+30-40#6; w5 5+10-20#9; forget 8-9 => | TokenOrder
each hold before is judged: w1 2+30-40#6; w5 5+10-20#9; w7 1+3-5#7; forget 8-9 => TokenOrder
handed on: w0 1+2-12#6; w1 10+12-14#7; w5 6+7-9#90; forget 4-5 => | Overlap TokenOrder
a task between the two was given up, and its token: w0 1+2-12#6; w1 10+12-14#8; w5 6+7-9#90; forget 4-5 => | Overlap TokenOrder
granted by itself after the fault: w0 1+2-12#6; w1 10+12-14#80; w5 6+7-9#90; forget 4-5 => TokenOrder | Overlap
of two at once the first was forgotten: w1 1+10-30#7; w5 16+20-40#8; forget 15-18 => | Overlap
the one with the smaller token was first: w1 1+10-30#8; w5 16+20-40#7; forget 15-18 => Overlap TokenOrder
a reader joined the hold: r0 1+2-15#6; r1 10+11-14#6; w5 6+7-20#90; forget 4-5 => | Overlap Overlap TokenOrder
a reader asked for its own: r0 1+2-15#6; r1 10+11-14#80; w5 6+7-20#90; forget 4-5 => Overlap TokenOrder | Overlap
a reader that was forgotten: r0 1+2-60#3; w6 20+21-30#90; forget 5-6 => | Overlap
that hides no other: r0 1+2-60#3; r3 10+11-40#20; w6 20+21-30#90; forget 5-6 => Overlap | Overlap
a stopped process has read one of two updates: w0 1+2-20 read@15:7; w3 21+22-40 read@30:7; stop/0 10-35 => | LostUpdate@30
or has written it: w0 1+2-20 read@15:7; w3 21+22-40 read@30:7; stop/1 10-35 => | LostUpdate@30
another process stood still: w0 1+2-20 read@15:7; w3 21+22-40 read@30:7; stop/2 10-35 => LostUpdate@30
it wrote 8 once more, after 9: w0 1+2-20 read@15:7; w3 21+22-30 read@25:7; w4 31+32-40 read@35:8; w6 41+42-50 read@45:8; stop/0 16-38 => | LostUpdate@25 LostUpdate@45
its hold had ended: w0 1+2-20 read@15:7; w3 21+22-30 read@25:7; w4 31+32-40 read@35:8; w6 41+42-50 read@45:8; stop/0 21-38 => LostUpdate@25 LostUpdate@45
a writer beside a reader was forgotten: w0 1+2#5 read@9:7 ends@30; r3 12+20-40#6 reread@35:7:8; forget 10-11 => | Changed Overlap
forgotten after both: w0 1+2#5 read@9:7 ends@30; r3 12+20-40#6 reread@35:7:8; forget 32-33 => Changed Overlap
a writer that was cancelled: w0 1+2#5 read@9:7 cancel@9 ends@10; r3 12+20-40#6 reread@35:7:8 =>
a writer that stood still, and learns late: w0 1+2<18#5 read@9:7 lost@30; r3 12+20-40#6 reread@35:7:8; stop/0 10-30 => | Changed LateNotice
five permits were forgotten: p1/3/5 1+10-50#1000; p2/2/5 11+12-50#1200; p3/4/5 13+20-50#2000; forget 14-15 => | TooManyPermits=9
three permits were: p1/3/5 1+10-50#1000; p2/2/5 11+12-50#1200; p3/4/5 13+20-50#2000; forget 8-10 => TooManyPermits=9
all permits were granted before it: p1/3/5 1+10-50#1000; p2/2/5 11+12-50#1200; p3/4/5 13+20-50#2000; forget 22-23 => TooManyPermits=9
all permits were granted after it: p1/3/5 1+10-50#1000; p2/2/5 11+12-50#1200; p3/4/5 13+20-50#2000; forget 0-0 => TooManyPermits=9
three more are asked for after it, with a token of before: p1/3/5 1+10-50#1000; p2/2/5 11+12-50#1200; p3/4/5 13+20-50#2000; forget 14-15; p4/3/5 16+17-18#1100 => TokenOrder TooManyPermits=8 TooManyPermits=9
those that were granted after the first loss, too: p1/5/5 1+10-50#1000; p2/5/5 14+20-50#2000; p3/5/5 21+30-50#3000; forget 12-13; forget 22-23 => | TooManyPermits=10 TooManyPermits=15
the second loss came after all grants: p1/5/5 1+10-50#1000; p2/5/5 14+20-50#2000; p3/5/5 21+30-50#3000; forget 12-13; forget 32-33 => TooManyPermits=15 | TooManyPermits=10
its process was cut off: w0 1+2<90 ends@45 silent@50; delay/0 20-30 => | NotReleased
another process was cut off: w3 1+2<90 ends@45 silent@50; delay/0 20-30 => NotReleased
cut off, and the store had lost it: w0 1+2<90 ends@45 failed@50; delay/0 20-30 => NotReleased
a process that stood still knows soon after: w0 1+2<20 lost@43; stop 15-40 => | LateNotice
later: w0 1+2<20 lost@44; stop 15-40 => LateNotice
a process that stood still works soon after: w1 1+10-30 did@43; stop 15-40 => | LateEffect
and later: w1 1+10-30 did@44; stop 15-40 => LateEffect
the stopped process works, and learns: w0 1+2<20 did@25 lost@43; stop/0 15-40 => | LateEffect LateNotice
while another stands still: w0 1+2<20 did@25 lost@43; stop/1 15-40 => LateEffect LateNotice
what a forgotten holder left is read long after: w1 1+2-40#5 read@35:7; w2 11+12-20#6 read@15:7; w4 20+21-30#7 read@25:8; w5 40+41-300#8 read@290:8; forget 8-9 => | LostUpdate@35 Overlap Overlap
a second reader of 7 has lost its own update: w1 1+2-40#5 read@35:7; w2 11+12-20#6 read@15:7; w4 20+21-30#7 read@25:8; w5 40+41-300#8 read@290:7; forget 8-9 => LostUpdate@290 | LostUpdate@35 Overlap Overlap
without that fault: w1 1+2-40#5 read@35:7; w2 11+12-20#6 read@15:7; w4 20+21-30#7 read@25:8; w5 40+41-300#8 read@290:8 => LostUpdate@35 Overlap Overlap
a hold that began in a fault: w0 30+31<90 lost@50; forget 20-30 => | Lost
a hold that began after it: w0 31+32<90 lost@50; forget 20-30 => Lost
overtaken in a fault: w1 30+50-55 place@31:7; w5 40+44-49 place@41:8; delay 20-30 => | Overtaken
overtaken after it: w1 31+50-55 place@32:7; w5 40+44-49 place@41:8; delay 20-30 => Overtaken

[free=5 aftermath=4 notice=3]
free for long before the fault: w1 1+2-20; w5 10+60-65; delay 58-59 => LeftFree@10-60:20-60
five more than the fault and its aftermath: w1 1+2-20; w5 10+60-65; delay 15-51 => | LeftFree@10-60:20-60
six more: w1 1+2-20; w5 10+61-66; delay 15-51 => LeftFree@10-61:20-61
faults that overlap: w1 1+2-20; w5 10+61-66; delay 15-20; delay 22-51; delay 23-24; delay 30-52 => | LeftFree@10-61:20-61
three between two faults: w1 1+2-20; w5 10+60-65; delay 18-30; delay 37-55 => | LeftFree@10-60:20-60
six between two faults: w1 1+2-20; w5 10+60-65; delay 18-30; delay 40-55 => LeftFree@10-60:20-60
free from 20 because of a fault, and from 50 for no reason: w1 1+2-20; w3 39+40-50; w2 10+58-59; delay 18-40 => LeftFree@10-58:50-58 | LeftFree@10-58:20-40
only because of the fault: w1 1+2-20; w3 39+40-50; w2 10+55-56; delay 18-40 => | LeftFree@10-55:20-40

[free=5 aftermath=100 notice=3]
five after the machine was busy: w1 1+2-20; w5 10+27-32; w60 busy@22:15; w60 busy@40:30 => | LeftFree@10-27:20-27
six after that: w1 1+2-20; w5 10+28-33; w60 busy@22:15; w60 busy@40:30 => LeftFree@10-28:20-28
eight before it was busy again: w1 1+2-20; w5 10+39-44; w60 busy@22:15; w60 busy@40:30 => LeftFree@10-39:20-39

[recovery=10 aftermath=100 notice=3]
late, and no other fault: delay 2-20; w1 1+31-99 => NoRecovery=11
five before another fault and five after it: delay 2-20; delay 25-40; w1 1+45-99 =>
five before it and six after it: delay 2-20; delay 25-40; w1 1+46-99 => NoRecovery=11
eleven after another fault: delay 2-20; delay 19-34; w1 1+45-99 => NoRecovery=11
";

#[test]
fn what_is_planted_is_found_and_nothing_else() {
    let (mut rules, mut wrong) = (Rules::default(), Vec::new());
    for line in PLANTED.lines().filter(|line| !line.is_empty()) {
        if let Some(limits) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            rules = Rules::default();
            for (name, limit) in limits.split(' ').filter_map(|limit| limit.split_once('=')) {
                let limit = span(number(limit));
                match name {
                    "aftermath" => rules.aftermath = limit,
                    "notice" => rules.notice = limit,
                    "free" => rules.free = Some(limit),
                    "recovery" => rules.recovery = Some(limit),
                    other => panic!("there is no limit {other}"),
                }
            }
            continue;
        }
        let (planted, expected) = line.split_once(" =>").expect("what is found");
        let (_, text) = planted.split_once(": ").expect("what happens");
        let report = history(text).check(&rules);
        let (found, allowed) = (names(&report.violations), names(&report.allowed));
        let found = if allowed.is_empty() { found } else { format!("{found} | {allowed}") };
        if found.trim() != expected.trim() {
            wrong.push(format!("{line}\n  found: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a fault of each kind allows that lasts from 15 to 40, and what it does not.
#[test]
fn a_fault_allows_what_it_may_do() {
    let (all, loses) = (MAYS.map(|(name, _)| name), ["stop", "forget-in-part", "forget"]);
    for (text, by) in [
        ("w1 1+10-30; w2 1+20-40", &["forget"][..]),
        ("w1 1+10-30 did@35", &["stop"]),
        ("w0 1+2<90 lost@24", &loses),
        ("w0 1+2<90 ends@24 failed@25", &loses),
        ("w0 1+2<90 ends@24 silent@25", &all),
        ("w0 passed@20", &["repeat", "forget"]),
        ("w0 part@20:500", &["forget"]),
        ("w0 endless@20", &[]),
    ] {
        assert_eq!(found(&history(text)).len(), 1, "{text}");
        for may in all {
            let found = found(&history(&format!("{text}; {may} 15-40")));
            assert_eq!(found.is_empty(), by.contains(&may), "{text}, {may}: {found:?}");
        }
    }
}

/// C2: an update that sets the value back is one violation. It does not hide a later lost update.
#[test]
fn a_value_that_was_set_back_is_read_again() {
    for (values_read, lost) in [
        // The second that reads 1 sets the value back to 2.
        (&[0, 1, 2, 3, 1, 2, 3, 4][..], "LostUpdate@55"),
        // Two that read the same afterwards, and one that reads what was there before.
        (&[0, 1, 2, 3, 1, 2, 2, 3, 4], "LostUpdate@55 LostUpdate@75"),
        (&[0, 1, 2, 3, 1, 0], "LostUpdate@55 LostUpdate@65"),
        // One that had read 3 before, and writes 4 over what the value was set back to.
        (&[0, 1, 2, 3, 1, 3, 4], "LostUpdate@55 LostUpdate@65"),
    ] {
        let turns = (1..)
            .zip(values_read)
            .map(|(n, from)| format!("w{} {n}0+{n}1-{n}9 read@{n}5:{from}", n % 5));
        let text = turns.collect::<Vec<_>>().join(";");
        assert_eq!(names(&found(&history(&text))), lost, "{values_read:?}");
    }
}

/// C8: where faults are injected, a release that is missed costs as long as the lease that it should have ended.
#[test]
fn a_release_that_is_missed_is_found() {
    let second = 1_000_000_000;
    let rules = Rules::under_faults(span(second), span(second / 2), span(second));
    for (start, is_missed) in [(second + second / 4, false), (2 * second, true)] {
        let holds = history(&format!("w1 1+2-{second}; w2 10+{start}-{}", start + 1));
        let found = names(&holds.check(&rules).violations);
        assert_eq!(found.starts_with("LeftFree@"), is_missed, "{start}: {found}");
    }
}
