//! Starts a daemon: the command returns when the file system is mounted, and a process of its own
//! serves it.
#![allow(unsafe_code)] // fork has no safe wrapper.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::supervisor::Supervisor;

/// The first byte of the child's message: mounted, or failed with a text.
const MOUNTED: u8 = b'+';
const FAILED: u8 = b'-';

/// Reports to the parent, or to the supervisor of a process in the foreground, how the start went. Dropping it without
/// a report means failure.
pub struct Ready(Waiting);

/// Who waits for the start.
enum Waiting {
    /// The parent, at the other end of a pipe.
    Parent(File),
    /// A supervisor, which sees by itself if the process ends.
    Supervisor(Supervisor),
    Nobody,
}

impl Ready {
    /// For a process in the foreground, where no parent waits, but perhaps a supervisor does.
    pub fn foreground() -> Ready {
        Ready(Supervisor::of_environment().map_or(Waiting::Nobody, Waiting::Supervisor))
    }

    /// Reports success, so that the parent returns. From then on the child has no terminal.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn mounted(self) -> io::Result<()> {
        self.mounted_saying("")
    }

    /// Reports success as [`mounted`](Self::mounted) does, with a note that the parent prints on
    /// standard error.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn mounted_saying(self, note: &str) -> io::Result<()> {
        let mut pipe = match self.0 {
            Waiting::Parent(pipe) => pipe,
            Waiting::Supervisor(supervisor) => {
                supervisor.ready(if note.is_empty() { "mounted" } else { note });
                return Ok(());
            }
            Waiting::Nobody => return Ok(()),
        };
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        pipe.write_all(&[MOUNTED]).and_then(|()| pipe.write_all(note.as_bytes()))
    }

    /// Reports a failure: the parent returns this text as its error.
    pub fn failed(self, why: &str) {
        if let Waiting::Parent(mut pipe) = self.0 {
            let _ = pipe.write_all(&[FAILED]).and_then(|()| pipe.write_all(why.as_bytes()));
        }
    }
}

/// Runs `child` in a new process, detached from the terminal. Returns the number of that process
/// when it has reported through [`Ready`]. The process exits with the status that `child` returns.
///
/// Call it before anything else is set up, because io_uring, locks of images and threads do not
/// pass to the child.
///
/// # Errors
/// The error that the child reported. Also if this process has several threads or may not fork.
pub fn in_background(child: impl FnOnce(Ready) -> i32) -> Result<i32, String> {
    let (pid, note) = in_background_with_note(child)?;
    if !note.is_empty() {
        crate::note!("twinfs: {note}");
    }
    Ok(pid)
}

/// As [`in_background`]; returns the note of the child too and does not print it.
pub fn in_background_with_note(child: impl FnOnce(Ready) -> i32) -> Result<(i32, String), String> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(format!("cannot go into the background with {threads} threads running"));
    }
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| format!("a pipe: {e}"))?;
    // SAFETY: this process has one thread, as checked above, so no lock in the child can be held by
    // a thread that does not exist there.
    match unsafe { libc::fork() } {
        -1 => Err(format!("cannot start the daemon: {}", io::Error::last_os_error())),
        0 => {
            drop(ours);
            std::process::exit(run_child(child, theirs));
        }
        pid => {
            drop(theirs);
            hear(File::from(ours)).map(|note| (pid, note))
        }
    }
}

fn run_child(child: impl FnOnce(Ready) -> i32, pipe: OwnedFd) -> i32 {
    // In its own session, the daemon gets no hang-up of a terminal and no job control of a shell.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    child(Ready(Waiting::Parent(File::from(pipe))))
}

/// The note of a child that has started.
fn hear(mut pipe: File) -> Result<String, String> {
    let mut said = Vec::new();
    let mut first = [0u8];
    match pipe.read_exact(&mut first) {
        Ok(()) if first[0] == MOUNTED => {
            let _ = pipe.read_to_end(&mut said);
            Ok(String::from_utf8_lossy(&said).into_owned())
        }
        Ok(()) => {
            let _ = pipe.read_to_end(&mut said);
            Err(String::from_utf8_lossy(&said).into_owned())
        }
        Err(_) => Err("the daemon ended before it was ready".into()),
    }
}
