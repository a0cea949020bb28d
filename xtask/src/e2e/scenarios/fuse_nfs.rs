//! A client that others wrote: fuse-nfs, a FUSE mount over libnfs. Random operations while the server is
//! restarted, a clone, a database.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, Stop, tools};
use super::nfs::Server;
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fuse-nfs",
    about: "fsx, a git clone and SQLite through the client fuse-nfs, while the server restarts",
    limit_s: (300, 1800),
    run,
};

/// Between two restarts.
const RESTART_MS: u64 = 3000;

const DATABASE: &str = "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT); \
    WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5000) \
    INSERT INTO t(b) SELECT hex(randomblob(50)) FROM c; \
    PRAGMA integrity_check; SELECT count(*) FROM t;";

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    if !tools::in_path("fuse-nfs") {
        let why = "fuse-nfs is missing, and Debian has no package of it: build \
                   github.com/sahlberg/fuse-nfs with libnfs-dev and libfuse-dev, and put it into PATH";
        return Err(Stop::Skipped(why.into()));
    }
    tools::need(bench, &[("sqlite3", "sqlite3"), ("git", "git"), ("umount", "mount")])?;
    let fsx = tools::installed(bench, "fsx", "0.3.2")?;
    let volume = Volume::make_of(bench, "lfs", "512M")?;
    let image = bench.dir.join("lfs.img");
    let mut server = Server::start(bench, &image)?;
    let port = server.port;
    let dir = bench.dir.join("client");
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let client = Mounted::new(&dir, port)?;
    bench.shell(&bench.root, &format!("git clone -q . '{}/clone'", dir.display()))?;
    bench.shell(&dir.join("clone"), "git fsck && test -z \"$(git status --porcelain)\"")?;
    let database = dir.join("test.db");
    for journal in ["DELETE", "WAL"] {
        let script = format!("PRAGMA journal_mode={journal}; DROP TABLE IF EXISTS t; {DATABASE}");
        let said = bench.run(Command::new("sqlite3").arg("-bail").arg(&database).arg(script))?;
        if !said.ends_with("ok\n5000\n") {
            Err(format!("SQLite with {journal}: {said}"))?;
        }
    }
    let settings = bench.dir.join("fsx.toml");
    // fuse-nfs has no fallocate and no copy_file_range.
    let text = super::fsx::settings(300_000, [0, 0, 0]);
    fs::write(&settings, text).map_err(|error| error.to_string())?;
    let count = bench.size(5_000, 100_000);
    let mut command = Command::new(&fsx);
    command.arg("-N").arg(count.to_string()).arg("-S").arg(bench.seed.to_string());
    command.arg("-f").arg(&settings).arg("-P").arg(&bench.dir).arg(dir.join("file"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().map_err(|error| format!("fsx: {error}"))?;
    let mut restarts = 0;
    while running.try_wait().map_err(|error| format!("fsx: {error}"))?.is_none() {
        pause_ms(RESTART_MS);
        server.stop()?;
        server = Server::start_at(bench, &image, port)?;
        restarts += 1;
    }
    let output = running.wait_with_output().map_err(|error| format!("fsx: {error}"))?;
    if !output.status.success() {
        Err(format!("fsx after {restarts} restarts: {}", String::from_utf8_lossy(&output.stdout)))?;
    }
    client.umount()?;
    server.stop()?;
    volume.check()?;
    Ok(format!("{count} operations of fsx with {restarts} restarts, a clone, a database"))
}

/// A mount of the client. Dropping it unmounts it.
struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    fn new(dir: &Path, port: u16) -> Result<Mounted<'_>, String> {
        let url = format!("nfs://127.0.0.1/?nfsport={port}&mountport={port}");
        // One thread: with several it uses one libnfs context at the same time.
        let mut command = Command::new("fuse-nfs");
        command.args(["-t", "0", "-f", "twinfs", "-n", &url, "-m"]).arg(dir);
        let done = command.output().map_err(|error| format!("fuse-nfs: {error}"))?;
        match done.status.success() {
            true => Ok(Mounted(dir)),
            false => Err(format!("fuse-nfs: {}", String::from_utf8_lossy(&done.stderr))),
        }
    }

    fn umount(self) -> Result<(), String> {
        let done = Command::new("umount").arg(self.0).output();
        let done = done.map_err(|error| format!("umount: {error}"))?;
        match done.status.success() {
            true => Ok(()),
            false => Err(format!("umount: {}", String::from_utf8_lossy(&done.stderr))),
        }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}
