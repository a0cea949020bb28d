//! Equal runs are equal: the same digest twice, on one thread and on several, with stamps and with
//! bytes. And simulated results stay those of the golden table.

use std::fmt::Write as _;
use std::sync::Arc;

use twin_lab::{Config, Figures, Workload, compare, simulate};
use twin_trace::replay::Pace;

/// A fifth of the generator's default mail: the same kinds of work.
const MAIL: &str = "mail:messages=2000";

fn shipped() -> Workload {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/libgit2-build.tw");
    Workload::Trace(Arc::from(std::fs::read(path).unwrap()))
}

/// The configurations whose results are pinned.
fn configs() -> Vec<Config> {
    let names = ["lfs", "lfs-delayed", "lfs-classic", "lfs-ssd", "ffs"];
    names.iter().map(|name| Config::parse(name).unwrap()).collect()
}

fn run(config: &Config, workload: &Workload) -> Figures {
    simulate(config, workload, Pace::Asap).unwrap_or_else(|e| panic!("{}: {e}", config.name))
}

#[test]
fn every_configuration_gives_the_same_digest_twice_and_on_any_number_of_threads() {
    let (configs, workload) = (configs(), shipped());
    let once: Vec<Figures> = configs.iter().map(|c| run(c, &workload)).collect();
    let again = compare(&configs, &workload, Pace::Asap, 3, &|_, _| {});
    for (a, b) in once.iter().zip(again) {
        assert_eq!(*a, b.unwrap());
    }
}

#[test]
fn stamps_and_bytes_give_the_same_digest() {
    for name in ["build:files=60", "tpcb", "zipf:writes=2000", MAIL] {
        let workload = Workload::Generated(name.into(), 7);
        for preset in ["lfs", "lfs-classic"] {
            let stamps = Config::parse(&format!("{preset}:cache=4M")).unwrap();
            let bytes = Config::parse(&format!("{preset}:cache=4M,content=bytes")).unwrap();
            let (stamps, bytes) = (run(&stamps, &workload), run(&bytes, &workload));
            assert_eq!(stamps.digest, bytes.digest, "{name} on {preset}");
        }
    }
}

#[test]
fn a_replay_ends_as_the_trace_did() {
    // The classic profile has no extended attributes, which the trace requests without finding any.
    for config in configs().iter().filter(|c| c.name != "lfs-classic") {
        assert_eq!(run(config, &shipped()).diverged, 0, "{}", config.name);
    }
}

/// Simulated results that a change of the code must not change unnoticed. To accept a change run
/// the tests with TWINFS_BLESS=1 and explain it in the commit.
#[test]
fn simulated_results_are_those_of_the_golden_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/compare.txt");
    let mut table =
        String::from("config workload ops span_ms log_bytes meta_bytes disk_reads digest\n");
    let mut row = |config: &Config, name: &str, workload: &Workload| {
        let f = run(config, workload);
        let (ms, log, reads) = (f.span_s * 1e3, f.log, f.disk_use.reads);
        let (bytes, meta) = (log.log_bytes, log.meta_bytes);
        let line =
            format!("{} {name} {} {ms:.3} {bytes} {meta} {reads} {}", f.config, f.ops, f.digest);
        writeln!(table, "{line}").unwrap();
    };
    for config in configs() {
        row(&config, "shipped", &shipped());
        for name in ["small-files", "tpcb", "mail"] {
            row(&config, name, &Workload::Generated(name.into(), 1));
        }
    }
    if std::env::var_os("TWINFS_BLESS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    for (is, was) in table.lines().zip(golden.lines()) {
        assert_eq!(is, was, "a simulated result changed: see the comment at this test");
    }
    assert_eq!(table.lines().count(), golden.lines().count());
}
