//! What several writers of one volume may rely on: an append goes behind what another one appended, what is made
//! later is not older, a range that was reserved is reserved, and a name that was given to a new file leads to the
//! old bytes or to the new ones after a crash, although nobody asked for that.
//!
//! Each of these was broken once: `>>` on a mirror wrote over what a program beside it had appended; a directory was
//! older than a file that had been written before it, by up to a tick of the kernel's clock, so that builds ran for
//! ever; `fallocate -n` beyond the end reserved nothing and said nothing; and an editor's save was empty after a crash.

use std::path::Path;
use std::process::Command;

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "writers",
    about: "appends beside others, the order of times, reserved ranges, files replaced before they are closed",
    limit_s: (180, 180),
    run,
};

/// Two appenders that hold a file open, one through a mirror and one beside it.
const APPENDS: &str = r#"
import os, sys
flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
fds = [os.open(os.path.join(place, 'log'), flags, 0o644) for place in sys.argv[1:3]]
for k in range(200): os.write(fds[k % 2], b'%05d\n' % k)
lines = open(os.path.join(sys.argv[2], 'log')).read().split()
print('ok' if lines == ['%05d' % k for k in range(200)] else '%d of 200 lines' % len(lines))
"#;

/// Stamps by the kernel and by the volume in turn, while a file in memory, whose times are looked at between two
/// changes, pushes the kernel's clock for files ahead.
const TIMES: &str = r#"
import os, sys
os.chdir(sys.argv[1])
push = os.memfd_create('push')
fd = os.open('file', os.O_RDWR | os.O_CREAT)
wrong, last = 0, 0
for k in range(500):
    for _ in range(2): os.pwrite(push, b'x', 0); os.fstat(push)
    os.pwrite(fd, b'x', 0); file = os.fstat(fd).st_mtime_ns
    os.mkdir('dir'); made = os.stat('dir').st_mtime_ns; os.rmdir('dir')
    os.pwrite(fd, b'y', 0); again = os.fstat(fd).st_mtime_ns
    wrong += not last <= file <= made <= again; last = again
print('ok' if wrong == 0 else '%d of 500 out of order' % wrong)
"#;

/// Ranges of which room was promised can be written on a full volume; others are refused.
const RANGES: &str = r#"
    truncate -s 4M promised; fallocate -z -l 4M promised 2>/dev/null || fallocate -l 4M promised || rm promised
    : > beyond; ! fallocate -n -l 4M beyond 2>/dev/null; test $(stat -c %s beyond) = 0
    dd if=/dev/zero of=fill bs=1M status=none 2>/dev/null || true; sync fill || true
    test ! -e promised || dd if=/dev/urandom of=promised bs=1M count=4 conv=notrunc,fsync status=none
    rm -f fill promised beyond"#;

/// Saves a file by writing another one and renaming it, and keeps it open until the volume is gone.
const REPLACE: &str = r#"
import os, sys, time
os.chdir(sys.argv[1])
def put(name, text):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o644); os.write(fd, text); return fd
old = put('saved', b'old'); os.fsync(old); os.close(old)
here = os.open('.', os.O_RDONLY); os.fsync(here); os.close(here)
new = put('temporary', b'new'); os.rename('temporary', 'saved')
open(sys.argv[2], 'w').close(); time.sleep(8)
"#;
/// A mount makes changes durable within two seconds.
const DURABLE_MS: u64 = 4000;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    tools::need(bench, &[("python3", "python3"), ("fallocate", "util-linux")])?;
    appends_on_a_mirror(bench)?;
    let mut ran = vec!["record"];
    for layout in ["lfs", "ffs", "vsfs"] {
        let mut volume = Volume::make_of(bench, layout, "64M")?;
        volume.mount()?;
        let dir = volume.dir().to_path_buf();
        let what = |why: String| format!("{layout}: {why}");
        let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|e| e.to_string())?;
        let place = format!(" {} ", dir.display());
        if !mounts.lines().any(|line| line.contains(&place) && line.contains("noatime")) {
            Err(what("the mount does not say that reading sets no access times".into()))?;
        }
        expect_ok(bench, TIMES, &[&dir]).map_err(what)?;
        bench.shell(&dir, &format!("set -e; {RANGES}")).map_err(what)?;
        replaced_before_close(bench, &mut volume).map_err(what)?;
        ran.push(layout);
    }
    Ok(ran.join(", "))
}

/// Runs a program of Python, which says "ok".
fn expect_ok(bench: &Bench, program: &str, arguments: &[&Path]) -> Result<(), String> {
    let said = bench.run(Command::new("python3").args(["-c", program]).args(arguments))?;
    if said.trim() == "ok" { Ok(()) } else { Err(said.trim().into()) }
}

fn appends_on_a_mirror(bench: &Bench) -> Result<(), String> {
    let [source, dir] = ["source", "mirror"].map(|name| bench.dir.join(name));
    for dir in [&source, &dir] {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    let mut record = Command::new(&bench.program);
    let to = bench.dir.join("appends.tw");
    bench.run(record.args(["record", "--to"]).arg(&to).arg(&source).arg(&dir))?;
    let appended = expect_ok(bench, APPENDS, &[&dir, &source]);
    bench.run(Command::new(&bench.program).arg("umount").arg(&dir))?;
    appended.map_err(|why| format!("record: {why}"))
}

fn replaced_before_close(bench: &Bench, volume: &mut Volume<'_>) -> Result<(), String> {
    let (dir, told) = (volume.dir().to_path_buf(), bench.dir.join("renamed"));
    let _ = std::fs::remove_file(&told);
    let mut editor = Command::new("python3");
    editor.args(["-c", REPLACE]).arg(&dir).arg(&told);
    let mut editor = editor.spawn().map_err(|error| format!("python3: {error}"))?;
    let renamed = (0..200).any(|_| {
        pause_ms(50);
        told.exists()
    });
    pause_ms(DURABLE_MS);
    volume.kill9();
    let _ = editor.kill();
    let _ = editor.wait();
    if !renamed {
        return Err("the editor did not come to its rename".into());
    }
    volume.mount()?;
    let found = std::fs::read(dir.join("saved")).map_err(|error| format!("saved: {error}"))?;
    volume.umount_and_check()?;
    match &found[..] {
        b"old" | b"new" => Ok(()),
        other => Err(format!("a file that was replaced has {:?}", String::from_utf8_lossy(other))),
    }
}
