//! What can be seen of locks from outside: metrics, spans, and what is in neither.

mod dashboard;
mod deadlocks;
mod failures;
mod gauges;
mod layer_failures;
mod layer_spans;
mod lock_order;
mod logs;
mod long_waits;
mod outcomes;
mod recorder;
mod scenario;
mod secrets;
mod shadow;
mod shadow_contended;
mod shadow_drops;
mod shadow_hot;
mod shadow_layer;
mod shadow_logs;
mod shadow_nested;
mod shadow_probes;
mod spans;
mod survey;
mod survey_answers;
mod tracer;
mod zeros;
