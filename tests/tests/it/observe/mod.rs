//! What can be seen of locks from outside: metrics, spans, and what is in neither.

mod dashboard;
mod deadlocks;
mod failures;
mod gauges;
mod late_renewals;
mod layer_failures;
mod layer_spans;
mod lock_order;
mod logs;
mod long_waits;
mod outcomes;
mod panics;
mod recorder;
mod scenario;
mod secrets;
mod shadow;
mod spans;
mod survey;
mod survey_answers;
mod survey_names;
mod survey_reach;
mod tracer;
mod zeros;
