//! The destination of a daemon's messages: standard error in the foreground, the system's log
//! (syslog, or the journal, which listens at the same socket) in the background.
//!
//! Contract: each line names the volume. The same line is sent only once, and at most [`MOST`]
//! different ones are sent. Sending never waits, because the log may be stored on this very volume.
//! A line that cannot be sent is lost.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The socket of the system's log.
const LOG_SOCKET: &str = "/dev/log";
/// The most lines of one daemon: a failing disk may fail at every byte.
const MOST: usize = 200;
/// Syslog's number for daemons.
const FACILITY: u8 = 3 << 3;

/// The severity of a message; the numbers are those of syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Data is lost, or may be.
    Error = 3,
    /// The administrator should act.
    Warning = 4,
    /// A message that informs, about nothing bad.
    Notice = 5,
}

/// The messages of one daemon.
pub struct Words {
    about: String,
    /// The socket of the log; `None` for standard error.
    log: Option<PathBuf>,
    said: RefCell<BTreeSet<String>>,
    more: Cell<bool>,
}

impl Words {
    /// Messages about a volume, to standard error.
    pub fn to_terminal(about: &str) -> Words {
        Words { about: about.into(), log: None, said: RefCell::default(), more: Cell::new(false) }
    }

    /// Messages about a volume, to the system's log.
    pub fn to_log(about: &str) -> Words {
        Words { log: Some(LOG_SOCKET.into()), ..Words::to_terminal(about) }
    }

    /// True if the messages go to standard error.
    pub fn is_foreground(&self) -> bool {
        self.log.is_none()
    }

    /// Sends a message, unless it was sent before.
    pub fn say(&self, grade: Grade, text: &str) {
        let mut said = self.said.borrow_mut();
        if said.len() >= MOST {
            if !self.more.replace(true) {
                self.send(Grade::Warning, "there is more of that, which is not said any more");
            }
            return;
        }
        if said.insert(text.to_string()) {
            self.send(grade, text);
        }
    }

    fn send(&self, grade: Grade, text: &str) {
        send(self.log.as_deref(), grade, &self.about, text);
    }

    /// A function for another thread that sends every message, even a repeated one.
    pub fn from_elsewhere(&self) -> impl Fn(Grade, &str) + Send + 'static {
        let (log, about) = (self.log.clone(), self.about.clone());
        move |grade, text| send(log.as_deref(), grade, &about, text)
    }
}

fn send(log: Option<&Path>, grade: Grade, about: &str, text: &str) {
    let Some(log) = log else {
        let _ = writeln!(std::io::stderr(), "twinfs: {about}: {text}");
        return;
    };
    let line =
        format!("<{}>twinfs[{}]: {about}: {text}", FACILITY | grade as u8, std::process::id());
    if let Ok(socket) = UnixDatagram::unbound()
        && socket.set_nonblocking(true).is_ok()
    {
        let _ = socket.send_to(line.as_bytes(), log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_hears_each_line_once_with_the_volume_and_how_bad_it_is() {
        let dir = std::env::temp_dir().join(format!("twinfs-words-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let place = dir.join("log");
        let log = UnixDatagram::bind(&place).unwrap();
        log.set_nonblocking(true).unwrap();
        let words = Words { log: Some(place.clone()), ..Words::to_log("/images/disk.img") };
        words.say(Grade::Error, "the disk is full");
        words.say(Grade::Error, "the disk is full");
        words.from_elsewhere()(Grade::Notice, "it is over");
        let mut buf = [0; 200];
        let mut heard = Vec::new();
        while let Ok(len) = log.recv(&mut buf) {
            heard.push(String::from_utf8_lossy(&buf[..len]).into_owned());
        }
        let from = format!("twinfs[{}]: /images/disk.img", std::process::id());
        let expected = [format!("<27>{from}: the disk is full"), format!("<29>{from}: it is over")];
        assert_eq!(heard, expected);
        std::fs::remove_dir_all(&dir).unwrap();
        // The log is gone: sending must neither wait nor fail.
        words.say(Grade::Error, "the disk is gone");
    }

    #[test]
    fn a_daemon_that_has_too_much_to_say_stops() {
        let words = Words { log: Some("/nonexistent".into()), ..Words::to_log("v") };
        (0..2 * MOST).for_each(|n| words.say(Grade::Error, &n.to_string()));
        assert_eq!(words.said.borrow().len(), MOST);
        assert!(words.more.get());
    }
}
