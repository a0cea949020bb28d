//! The clocks of commands that measure, and the memory of this process.

use rustix::time::{ClockId, clock_gettime};

/// Seconds since some instant.
pub fn real_clock() -> impl Fn() -> f64 + Sync {
    // A program may read the clock; only the core may not.
    #[allow(clippy::disallowed_types)]
    let start = std::time::Instant::now();
    move || start.elapsed().as_secs_f64()
}

/// Nanoseconds of a processor that this thread has had.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + time.tv_nsec as u64
}

/// Bytes of memory that this process has now; 0 where the system does not tell.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_of_the_processor_and_memory_that_is_used_counts() {
        let (time, memory) = (thread_cpu_ns(), resident_bytes());
        let filled: Vec<u64> = (0..4_000_000).collect();
        assert_eq!(std::hint::black_box(&filled).len(), 4_000_000);
        assert!(thread_cpu_ns() > time);
        assert!(resident_bytes() > memory + 16_000_000);
    }
}
