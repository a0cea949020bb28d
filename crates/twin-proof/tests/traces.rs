//! 10,000 damaged traces and 10,000 damaged flight logs by night, 500 of each at every change, used as a user would: no panic, no run
//! without end, no huge allocation. `cargo xtask nightly soak traces` goes on where this ends.

use twin_proof::{DamagedFile as Damaged, at_night, damaged_flight, damaged_trace, seeds};

/// Bytes of address space that the process has had at the most.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPeak")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn ten_thousand(use_one: fn(u64, &mut Damaged) -> Result<(), String>) {
    let mut damaged = Damaged::default();
    for seed in seeds(0..10_000, 20) {
        use_one(seed, &mut damaged).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    let peak = peak_bytes();
    let least = if at_night() { 1000 } else { 50 };
    assert!(damaged.used > least && damaged.refused > least, "{damaged:?}");
    assert!(peak < 4 << 30, "{peak} bytes of address space");
}

#[test]
fn ten_thousand_damaged_traces_do_no_harm() {
    ten_thousand(damaged_trace);
}

#[test]
fn ten_thousand_damaged_flight_logs_do_no_harm() {
    ten_thousand(damaged_flight);
}
