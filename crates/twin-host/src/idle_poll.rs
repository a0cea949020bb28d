//! Asks the kernel to let idle processors poll while clients are busy.
//!
//! A client and a mount take turns: while one works the other sleeps, and its processor is idle. On a virtual machine an
//! idle processor is given back to the hypervisor, and waking it takes longer than most requests do (docs/speed.md has
//! figures). The kernel does not give it back while a process holds a request for a wake-up latency of 0
//! (`/dev/cpu_dma_latency`; the kernel's Documentation/power/pm_qos_interface.rst): idle processors then poll, and waking
//! one is a write to memory.
//!
//! Contract: such a request concerns all processors of the machine, which draw power as if they worked, so it is held
//! only during a burst: from its [`BURST_EVENTS`]th event, each at most [`GAP_NS`] after the one before, until there has
//! been none for as long. It ends with the process, whatever ends that. Only time depends on it: where the kernel refuses
//! it all goes on without.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use twin_rt::{Nanos, Time};

/// Where a request is made. It is held as long as the file is open.
const DEVICE: &str = "/dev/cpu_dma_latency";
/// The kernel's driver of idle processors.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
/// The driver of a virtual machine whose idle processors are given back to the hypervisor.
const GUEST_DRIVER: &str = "haltpoll";
/// The processors of this machine, as `0-3,6`.
const PROCESSORS: &str = "/sys/devices/system/cpu/online";
/// With more processors none is kept awake unless that is wanted: the others would draw power for nothing.
const FEW_PROCESSORS: usize = 8;
/// Wake-ups without any latency, in microseconds.
const NO_LATENCY: i32 = 0;
/// No request (PM_QOS_DEFAULT_VALUE).
const NO_REQUEST: i32 = -1;
/// The longest time between two events of one burst, and how long processors poll after its last one.
const GAP_NS: Nanos = twin_rt::MILLIS;
/// The event of a burst with which the request begins. To create one file and sync it takes some ten.
const BURST_EVENTS: u32 = 32;

/// Whether idle processors poll during bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdlePoll {
    /// On virtual machines of at most 8 processors whose idle processors are given back to the hypervisor.
    Auto,
    /// Wherever the kernel allows it.
    Yes,
    /// Never.
    #[default]
    No,
}

impl IdlePoll {
    /// Reads `auto`, `yes` or `no`.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<IdlePoll, String> {
        match text {
            "auto" => Ok(IdlePoll::Auto),
            "yes" => Ok(IdlePoll::Yes),
            "no" => Ok(IdlePoll::No),
            _ => Err("it is auto, yes or no".into()),
        }
    }

    /// True if idle processors of this machine poll, unless the kernel refuses it.
    pub fn is_wanted(self) -> bool {
        match self {
            IdlePoll::Yes => true,
            IdlePoll::No => false,
            IdlePoll::Auto => {
                let read = |path| std::fs::read_to_string(path).unwrap_or_default();
                read(DRIVER).trim() == GUEST_DRIVER
                    && highest(&read(PROCESSORS)).is_some_and(|last| last < FEW_PROCESSORS)
            }
        }
    }
}

/// The highest number in a list of the kernel, such as `0-3,6`.
fn highest(list: &str) -> Option<usize> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// The device, with no request yet.
fn device() -> io::Result<File> {
    let mut device = OpenOptions::new().write(true).open(DEVICE)?;
    device.write_all(&NO_REQUEST.to_ne_bytes())?;
    Ok(device)
}

/// How often and how long processors were kept from sleeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdlePolling {
    /// Bursts during which they polled.
    pub bursts: u64,
    /// How long they did, in nanoseconds.
    pub ns: Nanos,
}

/// When the request is held. It knows nothing of the kernel.
#[derive(Debug, Default)]
struct Bursts {
    last: Time,
    events: u32,
    /// Since when the request is held.
    since: Option<Time>,
    done: IdlePolling,
}

impl Bursts {
    /// An event came now. Returns true if the request begins.
    fn event(&mut self, now: Time) -> bool {
        let is_near = now.since(self.last) <= GAP_NS;
        self.events = if is_near { self.events.saturating_add(1) } else { 1 };
        self.last = now;
        if self.since.is_some() || self.events < BURST_EVENTS {
            return false;
        }
        self.since = Some(now);
        true
    }

    /// How long the thread may sleep now before it must look again; `None` if nothing is held. 0: the request ends.
    fn left(&self, now: Time) -> Option<Nanos> {
        self.since.map(|_| GAP_NS.saturating_sub(now.since(self.last)))
    }

    fn end(&mut self, now: Time) {
        self.done = self.until(now);
        self.since = None;
    }

    /// What was done, with the burst that goes on.
    fn until(&self, now: Time) -> IdlePolling {
        let IdlePolling { bursts, ns } = self.done;
        match self.since {
            Some(since) => IdlePolling { bursts: bursts + 1, ns: ns + now.since(since) },
            None => self.done,
        }
    }
}

/// The request of one host.
#[derive(Debug, Default)]
pub(crate) struct IdlePolls {
    /// `None`: not wanted, or refused.
    request: RefCell<Option<File>>,
    refused: Option<io::Error>,
    bursts: RefCell<Bursts>,
}

impl IdlePolls {
    pub(crate) fn open(wanted: IdlePoll) -> IdlePolls {
        let (request, refused) = match wanted.is_wanted().then(device).transpose() {
            Ok(request) => (request, None),
            // Nobody expects it of `auto`.
            Err(error) => (None, (wanted == IdlePoll::Yes).then_some(error)),
        };
        IdlePolls { request: RefCell::new(request), refused, ..IdlePolls::default() }
    }

    /// Why processors do not poll, if somebody said that they should.
    pub(crate) fn refused(&self) -> Option<String> {
        let error = self.refused.as_ref()?;
        Some(format!(
            "--idle-poll yes: {DEVICE}: {error}: idle processors sleep as they do without it"
        ))
    }

    /// An event came now.
    pub(crate) fn event(&self, now: Time) {
        if self.request.borrow().is_some() && self.bursts.borrow_mut().event(now) {
            self.ask(NO_LATENCY);
        }
    }

    /// The thread has nothing to do now. Returns how long it may sleep before it must say so once more; `None`: for ever.
    pub(crate) fn rest(&self, now: Time) -> Option<Nanos> {
        match self.bursts.borrow().left(now)? {
            0 => {}
            left => return Some(left),
        }
        self.bursts.borrow_mut().end(now);
        self.ask(NO_REQUEST);
        None
    }

    fn ask(&self, latency: i32) {
        let mut request = self.request.borrow_mut();
        if let Some(file) = request.as_mut()
            && file.write_all(&latency.to_ne_bytes()).is_err()
        {
            *request = None;
        }
    }

    /// What was done until now; `None` if processors never poll for this host.
    pub(crate) fn until(&self, now: Time) -> Option<IdlePolling> {
        self.request.borrow().is_some().then(|| self.bursts.borrow().until(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bursts: &mut Bursts, from: Nanos, apart: Nanos, events: u32) -> Vec<Nanos> {
        let times = (0..u64::from(events)).map(|i| from + i * apart);
        times.filter(|&at| bursts.event(Time(at))).collect()
    }

    #[test]
    fn events_close_together_begin_a_request_once() {
        let mut bursts = Bursts::default();
        let began = run(&mut bursts, 5 * GAP_NS, GAP_NS / 10, 3 * BURST_EVENTS);
        assert_eq!(began, [5 * GAP_NS + u64::from(BURST_EVENTS - 1) * (GAP_NS / 10)]);
    }

    #[test]
    fn a_few_events_or_distant_ones_begin_none() {
        let mut bursts = Bursts::default();
        assert!(run(&mut bursts, 0, 1000, BURST_EVENTS - 1).is_empty());
        assert!(run(&mut bursts, 10 * GAP_NS, GAP_NS + 1, 10 * BURST_EVENTS).is_empty());
        assert_eq!(bursts.left(Time(GAP_NS * 10_000)), None);
    }

    #[test]
    fn a_request_ends_a_gap_after_the_last_event() {
        let mut bursts = Bursts::default();
        let began = run(&mut bursts, 0, 1000, BURST_EVENTS)[0];
        assert_eq!(bursts.left(Time(began + 1)), Some(GAP_NS - 1));
        assert_eq!(bursts.left(Time(began + GAP_NS)), Some(0));
        bursts.end(Time(began + GAP_NS));
        assert_eq!(bursts.left(Time(began + GAP_NS)), None);
        assert_eq!(bursts.done, IdlePolling { bursts: 1, ns: GAP_NS });
    }

    #[test]
    fn the_highest_processor_of_a_list_counts() {
        assert_eq!(highest("0-3,6\n"), Some(6));
        assert_eq!(highest("0\n"), Some(0));
        assert_eq!(highest("0-63\n"), Some(63));
        assert_eq!(highest(""), None);
    }
}
