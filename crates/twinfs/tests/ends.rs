//! How commands end: the exit codes of docs/exit-codes.md, and that signals end each command soon and leave
//! nothing behind.

// Signals are sent and answered in real time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::signal_after;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/libgit2-build.tw");
/// Commands end within a second on a machine of their own; here they only must end, since a machine
/// that is busy with other tests may take any time.
const SOON: Duration = Duration::from_secs(8 * 60);

/// `compare 2>&1 >/dev/null | true` ended with a panic.
#[test]
fn nobody_who_listens_is_no_reason_to_panic() {
    let shell = |line: &str| {
        let line = line.replace("twinfs", env!("CARGO_BIN_EXE_twinfs"));
        Command::new("bash").args(["-c", &line]).output().unwrap()
    };
    let deaf =
        "(sleep .2; twinfs compare lfs -w mail:messages=5 --seeds 2; echo $?) 2>&1 >&3 | true";
    let out = shell(&format!("exec 3>&1; {deaf}"));
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.ends_with("\n0\n"), "{said}");
}

/// A directory of its own, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ends-{name}"));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinfs"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap().flatten();
        let mut names: Vec<_> =
            names.map(|name| name.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Starts a command, sends a signal after `delay` of processor time, and checks how it ends and what it leaves.
    fn interrupt(&self, args: &[&str], delay: Duration, signal: Signal, code: i32) {
        let before = self.names();
        let mut command = self.command(args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let went_on = signal_after(&mut child, signal, delay);
        assert!(went_on, "{args:?} ended by itself: not a test");
        let sent = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(sent.elapsed() < SOON, "{args:?} goes on after {signal:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(child.wait().unwrap().code(), Some(code), "{args:?}");
        assert_eq!(self.names(), before, "{args:?} leaves something");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.0.to_str().unwrap()), "{args:?} leaves a mount");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn exit_codes_are_those_that_are_documented() {
    let place = Place::new("codes");
    for image in ["lfs.img", "damaged.img"] {
        assert!(place.run(&["mkfs", "--size", "32M", image]).status.success());
    }
    damage(&place.0.join("damaged.img"));
    let lines: &[(i32, &[&str])] = &[
        (0, &["--help"]),
        (0, &["--version"]),
        (0, &["presets"]),
        (0, &["check", "lfs.img"]),
        (0, &["stat", "lfs.img"]),
        (0, &["dump", "lfs.img"]),
        (0, &["clean", "lfs.img"]),
        (0, &["mkfs", "--size", "32M", "--layout", "ffs", "new.img"]),
        (0, &["volume", "--blocks", "1000", "--volumes", "2"]),
        (0, &["compare", "-w", "small-files", "lfs:size=256M"]),
        (0, &["replay", TRACE]),
        (0, &["bench", "--config", "lfs:size=256M", "small:files=50"]),
        (0, &["top", "--plain", "--blocks", "1000", "--volumes", "2"]),
        // The result is bad, or something was not done.
        (1, &["check", "damaged.img"]),
        (1, &["check", "nowhere.img"]),
        (1, &["stat", "nowhere.img"]),
        (1, &["scrub", "lfs.img"]),
        (1, &["dump", "damaged.img", "inodes"]),
        (1, &["mkfs", "lfs.img"]),
        (1, &["umount", "."]),
        (1, &["compare", "lfs:size=20M", "lfs"]),
        (2, &["compare", "lsf"]),
        (1, &["compare", "-t", "lfs.img"]),
        (1, &["replay", "-c", "lfs:size=20M", TRACE]),
        (1, &["replay", "--verify", TRACE]),
        (1, &["bench", "--dir", "/nowhere/at/all", "small:files=5"]),
        (1, &["calibrate", "/nowhere/at/all"]),
        (1, &["validate", "/nowhere/at/all"]),
        (1, &["volume", "-t", "lfs.img"]),
        (1, &["top", "--mount", "lfs.img"]),
        (1, &["record", "-o", "x.tw", "/nowhere/at/all", "."]),
        (1, &["mount", "--foreground", "nowhere.img", "."]),
        // The command line is wrong.
        (2, &[]),
        (2, &["chek"]),
        (2, &["mkfs", "none.img"]),
        (2, &["mkfs", "--layout", "lsf", "none.img"]),
        (2, &["presets", "lsf"]),
        (2, &["dump", "lfs.img", "segmnts"]),
        (2, &["clean", "--garbage", "7", "lfs.img"]),
        (2, &["clean", "--cleaner", "victm=greedy", "lfs.img"]),
        (2, &["mount", "--cleaner", "victm=greedy", "lfs.img", "."]),
        (2, &["compare", "-w", "buld"]),
        (2, &["compare", "--on", "exst4"]),
        (2, &["compare", "--format", "xml"]),
        (2, &["replay", "-c", "lsf", TRACE]),
        (2, &["bench"]),
        (2, &["bench", "--config", "lsf"]),
        (2, &["volume", "-w", "zpif"]),
        (2, &["validate", "--workloads", "untr"]),
        (2, &["top", "--accesses"]),
    ];
    for (code, args) in lines {
        let out = place.run(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(*code), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        // What is wrong is said: findings on standard output, all else on standard error.
        let is_silent = said.is_empty() && (*code == 2 || out.stdout.is_empty());
        assert!(*code == 0 || !is_silent, "{args:?}");
    }
}

/// Overwrites what is behind the superblock, up to the first quarter.
fn damage(image: &Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(image).unwrap();
    for at in (64 << 10..8 << 20).step_by(4096) {
        file.write_all_at(&[0xa5; 512], at).unwrap();
    }
}

/// Misspelt names get the nearest one, whatever they name.
#[test]
fn the_nearest_name_is_suggested_everywhere() {
    let place = Place::new("names");
    assert!(place.run(&["mkfs", "--size", "32M", "lfs.img"]).status.success());
    let lines: &[(&[&str], &str)] = &[
        (&["chekc"], "check"),
        (&["compare", "lsf"], "\"lfs\""),
        (&["compare", "lfs:dsk=hp97560"], "\"disk\""),
        (&["compare", "lfs:disk=hp9756"], "\"hp97560\""),
        (&["compare", "lfs:victim=greed"], "\"greedy\""),
        (&["compare", "lfs:profile=modrn"], "\"modern\""),
        (&["compare", "-w", "buld"], "\"build\""),
        (&["compare", "-w", "build:fils=3"], "\"files\""),
        (&["compare", "--by", "finsh"], "'finish'"),
        (&["compare", "--on", "exst4"], "\"ext4\""),
        (&["compare", "--log", "cleanr"], "\"cleaner\""),
        (&["mkfs", "--layout", "lfss", "x.img"], "'lfs'"),
        (&["mkfs", "--layout", "ffs", "--ordering", "jounal", "x.img"], "'journal'"),
        (&["presets", "lsf"], "\"lfs\""),
        (&["dump", "lfs.img", "segmnts"], "\"segments\""),
        (&["clean", "--cleaner", "placment=x", "lfs.img"], "\"placement\""),
        (&["mount", "--cleaner", "victim=gredy", "lfs.img", "."], "\"greedy\""),
        (&["replay", "-c", "fsf", TRACE], "\"ffs\""),
        (&["bench", "--config", "lfs", "smal"], "\"small\""),
        (&["bench", "--peers", "--only", "ext3"], "\"ext4\""),
        (&["volume", "--victim", "gredy"], "\"greedy\""),
        (&["volume", "-w", "zipff"], "\"zipf\""),
        (&["validate", "--workloads", "untr"], "\"untar\""),
        (&["stat", "--format", "jsn", "lfs.img"], "'json'"),
    ];
    for (args, name) in lines {
        let out = place.run(args);
        let said = String::from_utf8_lossy(&out.stderr);
        let suggests = said.contains(&format!("did you mean {name}"))
            || said.contains(&format!("similar value exists: {name}"))
            || said.contains(&format!("similar subcommand exists: '{name}'"));
        assert!(!out.status.success() && suggests, "{args:?}: {said}");
    }
}

const LONG: &str = "zipf:writes=100000000";

#[test]
fn signals_end_simulations_and_studies() {
    let place = Place::new("simulations");
    let delay = Duration::from_millis(700);
    let lines: &[&[&str]] = &[
        &["compare", "-w", LONG, "lfs:size=1G", "ffs:size=1G", "--html", "new.html"],
        &["volume", "--html", "new.html"],
        &["top", "--plain"],
        &["top", "--plain", "--config", "lfs:size=1G", "-w", LONG],
        &["bench", "--config", "lfs:size=8G", "small:files=1000000"],
    ];
    for args in lines {
        place.interrupt(args, delay, Signal::INT, 130);
        place.interrupt(args, delay, Signal::TERM, 143);
    }
}

#[test]
fn signals_end_what_measures_this_machine_and_nothing_stays() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: no /dev/fuse");
        return;
    }
    let place = Place::new("machine");
    let at = |ms| Duration::from_millis(ms);
    for (delay, signal, code) in [(300, Signal::INT, 130), (1500, Signal::TERM, 143)] {
        place.interrupt(&["calibrate", "-o", "new.toml", "."], at(delay), signal, code);
        place.interrupt(&["validate", "--workloads", "untar", "."], at(delay), signal, code);
        place.interrupt(&["bench", "--dir", ".", "small:files=200000"], at(delay), signal, code);
    }
}

/// What a new image would have been is gone, and the volume of an interrupted repair can be repaired.
#[test]
fn an_interrupted_mkfs_leaves_no_image_and_an_interrupted_repair_a_volume_that_can_be_repaired() {
    let place = Place::new("images");
    let mkfs = ["mkfs", "--layout", "ffs", "--size", "2T", "new.img"];
    place.interrupt(&mkfs, Duration::from_millis(300), Signal::INT, 130);
    std::fs::write(place.0.join("empty.img"), "").unwrap();
    let mkfs = ["mkfs", "--layout", "ffs", "--size", "2T", "empty.img"];
    place.interrupt(&mkfs, Duration::from_millis(300), Signal::TERM, 143);
    assert_eq!(std::fs::metadata(place.0.join("empty.img")).unwrap().len(), 0);

    assert!(place.run(&["mkfs", "--size", "1G", "lfs.img"]).status.success());
    let filled = place.run(&["replay", TRACE, "--image", "lfs.img"]);
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    damage(&place.0.join("lfs.img"));
    for ms in [5, 20, 50] {
        let mut command = place.command(&["check", "--repair", "lfs.img"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(ms));
        let _ = kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT);
        let status = child.wait().unwrap();
        // Before it listens to signals it ends of them.
        let ended =
            matches!(status.code(), Some(0 | 130)) || status.signal() == Some(Signal::INT.as_raw());
        assert!(ended, "after {ms} ms: {status}");
    }
    let repaired = place.run(&["check", "--repair", "lfs.img"]);
    assert!(repaired.status.success(), "{}", String::from_utf8_lossy(&repaired.stderr));
    assert!(place.run(&["check", "lfs.img"]).status.success());
}
