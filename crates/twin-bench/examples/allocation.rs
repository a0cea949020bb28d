//! Policies of allocation judged on old volumes: layout score, and the speed of files that are made
//! and read there, over that on a new volume.
//!
//! ```sh
//! cargo run --release -p twin-bench --example allocation -- 512M 80%
//! cargo run --release -p twin-bench --example allocation -- 512M 80% douceur meyer
//! ```
//!
//! For each profile of ageing (all eight, or those named) and each policy, the volume is aged and
//! then runs the benchmark of Smith and Seltzer 1994, section 5.1 (32 MB of files of one size, made and
//! read), with files of 64 KB and of 1 MB, on a disk of today and on an SSD. Ten minutes of pause lie
//! before each phase, lest a cleaner that is at work be measured. Prints a table in Markdown;
//! speeds are percentages of those of the same configuration on a new volume.

use twin_ageing::old_volumes::{AgedSpec, Beginning, OldVolumes};
use twin_bench::{self as bench, simulated};
use twin_lab::Config;

/// What is compared, as settings of the layout.
const POLICIES: &[(&str, &str)] = &[
    ("first-fit, no reallocation", "ffs:reallocate=no"),
    ("first-fit", "ffs:"),
    ("cluster", "ffs:alloc=cluster"),
    ("tail-behind", "ffs:alloc=tail-behind"),
    ("whole-file", "ffs:alloc=whole-file"),
    ("next-run", "ffs:alloc=next-run"),
    ("log", "lfs:"),
    ("log, segments of 4 MB, cleaned when idle", "lfs:segment=4M,when=idle"),
];
const DISKS: &[&str] = &["disk-7200", "ssd-sata"];
const BENCHES: &[&str] =
    &["sizes:size=64K,synced=no,settle=600s", "sizes:size=1M,synced=no,settle=600s"];

type Failure = Box<dyn std::error::Error>;

/// The rate of reading, MiB/s.
fn read_rate(config: &Config, bench: &str) -> Result<f64, Failure> {
    let benches = bench::parse(bench)?;
    let bench = benches.first().ok_or("no benchmark")?;
    let phases = simulated::run(config, bench.as_ref()).map_err(|e| e.to_string())?;
    let read = phases.iter().find(|phase| phase.phase == "read").ok_or("nothing is read")?;
    Ok(read.rate())
}

/// The cells of a row: the score and the relative speeds.
fn judge(spec: &AgedSpec, settings: &str, size: &str) -> Result<Vec<String>, Failure> {
    let beginning = Beginning::Aged(spec.clone());
    let mut old = OldVolumes::default();
    let mut cells = Vec::new();
    for disk in DISKS {
        let comma = if settings.ends_with(':') { "" } else { "," };
        let config = Config::parse(&format!("{settings}{comma}size={size},disk={disk}"))?;
        let (aged, score) = old.start(&config, &beginning)?;
        if cells.is_empty() {
            cells.push(score.map_or_else(|| "-".into(), |score| format!("{score:.3}")));
        }
        for bench in BENCHES {
            let share = read_rate(&aged, bench)? / read_rate(&config, bench)?;
            cells.push(format!("{:.0}%", share * 100.0));
        }
    }
    Ok(cells)
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let size = words.next().unwrap_or_else(|| "512M".into());
    let full = words.next().unwrap_or_else(|| "80%".into());
    let mut names: Vec<String> = words.collect();
    if names.is_empty() {
        names = twin_age::profiles().into_iter().map(|profile| profile.name).collect();
    }
    println!("| profile | policy | score | HDD 64 KB | HDD 1 MB | SSD 64 KB | SSD 1 MB |");
    println!("|---|---|---|---|---|---|---|");
    for name in &names {
        let spec = AgedSpec::parse(&format!("{name}:full={full}"))?;
        for (policy, settings) in POLICIES {
            match judge(&spec, settings, &size) {
                Ok(cells) => println!("| {name} | {policy} | {} |", cells.join(" | ")),
                Err(why) => println!("| {name} | {policy} | {why} |"),
            }
        }
    }
    Ok(())
}
