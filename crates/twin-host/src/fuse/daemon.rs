//! Going into the background: the command returns once the file system is mounted, and a process
//! of its own serves it.
#![allow(unsafe_code)] // fork has no safe wrapper.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

/// First byte of what the child says: mounted, or failed with a text.
const MOUNTED: u8 = b'+';
const FAILED: u8 = b'-';

/// The child's way to say how starting went. Dropping it unsaid says that it failed.
pub struct Ready(Option<File>);

impl Ready {
    /// In the foreground nobody waits.
    pub fn nobody() -> Ready {
        Ready(None)
    }

    /// Everything works: the parent returns. From here on the child has no terminal.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn mounted(self) -> io::Result<()> {
        self.mounted_saying("")
    }

    /// The same, with something that the parent is to tell on standard error.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub fn mounted_saying(mut self, note: &str) -> io::Result<()> {
        let Some(mut pipe) = self.0.take() else { return Ok(()) };
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        pipe.write_all(&[MOUNTED]).and_then(|()| pipe.write_all(note.as_bytes()))
    }

    /// It did not work: the parent returns this text as its error.
    pub fn failed(mut self, why: &str) {
        if let Some(mut pipe) = self.0.take() {
            let _ = pipe.write_all(&[FAILED]).and_then(|()| pipe.write_all(why.as_bytes()));
        }
    }
}

/// Runs `child` in a new process, detached from the terminal, and returns its number once it says
/// that it is [`Ready`]. The child ends with the status that `child` gives.
///
/// Call it before anything is set up: io_uring, locks of images and threads do not pass to the
/// child.
///
/// # Errors
/// What the child said; or that this process has more than one thread already, or may not fork.
pub fn in_background(child: impl FnOnce(Ready) -> i32) -> Result<i32, String> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(format!("cannot go into the background with {threads} threads running"));
    }
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| format!("a pipe: {e}"))?;
    // SAFETY: this process has one thread, as was just seen, so the child finds no lock held by a
    // thread that it does not have.
    match unsafe { libc::fork() } {
        -1 => Err(format!("cannot start the daemon: {}", io::Error::last_os_error())),
        0 => {
            drop(ours);
            std::process::exit(run_child(child, theirs));
        }
        pid => {
            drop(theirs);
            hear(File::from(ours)).map(|()| pid)
        }
    }
}

fn run_child(child: impl FnOnce(Ready) -> i32, pipe: OwnedFd) -> i32 {
    // Its own session: no terminal's hang-up and no shell's job control reaches it.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    child(Ready(Some(File::from(pipe))))
}

fn hear(mut pipe: File) -> Result<(), String> {
    let mut said = Vec::new();
    let mut first = [0u8];
    match pipe.read_exact(&mut first) {
        Ok(()) if first[0] == MOUNTED => {
            if pipe.read_to_end(&mut said).is_ok() && !said.is_empty() {
                eprintln!("twinfs: {}", String::from_utf8_lossy(&said));
            }
            Ok(())
        }
        Ok(()) => {
            let _ = pipe.read_to_end(&mut said);
            Err(String::from_utf8_lossy(&said).into_owned())
        }
        Err(_) => Err("the daemon ended before it had mounted".into()),
    }
}
