//! The contenders take turns at each row.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_tests::RedisServer;

use super::cpu;
use super::process::{Order, Processes};
use super::program::{Contender, Program};
use super::result::{Entry, Figure, Measure, Run};
use super::row::{Row, Work};
use super::sample::Turn;
use crate::Result;
use crate::server::awake::Awake;
use crate::timing::Timing;

/// How long tasks keep a lock when exclusion is checked, and for how long they take turns.
const CHECKED_HOLD: Duration = Duration::from_millis(2);
const CHECK: Duration = Duration::from_millis(200);

/// The round trips of each acquire by the probe.
const PROBED_TRIPS: f64 = 2.0;

/// How often a contender is started before it counts as missing.
const STARTS: usize = 3;

const PEERS: &str = "peers.json";
const CURVES: &str = "curves.json";

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) timing: Timing,
    pub(crate) rows: Vec<Row>,
    /// Names of contenders.
    pub(crate) contenders: Vec<&'static str>,
    /// The name of the file of figures.
    pub(crate) file: &'static str,
}

const FULL: Timing =
    Timing { rounds: 5, turn: Duration::from_secs(2), slow_turn: Duration::from_secs(2) };
const QUICK: Timing =
    Timing { rounds: 3, turn: Duration::from_millis(500), slow_turn: Duration::from_millis(500) };

impl Plan {
    /// All rows and contenders.
    pub(crate) fn new(quick: bool) -> Self {
        let timing = if quick { QUICK } else { FULL };
        let contenders = Contender::ALL.iter().map(|contender| contender.name).collect();
        Self { timing, rows: Row::ALL.to_vec(), contenders, file: PEERS }
    }

    /// Curves over tasks, keys and processes, of contenders whose curves differ.
    pub(crate) fn curves() -> Self {
        let contenders =
            vec!["PING", "floor", "ours", "rslock", "Redisson", "redsync", "rueidislock"];
        Self { rows: Row::CURVES.to_vec(), contenders, file: CURVES, ..Self::new(false) }
    }

    /// Whether this is for curves.
    pub(super) fn is_curves(&self) -> bool {
        self.file == CURVES
    }
}

/// A contender whose processes run.
struct Running {
    contender: Contender,
    processes: Processes,
}

/// The server and the contenders on it.
pub(super) struct Comparison {
    server: RedisServer,
    /// Times round trips while others work.
    probe: Processes,
    /// Commands that the server runs for one acquire by the probe.
    probe_commands: f64,
    running: Vec<Running>,
    entries: Vec<Entry>,
    figures: BTreeMap<(usize, &'static str, Measure), Vec<f64>>,
}

impl Comparison {
    /// Starts the server, builds and starts the contenders and warms them up. A contender that cannot be built is
    /// named in the result.
    pub(super) async fn start(plan: &Plan) -> Result<Self> {
        let server = RedisServer::start().await;
        let program = Contender::FLOOR.build()?;
        let mut probe = Processes::start(&program, 1, &address_of(&server)).await?;
        let probe_commands = commands_of(&mut probe, &server).await?;
        let (running, entries, figures) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut all = Self { server, probe, probe_commands, running, entries, figures };
        for contender in Contender::ALL.iter().filter(|it| plan.contenders.contains(&it.name)) {
            eprintln!("starting {} …", contender.name);
            let mut entry = Entry {
                name: contender.name.to_owned(),
                version: String::new(),
                settings: String::new(),
                missing: None,
            };
            match all.prepare(*contender, plan).await {
                Ok(running) => {
                    entry.version.clone_from(&running.processes.version);
                    entry.settings.clone_from(&running.processes.settings);
                    all.running.push(running);
                }
                Err(error) => {
                    eprintln!("{} is missing: {error}", contender.name);
                    entry.missing = Some(error.to_string());
                }
            }
            all.entries.push(entry);
        }
        Ok(all)
    }

    /// Builds a contender, starts it and warms it up. One whose tasks stop there, as those of Redisson sometimes do, is
    /// started again.
    async fn prepare(&self, contender: Contender, plan: &Plan) -> Result<Running> {
        let program = contender.build()?;
        for attempt in 1..STARTS {
            match self.warmed_up(contender, &program, plan, attempt).await {
                Err(error) => eprintln!("starting {} again: {error}", contender.name),
                done => return done,
            }
        }
        self.warmed_up(contender, &program, plan, STARTS).await
    }

    async fn warmed_up(
        &self,
        contender: Contender,
        program: &Program,
        plan: &Plan,
        attempt: usize,
    ) -> Result<Running> {
        let rows = plan.rows.iter().filter(|row| contender.does(**row));
        let count = rows.map(|row| row.processes).max().unwrap_or(1);
        let mut processes = Processes::start(program, count, &address_of(&self.server)).await?;
        for work in [Work::Own, Work::Hot, Work::Fair, Work::ReadWrite] {
            let key = format!("{}:warm-up:{attempt}", contender.name);
            let order = Order {
                work,
                key: &key,
                tasks: 8,
                length: contender.warm_up(),
                hold: Duration::ZERO,
            };
            if plan.rows.iter().any(|row| row.work == work && contender.does(*row)) {
                processes.run(count, order).await?;
            }
        }
        Ok(Running { contender, processes })
    }

    /// Has tasks keep the lock of a row for a while, so that any who hold it together are seen.
    ///
    /// # Errors
    ///
    /// When a process ends, or its tasks do not.
    async fn check(&mut self, number: usize, row: Row) -> Result<Samples> {
        let Running { contender, processes } = &mut self.running[number];
        let key = format!("{}:check", contender.name);
        let order =
            Order { work: row.work, key: &key, tasks: 4, length: CHECK, hold: CHECKED_HOLD };
        let tasks = processes.run(row.processes, order).await?.ok_or("it has no such lock")?;
        let shares = contender.shares_reads && row.work == Work::ReadWrite;
        let doubles = Turn::new(tasks, CHECK).holds(shares).doubles();
        Ok(vec![(Measure::Doubles, doubles as f64)])
    }

    /// Measures a row.
    ///
    /// # Errors
    ///
    /// When this library fails, or lets two tasks hold a lock that only one may hold.
    pub(super) async fn measure(&mut self, at: usize, row: Row, timing: Timing) -> Result<()> {
        let Timing { rounds, turn, .. } = if row.is_single() { timing.finer() } else { timing };
        for round in 0..rounds {
            let _awake = row.is_single().then(Awake::keep);
            let mut order: Vec<_> = (0..self.running.len()).collect();
            // A machine that slows down or speeds up favours none of them.
            if !round.is_multiple_of(2) {
                order.reverse();
            }
            for number in order {
                let contender = self.running[number].contender;
                if !contender.does(row) {
                    continue;
                }
                let mut done = self.turn(number, row, turn).await;
                if round == 0 && row.work != Work::Own && done.is_ok() {
                    let checked = self.check(number, row).await;
                    done = done.and_then(|samples| Ok([samples, checked?].concat()));
                }
                match done {
                    Ok(samples) if contender.name == "ours" && doubles(&samples) > 0.0 => {
                        return Err(format!("{row}: two tasks held the lock").into());
                    }
                    Ok(samples) => self.note(at, contender.name, samples),
                    Err(error) if contender.name == "ours" => return Err(error),
                    Err(error) => self.give_up(number, row, &error.to_string()),
                }
            }
            let entries = &self.entries;
            let is_there =
                |name: &str| entries.iter().any(|it| it.name == name && it.missing.is_none());
            self.running.retain(|running| is_there(running.contender.name));
        }
        Ok(())
    }

    async fn turn(&mut self, number: usize, row: Row, length: Duration) -> Result<Samples> {
        let Running { contender, processes } = &mut self.running[number];
        let key = format!("{}:{row}", contender.name);
        let order = Order { work: row.work, key: &key, tasks: row.tasks, length, hold: row.hold };
        let before = Used::now(&self.server, processes, row.processes).await;
        let (tasks, probed) = match row.processes {
            1 => (processes.run(1, order).await?, None),
            count => {
                let (tasks, probed) =
                    tokio::join!(processes.run(count, order), self.probe.run(1, probing(length)));
                (tasks?, probed?.map(|probed| Turn::new(probed, length)))
            }
        };
        let used = Used::now(&self.server, processes, row.processes).await.since(&before);
        let probes = probed.as_ref().map_or(0, Turn::all_pairs);
        let used = used.without(probes as f64 * self.probe_commands);
        let turn = Turn::new(tasks.ok_or("it has no such lock")?, length);
        let mut samples = used.samples(turn.all_pairs());
        let [p50, p99] = turn.quantiles([0.5, 0.99]);
        samples.extend([
            (Measure::Rate, turn.rate()),
            (Measure::P50, p50),
            (Measure::P99, p99),
            (Measure::Failures, turn.failures() as f64),
        ]);
        if row.work != Work::Own {
            let holds = turn.holds(contender.shares_reads && row.work == Work::ReadWrite);
            samples.push((Measure::Doubles, holds.doubles() as f64));
            samples.push((Measure::Tasks, turn.evenness_of_tasks()));
            if row.processes > 1 {
                samples.push((Measure::Processes, turn.evenness_of_processes()));
            }
            if let (Some(time), Some(probed)) = (holds.hand_over(), probed) {
                let trip = probed.wait() / PROBED_TRIPS;
                samples.push((Measure::HandOver, time));
                samples.push((Measure::HandOverTrips, time / trip));
            }
        }
        Ok(samples)
    }

    fn note(&mut self, row: usize, name: &'static str, samples: Samples) {
        for (measure, sample) in samples {
            self.figures.entry((row, name, measure)).or_default().push(sample);
        }
    }

    /// Leaves a contender out from now on.
    fn give_up(&mut self, number: usize, row: Row, error: &str) {
        let name = self.running[number].contender.name;
        eprintln!("{name} ends at {row}: {error}");
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.name == name) {
            entry.missing = Some(format!("since {row}: {error}"));
        }
    }

    /// Ends the processes and returns the figures.
    pub(super) async fn finish(self, plan: &Plan) -> Run {
        let info: String = self.server.client().get(&["INFO", "server"]).await;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        for processes in self.running.into_iter().map(|it| it.processes).chain([self.probe]) {
            processes.end().await;
        }
        let figure =
            |((row, contender, measure), samples): ((usize, &str, Measure), Vec<f64>)| Figure {
                row: plan.rows[row].to_string(),
                contender: contender.to_owned(),
                measure,
                samples,
            };
        Run {
            server_version: version.unwrap_or("unknown").trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            rounds: plan.timing.rounds,
            turn_seconds: plan.timing.turn.as_secs_f64(),
            contenders: self.entries,
            figures: self.figures.into_iter().map(figure).collect(),
        }
    }
}

/// What the probe does while others work.
fn probing(length: Duration) -> Order<'static> {
    Order { work: Work::Hot, key: "probe", tasks: 1, length, hold: Duration::ZERO }
}

/// Counts the commands of one acquire by the probe, on a server that nothing else uses.
async fn commands_of(probe: &mut Processes, server: &RedisServer) -> Result<f64> {
    let before = commands(server).await;
    let tasks = probe.run(1, probing(CHECK)).await?.ok_or("the probe has no lock")?;
    let commands = commands(server).await - before;
    Ok(commands as f64 / Turn::new(tasks, CHECK).all_pairs().max(1) as f64)
}

/// Calls of commands, without those of this program.
async fn commands(server: &RedisServer) -> u64 {
    let calls = server.command_calls().await;
    calls.iter().filter(|(name, _)| *name != "info").map(|(_, calls)| calls).sum()
}

fn address_of(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Figures of a turn.
type Samples = Vec<(Measure, f64)>;

fn doubles(samples: &Samples) -> f64 {
    samples.iter().filter(|(measure, _)| *measure == Measure::Doubles).map(|(_, it)| it).sum()
}

/// What server and clients have used.
struct Used {
    /// Calls of commands, without those of this program.
    commands: f64,
    /// Processor time in µs.
    server: f64,
    client: Option<f64>,
}

impl Used {
    async fn now(server: &RedisServer, processes: &Processes, count: usize) -> Self {
        let commands = commands(server).await as f64;
        let info: String = server.client().get(&["INFO", "cpu"]).await;
        let seconds = |name: &str| -> f64 {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
        };
        let cpu = seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread");
        Self { commands, server: cpu * 1e6, client: cpu::of(processes.ids(count)) }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            server: self.server - before.server,
            client: self.client.zip(before.client).map(|(after, before)| after - before),
        }
    }

    /// Without so many commands of the probe, which uses next to no processor time.
    fn without(self, commands: f64) -> Self {
        Self { commands: (self.commands - commands).max(0.0), ..self }
    }

    /// For each of so many pairs.
    fn samples(&self, pairs: usize) -> Samples {
        let pairs = pairs.max(1) as f64;
        let commands = self.commands / pairs;
        let mut samples =
            vec![(Measure::Commands, commands), (Measure::ServerCpu, self.server / pairs)];
        samples.extend(self.client.map(|client| (Measure::ClientCpu, client / pairs)));
        samples
    }
}
