//! Each target over its corpus, and over a little random input.
//!
//! `cargo xtask fuzz` builds the same tests for libFuzzer and keeps what it finds in the corpus. A failure by random
//! input prints the input, and a seed that repeats it: `BOLERO_RANDOM_SEED=… cargo test -p lock-fuzz NAME`.

use std::path::Path;
use std::time::Duration;

/// How long the random input of one target may take.
const TIME: Duration = Duration::from_millis(300);

/// The longest input.
const MAX_LEN: usize = 4096;

/// How long one input may take, without optimization and beside nine other targets on two cores, where the slowest takes 2.7 s.
/// Work that grows with the square of the largest inputs takes far longer.
const ONE_INPUT: Duration = Duration::from_secs(10);

/// Runs a target over its corpus. Under libFuzzer, the corpus is unpacked into a folder that libFuzzer reads.
fn run_corpus(name: &str, target: fn(&[u8])) {
    if cfg!(fuzzing) {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let inputs = lock_fuzz::corpus::read(&path.with_extension("txt")).expect("a corpus");
    assert!(!inputs.is_empty(), "there is no corpus in {}", path.display());
    let huge = [b'7', b'{', b'%', b'*', 0x80, 0xff].map(|byte| vec![byte; 1 << 16]);
    for input in inputs.iter().chain(&huge) {
        let shown = input[..input.len().min(MAX_LEN)].escape_ascii();
        println!("{shown}");
        let clock = lock_runtime::clock::Clock::boot_time();
        let start = clock.now();
        target(input);
        let took = clock.now().since(start);
        assert!(took < ONE_INPUT, "{took:?} for {shown}");
    }
}

macro_rules! targets {
    ($($module:ident::$name:ident;)*) => {$(
        #[test]
        fn $name() {
            run_corpus(stringify!($name), lock_fuzz::$module::$name);
            bolero::check!()
                .with_max_len(MAX_LEN)
                .with_iterations(100_000)
                .with_test_time(TIME)
                .for_each(lock_fuzz::$module::$name);
        }
    )*};
}

targets! {
    replies::acquire_reply;
    replies::reply_text;
    replies::renew_reply;
    replies::inspect_reply;
    replies::messages;
    topology::slots_reply;
    topology::redirection;
    topology::sentinel_reply;
    topology::info_text;
    notices::notice;
    survey::survey_request;
    survey::survey_answer;
    names::lock_names;
    names::key_parts;
    templates::key_template;
    requests::request_key;
    requests::request_values;
    requests::request_route;
    config::configuration;
    config::address;
}
