//! An annotated function compared with the same code written by hand, without a server: in memory, where
//! a lock costs least, and as a re-entry, which does not ask the store.

use std::time::Duration;

use lock_runtime::{LockClient, LockKey, distributed_lock};

use super::Call;
use super::only;
use super::overhead::{Form, Round, records, round};
use crate::Result;
use crate::record::Record;
use crate::timing::Timing;

const OUTERMOST: &str = "attribute: an annotated function, in-memory store";
const NESTED: &str = "attribute: an annotated function inside of the same lock";

/// The most nanoseconds of a call beyond the call by hand.
const MOST: f64 = 250.0;

#[distributed_lock(key = "order:{id}")]
async fn annotated(id: u64) -> Result<()> {
    std::hint::black_box(id);
    Ok(())
}

/// Faster than the code in the attribute's manual: it has the client and need not look for it.
async fn by_hand(client: &LockClient, id: u64) -> Result<()> {
    let key = LockKey::builder().text("order:").part(&id).build()?;
    let guard = client.mutex(key).lock().await?;
    let result = guard.run(async move {
        std::hint::black_box(id);
        Ok(())
    });
    let result = result.await?;
    guard.release().await?;
    result
}

/// Measures the case.
pub(super) async fn run(timing: Timing) -> Result<Vec<Record>> {
    let client = LockClient::in_memory();
    client.install();
    let (mut outermost, mut nested) = (Vec::new(), Vec::new());
    for _ in 0..timing.rounds {
        let (outside, inside) = tokio::spawn(both(client.clone(), timing.turn)).await??;
        outermost.push(outside);
        nested.push(inside);
    }
    Ok([records(OUTERMOST, &outermost, MOST), records(NESTED, &nested, MOST)].concat())
}

fn forms(client: &LockClient) -> [Form<'_>; 2] {
    let by_hand = || by_hand(client, 7);
    [
        Form::new(Call::AttributeByHand.form(), by_hand),
        Form::new(Call::Attribute.form(), || annotated(7)),
    ]
}

/// Makes so many calls of one form.
pub(super) async fn calls(call: Call, count: u32) -> Result<()> {
    let client = LockClient::in_memory();
    client.install();
    only(&forms(&client), call, count).await
}

/// A round of each case.
async fn both(client: LockClient, turn: Duration) -> Result<(Round, Round)> {
    let forms = forms(&client);
    let outside = round(&forms, turn).await?;
    let guard = client.mutex("order:7").lock().await?;
    let inside = guard.run(round(&forms, turn)).await??;
    guard.release().await?;
    Ok((outside, inside))
}
