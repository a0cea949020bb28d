//! What tests of the program share.

use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Runs the program.
pub(crate) fn twinfs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_twinfs")).args(args).output().unwrap()
}

/// What it said.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

/// A directory of a test's own, removed at the end.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    /// An empty one. Names of tests that run at once differ.
    pub(crate) fn new(name: &str) -> Place {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sends a signal to a program that has used so much time of a processor since it listens to the signal. Time by
/// the clock would depend on what else runs on the machine. Returns false if it ended before.
#[allow(clippy::disallowed_methods)]
pub(crate) fn signal_after(child: &mut Child, signal: Signal, processor_time: Duration) -> bool {
    let mut since = None;
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        let used = processor_time_of(child.id());
        if since.is_none() && listens(child.id(), signal) {
            since = Some(used);
        }
        if since.is_some_and(|since| used >= since + processor_time) {
            kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// True if a program catches a signal, or keeps it blocked for the thread that takes it (`SigCgt`, `SigBlk` in proc(5)).
fn listens(process: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    ["SigCgt:", "SigBlk:"].into_iter().any(|name| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 != 0)
    })
}

/// The time that all threads of a program have had on a processor, in steps of 10 ms.
fn processor_time_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may have spaces; user and system time are the 14th and 15th field.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux tells it in hundredths of a second, whatever its own clock does (USER_HZ).
    Duration::from_millis(10 * ticks)
}
