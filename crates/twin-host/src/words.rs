//! The destination of a daemon's messages: standard error in the foreground, the system's log in the background.
//! Where systemd's journal is the log, or standard error leads there, it gets the message with its fields:
//! `journalctl TWINFS_VOLUME=/srv/disk.img -p err`.
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
/// The socket at which the journal takes messages with fields.
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
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

/// Where messages go.
#[derive(Clone)]
enum Log {
    Terminal,
    /// The socket of syslog.
    Syslog(PathBuf),
    /// The socket of the journal.
    Journal(PathBuf),
}

/// The messages of one daemon.
pub struct Words {
    about: String,
    log: Log,
    foreground: bool,
    said: RefCell<BTreeSet<String>>,
    more: Cell<bool>,
}

impl Words {
    /// Messages about a volume of a daemon in the foreground.
    pub fn to_terminal(about: &str) -> Words {
        let log = match leads_to_journal() {
            true => Log::Journal(JOURNAL_SOCKET.into()),
            false => Log::Terminal,
        };
        Words::to(about, log, true)
    }

    /// Messages about a volume, to the system's log.
    pub fn to_log(about: &str) -> Words {
        let log = match Path::new(JOURNAL_SOCKET).exists() {
            true => Log::Journal(JOURNAL_SOCKET.into()),
            false => Log::Syslog(LOG_SOCKET.into()),
        };
        Words::to(about, log, false)
    }

    fn to(about: &str, log: Log, foreground: bool) -> Words {
        let (said, more) = (RefCell::default(), Cell::new(false));
        Words { about: about.into(), log, foreground, said, more }
    }

    /// True if the daemon runs in the foreground.
    pub fn is_foreground(&self) -> bool {
        self.foreground
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
        send(&self.log, grade, &self.about, text);
    }

    /// A function for another thread that sends every message, even a repeated one.
    pub fn from_elsewhere(&self) -> impl Fn(Grade, &str) + Send + 'static {
        let (log, about) = (self.log.clone(), self.about.clone());
        move |grade, text| send(&log, grade, &about, text)
    }
}

fn send(log: &Log, grade: Grade, about: &str, text: &str) {
    let (place, message) = match log {
        Log::Terminal => {
            let _ = writeln!(std::io::stderr(), "twinfs: {about}: {text}");
            return;
        }
        Log::Syslog(place) => {
            let (level, pid) = (FACILITY | grade as u8, std::process::id());
            (place, format!("<{level}>twinfs[{pid}]: {about}: {text}").into_bytes())
        }
        Log::Journal(place) => (place, with_fields(grade, about, text)),
    };
    if let Ok(socket) = UnixDatagram::unbound()
        && socket.set_nonblocking(true).is_ok()
    {
        let _ = socket.send_to(&message, place);
    }
}

/// A message in the journal's own form: each field with its length, so that a name or a text may have line breaks.
fn with_fields(grade: Grade, about: &str, text: &str) -> Vec<u8> {
    let fields = [
        ("MESSAGE", format!("{about}: {text}")),
        ("PRIORITY", (grade as u8).to_string()),
        ("SYSLOG_IDENTIFIER", "twinfs".into()),
        ("TWINFS_VOLUME", about.into()),
    ];
    let mut message = Vec::new();
    for (name, value) in fields {
        message.extend_from_slice(name.as_bytes());
        message.push(b'\n');
        message.extend_from_slice(&(value.len() as u64).to_le_bytes());
        message.extend_from_slice(value.as_bytes());
        message.push(b'\n');
    }
    message
}

/// Whether standard error is a stream to the journal: systemd.exec(5) has its device and inode in `JOURNAL_STREAM`.
fn leads_to_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let here = rustix::fs::fstat(std::io::stderr());
    here.is_ok_and(|here| stream == format!("{}:{}", here.st_dev, here.st_ino))
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
        let words = Words::to("/images/disk.img", Log::Syslog(place), false);
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
    fn the_journal_gets_fields_with_their_lengths() {
        let message = with_fields(Grade::Error, "/a\nb.img", "is full");
        let begins =
            b"MESSAGE\n\x11\0\0\0\0\0\0\0/a\nb.img: is full\nPRIORITY\n\x01\0\0\0\0\0\0\x003\n";
        assert!(message.starts_with(begins), "{:?}", String::from_utf8_lossy(&message));
        let ends = b"TWINFS_VOLUME\n\x08\0\0\0\0\0\0\0/a\nb.img\n";
        assert!(message.ends_with(ends), "{:?}", String::from_utf8_lossy(&message));
    }

    #[test]
    fn a_daemon_that_has_too_much_to_say_stops() {
        let words = Words::to("v", Log::Syslog("/nonexistent".into()), false);
        (0..2 * MOST).for_each(|n| words.say(Grade::Error, &n.to_string()));
        assert_eq!(words.said.borrow().len(), MOST);
        assert!(words.more.get());
    }
}
