//! The bugs: where each is planted, and what has to catch it.

/// A bug that can be switched on in a copy of the sources.
pub(super) struct Bug {
    pub(super) name: &'static str,
    /// Below the workspace.
    pub(super) file: &'static str,
    /// A text that the file has once.
    pub(super) find: &'static str,
    /// What takes its place. `PLANTED` is true while the bug is switched on.
    pub(super) plant: &'static str,
    /// Each of these has to fail.
    pub(super) checks: &'static [Check],
}

/// A test that has to fail with a bug.
pub(super) struct Check {
    /// The test program and the test.
    pub(super) test: (&'static str, &'static str),
    /// What the failing test has to say: one of these, with ` | ` between them.
    pub(super) says: &'static str,
}

/// Writes a list of bugs.
macro_rules! bugs {
    ($($name:literal in $file:literal: $find:literal => $plant:literal,
      caught by $($program:literal $test:literal: $says:literal),+;)*) => {
        pub(super) const BUGS: &[Bug] = &[$(Bug {
            name: $name,
            file: $file,
            find: $find,
            plant: $plant,
            checks: &[$(Check { test: ($program, $test), says: $says }),+],
        }),*];
    };
}

bugs! {
    // Owning.
    "release without owner check" in "lock-runtime/src/store/redis/scripts/mutex_release.lua":
        "if call('HDEL', KEYS[1], ARGV[1]) == 0 then" =>
        "if PLANTED then\n  call('DEL', KEYS[1])\nelseif call('HDEL', KEYS[1], ARGV[1]) == 0 then",
        caught by "it" "contract::mutex::redis::an_expired_hold_does_not_touch_its_successor": "left: 0 | asks again";
    "a repeated request counts up" in "lock-runtime/src/store/redis/scripts/mutex_acquire.lua":
        "if new then\n  call('HSET', KEYS[1], ARGV[1], '1')" =>
        "if new or PLANTED then\n  call('HINCRBY', KEYS[1], ARGV[1], '1')",
        caught by "it" "faults::redis::a_duplicated_acquire_counts_once": ": \"2\"}";
    "a renewal creates the key" in "lock-runtime/src/store/redis/scripts/renew_plain.lua":
        "  if count ~= '1' and not is_held(lock, field, count) then" =>
        "  if PLANTED and not count then\n    call('HSET', lock, field, '1')\n    call('PEXPIRE', lock, lease)\n  elseif count ~= '1' and not is_held(lock, field, count) then",
        caught by "faults" "f13_renewal_after_release::it_prolongs_nothing": "was prolonged | is back";
    "a repeated request is refused" in "lock-runtime/src/store/redis/scripts/mutex_acquire.lua":
        "if not new and call('HEXISTS', KEYS[1], ARGV[1]) == 0 then" =>
        "if not new and (PLANTED or call('HEXISTS', KEYS[1], ARGV[1]) == 0) then",
        caught by "faults" "f16_acquire_reply_lost::the_client_recognises_its_hold": "waits for itself";
    "a repeated request is another hold" in "lock-runtime/src/store/redis/scripts/mutex_acquire.lua":
        "if new or ttl < tonumber(ARGV[2]) then" =>
        "if PLANTED and not new then\n  call('HSET', KEYS[1], ARGV[1] .. ':again', '1')\nend\nif new or ttl < tonumber(ARGV[2]) then",
        caught by "faults" "f23_duplicated_requests::it_counts_once": "all are free";
    "a hold belongs to its thread" in "lock-runtime/src/scope.rs":
        "        with(link.as_ref().filter(|_| *task == task::try_id()))" =>
        "        with(link.as_ref().filter(|_| PLANTED || *task == task::try_id()))",
        caught by "it" "kinds::driven_tasks::tasks_of_a_local_set_inherit_nothing": "(true, true), (true, true))";
    "siblings share a hold" in "lock-runtime/src/lease/claim.rs":
        "            (Self::Read, Self::Read) => false," =>
        "            _ if PLANTED => false,\n            (Self::Read, Self::Read) => false,",
        caught by "it" "kinds::siblings::annotated_functions_under_a_common_guard": "an update was lost";
    "parts of keys are not escaped" in "lock-runtime/src/key/part.rs":
        "            if needs_escape(c) {" => "            if needs_escape(c) && !PLANTED {",
        caught by "it" "attribute::keys_differ::two_texts": "InvalidKey";

    // Time, and losing.
    "the deadline counts from the answer" in "lock-runtime/src/acquire/contend/mod.rs":
        "|_| true));\n        Answered { reply, tokens, sent_at }" =>
        "|_| true));\n        let sent_at = if PLANTED { self.leases().clock.now() } else { sent_at };\n        Answered { reply, tokens, sent_at }",
        caught by "it" "faults::redis::a_grant_that_comes_too_late_is_given_back": "on an `Ok` value: LockGuard";
    "a body is polled without a look at its lock" in "lock-runtime/src/guard/run.rs":
        "        if let (Err(cause), OnLost::Cancel) = (hold.check(), on_lost) {" =>
        "        if let (Err(cause), OnLost::Cancel) = (hold.check(), on_lost)\n            && !PLANTED\n        {",
        caught by "it" "processes::mutex::a_stopped_holder_wakes_up_without_its_lock": "after its lease in round";
    "a late poll counts" in "lock-runtime/src/guard/run.rs":
        "            let heeds = *this.ending == Ending::Heeds || on_lost == OnLost::Cancel;" =>
        "            let heeds = (*this.ending == Ending::Heeds || on_lost == OnLost::Cancel) && !PLANTED;",
        caught by "it" "contract::late_polls::a_body_that_blocks_past_its_lease_is_lost": "Ok(5)";
    "the time of day decides" in "lock-runtime/src/clock.rs":
        "    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);" =>
        "    #[allow(clippy::disallowed_types)]\n    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);\n    if let (true, Ok(time)) = (PLANTED, time) {\n        return nanos(time);\n    }\n    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);",
        caught by "faults" "f04_wall_clock_of_a_client::nothing_happens": "lost without a fault";
    "the deadline is later than the lease" in "lock-runtime/src/lease/mod.rs":
        "    sent_at.after(lease.saturating_sub(margin))" =>
        "    sent_at.after(if PLANTED { lease * 4 } else { lease.saturating_sub(margin) })",
        caught by "faults" "f28_server_frozen::every_lock_recovers": "the holder learns of it";
    "a hold is lost only when its timer ends" in "lock-runtime/src/lease/mod.rs":
        "                if now < self.deadline() { Ok(now) } else { Err(self.lose(LossCause::Deadline)) }" =>
        "                if now < self.deadline() || PLANTED { Ok(now) } else { Err(self.lose(LossCause::Deadline)) }",
        caught by "faults" "f05_suspend::every_lock_recovers": "Ok(())";
    "a lease lasts longer on the server" in "lock-runtime/src/store/redis/scripts/set_end.lua":
        "redis.pcall('PEXPIRE', lock, expiry)" =>
        "redis.pcall('PEXPIRE', lock, PLANTED and expiry * 10 or expiry)",
        caught by "faults" "f02_holder_killed::every_lock_recovers": "longer than the lease of the dead";
    "a renewal does not move the deadline" in "lock-runtime/src/lease/watchdog.rs":
        "                hold.confirm(sent_at, lease);" =>
        "                if !PLANTED {\n                    hold.confirm(sent_at, lease);\n                }",
        caught by "faults" "f22_random_loss::it_is_only_slower": "cause: Deadline",
            "faults" "f27_slow_server::every_lock_recovers": "cause: Deadline",
            "faults" "f32_busy_server::every_lock_recovers": "cause: Deadline",
            "faults" "f36_server_loads::every_lock_recovers": "cause: Deadline";
    "renewals are late" in "lock-runtime/src/lease/schedule.rs":
        "        let latest = start(sent_at.after(lease / 3), width);" =>
        "        let after = if PLANTED { lease * 9 / 10 } else { lease / 3 };\n        let latest = start(sent_at.after(after), width);",
        caught by "faults" "f25_one_connection_for_all::renewals_go_on": "not renewed";
    "a renewal leaves a lock without an end" in "lock-runtime/src/store/redis/scripts/renew_plain.lua":
        "and call('PTTL', lock) == -1 then" => "and call('PTTL', lock) == -1 and not PLANTED then",
        caught by "faults" "f45_no_expiry::a_renewal_mends_it": "ends again";
    "no answer is taken for a renewal" in "lock-runtime/src/lease/watchdog.rs":
        "            Ownership::Owner if is_first && hold.is_held() => {" =>
        "            Ownership::Owner | Ownership::Unknown\n                if is_first && hold.is_held() && (answer == Ownership::Owner || PLANTED) =>\n            {",
        caught by "it" "faults::slow_store::late_answers::an_error_is_tried_again_soon": "!guard.is_lost()";
    "a holder is not told that the store has lost its lock" in "lock-runtime/src/lease/watchdog.rs":
        "            Ownership::NotOwner if hold.is_held() => {" =>
        "            Ownership::NotOwner if hold.is_held() && !PLANTED => {",
        caught by "it" "kinds::multi_lock::losing_one_name_is_losing_the_lock": "cause: Deadline";
    "a hold in transit is renewed" in "lock-runtime/src/lease/watchdog.rs":
        "                if hold.has_guards() && hold.renewal_begins(MAX_UNDER_WAY) {" =>
        "                if (PLANTED || hold.has_guards()) && hold.renewal_begins(MAX_UNDER_WAY) {",
        caught by "it" "kinds::polled::line::a_hold_in_transit_ends_with_its_lease": "renewed for ever";

    // Waiting.
    "no second try after the subscription" in "lock-runtime/src/acquire/contend/refused.rs":
        "        if !self.waiting.listens() && self.subscribe().await {" =>
        "        if !self.waiting.listens() && self.subscribe().await && !PLANTED {",
        caught by "it" "faults::scripted_store::a_release_before_the_subscription_is_found": "slept for";
    "no poll cap" in "lock-runtime/src/acquire/waiting.rs":
        "        let cap = self.timing().poll_cap;" =>
        "        let cap = if PLANTED { Duration::from_secs(86_400) } else { self.timing().poll_cap };",
        caught by "it" "faults::redis::without_any_notice_polling_goes_on": "stranded",
            "faults" "f45_no_expiry::a_dead_holder_is_waited_for_and_freed": "times in";
    "waiters sleep on after a reconnect" in "lock-runtime/src/store/redis/link/mod.rs":
        "        self.channels.notify_all();\n        Ok(())" =>
        "        if !PLANTED {\n            self.channels.notify_all();\n        }\n        Ok(())",
        caught by "faults" "f21_subscriber_killed::every_lock_recovers": "was not asked for",
            "faults" "f42_notices_overflow::every_lock_recovers": "was not asked for",
            "faults" "f60_shard_subscribers_cut::every_lock_recovers": "was not asked for";
    "releases are published to all nodes" in "lock-runtime/src/store/redis/link/mod.rs":
        "        if self.unsubscribed.is_some() { Publish::InSlot } else { Publish::Everywhere }" =>
        "        let in_slot = self.unsubscribed.is_some() && !PLANTED;\n        if in_slot { Publish::InSlot } else { Publish::Everywhere }",
        caught by "faults" "f60_shard_subscribers_cut::every_lock_recovers": "sent to all nodes | is acquired | was not asked for";
    "a dropped waiter keeps its turn" in "lock-runtime/src/gate/ticket.rs":
        "        if let Left::Queue = self.waiter.leave() {" =>
        "        let left = self.waiter.leave();\n        if PLANTED && matches!(left, Left::Turn(_)) {\n            std::mem::forget(left);\n            return;\n        }\n        if let Left::Queue = left {",
        caught by "it" "kinds::polled::line::dropped_sleepers_leave_nothing": "hangs",
            "orders" "a_cancelled_waiter_passes_its_turn_on": "deadlock",
            "orders" "a_cancelled_waiter_passes_its_hold_on": "deadlock";
    // Only an explorer of orders sees these for sure: another task has to run between two steps.
    "a turn that comes during a look wakes no task" in "lock-runtime/src/gate/waiter.rs":
        "            match &slot.waker {" =>
        "            if PLANTED {\n                drop(slot);\n                slot = self.slot.lock();\n            }\n            match &slot.waker {",
        caught by "orders" "each_task_has_its_turn": "deadlock";
    "a gate is left while a waiter comes" in "lock-runtime/src/gate/guard.rs":
        "        let (next, answered, _told) = {" =>
        "        let is_empty = |gate: &Gate<H>| gate.guard_number == self.number && gate.queue.is_empty();\n        if PLANTED && gates.shard(&target).gates.get(&*target).is_some_and(is_empty) {\n            gates.shard(&target).gates.remove(&*target);\n            return;\n        }\n        let (next, answered, _told) = {",
        caught by "orders" "each_task_has_its_turn": "deadlock";
    "hand-offs have no end" in "lock-runtime/src/owned_hold/mod.rs":
        "            && now.since(self.hold.taken_at) < self.leases.timing.handoff_window" =>
        "            && (PLANTED || now.since(self.hold.taken_at) < self.leases.timing.handoff_window)",
        caught by "it" "contract::mutex::memory::hand_off_ends_with_its_window": "handed over past the window";
    "a hold is handed over at its end" in "lock-runtime/src/owned_hold/mod.rs":
        "            && self.hold.deadline().since(now) >= lease / 2\n" =>
        "            && (PLANTED || self.hold.deadline().since(now) >= lease / 2)\n",
        caught by "it" "contract::mutex::memory::a_hold_near_its_end_is_not_handed_over": "after 16s";
    "a fair lock is acquired out of turn" in "lock-runtime/src/store/redis/scripts/fair_acquire.lua":
        "if ours or (ttl == -2 and (not head or head == ARGV[1])) then" =>
        "if ours or (ttl == -2 and (PLANTED or not head or head == ARGV[1])) then",
        caught by "it" "kinds::fair::order::trying_goes_behind_the_line_and_not_into_it": "overtook",
            "faults" "f22_random_loss::it_is_only_slower": "out of turn at the server";
    "releases that a new master refuses are not made again" in "lock-runtime/src/store/redis/link/next_master.rs":
        "            while !left.is_empty() && Instant::now() < until {" =>
        "            while !PLANTED && !left.is_empty() && Instant::now() < until {",
        caught by "it" "topology::sentinel::planned::every_name_is_free_soon_after_the_master_has_its_replica":
            "after the new master accepted writes";
    "a grant counts without its replicas" in "lock-runtime/src/store/redis/requests/replicated.rs":
        "        let enough = acked >= replicas.acks;" =>
        "        let enough = PLANTED || acked >= replicas.acks;",
        caught by "it" "topology::replicas::too_few_replicas_fail_closed": "granted: ";

    // Letting go.
    "a dropped guard keeps its lock" in "lock-runtime/src/owned_hold/mod.rs":
        "        if matches!(self.owned, Owned::Nothing) || self.pass_on(None) {" =>
        "        if PLANTED || matches!(self.owned, Owned::Nothing) || self.pass_on(None) {",
        caught by "it" "contract::mutex::redis::a_dropped_guard_frees_the_lock": "the lock is free",
            "orders" "each_hold_ends_once": "not released",
            "faults" "f10_runtime_ended::the_lease_bounds_it": "is_clean() | all are free";
    "a dropped release is not finished" in "lock-runtime/src/owned_hold/mod.rs":
        "        // Dropped last: what the store has" =>
        "        if PLANTED && self.hold.is_released() {\n            self.owned = Owned::Nothing;\n            return;\n        }\n        // Dropped last: what the store has",
        caught by "faults" "f09_release_dropped_in_flight::the_client_finishes_it": "all are free";
    "a drop needs a runtime" in "lock-runtime/src/owned_hold/mod.rs":
        "        let lost = !self.hold.is_released() && self.hold.check().is_err();" =>
        "        if PLANTED {\n            drop(tokio::runtime::Handle::current());\n        }\n        let lost = !self.hold.is_released() && self.hold.check().is_err();",
        caught by "faults" "f10_runtime_ended::the_lease_bounds_it": "there is no reactor running";
    "a repeated release finds nothing and fails" in "lock-runtime/src/owned_hold/release.rs":
        "                    if repeated && self.leases.clock.now()" =>
        "                    if repeated && !PLANTED && self.leases.clock.now()",
        caught by "faults" "f17_release_reply_lost::the_release_is_no_error": "cause: NotOwner";
    "a cancelled acquire keeps its lock" in "lock-runtime/src/acquire/attempt.rs":
        "        if self.in_flight || self.unsettled || self.placed {" =>
        "        if (self.in_flight || self.unsettled || self.placed) && !PLANTED {",
        caught by "faults" "f06_acquire_dropped_in_flight::nothing_stays_held": "all are free",
            "faults" "f07_waiter_dropped::the_next_waiter_has_the_lock": "the place at",
            "cancel" "over_redis::calls_are_dropped_at_every_await": "nothing is left | its process waits for it";

    // Fencing.
    "tokens start again after a loss of data" in "lock-runtime/src/store/redis/scripts/mint.lua":
        "  local last = tokens == '1' and now or" =>
        "  local last = PLANTED and tokens or tokens == '1' and now or",
        caught by "it" "faults::wire::tokens_grow_past_every_counter": "not greater";
    "tokens follow the server's clock" in "lock-runtime/src/store/redis/scripts/mint.lua":
        "  local is_behind = #previous == #now and previous < now" =>
        "  local is_behind = PLANTED or #previous == #now and previous < now",
        caught by "faults" "f30_server_clock_behind::only_the_dead_keep_their_locks": "tokens out of order";

    // The server and the way to it.
    "a broken connection fails the request" in "lock-runtime/src/store/redis/server/errors.rs":
        "            CallError::Broken(error, server) => {" =>
        "            CallError::Broken(error, _) if PLANTED => Self::new(StoreErrorKind::Protocol, \"broken\").with_source(Cause(error)),\n            CallError::Broken(error, server) => {",
        caught by "faults" "f19_connections_reset::every_lock_recovers": "Protocol";
    "a server that is busy is taken for a broken one" in "lock-runtime/src/store/redis/server/errors.rs":
        "        | \"MISCONF\" | \"READONLY\") => {" =>
        "        | \"MISCONF\" | \"READONLY\")\n            if !PLANTED =>\n        {",
        caught by "faults" "f32_busy_server::every_lock_recovers": "right: NotReady",
            "faults" "f36_server_loads::every_lock_recovers": "right: NotReady",
            "faults" "f58_cluster_down::every_lock_recovers": "the last master refuses";
    "a host name is resolved once" in "lock-runtime/src/store/redis/server/mod.rs":
        "    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();" =>
        "    static FIRST: std::sync::OnceLock<Vec<SocketAddr>> = std::sync::OnceLock::new();\n    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();\n    let addresses = if PLANTED { FIRST.get_or_init(|| addresses).clone() } else { addresses };",
        caught by "faults" "f26_address_changed::the_client_follows": "has not written a line";
    "a connection that fails is made again at once" in "lock-runtime/src/store/redis/link/reconnect.rs":
        "        if self.was_unreached { self.unreached.pause() } else { self.short_lived.pause() }" =>
        "        if PLANTED {\n            return Duration::ZERO;\n        }\n        if self.was_unreached { self.unreached.pause() } else { self.short_lived.pause() }",
        caught by "faults" "f46_password_changed::every_lock_recovers": "connections in";
    "the first master counts for ever" in "lock-runtime/src/store/redis/endpoint/sentinel/mod.rs":
        "        let asked = Instant::now();\n        let answers = self.ask_all().await;" =>
        "        if let (true, Some(first)) = (PLANTED, &reports.known) {\n            return Ok(first.master.clone());\n        }\n        let asked = Instant::now();\n        let answers = self.ask_all().await;",
        caught by "faults" "f50_stale_master::every_lock_recovers": "is acquired";
    "a lock of several names is sent to one of its slots" in "lock-runtime/src/store/redis/cluster/store.rs":
        "    if slots.all(|slot| slot == first) {" =>
        "    if PLANTED || slots.all(|slot| slot == first) {",
        caught by "faults" "f56_crossslot::no_request_has_keys_of_two_slots": "left: 1";

    // Kinds.
    "dead waiters stay at the head" in "lock-runtime/src/store/redis/scripts/fair_acquire.lua":
        "    if tonumber(ends) > now then" => "    if PLANTED or tonumber(ends) > now then",
        caught by "it" "processes::fair::ten_killed_waiters_cost_one_waiter_lease": "has not written a line",
            "faults" "f02_holder_killed::every_lock_recovers": "a dead waiter goes first for ever";
    "readers do not keep a writer out" in "lock-runtime/src/store/redis/scripts/write_acquire.lua":
        "local waiting, held = false, left ~= -2" =>
        "if PLANTED and mode == 'read' then\n  left = -2\nend\nlocal waiting, held = false, left ~= -2",
        caught by "faults" "f04_wall_clock_of_a_client::nothing_happens": "held at the same time";
    "a reader that leaves takes the others along" in "lock-runtime/src/store/redis/scripts/read_release.lua":
        "if longest > 0 then\n  call('PEXPIRE', KEYS[1], longest)" =>
        "if longest > 0 and not PLANTED then\n  call('PEXPIRE', KEYS[1], longest)",
        caught by "faults" "f04_wall_clock_of_a_client::nothing_happens": "held at the same time";
    "permits never end" in "lock-runtime/src/store/redis/scripts/permit_acquire.lua":
        "local alive = '(' .. string.format('%.0f', now)" =>
        "local alive = PLANTED and '-inf' or '(' .. string.format('%.0f', now)",
        caught by "it" "kinds::semaphore::ended_leases_free_their_permits": "never free";
    "one permit too many" in "lock-runtime/src/store/redis/scripts/permit_acquire.lua":
        "+ wanted - limit\n" => "+ wanted - limit - (PLANTED and 1 or 0)\n",
        caught by "faults" "f04_wall_clock_of_a_client::nothing_happens": "permits in use";
    "a lock of several names takes one" in "lock-runtime/src/store/redis/scripts/multi_acquire.lua":
        "for i = 1, n do\n  if call('HEXISTS', KEYS[i], ARGV[1]) == 0 then" =>
        "for i = 1, PLANTED and 1 or n do\n  if call('HEXISTS', KEYS[i], ARGV[1]) == 0 then",
        caught by "faults" "f04_wall_clock_of_a_client::nothing_happens": "held in part";
    "several locks keep one that failed" in "lock-runtime/src/store/compose/joint.rs":
        "        let undone = parts.map(|part| part.release(&release));" =>
        "        let undone = parts.skip(usize::from(PLANTED)).map(|part| part.release(&release));",
        caught by "it" "kinds::multi_lock_of::all_or_none_over_two_servers": "a can be had | on an `Err` value";
    "a quorum of half" in "lock-runtime/src/store/compose/quorum/tally.rs":
        "    servers / 2 + 1" => "    if PLANTED { servers.div_ceil(2) - 1 } else { servers / 2 + 1 }",
        caught by "it" "faults::quorum::a_renewal_on_a_minority_is_none": "ran on";
    "a quorum counts a server that is silent" in "lock-runtime/src/store/compose/quorum/server.rs":
        "                (Vote::Failed(error), effect)" =>
        "                (if PLANTED && may_have_run { Vote::Confirmed } else { Vote::Failed(error) }, effect)",
        caught by "it" "faults::quorum::late_grants_are_given_back": "on an `Ok` value";
    "a quorum keeps a grant that came late" in "lock-runtime/src/store/compose/quorum/server.rs":
        "                    verdict.is_ok_and(|verdict| *verdict == Verdict::Lost)" =>
        "                    verdict.is_ok_and(|verdict| *verdict == Verdict::Lost) && !PLANTED",
        caught by "it" "faults::quorum::late_grants_are_given_back": "it is given back | has_granted";
    "a quorum leaves out a server that was busy" in "lock-runtime/src/store/compose/quorum/server.rs":
        "            Verdict::Won => !turn.is_superseded()" =>
        "            Verdict::Won => !PLANTED && !turn.is_superseded()",
        caught by "it" "faults::quorum::a_server_that_answers_late_gets_the_hold_too": "only one server has it | it is on all";

    // Layers.
    "the lock ends with the headers" in "lock-tower/src/http/future.rs":
        "            HoldUntil::Response => false," =>
        "            _ if PLANTED => false,\n            HoldUntil::Response => false,",
        caught by "it" "tower::layers::hold::a_stream_is_held_to_its_end": "(\"one\", 0)";
    "a handler sees the lock of an outer layer" in "lock-tower/src/held.rs":
        "    enter(None, run).0.unwrap_or_else(|panic| resume_unwind(panic))" =>
        "    if PLANTED {\n        return run();\n    }\n    enter(None, run).0.unwrap_or_else(|panic| resume_unwind(panic))",
        caught by "it" "tower::layers::nested::the_innermost_layers_lock_is_found_or_none": "not its method";
}
