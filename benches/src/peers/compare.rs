//! The contenders take turns at each row.

use std::time::Duration;

use lock_tests::RedisServer;

use super::Contender;
use super::process::{Order, Processes};
use super::row::{Row, Work};
use super::sample::Turn;
use super::target::{COMMANDS, HAND_OVER, PROCESSES, RATE, SERVER_CPU, TASKS};
use crate::Result;
use crate::args::Plan;
use crate::awake::Awake;
use crate::record::{Record, Unit};
use crate::timing::Timing;
use crate::usage::{commands, cpu_of, server_micros};

/// How long tasks keep a lock when exclusion is checked, and for how long they take turns.
const CHECKED_HOLD: Duration = Duration::from_millis(2);
const CHECK: Duration = Duration::from_millis(200);

/// The round trips of each acquire by the probe.
const PROBED_TRIPS: f64 = 2.0;

/// How often a contender is started before it counts as missing.
const STARTS: usize = 3;

/// How often two tasks held a lock that only one may hold.
const DOUBLES: &str = "times two held the lock";

/// Figures of a turn.
type Samples = Vec<(&'static str, Unit, f64)>;

/// A contender whose processes run.
struct Running {
    contender: Contender,
    processes: Processes,
}

/// The server and the contenders on it.
pub(super) struct Comparison<'a> {
    server: &'a RedisServer,
    /// Times round trips while others work.
    probe: Processes,
    /// Commands that the server runs for one acquire by the probe.
    probe_commands: f64,
    running: Vec<Running>,
    /// A line for each contender: its version and settings, or why it is missing.
    notes: Vec<String>,
}

impl<'a> Comparison<'a> {
    /// Builds and starts the contenders and warms them up. One that cannot be built is named in the notes.
    pub(super) async fn start(plan: &Plan, server: &'a RedisServer) -> Result<Self> {
        let mut probe = Processes::start(&Contender::FLOOR.build(&address_of(server))?, 1).await?;
        // Nothing else uses the server yet.
        let before = commands(server).await;
        let tasks = probe.run(1, probing(CHECK)).await?.ok_or("the probe has no lock")?;
        let acquires = Turn::new(tasks, CHECK).all_pairs().max(1) as f64;
        let probe_commands = (commands(server).await - before) / acquires;
        let mut all =
            Self { server, probe, probe_commands, running: Vec::new(), notes: Vec::new() };
        for contender in &plan.contenders {
            let name = contender.name;
            eprintln!("starting {name} …");
            match all.prepare(*contender, plan).await {
                Ok(processes) => {
                    all.notes.push(format!("{name} {}", processes.settings));
                    all.running.push(Running { contender: *contender, processes });
                }
                Err(error) => all.notes.push(format!("{name} is **missing**: {error}")),
            }
        }
        Ok(all)
    }

    /// Builds a contender, starts it and warms it up. One whose tasks stop there, as those of Redisson sometimes do, is
    /// started again.
    async fn prepare(&self, contender: Contender, plan: &Plan) -> Result<Processes> {
        let program = contender.build(&address_of(self.server))?;
        let rows: Vec<_> = plan.rows.iter().filter(|row| contender.does(**row)).collect();
        let count = rows.iter().map(|row| row.processes).max().unwrap_or(1);
        let mut attempt = 1;
        loop {
            let started = async {
                let mut processes = Processes::start(&program, count).await?;
                for row in &rows {
                    let key = &format!("{}:warm-up:{row}:{attempt}", contender.name);
                    let (work, tasks) = (row.work, row.tasks.min(8));
                    let length = contender.warm_up();
                    let order = Order { work, key, tasks, length, hold: Duration::ZERO };
                    processes.run(row.processes, order).await?;
                }
                Ok(processes)
            };
            match started.await {
                Err(error) if attempt < STARTS => {
                    eprintln!("starting {} again: {error}", contender.name);
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// Measures a row.
    ///
    /// # Errors
    ///
    /// When this library fails, or lets two tasks hold a lock that only one may hold.
    pub(super) async fn measure(&mut self, row: Row, timing: Timing) -> Result<Vec<Record>> {
        let Timing { rounds, turn } = if row.is_single() { timing.finer() } else { timing };
        let mut figures: Vec<(&'static str, &'static str, Unit, Vec<f64>)> = Vec::new();
        for round in 0..rounds {
            let _awake = row.is_single().then(Awake::keep);
            let takes_part = |at: &usize| self.running[*at].contender.does(row);
            let mut order: Vec<_> = (0..self.running.len()).filter(takes_part).collect();
            // A machine that slows down or speeds up favours none of them.
            if !round.is_multiple_of(2) {
                order.reverse();
            }
            let mut ended = Vec::new();
            for at in order {
                let who = self.running[at].contender.name;
                let mut done = self.turn(at, row, turn).await;
                if round == 0 && row.work != Work::Own && done.is_ok() {
                    let checked = self.check(at, row).await;
                    done = done.and_then(|samples| Ok([samples, checked?].concat()));
                }
                match done {
                    Ok(samples) => {
                        for (name, unit, sample) in samples {
                            if name == DOUBLES && who == "ours" {
                                return Err(format!("{row}: two tasks held the lock").into());
                            }
                            match figures.iter_mut().find(|it| (it.0, it.1) == (name, who)) {
                                Some(figure) => figure.3.push(sample),
                                None => figures.push((name, who, unit, vec![sample])),
                            }
                        }
                    }
                    Err(error) if who == "ours" => return Err(error),
                    Err(error) => {
                        self.notes.push(format!("{who} ended at {row}: {error}"));
                        ended.push(who);
                    }
                }
            }
            self.running.retain(|running| !ended.contains(&running.contender.name));
        }
        // The contenders of one figure next to each other; the sort keeps their order.
        let place = |who: &str| Contender::ALL.iter().position(|it| it.name == who);
        figures.sort_by_key(|figure| place(figure.1));
        let names: Vec<_> = figures.iter().map(|figure| figure.0).collect();
        figures.sort_by_key(|figure| names.iter().position(|name| *name == figure.0));
        let row = row.to_string();
        let records = figures.into_iter();
        Ok(records.map(|(name, who, unit, it)| Record::new(&row, who, name, unit, it)).collect())
    }

    /// Has tasks keep the lock of a row for a while, so that any who hold it together are seen.
    async fn check(&mut self, at: usize, row: Row) -> Result<Samples> {
        let Running { contender, processes } = &mut self.running[at];
        let key = &format!("{}:check", contender.name);
        let order = Order { work: row.work, key, tasks: 4, length: CHECK, hold: CHECKED_HOLD };
        let tasks = processes.run(row.processes, order).await?.ok_or("it has no such lock")?;
        let shares = contender.shares_reads && row.work == Work::ReadWrite;
        Ok(doubles(Turn::new(tasks, CHECK).holds(shares).doubles()).into_iter().collect())
    }

    async fn turn(&mut self, at: usize, row: Row, length: Duration) -> Result<Samples> {
        let Running { contender, processes } = &mut self.running[at];
        let key = &format!("{}:{row}", contender.name);
        let order = Order { work: row.work, key, tasks: row.tasks, length, hold: row.hold };
        let count = row.processes;
        let (calls, server) = (commands(self.server).await, server_micros(self.server).await);
        let client = cpu_of(processes.ids(count));
        let (tasks, probed) = if count == 1 {
            (processes.run(1, order).await?, None)
        } else {
            let probe = self.probe.run(1, probing(length));
            let (tasks, probed) = tokio::join!(processes.run(count, order), probe);
            (tasks?, probed?.map(|probed| Turn::new(probed, length)))
        };
        let client = cpu_of(processes.ids(count)).zip(client).map(|(after, before)| after - before);
        let server = server_micros(self.server).await - server;
        let probes = probed.as_ref().map_or(0, Turn::all_pairs) as f64;
        let calls = commands(self.server).await - calls - probes * self.probe_commands;
        let turn = Turn::new(tasks.ok_or("it has no such lock")?, length);
        let pairs = turn.all_pairs().max(1) as f64;
        let [p50, p99] = turn.quantiles([0.5, 0.99]);
        let mut samples = vec![
            (RATE, Unit::PerSecond, turn.rate()),
            ("p50", Unit::Micros, p50),
            ("p99", Unit::Micros, p99),
            (COMMANDS, Unit::Plain, calls.max(0.0) / pairs),
            (SERVER_CPU, Unit::Micros, server / pairs),
        ];
        samples.extend(client.map(|client| ("client CPU", Unit::Micros, client / pairs)));
        if turn.failures() > 0 {
            samples.push(("acquires or releases that failed", Unit::Plain, turn.failures() as f64));
        }
        if row.work == Work::Own {
            return Ok(samples);
        }
        let holds = turn.holds(contender.shares_reads && row.work == Work::ReadWrite);
        samples.extend(doubles(holds.doubles()));
        samples.push((TASKS, Unit::Plain, turn.evenness_of_tasks()));
        if count > 1 {
            samples.push((PROCESSES, Unit::Plain, turn.evenness_of_processes()));
        }
        if let (Some(time), Some(probed)) = (holds.hand_over(), probed) {
            samples.push(("hand-over, p50", Unit::Micros, time));
            samples.push((HAND_OVER, Unit::Plain, time * PROBED_TRIPS / probed.wait()));
        }
        Ok(samples)
    }

    /// Ends the processes and returns the notes.
    pub(super) async fn finish(self) -> Vec<String> {
        for processes in self.running.into_iter().map(|it| it.processes).chain([self.probe]) {
            processes.end().await;
        }
        self.notes
    }
}

fn doubles(count: usize) -> Option<(&'static str, Unit, f64)> {
    (count > 0).then_some((DOUBLES, Unit::Plain, count as f64))
}

/// What the probe does while others work.
fn probing(length: Duration) -> Order<'static> {
    Order { work: Work::Hot, key: "probe", tasks: 1, length, hold: Duration::ZERO }
}

fn address_of(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}
