use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

mod planted;

const OBJECT: &str = "order 42";

/// What the rules without a time limit find.
fn found(history: &History) -> Vec<Violation> {
    history.check(&Rules::default()).violations
}

fn overlaps(history: &History) -> Vec<Violation> {
    let is_overlap = |it: &Violation| matches!(it, Violation::Overlap(..));
    found(history).into_iter().filter(is_overlap).collect()
}

fn out_of_order(history: &History) -> Vec<Violation> {
    let is_order = |it: &Violation| matches!(it, Violation::TokenOrder(..));
    found(history).into_iter().filter(is_order).collect()
}

fn acquired(token: Option<u64>, valid_until: Option<Stamp>) -> Op {
    Op::Acquired { share: Share::Exclusive, token, valid_until }
}

fn at(nanos: u64) -> Stamp {
    Stamp::from_origin(std::time::Duration::from_nanos(nanos))
}

fn event(nanos: u64, holder: u32, op: Op) -> Event {
    let task = u64::from(holder % 3);
    Event { at: at(nanos), process: holder / 3, task, object: OBJECT.to_owned(), op }
}

/// One hold in a history that is made up: asked for, held during a range, with a token.
#[derive(Debug, Clone)]
struct Hold {
    holder: u32,
    invoked: u64,
    held: Range<u64>,
    token: u64,
    /// Whether it ends by its deadline, with the loss noticed later, or by a release.
    expires: bool,
}

impl Hold {
    fn events(&self) -> Vec<Event> {
        let Self { holder, invoked, ref held, token, expires } = *self;
        let valid_until = Some(at(if expires { held.end } else { held.end + 50 }));
        let end = if expires { Op::Lost } else { Op::ReleaseInvoked };
        vec![
            event(invoked, holder, Op::AcquireInvoked),
            event(held.start, holder, acquired(Some(token), valid_until)),
            event(held.start, holder, Op::Effect),
            event(held.end + if expires { 7 } else { 0 }, holder, end),
        ]
    }
}

fn history(holds: &[Hold]) -> History {
    History::from_events(holds.iter().flat_map(Hold::events).collect())
}

/// Holds one after another, by different holders, each asked for while earlier ones were held.
fn fair_holds() -> impl Strategy<Value = Vec<Hold>> {
    let hold = (10..100_u64, 0..50_u64, 1..400_u64, 1..9_u64, any::<bool>());
    vec(hold, 2..40).prop_map(|drawn| {
        let mut time = 1_000;
        let mut token = 0;
        let mut free_at = [0; 16];
        let mut holds = Vec::new();
        for (index, (length, gap, wait, step, expires)) in drawn.into_iter().enumerate() {
            time += gap;
            token += step;
            let holder = index % free_at.len();
            let invoked = (time - wait).max(free_at[holder]);
            let held = time..time + length;
            time = held.end;
            free_at[holder] = held.end + 10;
            holds.push(Hold { holder: holder as u32, invoked, held, token, expires });
        }
        holds
    })
}

proptest! {
    #[test]
    fn a_correct_history_is_clean(holds in fair_holds()) {
        let history = history(&holds);
        let report = history.check(&Rules::default());
        prop_assert_eq!(report.violations, []);
        prop_assert_eq!((report.claims, report.events), (holds.len(), 4 * holds.len()));
    }

    /// Over histories without any order: the sweeps find something exactly where looking at all
    /// pairs does.
    #[test]
    fn sweeps_agree_with_looking_at_all_pairs(
        drawn in vec((1..60_u64, 0..300_u64, 0..30_u64, 0..40_u64, any::<bool>()), 0..12)
    ) {
        let holds: Vec<_> = (0..).zip(drawn).map(|(holder, (length, start, wait, token, expires))| {
            let start = start + 30;
            Hold { holder, invoked: start - wait, held: start..start + length, token, expires }
        }).collect();
        let ordered = |a: &Hold, b: &Hold| a.held.end <= b.held.start || a.held.start <= b.invoked;
        let mut overlapping = 0;
        let mut misordered = Vec::new();
        for b in &holds {
            let others = || holds.iter().filter(|a| a.holder != b.holder);
            let before = |a: &Hold| (a.held.start, a.held.end, a.holder) < (b.held.start, b.held.end, b.holder);
            overlapping += others().filter(|a| before(a) && a.held.end > b.held.start).count();
            if others().any(|a| (ordered(a, b) && a.token >= b.token) || (before(a) && a.token == b.token)) {
                misordered.push(b.held.start);
            }
        }
        let history = history(&holds);
        prop_assert_eq!(overlaps(&history).len(), overlapping);
        let mut found: Vec<_> = out_of_order(&history).into_iter().map(|violation| match violation {
            Violation::TokenOrder(_, later) => later.start,
            other => panic!("{other}"),
        }).collect();
        let mut misordered: Vec<_> = misordered.into_iter().map(super::tests::at).collect();
        found.sort();
        found.dedup();
        misordered.sort();
        misordered.dedup();
        prop_assert_eq!(found, misordered);
    }
}

#[test]
fn a_claim_ends_at_the_first_of_what_can_end_it() {
    for (text, end) in [
        ("w0 1+2", Stamp::MAX),
        ("w0 1+2<9", at(9)),
        ("w0 1+2<9 ends@5 ended@6", at(5)),
        ("w0 1+2<9 lost@5 ends@6", at(5)),
        ("w0 1+2<9 lost@20", at(9)),
        ("w0 1+2<9 moved@5:15 lost@20", at(15)),
        ("w0 1+2<9 moved@5:8 lost@20", at(9)),
        ("w0 1+2 kill@5", at(5)),
        // Of its process only.
        ("w0 1+2; w3 kill@5", Stamp::MAX),
        ("w1 1+2; w0 kill@5", at(5)),
    ] {
        assert_eq!(planted::history(text).claims()[0].end, end, "{text}");
    }
}

#[test]
fn a_report_names_what_it_found() {
    let text = "w1 1+10-30 read@12:7; w2 1+20<90 lost@40; repeat 50-";
    let report = planted::history(text).check(&Rules::default());
    let text = report.to_string();
    let counts = "2 locks acquired, 1 updates, 1 losses, 1 faults; 9 events\n";
    assert!(text.starts_with(counts), "{text}");
    assert!(text.contains("VIOLATION: held at the same time: order 42 by task 1"), "{text}");
    assert!(text.ends_with("2 violations"), "{text}");
    let panicked = std::panic::catch_unwind(|| report.assert_clean()).unwrap_err();
    assert_eq!(panicked.downcast_ref::<String>(), Some(&text));
}

#[test]
fn files_are_read_back_and_a_torn_last_line_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(dir.path()).unwrap();
    let before = Stamp::now();
    recorder.record(7, "a b", Op::AcquireInvoked);
    recorder.record_kill(99);
    let after = Stamp::now();
    fs::write(
        dir.path().join("1.events"),
        "{\"t\":5,\"process\":1,\"task\":1,\"object\":\"x\",\"op\":\"lost\"}\n{\"t\":6,\"proc",
    )
    .unwrap();
    fs::write(dir.path().join("notes.txt"), "not an event\n").unwrap();

    let history = History::load(dir.path()).unwrap();
    let ops: Vec<_> =
        history.events().iter().map(|event| (event.process, event.op.clone())).collect();
    let me = std::process::id();
    assert_eq!(ops, [(1, Op::Lost), (me, Op::AcquireInvoked), (99, Op::Killed)]);
    assert_eq!(history.events()[1].object, "a b");
    assert!(before <= history.events()[1].at && history.events()[2].at <= after);

    fs::write(dir.path().join("2.events"), "nonsense\n").unwrap();
    assert!(History::load(dir.path()).unwrap_err().to_string().contains("nonsense"));
}
