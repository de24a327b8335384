//! Processor time of processes.

/// The processor time that processes have used so far, in µs; `None` where the system does not say.
#[cfg(target_os = "linux")]
pub(super) fn of(processes: impl Iterator<Item = u32>) -> Option<f64> {
    let ticks = processes.map(ticks).sum::<Option<u64>>()?;
    Some(ticks as f64 * 1e6 / rustix::param::clock_ticks_per_second() as f64)
}

/// User and system time of a process, in clock ticks.
#[cfg(target_os = "linux")]
fn ticks(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the name, in parentheses, and may contain spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Unknown here.
#[cfg(not(target_os = "linux"))]
pub(super) fn of(_processes: impl Iterator<Item = u32>) -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn work_uses_processor_time() {
        let myself = || of(std::iter::once(std::process::id())).unwrap();
        let cores = std::thread::available_parallelism().unwrap().get() as f64;
        let tick = 1e6 / rustix::param::clock_ticks_per_second() as f64;
        let (started, before) = (Instant::now(), myself());
        let mut sum = 0_u64;
        while myself() < before + 20_000.0 {
            sum = std::hint::black_box(sum + 1);
            assert!(started.elapsed() < Duration::from_secs(20), "a process that works uses none");
        }
        let most = started.elapsed().as_secs_f64() * 1e6 * cores + 2.0 * tick;
        assert!(myself() - before <= most, "more than there is");
        assert_eq!(of(std::iter::once(u32::MAX)), None);
    }
}
