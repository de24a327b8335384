//! `lockctl run`: a command under a lock.
//!
//! Three processes: this one holds the lock; [`lead`](mod@lead) is the leader of a process group; the command is in that
//! group. Everything that ends the command goes to the group.

mod lead;
mod signals;
mod terminal;

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, id};
use std::time::Duration;

use lock_runtime::error::LossCause;
use lock_runtime::{Lease, LockClient, LockError, LockGuard, LockOptions, Wait};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_current_process_group, kill_process_group, wait,
};
use tokio::time::{sleep, timeout};

pub(super) use self::lead::lead;
use self::signals::{Signals, passed_on};
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
const GRACE_AFTER_LOSS: Duration = Duration::from_secs(1);

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
    // The group has ended, and the lock is not needed any more, even if the command did not start.
    let released = guard.release().await;
    let (note, code) = match (released, ended?) {
        // What has happened is said, and only the lease can end what an outage keeps.
        (_, LOST) => return Ok(Answer::end().with_code(LOST)),
        (Ok(()), code) => return Ok(Answer::end().with_code(code)),
        (Err(error), _) if error.is_lost() => {
            (format!("{error}; the command had ended by then"), LOST)
        }
        (Err(error), code) => {
            (format!("the lock stays held until its lease ends: {}", with_causes(&error)), code)
        }
    };
    Ok(Answer::end().with_notes(vec![note]).with_code(code))
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

/// Runs the command under the hold, until its whole group has ended, and returns the exit code.
async fn under(guard: &LockGuard, run: &Run, signals: &mut Signals) -> Result<u8, Failure> {
    let mut group = Group::start(guard, run)?;
    let grace = guard.remaining() / GRACE;
    loop {
        tokio::select! {
            signal = signals.next() => group.send(signal),
            change = group.changes() => match change {
                Change::Ended(code) => return Ok(code),
                Change::Stopped => stop_job(guard, &group),
            },
            (sentence, left) = danger(guard, grace) => {
                eprintln!("lockctl: {sentence}");
                group.end(left).await;
                return Ok(LOST);
            }
        }
    }
}

/// Waits until the hold is lost, or will be if nothing renews it for another `grace`. Returns what is to be said, and what
/// the command has left. Cancel safe.
async fn danger(guard: &LockGuard, grace: Duration) -> (String, Duration) {
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
            let (name, seconds) = (guard.key().as_str(), left.as_secs_f64());
            let sentence = format!(
                "the lock {name:?} cannot be renewed; its command gets SIGTERM, and SIGKILL {seconds:.1} s later"
            );
            (sentence, left)
        }
        Err(error @ LockError::Lost { cause: LossCause::Deadline, .. }) => {
            (format!("{error}; its command gets SIGKILL"), Duration::ZERO)
        }
        Err(error) => {
            let seconds = GRACE_AFTER_LOSS.as_secs();
            let sentence =
                format!("{error}; its command gets SIGTERM, and SIGKILL {seconds} s later");
            (sentence, GRACE_AFTER_LOSS)
        }
    }
}

/// Stops this job, because its command was stopped: by Ctrl-Z, or by a read in the background. The shell sees only this
/// process, and lets it go on with `fg` or `bg`.
fn stop_job(guard: &LockGuard, group: &Group) {
    if !terminal::is_there() {
        return;
    }
    // SIGTSTP, as the terminal sends it: the kernel drops it where no shell could let the job go on.
    let _ = kill_current_process_group(Signal::TSTP);
    // From here on, the job goes on. Its lease may have ended meanwhile: then the command must not.
    if guard.check().is_ok() {
        terminal::hand_to(group.leader);
        group.send(Signal::CONT);
    }
}

/// The process group of the command.
struct Group {
    leader: Pid,
    /// SIGCHLD.
    children: Signals,
}

/// What has happened to the leader.
enum Change {
    Ended(u8),
    Stopped,
}

impl Group {
    fn start(guard: &LockGuard, run: &Run) -> Result<Self, Failure> {
        // Before there is a child, or its end could go by unnoticed.
        let children = Signals::new([Signal::CHILD])?;
        let failure = |error| Failure::store(format!("lockctl cannot start itself: {error}"));
        let mut leader = Command::new(own_executable().map_err(failure)?);
        leader.arg0("lockctl").args(["lead", &id().to_string(), "--"]).args(&run.command);
        leader.env("LOCK_NAME", guard.key().as_str());
        leader.env("LOCK_TOKEN", guard.token().get().to_string());
        let leader = leader.process_group(0).spawn().map_err(failure)?;
        let leader = Pid::from_child(&leader);
        terminal::hand_to(leader);
        Ok(Self { leader, children })
    }

    /// Sends a signal to each process of the group.
    fn send(&self, signal: Signal) {
        // Fails if all have ended, which SIGCHLD says as well.
        let _ = kill_process_group(self.leader, signal);
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
                if status.stopped() {
                    return Change::Stopped;
                }
                if status.signaled() {
                    // Somebody has killed the leader alone: nothing would end the others with this process.
                    self.send(Signal::KILL);
                }
                return Change::Ended(exit_code(status));
            }
            self.children.next().await;
        }
    }

    /// Ends all processes of the group, by force once the time is over.
    async fn end(&mut self, within: Duration) {
        self.send(Signal::TERM);
        // A stopped process cannot end.
        self.send(Signal::CONT);
        if timeout(within, self.ended()).await.is_err() {
            self.send(Signal::KILL);
            self.ended().await;
        }
    }

    async fn ended(&mut self) {
        while !matches!(self.changes().await, Change::Ended(_)) {}
    }
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
