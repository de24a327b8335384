//! The tests beside the real Redisson: building their Java side, then running them.

use std::env;
use std::path::Path;

use crate::cargo::{Step, build_folder};
use crate::{Failure, redis};

/// The option that takes the place of the version in `tests/interop/pom.xml`.
const VERSION: &str = "--redisson=";

/// How processes share a key is a race between the clients, so ours runs as its users build it.
const OPTIMIZED: [&str; 2] = [
    "--config=profile.dev.package.lock-runtime.opt-level=3",
    "--config=profile.dev.package.redis.opt-level=3",
];

/// Builds the Java side and runs the tests. `--redisson=4.7.0` picks a version of Redisson; all other
/// arguments go to the test program.
///
/// # Errors
///
/// When Java, Maven or redis-server is missing, when the program cannot be built, or a test fails.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let (versions, rest): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with(VERSION));
    let folder = build_folder().join("interop");
    let maven = Step::program("mvn", "mvn").args(&["--quiet", "--batch-mode", "process-classes"]);
    let maven =
        maven.arg("--file=tests/interop/pom.xml").arg(&format!("-Dout={}", folder.display()));
    let version = versions.last().and_then(|arg| arg.strip_prefix(VERSION));
    let version = version.map(|version| format!("-Dredisson.version={version}"));
    maven.args(version.as_slice()).run().map_err(|Failure { message, code }| Failure {
        message: format!(
            "{message}\nThe tests beside Redisson need a JDK, 17 or later (on the PATH or in JAVA_HOME), and Maven, such as \
             `sudo apt-get install openjdk-17-jdk-headless maven`"
        ),
        code,
    })?;
    let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java"));
    let test =
        ["--package=lock-tests", "--all-features", "--test=it", "interop::", "--", "--ignored"];
    let step = Step::new("test").args(&OPTIMIZED).args(&test).arg("--show-output").args(&rest);
    let step = step.env("INTEROP_BUILD", folder);
    let step = step.env("INTEROP_JAVA", home.unwrap_or_else(|| "java".into()));
    step.env("REDIS_SERVER", redis::find_or_install()?).run()
}
