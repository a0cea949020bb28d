//! The crate pjdfstest: POSIX, call by call. Every test that ext4 passes must pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use super::super::bench::Bench;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "pjdfstest",
    about: "pjdfstest: every test that passes on ext4 passes on the mount",
    limit_s: (400, 600),
    run,
};

/// Two users that every Debian has, and the features of Linux file systems.
const SETTINGS: &str = "\
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

/// Tests that no FUSE file system can pass, and why.
const BEYOND_FUSE: &[(&str, &str)] = &[(
    "link::link_count_max",
    "the C library knows LINK_MAX by the type of a file system; FUSE cannot be asked for it",
)];

/// Tests of times past 2038, and a second past 2038. Formats with 32-bit times store the nearest
/// time that they can represent, as every Linux file system with such inodes does.
const PAST_2038: &str = "utimensat::y2038";
const LATE_SECS: u64 = 1 << 32;

/// The result of each test.
type Verdicts = BTreeMap<String, String>;

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    bench.needs_root("changing users")?;
    tools::need(bench, &[("mkfs.ext4", "e2fsprogs"), ("setfacl", "acl")])?;
    tools::need_file(bench, "/usr/include/sys/acl.h", "libacl1-dev")?;
    let program = tools::installed(bench, "pjdfstest", "0.2.2")?;
    let settings = bench.dir.join("pjdfstest.toml");
    fs::write(&settings, SETTINGS).map_err(|error| error.to_string())?;

    let ext4 = mount_ext4(bench)?;
    let reference = verdicts(bench, &program, &settings, &ext4, &bench.dir)?;
    let passing = |verdicts: &Verdicts| verdicts.values().filter(|v| *v == "ok").count();
    if passing(&reference) < 300 {
        let why = format!("only {} tests pass on ext4", passing(&reference));
        return Err(super::super::Stop::Skipped(why));
    }
    let mut volume = Volume::make(bench, "4G")?;
    volume.mount()?;
    let has_late_times = keeps(volume.dir(), LATE_SECS)?;
    let ours = verdicts(bench, &program, &settings, volume.dir(), &ext4)?;
    volume.umount_and_check()?;
    bench.run(Command::new("umount").arg(&ext4))?;

    let worse: Vec<String> = reference
        .iter()
        .filter(|(name, verdict)| *verdict == "ok" && ours.get(*name) != Some(*verdict))
        .filter(|(name, _)| BEYOND_FUSE.iter().all(|(beyond, _)| beyond != name))
        .filter(|(name, _)| has_late_times || *name != PAST_2038)
        .map(|(name, _)| format!("{name}: {}", ours.get(name).map_or("not run", |v| v)))
        .collect();
    if !worse.is_empty() {
        let list = worse.join("\n    ");
        Err(format!("{} tests that ext4 passes:\n    {list}", worse.len()))?;
    }
    let but = if has_late_times { "" } else { ", but for times past 2038" };
    Ok(format!("{} tests pass, {} on ext4{but}", passing(&ours), passing(&reference)))
}

/// Whether the mount can store this time.
fn keeps(dir: &Path, secs: u64) -> Result<bool, String> {
    let (path, time) = (dir.join("late"), UNIX_EPOCH + Duration::from_secs(secs));
    let keeps = || {
        // A directory, because the kernel itself keeps the times of files that it writes to for a
        // while.
        fs::create_dir(&path)?;
        fs::File::open(&path)?.set_modified(time)?;
        let kept = fs::metadata(&path)?.modified()?;
        fs::remove_dir(&path).map(|()| kept == time)
    };
    keeps().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

/// A new ext4 on a loop device. Its path is as long as that of the mount: a few tests fail or pass
/// depending on the length of the path at which they run.
pub(super) fn mount_ext4(bench: &Bench) -> Result<std::path::PathBuf, String> {
    let (image, dir) = (bench.dir.join("ext4.img"), bench.dir.join("ext"));
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let file = fs::File::create(&image).and_then(|file| file.set_len(1 << 30));
    file.map_err(|error| format!("{}: {error}", image.display()))?;
    bench.run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
    bench.run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&dir))?;
    Ok(dir)
}

/// Runs all tests in a directory; `other` is on another file system.
fn verdicts(
    bench: &Bench,
    program: &Path,
    settings: &Path,
    dir: &Path,
    other: &Path,
) -> Result<Verdicts, String> {
    let mut command = Command::new(program);
    command.arg("-c").arg(settings).arg("-p").arg(dir).arg("-s").arg(other);
    // Its exit status only says that some tests failed, as on ext4: the list of failures matters.
    let log = bench.dir.join("pjdfstest.log");
    let line = format!("{} > {} 2>&1 || :", shell_words(&command), log.display());
    bench.shell(&bench.dir, &line)?;
    let text = fs::read_to_string(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let verdicts = parse(&text);
    match verdicts.is_empty() {
        false => Ok(verdicts),
        true => Err(format!("pjdfstest ran no test: {text}")),
    }
}

fn shell_words(command: &Command) -> String {
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_string_lossy());
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// Lines are `name verdict`; reasons below them are indented.
fn parse(text: &str) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for line in text.lines().filter(|line| line.contains("::") && !line.starts_with(['\t', ' '])) {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(verdict @ ("ok" | "FAILED" | "skipped"))) =
            (words.next(), words.next())
        {
            verdicts.insert(name.into(), verdict.into());
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_from_the_report() {
        let text = "chmod::errno     ok\nchown::a   FAILED\n\tpanicked at a::b ok\n\
                    link::b  skipped\n\trequires features: x\n\nSummary: 1 failed, 0 skipped";
        let verdicts = parse(text);
        assert_eq!(verdicts.len(), 3);
        assert_eq!(verdicts["chown::a"], "FAILED");
    }
}
