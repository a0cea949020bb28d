//! The workbench of a scenario: its folder, its commands, and their termination.
//!
//! Contract: every command is started through here, in a process group of its own, so that
//! [`Bench::end_everything`] reaches all processes that it started.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::daemon;
use super::turns::Turns;
use super::{Options, Stop};

/// The place and the settings of one scenario.
pub(crate) struct Bench {
    /// The scenario's own folder, on the host's file system.
    pub(crate) dir: PathBuf,
    /// The program under test.
    pub(crate) program: PathBuf,
    /// Arguments of `mkfs`; empty for the log-structured layout.
    pub(crate) mkfs: Vec<String>,
    /// The root of the repository.
    pub(crate) root: PathBuf,
    /// Whether to use the full sizes.
    pub(crate) full: bool,
    /// Whether volumes are made on loop devices instead of image files.
    pub(crate) on_loop: bool,
    /// The bucket in which volumes are made instead.
    pub(crate) bucket: Option<String>,
    /// Volumes that were made there, so that each has a name of its own.
    pub(super) in_bucket: AtomicU32,
    pub(crate) seed: u64,
    /// The locks shared by the scenarios of a run.
    pub(super) turns: Arc<Turns>,
    groups: Mutex<Vec<Pid>>,
    ended: AtomicBool,
}

/// Number of lines of a failed command's output that are reported.
const TAIL_LINES: usize = 12;

impl Bench {
    pub(crate) fn new(dir: PathBuf, program: PathBuf, root: &Path, options: &Options) -> Bench {
        Bench {
            dir,
            program,
            mkfs: options.mkfs.clone(),
            root: root.into(),
            full: options.full,
            on_loop: options.on_loop,
            bucket: options.bucket.clone(),
            in_bucket: AtomicU32::new(0),
            seed: options.seed,
            turns: Arc::default(),
            groups: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// The layout of volumes, unless a scenario chooses another.
    pub(crate) fn layout(&self) -> &str {
        let at = self.mkfs.iter().position(|word| word == "--layout");
        at.and_then(|at| self.mkfs.get(at + 1)).map_or("lfs", String::as_str)
    }

    /// `short` in the short form, `full` in the full one.
    pub(crate) fn size(&self, short: usize, full: usize) -> usize {
        if self.full { full } else { short }
    }

    /// Runs a command to its end and returns its standard output.
    ///
    /// # Errors
    /// If it cannot be started or fails; with the end of its output.
    pub(crate) fn run(&self, command: &mut Command) -> Result<String, String> {
        let name = describe(command);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let group = Pid::from_child(&child);
        self.groups.lock().map_err(|_| "poisoned")?.push(group);
        if self.has_ended() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let output = child.wait_with_output();
        self.groups.lock().map_err(|_| "poisoned")?.retain(|other| *other != group);
        let output = output.map_err(|error| format!("{name}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        let complaint = format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
        Err(format!("{name}: {}: {}", output.status, tail(&complaint)))
    }

    /// Kills the commands that are running.
    pub(crate) fn kill_running(&self) {
        for group in self.groups.lock().iter().flat_map(|groups| groups.iter()) {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }

    /// Runs a shell command line.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub(crate) fn shell(&self, dir: &Path, line: &str) -> Result<String, String> {
        self.run(Command::new("sh").args(["-euc", line]).current_dir(dir))
    }

    /// Kills every command and every daemon of this scenario, also those that start later.
    pub(crate) fn end_everything(&self) {
        self.ended.store(true, Ordering::SeqCst);
        // Daemons first: a process that waits for a daemon cannot die before it.
        daemon::kill_all(&self.dir);
        if let Ok(groups) = self.groups.lock() {
            for &group in groups.iter() {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }

    /// Whether the time limit has passed.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// How long something may take that takes `quiet` at the most on a machine without other load: that
    /// by night, more by day.
    pub(crate) fn at_most(&self, quiet: Duration) -> Duration {
        if self.full { quiet } else { quiet * super::PATIENCE }
    }

    /// Skips the scenario unless it runs as root.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn needs_root(&self, what_for: &str) -> Result<(), Stop> {
        if rustix::process::geteuid().is_root() {
            return Ok(());
        }
        Err(Stop::Skipped(format!("{what_for} needs root")))
    }
}

/// A command in short form: its program's name and arguments.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut text = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// The last lines of a text.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines[from..].join("\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> Bench {
        let dir = std::env::temp_dir();
        Bench::new(dir, "/bin/false".into(), Path::new("."), &Options::default())
    }

    #[test]
    fn output_is_returned_and_failures_tell_what_was_said() {
        let bench = bench();
        assert_eq!(bench.shell(Path::new("/"), "echo a; pwd").unwrap(), "a\n/\n");
        let error = bench.shell(Path::new("/"), "echo because >&2; exit 3").unwrap_err();
        assert!(error.contains("because") && error.contains('3'), "{error}");
    }

    #[test]
    fn after_the_end_no_command_runs() {
        let bench = bench();
        bench.end_everything();
        assert!(bench.shell(Path::new("/"), "sleep 100").is_err());
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        let text: String = (0..50).map(|n| format!("{n}\n\n")).collect();
        assert!(tail(&text).starts_with("38") && tail(&text).ends_with("49"));
    }
}
