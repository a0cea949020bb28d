//! Bringing what is in a journal to its device.
//!
//! Contract: one task does it, the oldest records first, so that of two writes of a place the later one arrives later. It
//! begins when the journal is more than half full, somebody waits for room, neither writing nor moving has happened for a
//! second, or the journal is being closed; below three eighths it ends, unless the reason is one of the last two. A record's
//! place is given back in this order:
//!
//! 1. what is left of its content is written to the device, and the device is flushed;
//! 2. its pieces are forgotten, unless something newer has taken their place meanwhile;
//! 3. the journal is flushed, with all records that were under way: what has taken the place of a piece must be as
//!    durable as the piece was;
//! 4. the start of the ring moves.

use std::rc::Rc;

use twin_rt::{Nanos, SECS};

use super::Inner;
use super::main_device::Placed;
use crate::ring::Record;
use crate::{IoError, cut};

/// Most bytes that are moved at once.
const BATCH: u64 = 4 << 20;
/// How long nobody writes before the rest is moved.
const IDLE: Nanos = SECS;

impl Inner {
    /// Whether moving has to begin, or to go on once it has begun.
    fn must_move(&self, is_moving: bool) -> bool {
        let (used, size) = (self.ring.used(), self.ring.size());
        if used == 0 || self.failed.borrow().is_some() {
            return false;
        }
        let limit = if is_moving { size / 8 * 3 } else { size / 2 };
        used > limit || self.is_wanted.get() || self.is_idle.get() || self.is_closing.get()
    }

    /// The task. It ends when the journal is closed or has failed.
    pub(super) async fn move_out(self: Rc<Self>) {
        let is_over =
            || self.failed.borrow().is_some() || self.is_closing.get() && self.ring.used() == 0;
        loop {
            self.work.wait_until(|| self.must_move(false) || is_over()).await;
            if is_over() {
                break;
            }
            while self.must_move(true) {
                let moved = self.move_batch().await;
                self.is_wanted.set(false);
                match moved {
                    Ok(true) => {}
                    // A reader has the oldest record, or a write is under way: both end.
                    Ok(false) => self.work.wait().await,
                    Err(error) => self.fail(&error),
                }
                self.ring.progress.notify();
            }
        }
        self.ring.progress.notify();
    }

    /// Brings the oldest records to the device. Returns false if none could be given back.
    async fn move_batch(&self) -> Result<bool, IoError> {
        let (mut sum, whole) = (0, self.ring.whole());
        let most = BATCH.min(self.ring.size() / 8);
        let records = self.ring.oldest(|record| {
            let fits = sum == 0 || sum + record.len() <= most;
            sum += record.len();
            fits && record.serial() < whole
        });
        let mut placed = Vec::new();
        for record in &records {
            placed.extend(self.left_of(record).await?);
        }
        if !placed.is_empty() {
            self.moved_bytes.set(self.moved_bytes.get() + sum_of(&placed));
            self.main.write_out(placed).await?;
        }
        for record in &records {
            self.forget(record);
        }
        self.make_durable().await?;
        records.iter().for_each(|record| record.set_done());
        drop(records);
        self.ring.move_start().await
    }

    /// The parts of a record that nothing newer has replaced, with their places.
    async fn left_of(&self, record: &Record) -> Result<Vec<Placed>, IoError> {
        let Some(parts) = self.pieces_of(record).filter(|parts| !parts.is_empty()) else {
            return Ok(Vec::new());
        };
        let Some(content) = self.ring.content(record).await? else {
            return Err(self.error("a record has changed in it"));
        };
        let placed = |&(at, offset, len): &(u64, u64, u64)| (at, cut(&content, offset, len));
        Ok(parts.iter().map(placed).collect())
    }

    fn pieces_of(&self, record: &Record) -> Option<Vec<(u64, u64, u64)>> {
        let at = super::place_of(record)?;
        let parts = self.pieces.borrow().look_up(at, record.len());
        let own = parts.into_iter().filter_map(|part| {
            let (of, offset) = part.place?;
            (of.serial() == record.serial()).then_some((part.at, offset, part.len))
        });
        Some(own.collect())
    }

    fn forget(&self, record: &Record) {
        for (at, _, len) in self.pieces_of(record).unwrap_or_default() {
            self.pieces.borrow_mut().remove(at, len);
        }
    }

    /// A second after the last write the rest may be moved.
    pub(super) fn watch_idle(self: &Rc<Self>) {
        self.is_idle.set(false);
        if self.is_watched.replace(true) {
            return;
        }
        let inner = Rc::clone(self);
        self.rt.spawn("idle journal", async move {
            loop {
                let before = inner.ring.next_serial();
                inner.rt.sleep(IDLE).await;
                if inner.ring.used() == 0 || inner.failed.borrow().is_some() {
                    break;
                }
                if inner.ring.next_serial() == before {
                    inner.is_idle.set(true);
                    inner.work.notify();
                    break;
                }
            }
            inner.is_watched.set(false);
        });
    }
}

fn sum_of(placed: &[Placed]) -> u64 {
    placed.iter().map(|(_, blocks)| crate::total(blocks)).sum()
}
