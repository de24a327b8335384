//! The commands, a file each.

mod check;
mod clients;
mod completions;
mod console;
mod deadlocks;
mod doctor;
mod ls;
mod release;
#[cfg(unix)]
mod run;
mod schema;
mod show;
mod watch;

use lock_runtime::__layer_v1::bound_survey;
use lock_runtime::admin::{Survey, Surveying};
use lock_runtime::{LockClient, LockError};

use crate::answer::Answer;
use crate::args::{Args, Command};
use crate::failure::{Failure, with_causes};
use crate::text::{count, harmless};

/// Runs the command.
pub(crate) async fn run(args: &Args) -> Result<Answer, Failure> {
    match &args.command {
        Command::Check { file } => return check::check(file),
        Command::Schema => return schema::schema(),
        Command::Completions { shell } => return Ok(completions::completions(*shell)),
        #[cfg(unix)]
        Command::Run(run) => return run::run(args, run).await,
        #[cfg(unix)]
        Command::Lead(lead) => return run::lead(lead).await,
        #[cfg(not(unix))]
        Command::Run(_) | Command::Lead(_) => {
            return Err(Failure::usage("`lockctl run` needs Unix: process groups and signals"));
        }
        _ => {}
    }
    // This client answers no surveys, so it lists only the services.
    let client = args.store.connect(LockClient::builder().survey(false)).await?;
    match &args.command {
        Command::Check { .. }
        | Command::Schema
        | Command::Completions { .. }
        | Command::Run(_)
        | Command::Lead(_) => unreachable!("needs no client of this kind"),
        Command::Ls(ls) => ls::ls(&client, args, ls).await,
        Command::Show { name } => show::show(&client, args, lock_name(&client, name).await?).await,
        Command::Watch { name, time } => {
            watch::watch(&client, args, lock_name(&client, name).await?, *time).await
        }
        Command::Clients => clients::clients(&client, args).await,
        Command::Deadlocks => deadlocks::deadlocks(&client, args).await,
        Command::Release(release) => release::release(&client, args, release).await,
        Command::Doctor => doctor::doctor(&client).await,
        Command::Console(console) => console::console(&client, console).await,
    }
}

/// More than a client lists, and more pages than a server has: what is left are the limits of time.
const UNLIMITED: usize = 1_000_000_000;

/// A survey that looks for as long as the arguments say.
fn survey(client: &LockClient, args: &Args) -> Surveying {
    let survey = client.admin().survey().limit(UNLIMITED).within(args.store.within);
    bound_survey(survey, UNLIMITED, usize::MAX)
}

/// The name, or the prefix, as the client's methods take it: what begins with the client's namespace is a whole name, as `ls`, logs and the
/// console print it.
fn own_name<'a>(client: &LockClient, name: &'a str) -> &'a str {
    let rest = client.namespace().and_then(|own| name.strip_prefix(own)?.strip_prefix(':'));
    rest.unwrap_or(name)
}

/// As [`own_name`]; refuses a name that may be that of two locks which are both held: one is named `a:b` and one `a:a:b`, if the
/// namespace is `a`.
async fn lock_name<'a>(client: &LockClient, name: &'a str) -> Result<&'a str, Failure> {
    let own_name = own_name(client, name);
    if own_name == name {
        return Ok(name);
    }
    for one in [own_name, name] {
        match client.admin().inspect(one).await {
            Ok(found) if !found.holders.is_empty() => {}
            // Something else is at that name, or nothing can be: then no lock is meant.
            Ok(_) | Err(LockError::KeyCollision { .. } | LockError::InvalidKey { .. }) => {
                return Ok(own_name);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let whole = client.key(name)?;
    let (name, own_name, whole) = (harmless(name), harmless(own_name), harmless(whole.as_str()));
    Err(Failure::refused(format!("{name} and {whole} are both held; name {own_name} or {whole}")))
}

/// What a reader of a survey must know beside its rows.
fn notes(survey: &Survey, args: &Args) -> Vec<String> {
    let mut notes = Vec::new();
    if survey.missing > 0 {
        let missing = count(survey.missing, "client");
        let within = humantime::format_duration(args.store.within);
        notes.push(format!("{missing} did not answer within {within}"));
    }
    if survey.unaccounted > 0 {
        let holds = match survey.unaccounted {
            1 => "1 hold belongs to a client that has".to_owned(),
            number => format!("{number} holds belong to clients that have"),
        };
        notes.push(format!("{holds} not answered: gone, hanging, or not reached by this user"));
    }
    let cut = survey.clients.iter().filter(|one| one.is_cut).count();
    if cut > 0 {
        let cut = count(cut, "client");
        notes.push(format!("{cut} did not list all holds and waits: there are too many"));
    }
    if let Some(error) = &survey.not_listed {
        let error = with_causes(error);
        notes.push(format!("the names in the store cannot be listed: {error}"));
    } else if notes.is_empty() && !survey.is_complete || survey.is_cut && cut == 0 {
        let advice = match &args.command {
            Command::Ls(_) => "narrow the prefix, or raise --within or --limit",
            _ => "a longer --within looks at more",
        };
        notes.push(format!("not every lock, or not every wait, is looked at; {advice}"));
    }
    notes
}
