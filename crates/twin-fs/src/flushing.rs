//! The flush policy of a volume, and those who wait for its work.
//!
//! Contract: this file keeps the policy and what operations and the flusher tell each other; it knows
//! neither dirty data nor layouts. [`dirty_limit`](crate::dirty_limit) shows the policy the dirty data,
//! and lets operations wait.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use twin_cache::flush::{Death, DirtyView, FlushBy, Survives};
use twin_cache::{FlushAdvice, FlushPolicy, FlushState, Lbn, Which};
use twin_rt::{Event, Time};
use twin_settings::SettingsError;

use crate::inodes::Inode;
use crate::nvram::Member;
use crate::{FsError, Result};

/// The name in settings of what the policy itself chooses.
const OWN: &str = "own";

/// Sets who writes back for operations that need room to the one with this name; `own` leaves it to
/// the policy.
///
/// # Errors
/// If there is none; the message lists those that there are.
pub fn set_flush_by(
    by: &mut Option<FlushBy>,
    name: &str,
) -> std::result::Result<(), SettingsError> {
    let found = FlushBy::ALL.iter().find(|by| by.name() == name);
    if found.is_none() && name != OWN {
        let names = FlushBy::ALL.iter().map(|by| by.name()).chain([OWN]);
        return Err(SettingsError::unknown("choice", name, names));
    }
    *by = found.copied();
    Ok(())
}

/// The name of who writes back for operations that need room.
pub fn flush_by_name(by: Option<FlushBy>) -> &'static str {
    by.map_or(OWN, FlushBy::name)
}

/// A dirty file of which a layout is to write something.
pub struct Chosen {
    /// Its inode, which is dirty.
    pub inode: Rc<Inode>,
    /// The blocks to write; `None` for all that are dirty.
    pub blocks: Option<BTreeSet<Lbn>>,
}

impl Chosen {
    /// True if a block is to be written.
    pub fn has(&self, lbn: Lbn) -> bool {
        self.blocks.as_ref().is_none_or(|blocks| blocks.contains(&lbn))
    }
}

/// Another volume's operation that waits here, until this is dropped.
struct Noted<'a>(&'a Flushing, &'a Rc<dyn Member>, u64);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let mut needers = self.0.needers.borrow_mut();
        let is_it = |(member, bytes): &(Rc<dyn Member>, u64)| {
            Rc::ptr_eq(member, self.1) && *bytes == self.2
        };
        if let Some(at) = needers.iter().position(is_it) {
            needers.swap_remove(at);
        }
    }
}

/// The policy, and those who wait for its work. See the module.
pub(crate) struct Flushing {
    policy: RefCell<Box<dyn FlushPolicy>>,
    pub(crate) survives: Survives,
    by: FlushBy,
    /// True if operations wait for room and the flusher has not taken notice yet.
    awaited: Cell<bool>,
    /// The bytes for which operations wait.
    wanted_bytes: Cell<u64>,
    /// Other volumes whose operations wait for the flusher's rounds, with the bytes that they need.
    needers: RefCell<Vec<(Rc<dyn Member>, u64)>>,
    /// Bytes that have been taken to be written and that are not safe on the device yet.
    held_bytes: Cell<u64>,
    /// True if the last round of the flusher made no room.
    fruitless: Cell<bool>,
    round_ended: Rc<Event>,
    wake_flusher: Rc<Event>,
}

impl Flushing {
    /// The policy that the settings name.
    pub(crate) fn new(settings: &crate::Settings) -> Result<Flushing> {
        let entry = twin_cache::flush::REGISTRY
            .get(&settings.flush)
            .map_err(|_| FsError::Invalid("no such flush policy"))?;
        Ok(Flushing {
            policy: RefCell::new(entry.make(settings.flush_age_ns)),
            survives: entry.survives,
            by: settings.flush_by.unwrap_or(entry.by),
            awaited: Cell::new(false),
            wanted_bytes: Cell::new(0),
            needers: RefCell::default(),
            held_bytes: Cell::new(0),
            fruitless: Cell::new(false),
            round_ended: Rc::default(),
            wake_flusher: Rc::default(),
        })
    }

    /// The event on which the flusher waits when there is nothing to do.
    pub(crate) fn wake_flusher(&self) -> &Rc<Event> {
        &self.wake_flusher
    }

    pub(crate) fn events(&self) -> [&Rc<Event>; 2] {
        [&self.wake_flusher, &self.round_ended]
    }

    /// True if the policy wants to hear of the deaths of blocks.
    pub(crate) fn learns(&self) -> bool {
        self.policy.borrow().learns()
    }

    pub(crate) fn start_bytes(&self, state: &FlushState) -> u64 {
        self.policy.borrow().start_bytes(state)
    }

    pub(crate) fn limit_bytes(&self, state: &FlushState) -> u64 {
        self.policy.borrow().limit_bytes(state)
    }

    /// The policy's advice; that to make room, if operations wait for it. The policy hears of the
    /// `deaths` before.
    pub(crate) fn advise(
        &self,
        now: Time,
        state: &FlushState,
        view: &dyn DirtyView,
        deaths: &[Death],
    ) -> FlushAdvice {
        let mut policy = self.policy.borrow_mut();
        if !deaths.is_empty() {
            policy.note_deaths(deaths);
        }
        match self.awaited.replace(false) {
            true => FlushAdvice::Write(policy.make_room(state, view)),
            false => policy.advise(now, state, view),
        }
    }

    /// What is to be written because an operation needs room.
    pub(crate) fn make_room(&self, state: &FlushState, view: &dyn DirtyView) -> Which {
        self.policy.borrow_mut().make_room(state, view)
    }

    /// Who writes back for operations that need room.
    pub(crate) fn by(&self) -> FlushBy {
        self.by
    }

    /// Asks the flusher to make room for `bytes`, and waits until its round has ended.
    /// Returns true if the round made some.
    pub(crate) async fn wait_for_round(&self, bytes: u64) -> bool {
        self.wanted_bytes.set(self.wanted_bytes.get() + bytes);
        let ended = self.round_ended.wait();
        self.ask();
        ended.await;
        self.wanted_bytes.set(self.wanted_bytes.get() - bytes);
        !self.fruitless.get()
    }

    /// The same for an operation of another volume, with which this one shares memory. What it lacks by
    /// its own policy counts: this one's may see none lacking.
    pub(crate) async fn wait_for_round_of(&self, needer: &Rc<dyn Member>, bytes: u64) -> bool {
        self.needers.borrow_mut().push((Rc::clone(needer), bytes));
        let _noted = Noted(self, needer, bytes);
        self.wait_for_round(bytes).await
    }

    /// The most bytes that other volumes lack whose operations wait for this one's flusher.
    pub(crate) fn lacked_by_others(&self) -> u64 {
        let needers = self.needers.borrow();
        needers.iter().map(|(member, bytes)| member.lacks_bytes(*bytes)).max().unwrap_or(0)
    }

    /// Asks the flusher for a round that makes room.
    pub(crate) fn ask(&self) {
        self.awaited.set(true);
        self.wake_flusher.notify();
    }

    /// Called when there is room for all that wait, or will be when what is held is safe.
    pub(crate) fn there_is_room(&self) {
        if self.awaited.replace(false) && self.held_bytes.get() == 0 {
            self.end_round(true);
        }
    }

    /// The bytes for which operations wait.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes.get()
    }

    /// Bytes that have been taken to be written and that are not safe on the device yet.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.get()
    }

    /// Called when data has been taken to be written, and is not as safe yet as the policy needs it.
    pub(crate) fn hold(&self, bytes: u64) {
        self.held_bytes.set(self.held_bytes.get() + bytes);
    }

    /// Called when it is, with the bytes of one [`hold`](Self::hold).
    pub(crate) fn release(&self, bytes: u64) {
        let held = self.held_bytes.get();
        // Too small a sum would admit operations beyond the memory that survives.
        assert!(held >= bytes, "{bytes} bytes leave memory that survives, which holds {held}");
        self.held_bytes.set(held - bytes);
    }

    /// Called when the flusher's round has ended, or when it found that it can write nothing.
    pub(crate) fn end_round(&self, fruitful: bool) {
        self.fruitless.set(!fruitful);
        self.round_ended.notify();
    }
}
