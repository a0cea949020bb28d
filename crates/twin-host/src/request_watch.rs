//! A watch over a mount's requests: none waits without end.
//!
//! Contract: a request that waits while the device completes nothing for [`QUIET`] will wait for
//! ever: the device does not answer, or requests wait for each other, which is a bug. The watch
//! then says so, with the names of the tasks that wait, and has the volume take no more changes,
//! which wakes the operations that wait for room or for a log write. What still waits [`GRACE`] later is
//! answered with an error, so that its client, and an unmount, can go on. Work that takes long
//! because there is much of it is left alone: the device completes something all the time.

use std::collections::BTreeMap;
use std::rc::Rc;

use twin_disk::{IoError, IoErrorKind, IoKind};
use twin_fs::{FileSystem, FsError};
use twin_rt::{Nanos, SECS, Time};

use crate::fuse::Session;
use crate::host::Host;
use crate::nfs::Front;
use crate::words::{Grade, Words};

/// The longest that a request waits while nothing happens on the device.
const QUIET: Nanos = 60 * SECS;
/// How long requests have to end after that by themselves.
const GRACE: Nanos = 10 * SECS;
/// How often it looks.
const LOOK: Nanos = 5 * SECS;

/// What the watch has seen.
struct Watch {
    completed: u64,
    /// The last time at which the device completed something, or no request waited.
    moved: Time,
    stopped: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Stop,
    GiveUp,
}

impl Watch {
    /// Looks: at the device requests that have completed, and since when a request waits.
    fn look(&mut self, now: Time, completed: u64, waits_since: Option<Time>) -> Verdict {
        let Some(since) = waits_since.filter(|_| completed == self.completed) else {
            *self = Watch { completed, moved: now, stopped: false };
            return Verdict::Fine;
        };
        let quiet = now - since.max(self.moved);
        if quiet >= QUIET + GRACE {
            Verdict::GiveUp
        } else if quiet >= QUIET && !std::mem::replace(&mut self.stopped, true) {
            Verdict::Stop
        } else {
            Verdict::Fine
        }
    }
}

/// What the watch observes: the requests of clients.
pub trait Watched: Clone + 'static {
    /// The oldest request that has to wait, and since when.
    fn oldest_wait(&self) -> Option<(&'static str, Time)>;
    /// Lets the clients of all that wait go on without an answer.
    fn give_up_waiting(&self);
}

impl<F: FileSystem> Watched for Session<F> {
    fn oldest_wait(&self) -> Option<(&'static str, Time)> {
        Session::oldest_wait(self)
    }

    fn give_up_waiting(&self) {
        Session::give_up_waiting(self);
    }
}

impl Watched for Front {
    fn oldest_wait(&self) -> Option<(&'static str, Time)> {
        Front::oldest_wait(self).map(|since| ("a call", since))
    }

    fn give_up_waiting(&self) {
        Front::give_up_waiting(self);
    }
}

/// Begins to watch; `stop` has the volume take no more changes, for a reason.
pub fn watch_requests(
    host: &Host,
    session: &impl Watched,
    words: &Rc<Words>,
    stop: impl Fn(FsError) + 'static,
) {
    let (host, session, words) = (host.clone(), session.clone(), Rc::clone(words));
    host.rt().clone().spawn("watch", async move {
        let mut watch = Watch { completed: 0, moved: host.rt().now(), stopped: false };
        loop {
            host.rt().sleep(LOOK).await;
            let (completed, under_way) = host.device_requests();
            let oldest = session.oldest_wait();
            let since = oldest.map(|(_, since)| since);
            match watch.look(host.rt().now(), completed, since) {
                Verdict::Fine => {}
                Verdict::Stop => {
                    let (text, error) = reason(oldest.map_or("", |o| o.0), under_way, &host);
                    words.say(Grade::Error, &text);
                    stop(error);
                }
                Verdict::GiveUp => {
                    words.say(Grade::Error, "requests that still wait are answered with an error");
                    session.give_up_waiting();
                }
            }
        }
    });
}

fn reason(oldest: &str, under_way: usize, host: &Host) -> (String, FsError) {
    let mut tasks: BTreeMap<&str, u32> = BTreeMap::new();
    for name in host.rt().waiting() {
        *tasks.entry(name).or_default() += 1;
    }
    let tasks: Vec<String> = tasks.iter().map(|(name, n)| format!("{n} {name}")).collect();
    let (quiet, tasks) = (QUIET / SECS, tasks.join(", "));
    if under_way > 0 {
        let kind = IoErrorKind::Other(format!("it has not answered for {quiet} s"));
        let error = IoError { op: IoKind::Flush, at: 0, len: 0, kind };
        let text = format!(
            "the device has not answered {under_way} requests for {quiet} s, {oldest} waits; \
             tasks: {tasks}"
        );
        return (text, FsError::Io(error));
    }
    let text = format!("{oldest} waits for what does not come, a bug; tasks: {tasks}");
    (text, FsError::inconsistent("requests wait for each other, which is a bug"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time(s * SECS)
    }

    #[test]
    fn who_waits_on_a_silent_device_is_let_go() {
        let mut watch = Watch { completed: 0, moved: at(0), stopped: false };
        assert_eq!(watch.look(at(5), 9, Some(at(4))), Verdict::Fine);
        assert_eq!(watch.look(at(60), 9, Some(at(4))), Verdict::Fine);
        assert_eq!(watch.look(at(65), 9, Some(at(4))), Verdict::Stop);
        assert_eq!(watch.look(at(70), 9, Some(at(4))), Verdict::Fine, "it is told once");
        assert_eq!(watch.look(at(75), 9, Some(at(4))), Verdict::GiveUp);
        assert_eq!(watch.look(at(80), 9, None), Verdict::Fine);
    }

    #[test]
    fn long_work_and_idle_mounts_are_left_alone() {
        let mut watch = Watch { completed: 0, moved: at(0), stopped: false };
        for s in 1..100 {
            assert_eq!(watch.look(at(30 * s), s, Some(at(0))), Verdict::Fine);
            assert_eq!(watch.look(at(30 * s + 5), s, None), Verdict::Fine);
        }
        // Who comes after a long silence has not waited yet.
        assert_eq!(watch.look(at(10_000), 99, None), Verdict::Fine);
        assert_eq!(watch.look(at(10_005), 99, Some(at(10_004))), Verdict::Fine);
    }
}
