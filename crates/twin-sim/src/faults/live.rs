//! A fault plan in a running disk: which of the disk's requests it strikes, and how.

use twin_disk::{Io, IoErrorKind, IoKind};
use twin_rt::Time;

use super::{Fault, FaultPlan, Trigger};

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No fault applies: serve the request normally.
    Serve,
    /// Acknowledge it and do nothing.
    Pretend,
    /// Write it at this byte instead.
    Elsewhere(u64),
    /// Fail it, after the usual time.
    Fail(IoErrorKind),
}

/// The state of a fault plan.
pub(crate) struct Faults {
    plan: FaultPlan,
    reads: u64,
    writes: u64,
    flushes: u64,
    bad: Vec<(u64, u64)>,
    /// Writes that reach this byte or beyond it find no space.
    room_ends: u64,
    /// Every write fails from now on.
    worn: bool,
    /// Bits that have just rotted, as (byte, bit). The disk applies them and empties the list.
    pub(crate) rotten: Vec<(u64, u8)>,
    /// The device is gone.
    pub(crate) gone: bool,
    /// The power has failed.
    pub(crate) dark: bool,
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan) -> Faults {
        Faults {
            plan,
            reads: 0,
            writes: 0,
            flushes: 0,
            bad: Vec::new(),
            room_ends: u64::MAX,
            worn: false,
            rotten: Vec::new(),
            gone: false,
            dark: false,
        }
    }

    /// The times for which faults are planned.
    pub(crate) fn times(&self) -> impl Iterator<Item = Time> + '_ {
        self.plan.0.iter().filter_map(|(trigger, _)| match trigger {
            Trigger::Time(at) => Some(*at),
            _ => None,
        })
    }

    fn due(&self, trigger: Trigger, now: Time) -> bool {
        match trigger {
            Trigger::Read(k) => self.reads >= k,
            Trigger::Write(k) => self.writes >= k,
            Trigger::Flush(k) => self.flushes >= k,
            Trigger::Time(at) => now >= at,
        }
    }

    /// Takes the faults that are due now from the plan: those of the device and, if a request of
    /// `kind` begins, those that concern such a request.
    fn take_due(&mut self, now: Time, kind: Option<IoKind>) -> Vec<Fault> {
        let concerns = |fault: &Fault| match fault {
            Fault::LoseWrite | Fault::MisdirectWrite { .. } | Fault::FailWrite => {
                kind == Some(IoKind::Write)
            }
            Fault::FailRead => kind == Some(IoKind::Read),
            Fault::LoseFlush => kind == Some(IoKind::Flush),
            _ => true,
        };
        let plan = std::mem::take(&mut self.plan.0);
        let (due, later) = plan
            .into_iter()
            .partition::<Vec<_>, _>(|(trigger, fault)| self.due(*trigger, now) && concerns(fault));
        self.plan.0 = later;
        due.into_iter().map(|(_, fault)| fault).collect()
    }

    /// Triggers the faults that are planned for this time.
    pub(crate) fn tick(&mut self, now: Time) {
        for fault in self.take_due(now, None) {
            self.strike(fault);
        }
    }

    /// A fault of the device itself.
    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::BadSectors { at, len } => self.bad.push((at, at.saturating_add(len))),
            Fault::BitRot { at, bit } => self.rotten.push((at, bit)),
            Fault::NoSpace => self.room_ends = 0,
            Fault::NoSpaceFrom { at } => self.room_ends = self.room_ends.min(at),
            Fault::FailWrites => self.worn = true,
            Fault::Gone => self.gone = true,
            Fault::PowerCut => self.dark = true,
            _ => {}
        }
    }

    /// A request to a device of `size` bytes begins. Returns what the disk has to do with it.
    pub(crate) fn begin(&mut self, now: Time, io: &Io, size: u64) -> Verdict {
        match io.kind {
            IoKind::Read => self.reads += 1,
            IoKind::Write => self.writes += 1,
            IoKind::Flush => self.flushes += 1,
            IoKind::Discard => {}
        }
        let mut verdict = Verdict::Serve;
        for fault in self.take_due(now, Some(io.kind)) {
            match fault {
                Fault::LoseWrite | Fault::LoseFlush => verdict = Verdict::Pretend,
                Fault::MisdirectWrite { to } => {
                    verdict = Verdict::Elsewhere(to.min(size - io.len));
                }
                Fault::FailWrite | Fault::FailRead => verdict = Verdict::Fail(IoErrorKind::Medium),
                device => self.strike(device),
            }
        }
        let touches = |&(from, to): &(u64, u64)| from < io.at + io.len && io.at < to;
        if self.gone {
            Verdict::Fail(IoErrorKind::Gone)
        } else if io.kind == IoKind::Write && io.at + io.len > self.room_ends {
            Verdict::Fail(IoErrorKind::NoSpace)
        } else if self.worn && io.kind != IoKind::Read
            || io.kind == IoKind::Read && self.bad.iter().any(touches)
        {
            Verdict::Fail(IoErrorKind::Medium)
        } else {
            verdict
        }
    }

    /// Writing these bytes has mended the bad sectors among them.
    pub(crate) fn written(&mut self, at: u64, len: u64) {
        let end = at + len;
        let mut left = Vec::new();
        for &(from, to) in &self.bad {
            left.extend(
                [(from, to.min(at)), (from.max(end), to)].into_iter().filter(|r| r.0 < r.1),
            );
        }
        self.bad = left;
    }
}
