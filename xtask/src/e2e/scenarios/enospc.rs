//! Full volumes: a writer gets the error in the write, near the end of the volume; no accepted data
//! is lost silently; and when there is room again, writing continues, also on handles that were
//! open.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "enospc",
    about: "fills volumes in several ways on both layouts: ENOSPC in the write, near the end",
    limit_s: (240, 600),
    run,
};

/// The largest number of free bytes at which a writer may be refused.
const NEAR: u64 = 64 << 20;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    tools::need(bench, &[("sqlite3", "sqlite3")])?;
    let mut told = String::new();
    for layout in ["lfs", "ffs"] {
        let mut volume = Volume::make_of(bench, layout, "256M")?;
        volume.mount()?;
        let dir = volume.dir().to_path_buf();
        let left = fill_with_one_file(bench, &dir)?;
        let _ = write!(told, "{layout}: {} MiB left; ", left >> 20);
        overwrite_and_stat(&dir)?;
        append_on_an_open_handle(&dir)?;
        grow_a_database(bench, &dir)?;
        // The unmount must not report errors if nothing was lost.
        volume.umount_and_check()?;
    }
    Ok(told.trim_end_matches("; ").into())
}

/// The remaining space.
fn room(dir: &Path) -> Result<u64, String> {
    let stat = rustix::fs::statvfs(dir).map_err(|e| format!("statfs: {e}"))?;
    Ok(stat.f_bavail * stat.f_frsize)
}

fn text(what: &str) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Whether the result is ENOSPC; other errors are passed on.
fn is_full(what: &str, result: io::Result<()>) -> Result<bool, String> {
    match result {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(true),
        Err(error) => Err(text(what)(error)),
    }
}

/// `dd` without a limit must stop, and all data that it wrote must be there.
fn fill_with_one_file(bench: &Bench, dir: &Path) -> Result<u64, String> {
    let total = room(dir)?;
    let big = dir.join("big");
    let piece: Vec<u8> = (0..1u32 << 20).map(|at| (at % 251) as u8).collect();
    let mut file = File::create(&big).map_err(text("big"))?;
    let mut written = 0;
    while !is_full("writing big", file.write_all(&piece))? {
        written += piece.len() as u64;
        if written > total {
            return Err(format!("{written} bytes were accepted where there was room for {total}"));
        }
    }
    file.sync_all().map_err(text("everything was accepted, and fsync of it"))?;
    drop(file);
    let left = room(dir)?;
    if left > NEAR {
        return Err(format!("{left} bytes are left after ENOSPC"));
    }
    bench.run(Command::new("sync").arg("-f").arg(dir))?;
    let mut file = File::open(&big).map_err(text("big"))?;
    let mut content = vec![0; piece.len()];
    for at in 0..written / piece.len() as u64 {
        file.read_exact(&mut content).map_err(text("reading big"))?;
        if content != piece {
            return Err(format!("MiB {at} of big differs from the written data"));
        }
    }
    Ok(left)
}

/// A full volume can be overwritten, read at the end of a file, and queried with stat.
fn overwrite_and_stat(dir: &Path) -> Result<(), String> {
    let big = dir.join("big");
    let file = OpenOptions::new().read(true).write(true).open(&big).map_err(text("big"))?;
    let size = file.metadata().map_err(text("fstat"))?.len();
    for at in (0..200).map(|n| n * (1 << 20)) {
        file.write_all_at(&[7; 8192], at % size).map_err(text("overwriting a full volume"))?;
        let mut end = [0; 10];
        let read = file.read_at(&mut end, size).map_err(text("reading at the end"))?;
        let now = fs::metadata(&big).map_err(text("stat"))?.size();
        if (read, now) != (0, size) {
            return Err(format!("{read} bytes past the end, size {now} instead of {size}"));
        }
    }
    file.sync_all().map_err(text("fsync of overwritten data"))
}

/// Appends 100 bytes at a time to a log until there is no room, and again after room was made.
fn append_on_an_open_handle(dir: &Path) -> Result<(), String> {
    let fill = |name: &str| -> Result<u64, String> {
        let path = dir.join(name);
        let mut log = OpenOptions::new().append(true).create(true).open(&path);
        let log = log.as_mut().map_err(|e| format!("{name}: {e}"))?;
        let mut written = log.metadata().map_err(text("fstat"))?.len();
        // Small files may find room where large ones do not, but not more than a bound.
        while !is_full("appending", log.write_all(&[b'x'; 100]))? {
            written += 100;
            if written > NEAR {
                return Err("appends find room without end".into());
            }
        }
        log.sync_all().map_err(text("everything was accepted, and fsync of the log"))?;
        Ok(written)
    };
    let big = dir.join("big");
    let log = dir.join("log");
    let written = fill("log")?;
    let mut open = OpenOptions::new().append(true).open(&log).map_err(text("log"))?;
    if !is_full("appending", open.write_all(&[b'y'; 100]))? {
        // After a refusal one attempt may pass, in case it overwrites.
        let _ = is_full("appending", open.write_all(&[b'y'; 100]))?;
    }
    fs::remove_file(big).map_err(text("deleting on a full volume"))?;
    // The kernel releases a deleted file a moment after the call, and only then is its space freed.
    let mut tries = 0;
    while is_full("appending when there is room again", open.write_all(&[b'z'; 100]))? {
        tries += 1;
        if tries > 100 {
            return Err("there is room again, and appending still fails".into());
        }
        pause_ms(20);
    }
    open.sync_all().map_err(text("fsync of the log"))?;
    let size = fs::metadata(&log).map_err(text("stat"))?.len();
    if size < written + 100 || size > written + 300 {
        return Err(format!("the log has {size} bytes, of {written} and some"));
    }
    fs::remove_file(log).map_err(text("deleting the log"))
}

/// A database that grows until there is no room is consistent, and has all committed rows.
fn grow_a_database(bench: &Bench, dir: &Path) -> Result<(), String> {
    let db = dir.join("db");
    let sql = |line: &str| {
        let mut command = Command::new("sqlite3");
        command.arg("-bail").arg(&db).arg(line);
        bench.run(&mut command)
    };
    sql("create table t(n integer primary key, text)")?;
    let insert = "insert into t(text) select hex(randomblob(2000)) from generate_series(1,2000)";
    let mut commits = 0u64;
    while sql(insert).is_ok() {
        commits += 1;
        if commits > 200 {
            return Err("the database grows without end".into());
        }
    }
    let found = sql("select count(*) from t; pragma integrity_check")?;
    if found.trim() != format!("{}\nok", commits * 2000) {
        return Err(format!("after {commits} commits of 2000 rows: {found}"));
    }
    Ok(())
}
