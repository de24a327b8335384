//! Tells the lock order what is held around an acquire.

use super::Engine;
use crate::admin::order::Locks;
use crate::observe::{Label, log_lock};
use crate::options::{LockOptions, Wait};
use crate::scope;
use crate::store::Target;

/// Records the locks of an acquire, which is no re-entry, inside of each hold around it. Called before it waits, so that a
/// deadlock is in the log, too.
pub(super) fn record(engine: &Engine, target: &Target, options: &LockOptions, label: &Label) {
    if options.get_wait() == Wait::None {
        // It cannot be part of a deadlock.
        return;
    }
    let inner = Locks { order: &engine.leases.order, target, site: label.call_site() };
    scope::visit_holds(|order, hold| {
        let site = hold.recorder.label().call_site();
        let outer = Locks { order, target: &hold.target, site };
        inner
            .record_inside(&outer, |inversion| log_lock!(warn, target.key(), label, "{inversion}"));
    });
}
