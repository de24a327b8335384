//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use lock_runtime::admin::HoldKind;
use lock_runtime::policy::Policy;
use lock_runtime::{LockKind, Wait};
use serde_json::json;

/// Runs commands under distributed locks; shows, watches and frees locks.
///
/// Exit codes: 0 fine; 1 not found, refused, or a problem was found; 2 wrong usage; 3 the store failed. `run` has more.
#[derive(Debug, Parser)]
#[command(name = "lockctl", version)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON in place of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the locks are.
#[derive(Debug, ClapArgs)]
pub(crate) struct StoreArgs {
    /// The server, such as redis://127.0.0.1:6379, rediss://user:password@host:6380/2 or unix:///path
    #[arg(long, global = true, env = "LOCK_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The name of the master, or redis://user:password@name/2; with one --node for each sentinel
    #[arg(
        long,
        global = true,
        value_name = "MASTER",
        requires = "node",
        conflicts_with = "cluster"
    )]
    pub(crate) sentinel: Option<String>,
    /// The address of a sentinel
    #[arg(long, global = true, value_name = "URL", requires = "sentinel")]
    pub(crate) node: Vec<String>,
    /// The address of a node of a Redis Cluster; one is enough
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) cluster: Vec<String>,
    /// A configuration file of a service (TOML or JSON): its address and its namespace
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["sentinel", "cluster"])]
    pub(crate) config: Option<PathBuf>,
    /// The namespace of the services' clients; names of locks may have it or not. Without one, all namespaces are looked at
    #[arg(long, global = true, env = "LOCK_NAMESPACE", value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// How long to wait for the answers of the clients
    #[arg(long, global = true, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub(crate) within: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while this process holds a lock: lockctl run backup -- ./backup.sh (Unix only)
    Run(Run),
    /// The process between `run` and its command
    #[command(hide = true)]
    Lead(Lead),
    /// List locks that are held or waited for
    Ls(Ls),
    /// Show everything about one lock; exit code 1 if it is free
    Show {
        /// The lock's name, with or without the namespace
        name: String,
    },
    /// Print the changes of a lock. It looks 5 times a second: grants that begin and end in between show in the token only
    Watch {
        /// The lock's name, with or without the namespace
        name: String,
        /// Stop after this time
        #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
        time: Option<Duration>,
    },
    /// List the clients that answer surveys
    Clients,
    /// List holders that wait for each other; exit code 1 if there are any, perhaps are any, or not everything was looked at
    Deadlocks,
    /// Release a lock, whichever client holds it; the holder goes on until its next renewal
    Release(Release),
    /// Check a configuration file (TOML or JSON) and show each policy as a service would use it
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print the JSON schema of configuration files, for editors and for checks of deployments
    Schema,
    /// Check the servers; exit code 1 if one of them endangers locks
    Doctor,
    /// Serve a page that shows locks in the browser
    Console(Console),
    /// Print the completions of this command line for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// `lockctl run`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: the command's; 128 + n if signal n ended it; 75 another holder has the lock; \
76 the lock was lost, so the command was ended; 126 the command cannot be executed; 127 it is not found; \
1, 2, 3 as for all commands of lockctl, before the command starts. The command can have each of them as its own.

Environment: the command has LOCK_NAME, and LOCK_TOKEN if the kind is mutex, fair or write: each later holder has a \
greater token.

Limits: lockctl cannot end a command of another user. In place of `lockctl run NAME -- sudo COMMAND`, run lockctl as \
that user: `sudo lockctl run NAME -- COMMAND`. If lockctl is killed with SIGKILL, its second process (lockctl lead) ends the \
command; if both are killed at once (pkill -9 -f lockctl), the command goes on without the lock. Only on Linux does lockctl end \
processes that leave the command's process group (timeout, set -m, setsid), end the command after such a kill, and keep \
signals ignored that it was started to ignore (nohup). lockctl run needs Unix."
)]
pub(crate) struct Run {
    /// How long to wait while another holder has the lock: a time, none or forever [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = wait)]
    pub(crate) wait: Option<Wait>,
    /// Do not wait; the same as --wait none
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// How long the server keeps the lock without a renewal, for example if lockctl is killed [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    /// Keep the lock at least this long, however soon the command ends
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) at_least: Option<Duration>,
    /// The kind of the lock: mutex, fair, read, write, or a number of permits as "semaphore(3)"
    #[arg(long, default_value = "mutex", value_parser = kind)]
    pub(crate) kind: LockKind,
    /// Exit with 0 if another holder has the lock
    #[arg(long)]
    pub(crate) busy_ok: bool,
    /// The lock's name, with or without the namespace
    pub(crate) name: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// `lockctl lead`, which `lockctl run` starts.
#[derive(Debug, ClapArgs)]
pub(crate) struct Lead {
    /// The process id of the `lockctl run` that holds the lock
    pub(crate) parent: i32,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A wait, as a configuration file spells it.
fn wait(text: &str) -> Result<Wait, String> {
    // Where a file must say "none", users of flock write 0.
    if text == "0" {
        return Ok(Wait::None);
    }
    Ok(match setting("wait", text)?.wait.unwrap_or_default() {
        Wait::UpTo(Duration::ZERO) => Wait::None,
        wait => wait,
    })
}

/// A kind of lock, as a configuration file spells it.
fn kind(text: &str) -> Result<LockKind, String> {
    Ok(setting("kind", text)?.kind.unwrap_or_default())
}

fn setting(field: &str, text: &str) -> Result<Policy, String> {
    serde_json::from_value(json!({ field: text })).map_err(|error| error.to_string())
}

/// `lockctl ls`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// The beginning of the names, with or without the namespace
    #[arg(default_value = "")]
    pub(crate) prefix: String,
    /// Only locks that a client has held for longer than this; clients that do not answer do not say it
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) held_longer: Option<Duration>,
    /// Only locks of this kind
    #[arg(long)]
    pub(crate) kind: Option<Kind>,
    /// How many locks of each client and of the store to look at
    #[arg(long, value_name = "NUMBER", default_value = "1000")]
    pub(crate) limit: usize,
}

/// `lockctl release`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Release {
    /// The lock's name, with or without the namespace
    pub(crate) name: String,
    /// Release it only if this client holds it: the beginning of its id, or of service@host:pid
    #[arg(long, value_name = "CLIENT")]
    pub(crate) owner: Option<String>,
    /// Do it: without this flag, only print which client holds it
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `lockctl console`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Console {
    /// The address to listen on; off this machine only with a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7379")]
    pub(crate) listen: SocketAddr,
    /// Let the page release locks by force
    #[arg(long)]
    pub(crate) allow_release: bool,
    /// A host name under which browsers reach the page, for example through a proxy; without a token, only this machine's
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// The token that a viewer has to give
    #[arg(long, env = "LOCK_CONSOLE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// A kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    Read,
    Write,
    Semaphore,
    Latch,
}

impl From<Kind> for HoldKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Mutex => Self::Mutex,
            Kind::Fair => Self::Fair,
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            Kind::Semaphore => Self::Semaphore,
            Kind::Latch => Self::Latch,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
