//! The commands, a file each.

mod check;
mod clients;
mod console;
mod deadlocks;
mod doctor;
mod ls;
mod release;
mod show;
mod watch;

use lock_runtime::LockClient;
use lock_runtime::survey::Survey;

use crate::answer::Answer;
use crate::args::{Args, Command};
use crate::failure::{Failure, with_causes};
use crate::text::count;

/// Runs the command.
pub(crate) async fn run(args: &Args) -> Result<Answer, Failure> {
    if let Command::Check { file } = &args.command {
        return check::check(file);
    }
    let client = args.store.connect().await?;
    match &args.command {
        Command::Check { .. } => unreachable!("needs no client"),
        Command::Ls(ls) => ls::ls(&client, args, ls).await,
        Command::Show { name } => show::show(&client, args, name).await,
        Command::Watch { name, time } => watch::watch(&client, args, name, *time).await,
        Command::Clients => clients::clients(&client, args).await,
        Command::Deadlocks => deadlocks::deadlocks(&client, args).await,
        Command::Release(release) => release::release(&client, args, release).await,
        Command::Doctor => doctor::doctor(&client).await,
        Command::Console(console) => console::console(&client, console).await,
    }
}

/// Makes a survey of the names with this prefix.
async fn survey(
    client: &LockClient,
    args: &Args,
    prefix: &str,
    limit: usize,
) -> Result<Survey, Failure> {
    Ok(client.survey().prefix(prefix).limit(limit).within(args.store.within).await?)
}

/// What a reader of a survey must know beside its rows.
fn notes(survey: &Survey, args: &Args) -> Vec<String> {
    let mut notes = Vec::new();
    if survey.missing > 0 {
        let missing = count(survey.missing, "client");
        let within = humantime::format_duration(args.store.within);
        notes.push(format!("{missing} did not answer within {within}"));
    }
    if let Some(error) = &survey.not_listed {
        let error = with_causes(error);
        notes.push(format!("the names in the store cannot be listed: {error}"));
    } else if !survey.is_complete && survey.missing == 0 {
        notes.push("not every lock is listed; narrow the prefix or raise --limit".to_owned());
    }
    notes
}
