//! `cargo xtask fuzz`: the fuzz targets, driven by libFuzzer.

#[allow(unreachable_pub, reason = "public where it belongs")]
#[path = "../../fuzz/src/corpus.rs"]
mod corpus;

use std::fs;
use std::io;
use std::path::Path;

use crate::cargo::{self, Step};
use crate::{Failure, value_of};

/// The instrumentation by which libFuzzer sees which code an input reaches. All of these are options of a stable
/// compiler; without a sanitizer nothing else is needed, since the workspace has no unsafe code.
const INSTRUMENTED: &str = "--cfg fuzzing --cfg fuzzing_libfuzzer -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs the targets that the arguments name, or all, one after the other, and keeps inputs that reach new code in the corpus.
///
/// # Errors
///
/// When an argument is unknown, a target cannot be built, or a law does not hold; then the input is in the corpus too,
/// and `cargo test -p lock-fuzz` fails with it until the law holds.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let mut names = args.to_vec();
    let wrong = || Failure::message("`--for` takes seconds, such as `60s`");
    let time = value_of(&mut names, "--for", "a time, as in `60s`")?.unwrap_or("10s".to_owned());
    let seconds = time.strip_suffix('s').and_then(|time| time.parse().ok()).ok_or_else(wrong)?;
    let corpora = Path::new(&cargo::workspace_root()).join("fuzz/corpus");
    let cannot = |error| Failure::message(format!("cannot read or write the corpus: {error}"));
    if names.is_empty() {
        let files = fs::read_dir(&corpora).map_err(cannot)?.flatten().map(|file| file.path());
        names = files.filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
    }
    let corpus_of = |name: &str| corpora.join(name).with_extension("txt");
    if let Some(unknown) = names.iter().find(|name| !corpus_of(name).exists()) {
        return Err(Failure::message(format!("there is no fuzz/corpus/{unknown}.txt")));
    }
    test(&["--no-run"])?.run()?;
    let mut failed = Vec::new();
    for name in names {
        let packed = corpus_of(&name);
        let folder = cargo::build_folder().join("fuzz/work").join(&name);
        unpack(&packed, &folder).map_err(cannot)?;
        let held = fuzz(&name, &folder, seconds);
        let inputs = pack(&folder, &packed).map_err(cannot)?;
        println!("{name}: {inputs} in the corpus now");
        failed.extend(held.is_err().then_some(name));
    }
    let names = failed.join(", ");
    let broken = || format!("the laws of {names} do not hold; the inputs are in fuzz/corpus");
    if failed.is_empty() { Ok(()) } else { Err(Failure::message(broken())) }
}

/// The tests of the targets with libFuzzer in them, in a folder of their own. With a platform named, build scripts and macros
/// are compiled without the instrumentation.
fn test(args: &[&str]) -> Result<Step, Failure> {
    let host = cargo::rustc_says("host")?;
    let step = Step::new("test").args(&["--package=lock-fuzz", "--test=targets", "--profile=fuzz"]);
    let step = step.args(&["--quiet", "--target", &host]).args(args);
    Ok(step
        .env("RUSTFLAGS", INSTRUMENTED)
        .env("CARGO_TARGET_DIR", cargo::build_folder().join("fuzz")))
}

fn fuzz(name: &str, folder: &Path, seconds: u32) -> Result<(), Failure> {
    // Without counters, the corpus keeps one input for each piece of code that it reaches, not one for each number of
    // times: a small corpus is one that a repository can keep.
    let folder = folder.display();
    let args = format!(
        "{folder} -max_total_time={seconds} -max_len=4096 -timeout=5 -rss_limit_mb=1024 -use_counters=0 \
         -reduce_inputs=1 -print_final_stats=1 -verbosity=0 -artifact_prefix={folder}/"
    );
    let step = test(&["--", name, "--exact", "--nocapture", "--test-threads=1"])?;
    step.env("BOLERO_LIBFUZZER_ARGS", args).env("RUST_BACKTRACE", "0").run()
}

/// Writes the inputs of a corpus into an empty folder, a file each.
fn unpack(packed: &Path, folder: &Path) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    for (number, input) in corpus::read(packed)?.iter().enumerate() {
        fs::write(folder.join(number.to_string()), input)?;
    }
    Ok(())
}

/// Writes these files, with the inputs that failed, as a corpus, and returns how many there are.
fn pack(folder: &Path, packed: &Path) -> io::Result<usize> {
    let files = fs::read_dir(folder)?;
    let inputs = files.map(|file| fs::read(file?.path())).collect::<io::Result<_>>()?;
    corpus::write(packed, inputs)?;
    corpus::read(packed).map(|inputs| inputs.len())
}
