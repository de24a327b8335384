//! `lockctl release`: frees a lock from any holder.

use lock_runtime::LockClient;
use lock_runtime::admin::{SurveyedHolder, SurveyedLock};
use serde_json::json;

use super::show::{check_asked, find, is_held};
use super::{lock_name, survey};
use crate::answer::Answer;
use crate::args::{Args, Release};
use crate::failure::{Failure, NO};
use crate::text::harmless;

pub(super) async fn release(
    client: &LockClient,
    args: &Args,
    release: &Release,
) -> Result<Answer, Failure> {
    let own_name = lock_name(client, &release.name).await?;
    // An error if the name is no lock, before anything is changed.
    let found = client.admin().inspect(own_name).await?;
    let survey = survey(client, args).name(own_name).await?;
    let lock = find(&survey, client, own_name)?.filter(|lock| is_held(lock));
    let full_name = client.key(own_name)?;
    let name = harmless(full_name.as_str());
    let Some(lock) = lock else {
        check_asked(&name, &found, &survey)?;
        return Err(Failure::refused(format!("{name} is not held")));
    };
    let holders = holders(lock);
    let clients = match &release.owner {
        Some(owner) => Some(clients(lock, owner)?),
        None => None,
    };
    if !release.yes {
        let text = format!("{name} is held by {holders}; add --yes to release it\n");
        let json = json!({ "released": false, "holders": lock.holders });
        return Ok(Answer::new(text, json).with_code(NO));
    }
    // The holders may have changed since the look at them. With an owner, the store compares.
    let released = match &clients {
        Some(clients) => client.admin().force_release_from(own_name, clients).await?,
        None => client.admin().force_release(own_name).await?,
    };
    if !released {
        return Err(Failure::refused(match &release.owner {
            Some(owner) => format!("{} does not hold {name}, or not any more", harmless(owner)),
            None => format!("{name} was released meanwhile by {holders}"),
        }));
    }
    let text = format!(
        "released {name}, which {holders} held; a holder that runs goes on until its next renewal\n"
    );
    Ok(Answer::new(text, json!({ "released": true, "holders": lock.holders })))
}

/// What the store compares with the holders' ids. Refuses if the owner does not hold the lock, or not alone: a release takes
/// it from all holders.
fn clients(lock: &SurveyedLock, owner: &str) -> Result<Vec<String>, Failure> {
    let (name, holders) = (harmless(lock.key.as_str()), holders(lock));
    // As `ls` prints an id.
    let owner = owner.trim_end_matches('…');
    let own = lock.holders.iter().filter(|holder| is(holder, owner)).count();
    let shown = harmless(owner);
    match lock.holders.len() {
        _ if own == 0 => {
            Err(Failure::refused(format!("{shown} does not hold {name}; it is held by {holders}")))
        }
        all if own < all => Err(Failure::refused(format!(
            "{shown} does not hold {name} alone, and a release takes it from all holders: {holders}; \
             leave out --owner to release it"
        ))),
        _ if lock.holders.iter().any(|holder| holder.client_id.is_empty()) => {
            Err(Failure::refused(format!(
                "{name} is held by {holders}, whose id is not known, so no owner can be compared; \
                 leave out --owner to release it"
            )))
        }
        _ => {
            let compared = lock.holders.iter().map(|holder| match known_id(holder) {
                id if owner.starts_with(id) => owner,
                id => id,
            });
            Ok(compared.map(str::to_owned).collect())
        }
    }
}

/// The id of the holder's client, or the beginning of it that is known.
fn known_id(holder: &SurveyedHolder) -> &str {
    holder.client_id.trim_end_matches('…')
}

fn holders(lock: &SurveyedLock) -> String {
    let all = lock.holders.iter().map(|holder| match &holder.site {
        Some(site) => harmless(&format!("{holder} (acquired at {site})")),
        None => harmless(&holder.to_string()),
    });
    all.collect::<Vec<_>>().join(" and ")
}

/// True if the owner may be that holder: of an id whose end is not known, the store compares the rest.
fn is(holder: &SurveyedHolder, owner: &str) -> bool {
    let id = known_id(holder);
    let is_cut = id.len() < holder.client_id.len();
    // As it is shown where the client's process is not known.
    let owner = owner.strip_prefix("client ").unwrap_or(owner);
    !owner.is_empty()
        && (holder.client_id.starts_with(owner)
            || holder.to_string().starts_with(owner)
            || (is_cut && owner.starts_with(id)))
}
