//! A database: transactions with the rollback journal and with the write-ahead log.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::Stopwatch;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "sqlite",
    about: "10,000 transactions (2,000 in the short form) with each journal mode's half",
    limit_s: (180, 900),
    run,
};

/// A summary that must be the same before and after.
const SUMMARY: &str =
    "PRAGMA integrity_check; SELECT count(*), sum(n), sum(length(v)), max(v) FROM t;";

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    tools::need(bench, &[("sqlite3", "sqlite3")])?;
    let mut volume = Volume::make(bench, "4G")?;
    volume.mount()?;
    let database = volume.dir().join("test.db");
    let sqlite = |script: &str| {
        let path = bench.dir.join("script.sql");
        std::fs::write(&path, script).map_err(|error| format!("{}: {error}", path.display()))?;
        let read = format!(".read {}", path.display());
        bench.run(Command::new("sqlite3").arg("-bail").arg(Path::new(&database)).arg(read))
    };
    let count = bench.size(2_000, 10_000);
    sqlite("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, v TEXT);")?;
    let watch = Stopwatch::start();
    sqlite(&transactions("DELETE", 0, count / 2))?;
    sqlite(&transactions("WAL", count / 2, count))?;
    let rate = count as f64 / watch.seconds();
    let before = sqlite(SUMMARY)?;
    let expected = (0..count).map(value).sum::<usize>();
    if !before.starts_with(&format!("ok\n{count}|{expected}|")) {
        Err(format!("{count} rows with the sum {expected}; the database: {before}"))?;
    }
    volume.remount()?;
    let after = sqlite(SUMMARY)?;
    if after != before {
        Err(format!("before the remount {before}, after it {after}"))?;
    }
    volume.umount_and_check()?;
    Ok(format!("{count} transactions, {rate:.0}/s"))
}

/// The number in a row after its change.
fn value(row: usize) -> usize {
    row * 7 % 1000 + 1
}

fn transactions(journal: &str, from: usize, to: usize) -> String {
    let mut script = format!("PRAGMA journal_mode = {journal};\nPRAGMA synchronous = FULL;\n");
    for row in from..to {
        let (before, pad) = (value(row) - 1, row % 900);
        let _ = writeln!(
            script,
            "BEGIN; INSERT INTO t VALUES ({row}, {before}, printf('%0{pad}d', {row})); \
             UPDATE t SET n = n + 1 WHERE id = {row}; COMMIT;"
        );
    }
    script
}
