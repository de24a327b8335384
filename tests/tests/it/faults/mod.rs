//! Servers and networks that fail, and what the locks make of it.

mod at_least_crashes;
mod at_least_stalls;
mod batches;
mod behind_proxies;
mod cancelled_in_outages;
mod contained;
mod counters;
mod late_answers;
mod multi_lock;
mod no_runtime;
mod outages;
mod patience;
mod quorum;
mod reconnects;
mod redis;
mod release_timeout;
mod releases_after_outages;
mod runtime_end;
mod runtimes;
mod scripted_store;
mod slow_store;
mod store_messages;
mod swallowed_replies;
mod wire;
