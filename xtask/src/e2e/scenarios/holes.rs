//! Copies of files that another program has open and has just written: `cp`, `tar -S` and `du` ask the server of a
//! mount where data lies and how much there is, while the kernel holds the data. Once copies made so were zeros,
//! with exit status 0, and `du` of a database that was open said nothing.
//!
//! On every layout, with and without the kernel's collecting, on a mirror of `record`, and on an ordinary user's
//! mount.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};
use super::user::{FuseForAll, USER};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "holes",
    about: "cp, tar -S and du of files that are open and being written",
    limit_s: (240, 240),
    run,
};

/// Makes files, writes to them and keeps them open: by writing, by storing into a mapping of a hole, and in a
/// file that was empty and closed before. Says when that is done, and how its own view of a file without a name
/// is; then waits to be killed.
const WRITER: &str = r#"
import mmap, os, sys, time
os.chdir(sys.argv[1])
keep = []
def new(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o644); keep.append(fd); return fd
def stored(fd, size, at):
    os.ftruncate(fd, size); m = mmap.mmap(fd, size); m[at:at + 5000] = b'm' * 5000; keep.append(m)
for tool in 'cp', 'tar':
    os.write(new('written-' + tool), b'w' * 1000000)
    fd = new('sparse-' + tool); os.ftruncate(fd, 4 << 20); os.pwrite(fd, b's' * 4096, 2 << 20)
    stored(new('mapped-' + tool), 1 << 20, 700000)
    os.write(os.open('empty-' + tool, os.O_WRONLY), b'e' * 100000)
said = []
gone = new('gone'); os.unlink('gone'); stored(gone, 1 << 20, 300000)
if not os.lseek(gone, 0, os.SEEK_DATA) <= 300000: said.append('data of a file without a name')
if os.fstat(gone).st_blocks == 0: said.append('blocks of a file without a name')
log = new('log')
for k in range(3):
    os.write(log, b'l' * 1000000); os.fsync(log)
    if os.stat('log').st_blocks * 512 < 1000000 * (k + 1): said.append('blocks after fsync %d' % k)
print(', '.join(said) or 'ok', flush=True); time.sleep(600)
"#;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    tools::need(bench, &[("python3", "python3"), ("tar", "tar")])?;
    let mut ran = Vec::new();
    for layout in ["lfs", "ffs", "vsfs"] {
        for options in [&[][..], &["--write-through"], &["--file-types"]] {
            let mut volume = Volume::make_of(bench, layout, "128M")?;
            volume.set_options(options);
            volume.mount()?;
            let what = format!("{layout} {}", options.join(" "));
            copies(bench, volume.dir(), None).map_err(|why| format!("{what}: {why}"))?;
            volume.umount_and_check()?;
            ran.push(what.trim().to_string());
        }
    }
    of_a_recording(bench)?;
    ran.push("record".into());
    if bench.needs_root("becoming another user").is_ok()
        && tools::need(bench, &[("fusermount3", "fuse3"), ("runuser", "util-linux")]).is_ok()
    {
        bench.run(Command::new("chown").arg("-R").arg(USER).arg(&bench.dir))?;
        let _open = FuseForAll::open()?;
        let mut volume = Volume::make_as(bench, USER, "128M")?;
        bench.run(Command::new("chown").arg(USER).arg(volume.dir()))?;
        volume.mount()?;
        copies(bench, volume.dir(), Some(USER)).map_err(|why| format!("{USER}'s: {why}"))?;
        volume.umount_and_check()?;
        ran.push(format!("{USER}'s"));
    }
    Ok(ran.join(", "))
}

fn of_a_recording(bench: &Bench) -> Result<(), String> {
    let [source, dir] = ["source", "mirror"].map(|name| bench.dir.join(name));
    for dir in [&source, &dir] {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    let mut record = Command::new(&bench.program);
    let to = bench.dir.join("recorded.tw");
    bench.run(record.args(["record", "--to"]).arg(&to).arg(&source).arg(&dir))?;
    let copied = copies(bench, &dir, None).map_err(|why| format!("record: {why}"));
    bench.run(Command::new(&bench.program).arg("umount").arg(&dir))?;
    copied
}

/// Copies files while they are open, and compares.
fn copies(bench: &Bench, dir: &Path, user: Option<&str>) -> Result<(), String> {
    let shell = |line: &str| {
        let mut command = Command::new(if user.is_some() { "runuser" } else { "sh" });
        if let Some(user) = user {
            command.args(["-u", user, "--", "sh"]);
        }
        bench.run(command.args(["-euc", &format!("cd '{}'; {line}", dir.display())]))
    };
    shell(": > empty-cp; : > empty-tar; : > nothing; truncate -s 1M hole; sleep 1.1")?;
    let writer = Writer::start(dir, user)?;
    if writer.said != "ok" {
        return Err(format!("the writer finds wrong: {}", writer.said));
    }
    // Each tool has its own files, since closing them has the kernel write them out.
    let kinds = "for f in written sparse mapped empty; do";
    shell(&format!("{kinds} cp $f-cp copy-$f; cmp $f-cp copy-$f; done"))?;
    shell(&format!(
        "tar -S -cf all.tar *-tar; mkdir x; tar -C x -xf all.tar; {kinds} cmp $f-tar x/$f-tar; done"
    ))?;
    let counted = shell("stat -c %b nothing hole")?;
    if counted.split_whitespace().collect::<Vec<_>>() != ["0", "0"] {
        return Err(format!("an empty file and a hole have blocks: {counted}"));
    }
    Ok(())
}

/// The program that keeps files open.
struct Writer {
    child: Child,
    said: String,
}

impl Writer {
    fn start(dir: &Path, user: Option<&str>) -> Result<Writer, String> {
        let mut command = Command::new(if user.is_some() { "runuser" } else { "python3" });
        if let Some(user) = user {
            command.args(["-u", user, "--", "python3"]);
        }
        let command = command.args(["-c", WRITER]).arg(dir).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("python3: {error}"))?;
        let mut said = String::new();
        if let Some(out) = child.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut said);
        }
        Ok(Writer { child, said: said.trim().into() })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A user's program runs below `runuser`, which passes the signal on.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
