//! What processes use: processor time, memory, commands.

use std::time::Duration;

use lock_tests::RedisServer;
use rustix::time::{ClockId, clock_gettime};

/// The processor time of this process so far.
pub(crate) fn process_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// The processor time that processes have used so far, in µs; `None` where the system does not say.
pub(crate) fn cpu_of(processes: impl Iterator<Item = u32>) -> Option<f64> {
    let ticks = |process: u32| -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The second field is the name, in parentheses, and may contain spaces.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
    };
    let ticks = processes.map(ticks).sum::<Option<u64>>()?;
    Some(ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second() as f64)
}

/// The resident memory of this process, where the system tells.
pub(crate) fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// A field of what the server says of itself, or nothing.
pub(crate) async fn info(server: &RedisServer, section: &str, field: &str) -> String {
    let info: String = server.client().get(&["INFO", section]).await;
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

/// The processor time of the server's main thread so far, in µs.
pub(crate) async fn server_micros(server: &RedisServer) -> f64 {
    let mut micros = 0.0;
    for field in ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"] {
        micros += info(server, "cpu", field).await.parse().unwrap_or(f64::NAN) * 1e6;
    }
    micros
}

/// Calls of commands so far, those of scripts too, without this program's own questions.
pub(crate) async fn commands(server: &RedisServer) -> f64 {
    let calls = server.command_calls().await;
    calls.iter().filter(|(name, _)| *name != "info").map(|(_, calls)| *calls as f64).sum()
}
