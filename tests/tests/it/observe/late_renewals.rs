//! Renewals that are answered late count as failed in time for an alert, once each.

use crate::observe::recorder::Kept;
use crate::observe::scenario::*;
use crate::support::handed_on::handed_on;

/// The in-memory store, whose answers to renewals come that late.
#[derive(Debug)]
struct Late {
    inner: MemoryStore,
    by: Duration,
}

impl Store for Late {
    handed_on!(acquire release subscribe clock);

    fn renew(
        &self,
        requests: Vec<RenewRequest>,
        timeout: Duration,
    ) -> StoreFuture<'_, Vec<Ownership>> {
        StoreFuture::new(async move {
            let answer = self.inner.renew(requests, timeout).await;
            sleep(self.by.min(timeout)).await;
            answer
        })
    }
}

/// The renewals that failed and that were confirmed, after that time of a hold with the default lease of 30 s.
async fn renewals(by: Duration, after: Duration) -> (f64, f64) {
    let (seen, _here) = Kept::here();
    let store = Late { inner: MemoryStore::new(), by };
    let client = LockClient::builder().command_timeout(secs(1)).store(store).unwrap();
    let _held = client.mutex("held").lock().await.unwrap();
    sleep(after).await;
    let count = |outcome| seen.sum("lock_renew_total", &[("outcome", outcome)]);
    (count("failed"), count("renewed"))
}

/// The first attempt is sent after 5 to 10 s, the next one 5 s later.
#[tokio::test(start_paused = true)]
async fn late_answers_count_before_the_loss() {
    assert_eq!(renewals(secs(60), ms(5_800)).await, (0.0, 0.0));
    let (failed, renewed) = renewals(secs(60), ms(11_500)).await;
    assert!(failed >= 1.0 && renewed == 0.0, "long before the loss: {failed}, {renewed}");
    let (failed, renewed) = renewals(secs(3), ms(13_900)).await;
    assert!(failed >= 1.0 && renewed >= 1.0, "a late answer counts as well: {failed}, {renewed}");
    let (failed, renewed) = renewals(ms(500), ms(11_500)).await;
    assert!(
        failed == 0.0 && renewed >= 1.0,
        "an answer in time is no failure: {failed}, {renewed}"
    );
}
