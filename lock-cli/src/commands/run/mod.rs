//! `lockctl run`: a command under a lock.
//!
//! Three processes: this one holds the lock; [`lead`](mod@lead) is the leader of a process group; the command is in that
//! group. This process sends signals to the group, and to [what has left it](mod@descendants). The leader outlives them.

mod descendants;
mod lead;
mod signals;
mod terminal;

use std::os::unix::process::CommandExt;
use std::process::{Command, id};
use std::time::Duration;
use std::{env, fmt};

use lock_runtime::error::LossCause;
use lock_runtime::{Lease, LockClient, LockError, LockGuard, LockKind, LockOptions, Wait};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_current_process_group, kill_process,
    kill_process_group, wait,
};
use tokio::time::{Instant, sleep, timeout};

use self::descendants::{Process, descendants, end, send};
use self::lead::WAIT_FOR_ALL;
pub(super) use self::lead::lead;
use self::signals::{Signals, handles, not_ignored, passed_on};
use super::own_name;
use super::show::{find, is_held};
use crate::answer::Answer;
use crate::args::{Args, Run};
use crate::failure::{BUSY, FINE, Failure, LOST, SIGNALLED, with_causes};
use crate::text::harmless;

/// The part of a lease that the command gets to end by itself when the lock cannot be renewed. A renewal that is a third
/// of the lease apart from the last one, and tried again for another third, has failed by then.
const GRACE: u32 = 6;

/// What the command gets to end by itself when the lock is another holder's already.
const GRACE_TO_END: Duration = Duration::from_secs(1);

/// How long processes are ended by force. Those that are left are another user's, or wait for a device.
const BY_FORCE: Duration = Duration::from_secs(1);

/// How often meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// How long holders may take to say who they are.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long a wait that a signal ends may take to give up its place.
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) async fn run(args: &Args, run: &Run) -> Result<Answer, Failure> {
    // Before anything is held: from here on, no signal ends this process while the store keeps something for it.
    let mut signals = Signals::new(passed_on())?;
    let client = tokio::select! {
        signal = signals.next() => return Ok(ended_by(signal)),
        client = args.store.connect(LockClient::builder()) => client?,
    };
    let name = own_name(&client, &run.name);
    let acquired = tokio::select! {
        signal = signals.next() => {
            // The acquire is dropped by now. Its place, or its hold if one was granted, is given back in the background.
            client.shutdown(FAREWELL).await;
            return Ok(ended_by(signal));
        }
        guard = client.any_lock(run.kind, [name]).with(options(run)).lock() => guard,
    };
    let guard = match acquired {
        Ok(guard) => guard,
        Err(error) if error.is_busy() || error.is_timeout() => {
            let sentence = busy(&client, args, name, &error).await;
            let code = if run.busy_ok { FINE } else { BUSY };
            return Ok(Answer::end().with_notes(vec![sentence]).with_code(code));
        }
        Err(error) => return Err(error.into()),
    };
    let ended = under(&guard, run, &mut signals).await;
    // All processes have ended, and the lock is not needed any more, even if the command did not start.
    let released = guard.release().await;
    let (note, code) = match (ended?, released) {
        // Only the lease can end what an outage keeps.
        (Ended::Lost(sentence), _) => (Some(sentence), LOST),
        (Ended::Stuck(sentence, code), _) => (Some(sentence), code),
        (Ended::Itself(code), Ok(())) => (None, code),
        (Ended::Itself(_), Err(error)) if error.is_lost() => {
            (Some(format!("{error}; the command had ended by then")), LOST)
        }
        (Ended::Itself(code), Err(error)) => {
            let causes = with_causes(&error);
            (Some(format!("the lock stays held until its lease ends: {causes}")), code)
        }
    };
    Ok(Answer::end().with_notes(note.into_iter().collect()).with_code(code))
}

/// How the command has ended.
enum Ended {
    /// With this exit code.
    Itself(u8),
    /// By this process, because of the lock. The sentence says why.
    Lost(String),
    /// Because it could not go on. The sentence says why; the code is that of the end.
    Stuck(String, u8),
}

fn options(run: &Run) -> LockOptions {
    let wait = if run.no_wait { Some(Wait::None) } else { run.wait };
    let mut options = LockOptions::new();
    options.wait = wait;
    options.lease = run.lease.map(Lease::Watchdog);
    options.at_least = run.at_least;
    options
}

/// The end of a wait: nothing has run.
fn ended_by(signal: Signal) -> Answer {
    Answer::end().with_code(exit_code_of(signal.as_raw()))
}

/// The sentence that says who holds the lock.
async fn busy(client: &LockClient, args: &Args, name: &str, error: &LockError) -> String {
    let survey = client.admin().survey().name(name).within(args.store.within.min(PATIENCE)).await;
    // Who may not ask the holders learns as much as the store has said.
    let lock = survey.as_ref().ok().and_then(|survey| find(survey, client, name).ok().flatten());
    match lock.filter(|lock| is_held(lock)) {
        Some(lock) => {
            let holders: Vec<_> = lock.holders.iter().map(ToString::to_string).collect();
            format!("{error}; it is held by {}", harmless(&holders.join(" and ")))
        }
        None => error.to_string(),
    }
}

/// Runs the command under the hold, until all its processes have ended.
async fn under(guard: &LockGuard, run: &Run, signals: &mut Signals) -> Result<Ended, Failure> {
    // Ctrl-Z.
    let mut stops = Signals::new(not_ignored([Signal::TSTP]))?;
    let mut group = Group::start(guard, run)?;
    let grace = guard.remaining() / GRACE;
    let mut has_waited_for_the_terminal = false;
    loop {
        tokio::select! {
            signal = signals.next() => group.pass_on(signal),
            _ = stops.next() => stop_job(guard, &group),
            change = group.changes() => match change {
                Change::Ended(code, left) if left.is_empty() => return Ok(Ended::Itself(code)),
                Change::Ended(code, left) => {
                    let sentence = format!("the command's group leader was killed; {}", End::Not(left));
                    return Ok(Ended::Stuck(sentence, code));
                }
                Change::Stopped(_) if !terminal::is_there() => {}
                // Its shell sees this process only, and the other processes of this job are stopped as well.
                Change::Stopped(_) if stops.handles_some() && terminal::is_job() => {
                    let _ = kill_current_process_group(Signal::TSTP);
                }
                Change::Stopped(signal) => {
                    let waits_for_the_terminal = [Signal::TTIN, Signal::TTOU].contains(&signal);
                    if waits_for_the_terminal && has_waited_for_the_terminal {
                        let end = group.end(GRACE_TO_END).await;
                        let sentence = format!(
                            "the command needs the terminal, but is not in the foreground, and no shell can change \
                             that; {end}"
                        );
                        return Ok(Ended::Stuck(sentence, exit_code_of(Signal::TERM.as_raw())));
                    }
                    has_waited_for_the_terminal = waits_for_the_terminal;
                    go_on(&group);
                }
            },
            danger = danger(guard, grace) => {
                // Nothing is written before: what reads the standard error may be slow.
                let end = group.end(danger.left).await;
                return Ok(Ended::Lost(format!("{}; {end}", danger.sentence)));
            }
        }
    }
}

/// Why the command must end.
struct Danger {
    sentence: String,
    /// What the command has left.
    left: Duration,
}

/// Waits until the hold is lost, or will be if nothing renews it for another `grace`. Cancel safe.
async fn danger(guard: &LockGuard, grace: Duration) -> Danger {
    let late = async {
        loop {
            match guard.remaining().saturating_sub(grace) {
                Duration::ZERO => return,
                left => sleep(left).await,
            }
        }
    };
    tokio::select! {
        _ = guard.lost() => {}
        () = late => {}
    }
    match guard.check() {
        Ok(()) => {
            let remaining = guard.remaining();
            // The kernel takes a moment to end a process. The lock may be another holder's at the end of the lease.
            let left = remaining - remaining / 10;
            let name = guard.key().as_str();
            Danger { sentence: format!("the lock {name:?} cannot be renewed"), left }
        }
        Err(error @ LockError::Lost { cause: LossCause::Deadline, .. }) => {
            Danger { sentence: error.to_string(), left: Duration::ZERO }
        }
        Err(error) => Danger { sentence: error.to_string(), left: GRACE_TO_END },
    }
}

/// Stops the command and this process, as the terminal has asked for. The shell lets it go on with `fg` or `bg`.
fn stop_job(guard: &LockGuard, group: &Group) {
    if !terminal::is_job() {
        // The kernel drops a stop that no shell could end.
        return;
    }
    group.stop();
    let _ = kill_process(getpid(), Signal::STOP);
    // The leader must see the others end. While it was stopped, a death of this process would have let it go on.
    let _ = kill_process(group.leader, Signal::CONT);
    // From here on, the job goes on. Its lease may have ended meanwhile: then the command must not.
    if guard.check().is_ok() {
        go_on(group);
    }
}

fn go_on(group: &Group) {
    terminal::hand_to(group.leader);
    group.send(Signal::CONT);
}

/// The process group of the command.
struct Group {
    leader: Pid,
    /// What this process had started before: a shell may have, and then become this process.
    others: Vec<Pid>,
    /// SIGCHLD.
    children: Signals,
}

/// What has happened to the leader.
enum Change {
    /// With this exit code. These processes go on, and cannot be ended.
    Ended(u8, Vec<Process>),
    Stopped(Signal),
}

/// How [`Group::end`] has ended the command.
enum End {
    BySigterm,
    BySigkill,
    /// Some processes go on.
    Not(Vec<Process>),
}

impl End {
    fn unless(self, left: Vec<Process>) -> Self {
        if left.is_empty() { self } else { Self::Not(left) }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BySigterm => f.write_str("its command was ended by SIGTERM"),
            Self::BySigkill => f.write_str("its command was ended by SIGKILL"),
            Self::Not(left) => {
                let left: Vec<_> = left.iter().map(|process| process.pid.to_string()).collect();
                let left = left.join(", ");
                write!(f, "these processes go on, because they cannot be ended: {left}")
            }
        }
    }
}

impl Group {
    fn start(guard: &LockGuard, run: &Run) -> Result<Self, Failure> {
        // Before there is a child, or its end could go by unnoticed.
        let children = Signals::new([Signal::CHILD])?;
        let others = descendants(getpid()).unwrap_or_default();
        let others = others.iter().map(|process| process.pid).collect();
        lead::adopt_orphans()?;
        let failure = |error| Failure::store(format!("lockctl cannot start itself: {error}"));
        let mut leader = Command::new(own_executable().map_err(failure)?);
        leader.arg0("lockctl").args(["lead", &id().to_string(), "--"]).args(&run.command);
        leader.env("LOCK_NAME", guard.key().as_str());
        if orders_holders(run.kind) {
            leader.env("LOCK_TOKEN", guard.token().get().to_string());
        } else {
            // One from around would be another lock's.
            leader.env_remove("LOCK_TOKEN");
        }
        let leader = leader.process_group(0).spawn().map_err(failure)?;
        let leader = Pid::from_child(&leader);
        terminal::hand_to(leader);
        Ok(Self { leader, others, children })
    }

    /// Sends a signal to all processes of the command.
    fn send(&self, signal: Signal) {
        // Before the group gets it: a look may miss a process whose parent ends.
        let outsiders = self.outsiders();
        // Fails if all have ended, which SIGCHLD says as well.
        let _ = kill_process_group(self.leader, signal);
        send(&outsiders, signal);
    }

    /// Passes on a signal that was sent to this process. Outside of the group, a process that handles it, as `timeout`
    /// does, passes it on to what it has started. That must not get it twice.
    fn pass_on(&self, signal: Signal) {
        // Before the group gets it: a look may miss a process whose parent ends.
        let outsiders = self.outsiders();
        let _ = kill_process_group(self.leader, signal);
        // These handle the signal, or are below such a process.
        let (mut served, mut spared) = (Vec::new(), Vec::new());
        for process in outsiders {
            let is_served = served.contains(&process.parent);
            // Before the signal, which may end it.
            if is_served || handles(process.pid, signal) {
                served.push(process.pid.as_raw_pid());
            }
            match is_served {
                true => spared.push(process.pid),
                false => send(&[process], signal),
            }
        }
        // A process that ends and does not pass it on leaves what it has started to the leader.
        for _ in 0..10 {
            if spared.is_empty() {
                break;
            }
            std::thread::sleep(LOOK);
            let mut left = self.outsiders();
            left.retain(|process| {
                process.parent == self.leader.as_raw_pid() && spared.contains(&process.pid)
            });
            spared.retain(|pid| left.iter().all(|process| process.pid != *pid));
            send(&left, signal);
        }
    }

    /// Stops all processes of the command.
    fn stop(&self) {
        // The kernel stops the whole group at once, so that no process escapes by a fork.
        let _ = kill_process_group(self.leader, Signal::STOP);
        until_none(|| {
            let mut running = self.outsiders();
            // Those of another user cannot be stopped.
            running.retain(|process| {
                !process.is_at_rest() && kill_process(process.pid, Signal::STOP).is_ok()
            });
            running
        });
    }

    /// The processes that have left the group.
    fn outsiders(&self) -> Vec<Process> {
        let mut all = descendants(self.leader).unwrap_or_default();
        all.retain(|process| process.group != self.leader.as_raw_pid());
        all
    }

    /// Waits until the leader ends or is stopped. Cancel safe.
    async fn changes(&mut self) -> Change {
        loop {
            // All children: as process 1 of a container, this process adopts orphans.
            while let Ok(Some((child, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED)
            {
                if child != self.leader {
                    continue;
                }
                if let Some(signal) = status.stopping_signal() {
                    return Change::Stopped(Signal::from_named_raw(signal).unwrap_or(Signal::STOP));
                }
                let left = if status.signaled() { self.end_orphans() } else { Vec::new() };
                return Change::Ended(exit_code(status), left);
            }
            self.children.next().await;
        }
    }

    /// Ends the command and all that it has started, by force once the time is over.
    async fn end(&mut self, within: Duration) -> End {
        let _ = kill_process(self.leader, WAIT_FOR_ALL);
        self.send(Signal::TERM);
        // A stopped process cannot end.
        self.send(Signal::CONT);
        if let Ok(left) = timeout(within, self.ended()).await {
            return End::BySigterm.unless(left);
        }
        let start = Instant::now();
        while start.elapsed() < BY_FORCE {
            match descendants(self.leader) {
                // The leader must see the others end.
                Some(all) => end(&all),
                None => drop(kill_process_group(self.leader, Signal::KILL)),
            }
            if let Ok(left) = timeout(LOOK, self.ended()).await {
                return End::BySigkill.unless(left);
            }
        }
        let mut left = descendants(self.leader).unwrap_or_default();
        left.retain(|process| !process.is_zombie());
        // The rest of the group, and the leader if it hangs.
        let _ = kill_process_group(self.leader, Signal::KILL);
        End::BySigkill.unless(left)
    }

    /// Ends by force what a leader that was killed has left behind: nothing else would end it. Returns what goes on.
    fn end_orphans(&self) -> Vec<Process> {
        let _ = kill_process_group(self.leader, Signal::KILL);
        until_none(|| {
            let mut orphans = descendants(getpid()).unwrap_or_default();
            let mut others = self.others.clone();
            // Each process stands behind its parent.
            orphans.retain(|process| {
                let is_other = others
                    .iter()
                    .any(|other| *other == process.pid || other.as_raw_pid() == process.parent);
                if is_other {
                    others.push(process.pid);
                }
                !is_other && !process.is_zombie()
            });
            end(&orphans);
            orphans
        })
    }

    async fn ended(&mut self) -> Vec<Process> {
        loop {
            if let Change::Ended(_, left) = self.changes().await {
                return left;
            }
        }
    }
}

/// Looks until two looks in a row find none, since one may miss a process whose parent ends meanwhile. Returns those of
/// the last look if the time is over.
fn until_none(mut look: impl FnMut() -> Vec<Process>) -> Vec<Process> {
    let start = Instant::now();
    let mut was_empty = false;
    loop {
        let found = look();
        if was_empty && found.is_empty() || start.elapsed() >= BY_FORCE {
            return found;
        }
        was_empty = found.is_empty();
        // Nothing else is to be done meanwhile, and the caller can be cancelled where it waits.
        std::thread::sleep(LOOK);
    }
}

/// True if the token of a later holder is greater than those of all earlier ones, and no two have the lock at once.
fn orders_holders(kind: LockKind) -> bool {
    matches!(kind, LockKind::Mutex | LockKind::Fair | LockKind::Write)
}

/// The file of this program. On Linux also if it was replaced or deleted since.
fn own_executable() -> std::io::Result<std::path::PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => env::current_exe(),
    }
}

/// The exit code that shells have for the end of a process.
fn exit_code(status: WaitStatus) -> u8 {
    match (status.exit_status(), status.terminating_signal()) {
        // A status is a byte.
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => exit_code_of(signal.unwrap_or(0)),
    }
}

fn exit_code_of(signal: i32) -> u8 {
    SIGNALLED.saturating_add(u8::try_from(signal).unwrap_or(0))
}
