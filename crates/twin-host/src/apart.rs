//! Programs that run apart: in a group of their own, with a time limit, and with mounts that nobody else sees.
//!
//! Contract: when [`Program::run`] returns, the program has ended and so has everything in its group. What is mounted
//! after [`own_mounts`] is seen by this process and its children alone, and goes with the last of them, however they end.
#![allow(unsafe_code)] // Namespaces have no safe wrapper, and neither has what a child does before its program.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::MountFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Gives this process mounts of its own: it keeps those that are there, and none that is made later is seen
/// elsewhere. For the superuser. Call it before there is any other thread.
///
/// # Errors
/// If the host refuses.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: the call changes which mounts this thread sees, and there is no other thread; no memory is concerned.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // What is unmounted outside is unmounted here too: a copy of a mount that stayed would keep its file system,
    // and a daemon that waits for its end, for as long as this process lives.
    rustix::mount::mount_change(
        "/",
        rustix::mount::MountPropagationFlags::DOWNSTREAM
            | rustix::mount::MountPropagationFlags::REC,
    )?;
    Ok(())
}

/// Mounts a file system in memory.
///
/// # Errors
/// If the host refuses.
pub fn mount_memory(dir: &Path) -> io::Result<()> {
    rustix::mount::mount("tmpfs", dir, "tmpfs", MountFlags::NODEV, Some(c"mode=755"))?;
    Ok(())
}

/// A program to run.
pub struct Program<'a> {
    /// Its name and its arguments.
    pub words: &'a [OsString],
    /// Its working directory.
    pub dir: &'a Path,
    /// What its environment has besides that of this process.
    pub env: &'a [(&'a str, OsString)],
    /// A directory that it sees in place of its working directory.
    pub instead: Option<&'a Path>,
    /// Where its output goes; `None`: to this process's standard error.
    pub output: Option<&'a Path>,
    /// How long it may take.
    pub limit: Option<Duration>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Itself(ExitStatus),
    /// It was killed at its limit.
    Late,
}

impl Ended {
    /// True if it succeeded.
    pub fn is_success(self) -> bool {
        matches!(self, Ended::Itself(status) if status.success())
    }

    /// In words.
    pub fn words(self) -> String {
        match self {
            Ended::Late => "it did not end in time".into(),
            Ended::Itself(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit {code}"),
                (_, Some(signal)) => format!("killed by signal {signal}"),
                _ => "it ended".into(),
            },
        }
    }
}

impl Program<'_> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self) -> io::Result<Ended> {
        let mut child = self.start()?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let in_time = match (self.limit, group) {
            (Some(limit), Some(pid)) => ends_within(pid, limit)?,
            _ => true,
        };
        let ended = match in_time {
            true => Ended::Itself(child.wait()?),
            false => Ended::Late,
        };
        // Its number is not given to anybody else before it was waited for, or while its group has members.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if ended == Ended::Late {
            child.wait()?;
        }
        Ok(ended)
    }

    fn start(&self) -> io::Result<Child> {
        let Some((name, arguments)) = self.words.split_first() else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        let output = match self.output {
            Some(path) => File::create(path)?,
            None => File::from(rustix::io::dup(rustix::stdio::stderr())?),
        };
        let mut command = Command::new(name);
        command.args(arguments).current_dir(self.dir).process_group(0);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        for (name, value) in self.env {
            command.env(name, value);
        }
        let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        let bound = self
            .instead
            .map(|from| Ok::<_, io::Error>((path(from)?, path(self.dir)?)))
            .transpose()?;
        // SAFETY: the closure runs in the child between fork and exec, and only makes system calls, with strings that
        // were made before: it takes no lock and no memory.
        unsafe { command.pre_exec(move || before_program(bound.as_ref())) };
        command.spawn()
    }
}

/// What a child does before it becomes its program: signals as usual, and another directory at its place.
fn before_program(bound: Option<&(CString, CString)>) -> io::Result<()> {
    let checked = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the set is made by sigemptyset before it is read, and lives through the calls.
    unsafe {
        let mut none = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
    let Some((from, to)) = bound else { return Ok(()) };
    let nothing = std::ptr::null();
    // SAFETY: the strings end with a zero and live through the calls, which change only what this process sees.
    unsafe {
        checked(libc::unshare(libc::CLONE_NEWNS))?;
        let all = libc::MS_REC | libc::MS_SLAVE;
        checked(libc::mount(nothing, c"/".as_ptr(), nothing, all, nothing.cast()))?;
        checked(libc::mount(from.as_ptr(), to.as_ptr(), nothing, libc::MS_BIND, nothing.cast()))?;
        checked(libc::chdir(to.as_ptr()))
    }
}

/// Waits for a process; false if it has not ended after the limit.
fn ends_within(pid: Pid, limit: Duration) -> io::Result<bool> {
    let fd = pidfd_open(pid, PidfdFlags::empty())?;
    let limit = rustix::time::Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    Ok(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, limit: Option<Duration>) -> (Ended, String) {
        let place = std::env::temp_dir().join(format!(
            "twinfs-apart-{}-{}",
            std::process::id(),
            text.len()
        ));
        let words = ["sh", "-c", text].map(OsString::from);
        let program = Program {
            words: &words,
            dir: Path::new("/"),
            env: &[("WORD", "x".into())],
            instead: None,
            output: Some(&place),
            limit,
        };
        let ended = program.run().unwrap();
        let said = std::fs::read_to_string(&place).unwrap();
        let _ = std::fs::remove_file(&place);
        (ended, said)
    }

    #[test]
    fn a_program_says_what_it_says_and_how_it_ended() {
        let (ended, said) = run("echo $WORD; pwd; exit 3", None);
        assert_eq!((ended.words().as_str(), said.as_str()), ("exit 3", "x\n/\n"));
        assert!(!ended.is_success());
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_its_children() {
        // On a busy machine the shell may be late before it has named its child: it gets more time then.
        let mut limit = Duration::from_millis(300);
        let child = loop {
            let (ended, said) = run("sleep 1000 & echo $!; wait", Some(limit));
            assert_eq!(ended, Ended::Late);
            if let Some(child) = said.trim().parse().ok().and_then(Pid::from_raw) {
                break child;
            }
            limit *= 2;
        };
        // The child was sent its signal before the program was waited for; when it dies is up to the machine. The one
        // that waits for it (init, mostly) may have done so, or never do.
        match ends_within(child, Duration::from_mins(1)) {
            Ok(ended) => assert!(ended, "{child:?} lives"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESRCH)),
        }
    }
}
