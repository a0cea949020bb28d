//! Every write and flush of a run, so that a crash at any of them can be examined without a second
//! run.
//!
//! Give a [`WriteLog`] to a disk ([`Builder::log`](crate::Builder::log)), run, and walk its
//! [`CrashPoints`]. Each point is the last moment before the set of writes in doubt changes,
//! because by then most has been acknowledged: an earlier moment with the same writes in doubt can
//! only leave the same platters, with weaker guarantees about them.

use std::cell::RefCell;
use std::rc::Rc;

use twin_disk::Block;
use twin_rt::Time;

use super::crash::{CrashState, UnstableWrite};
use crate::Platter;

#[derive(Clone)]
enum Event {
    /// A write was submitted.
    Write { at: u64, len: u64, blocks: Rc<[Block]> },
    /// Write number `write` (of those submitted) has completed.
    Written { write: u64, stored: Option<u64> },
    /// A flush was submitted.
    Flush,
    /// Flush number `flush` (of those submitted) has completed and done its work.
    Flushed { flush: u64 },
}

struct Log {
    start: Platter,
    sector: u32,
    write_cache: bool,
    events: Vec<(Time, Event)>,
    /// The latest mark, with the number of events before it.
    marks: Vec<(usize, u64)>,
    writes: u64,
    flushes: u64,
}

/// The writes and flushes of one disk. Cloning gives another handle to the same log.
#[derive(Clone, Default)]
pub struct WriteLog(Rc<RefCell<Option<Log>>>);

impl WriteLog {
    /// A log for one disk.
    pub fn new() -> WriteLog {
        WriteLog::default()
    }

    /// Called by a disk that begins to use the log.
    ///
    /// # Panics
    /// If another disk uses it already.
    pub(crate) fn begin(&self, start: Platter, sector: u32, write_cache: bool) {
        let mut log = self.0.borrow_mut();
        assert!(log.is_none(), "a write log serves one disk");
        let (events, marks) = (Vec::new(), Vec::new());
        *log = Some(Log { start, sector, write_cache, events, marks, writes: 0, flushes: 0 });
    }

    fn with<T>(&self, f: impl FnOnce(&mut Log) -> T) -> Option<T> {
        self.0.borrow_mut().as_mut().map(f)
    }

    /// Records a write and returns its number.
    pub(crate) fn write(&self, now: Time, at: u64, blocks: &[Block]) -> u64 {
        let len = blocks.iter().map(|b| b.len() as u64).sum();
        let blocks = blocks.into();
        self.with(|log| {
            log.events.push((now, Event::Write { at, len, blocks }));
            log.writes += 1;
            log.writes - 1
        })
        .unwrap_or(0)
    }

    /// `stored`: the address at which it was stored; `None` if it failed or was lost.
    pub(crate) fn written(&self, now: Time, write: u64, stored: Option<u64>) {
        self.with(|log| log.events.push((now, Event::Written { write, stored })));
    }

    /// Records a flush and returns its number.
    pub(crate) fn flush(&self, now: Time) -> u64 {
        self.with(|log| {
            log.events.push((now, Event::Flush));
            log.flushes += 1;
            log.flushes - 1
        })
        .unwrap_or(0)
    }

    pub(crate) fn flushed(&self, now: Time, flush: u64) {
        self.with(|log| log.events.push((now, Event::Flushed { flush })));
    }

    /// Records that `mark` holds from now on (the number of acknowledged operations, or of durable
    /// ones, say). A crash point carries the latest mark before it.
    pub fn mark(&self, mark: u64) {
        self.with(|log| log.marks.push((log.events.len(), mark)));
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.with(|log| log.events.len()).unwrap_or(0)
    }

    /// True if it has no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The moments at which a crash differs from a crash a moment earlier, from the start.
    pub fn crash_points(&self) -> CrashPoints {
        CrashPoints {
            log: self.clone(),
            next: 0,
            ended: false,
            stable: self.with(|log| log.start.clone()),
            completed: Vec::new(),
            under_way: Vec::new(),
            flushes: Vec::new(),
            submitted: 0,
            completions: 0,
        }
    }
}

/// A moment at which the power may fail.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    /// Events of the log before it.
    pub index: usize,
    /// When: just before the next event.
    pub time: Time,
    /// The latest [`WriteLog::mark`] before it.
    pub mark: Option<u64>,
    /// The writes that are certain and those that are in doubt.
    pub state: CrashState,
}

/// Walks a log from crash point to crash point. Each step costs the events in between and a list of
/// the writes in doubt.
pub struct CrashPoints {
    log: WriteLog,
    next: usize,
    ended: bool,
    stable: Option<Platter>,
    /// Completed and not flushed writes, with the number of their completion.
    completed: Vec<(u64, UnstableWrite)>,
    /// Submitted and not completed writes, with their number.
    under_way: Vec<(u64, UnstableWrite)>,
    /// For each submitted flush, how many writes had completed before.
    flushes: Vec<u64>,
    submitted: u64,
    completions: u64,
}

impl CrashPoints {
    /// Changes the state of the medium and of its cache as `event` does.
    fn apply(&mut self, event: &Event, write_cache: bool) {
        match event {
            Event::Write { at, len, blocks } => {
                let unstable = UnstableWrite {
                    at: *at,
                    len: *len,
                    reported: false,
                    blocks: Rc::clone(blocks),
                };
                self.under_way.push((self.submitted, unstable));
                self.submitted += 1;
            }
            Event::Written { write, stored } => self.written(*write, *stored, write_cache),
            // A flush covers the writes that had completed when it was submitted. A write that completes
            // while the flush is under way stays in doubt: a drive need not have seen it.
            Event::Flush => self.flushes.push(self.completions),
            Event::Flushed { flush } => {
                let covered = self.flushes[*flush as usize];
                let Some(stable) = &mut self.stable else { return };
                // In the order of completion: of two writes to one place the later one must win.
                self.completed.retain(|(number, unstable)| {
                    if *number < covered {
                        stable.write(unstable.at, &unstable.blocks);
                    }
                    *number >= covered
                });
            }
        }
    }

    fn written(&mut self, write: u64, stored: Option<u64>, write_cache: bool) {
        let Some(i) = self.under_way.iter().position(|(number, _)| *number == write) else {
            return;
        };
        let (_, mut unstable) = self.under_way.remove(i);
        let number = self.completions;
        self.completions += 1;
        let (Some(at), Some(stable)) = (stored, &mut self.stable) else { return };
        unstable.at = at;
        unstable.reported = true;
        if write_cache {
            self.completed.push((number, unstable));
        } else {
            stable.write(unstable.at, &unstable.blocks);
        }
    }

    fn point(&self, log: &Log, time: Time) -> CrashPoint {
        let marks = log.marks.partition_point(|(index, _)| *index <= self.next);
        let unstable_writes = self.completed.iter().chain(&self.under_way).map(|(_, d)| d.clone());
        CrashPoint {
            index: self.next,
            time,
            mark: marks.checked_sub(1).map(|i| log.marks[i].1),
            state: CrashState {
                base: self.stable.clone().unwrap_or_else(|| log.start.clone()),
                sector: log.sector,
                unstable_writes: unstable_writes.collect(),
            },
        }
    }
}

impl Iterator for CrashPoints {
    type Item = CrashPoint;

    fn next(&mut self) -> Option<CrashPoint> {
        let shared = Rc::clone(&self.log.0);
        let log = shared.borrow();
        let log = log.as_ref()?;
        while let Some((time, event)) = log.events.get(self.next) {
            let changes = match event {
                Event::Write { .. } => true,
                // These writes stay in doubt, so the state is not a new crash point.
                Event::Written { stored, .. } => !log.write_cache || stored.is_none(),
                Event::Flush => false,
                Event::Flushed { .. } => !self.completed.is_empty(),
            };
            let point = changes.then(|| self.point(log, *time));
            self.apply(event, log.write_cache);
            self.next += 1;
            if point.is_some() {
                return point;
            }
        }
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        let time = log.events.last().map_or(Time(0), |(time, _)| *time);
        Some(self.point(log, time))
    }
}
