//! Reads and writes over packs.
//!
//! Contract: a write is complete when it is in memory, in the pack that is being made, and a pack goes on its way
//! when it is full or a flush needs it. Packs are written side by side, but a flush waits for all packs before its
//! own, because whoever opens the volume later reads them up to the first that is missing. A writer that finds
//! another's object where its next one belongs has been replaced: from then on every change and flush fails.
//! Memory is bounded by [`Settings::memory`]: writes wait for packs to be stored.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use twin_disk::{Block, Io, cut};
use twin_rt::{Budget, BudgetGuard, Event, Rt, RwLock, join_all};

use crate::Shape;
use crate::extents::{Extents, Found, Slot};
use crate::head::{Head, MappedPack};
use crate::objects::block;
use crate::pack::{Draft, Header, PackId};
use crate::planted::PlantedFault;
use crate::requests::{Requests, Unwritten};
use crate::settings::Settings;
use crate::store::{StoreError, Version};

/// How often a read looks again for what was deleted meanwhile.
const LOOKS: u32 = 4;

/// What is written, and what is known of it.
pub(crate) struct State {
    pub(crate) extents: Extents,
    draft: Draft,
    /// The draft's pack, while it has an extent.
    draft_slot: Option<Slot>,
    /// Memory of the draft.
    draft_memory: Vec<BudgetGuard>,
    /// The number of the pack after the last that is on its way.
    pub(crate) next: u64,
    /// All packs before this one are in the store.
    stored: u64,
    /// Those after it that are, too.
    stored_early: BTreeSet<u64>,
    /// Objects of maps that no head refers to any more.
    pub(crate) old_maps: Vec<String>,
}

pub(crate) struct Inner {
    pub(crate) rt: Rt,
    pub(crate) requests: Requests,
    pub(crate) shape: Cell<Shape>,
    pub(crate) epoch: u64,
    memory: Budget,
    uploads: Budget,
    pub(crate) packs_a_head: u64,
    pub(crate) state: RefCell<State>,
    /// Notified when a pack is stored, and when the device fails.
    progress: Event,
    /// Why nothing works any more.
    pub(crate) failed: RefCell<Option<String>>,
    pub(crate) in_flight: Cell<usize>,
    /// The head as it was written last. The lock is held while another is made.
    pub(crate) head: RefCell<(Head, Version)>,
    pub(crate) heads: RwLock,
    pub(crate) is_read_only: bool,
    /// Whether a read has met a pack that is gone.
    pub(crate) has_lost: Cell<bool>,
}

impl Inner {
    pub(crate) fn new(
        requests: Requests,
        settings: &Settings,
        (head, version): (Head, Version),
        extents: Extents,
        is_read_only: bool,
    ) -> Inner {
        let requests = Requests { patience: settings.patience, ..requests };
        let same = settings.planted.is(PlantedFault::SameEpoch);
        let next = if same { extents.next_after(head.epoch) } else { head.base };
        let state = State {
            extents,
            draft: Draft::default(),
            draft_slot: None,
            draft_memory: Vec::new(),
            next,
            stored: next,
            stored_early: BTreeSet::new(),
            old_maps: Vec::new(),
        };
        Inner {
            rt: requests.rt.clone(),
            requests,
            shape: Cell::new(head.shape),
            epoch: head.epoch,
            memory: Budget::new(settings.memory.max(2 * u64::from(head.shape.pack_bytes))),
            uploads: Budget::new(u64::from(settings.uploads.clamp(1, 64))),
            packs_a_head: settings.packs_a_head.clamp(1, 4096).into(),
            state: RefCell::new(state),
            progress: Event::new(),
            failed: RefCell::default(),
            in_flight: Cell::new(0),
            head: RefCell::new((head, version)),
            heads: RwLock::new(),
            is_read_only,
            has_lost: Cell::new(false),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    /// Ends the device's life.
    pub(crate) fn fail(&self, why: String) {
        self.failed.borrow_mut().get_or_insert(why);
        self.progress.notify();
    }

    pub(crate) fn fail_unwritten(&self, name: &str, why: &Unwritten) -> String {
        let why = match why {
            Unwritten::Taken => format!(
                "another writer has taken the volume over ({name} is its): what was flushed before is there, the \
                 rest is lost here; unmount, and mount anew"
            ),
            Unwritten::Store(error) => error.of(name),
        };
        self.fail(why.clone());
        why
    }

    pub(crate) async fn write(
        self: &Rc<Inner>,
        at: u64,
        len: u64,
        blocks: Vec<Block>,
    ) -> Result<(), String> {
        if blocks.iter().all(|block| matches!(block, Block::Zero(_))) {
            self.put_zeros(at, len);
            return Ok(());
        }
        let io = Io::write(at, blocks, twin_disk::Class::Mixed, twin_disk::Origin::User);
        for part in io.parts(self.shape.get().pack_bytes) {
            let memory = self.memory.take(part.len).await;
            self.check()?;
            // A part is at most a pack, whose size has 32 bits.
            let len = part.len as u32;
            self.make_room(len);
            let mut state = self.state.borrow_mut();
            let slot = self.draft_slot(&mut state);
            let offset = state.draft.add(part.at, part.blocks, len);
            state.extents.insert(part.at, len, Some((slot, offset)));
            state.draft_memory.push(memory);
        }
        Ok(())
    }

    pub(crate) fn put_zeros(self: &Rc<Inner>, at: u64, len: u64) {
        let mut done = 0;
        while done < len {
            let part = (len - done).min(1 << 30) as u32;
            self.make_room(0);
            let mut state = self.state.borrow_mut();
            self.draft_slot(&mut state);
            state.draft.add_zeros(at + done, part);
            state.extents.insert(at + done, part, None);
            done += u64::from(part);
        }
    }

    /// Sends the draft on its way if it has no room for `len` bytes more.
    fn make_room(self: &Rc<Inner>, len: u32) {
        let has_room = self.state.borrow().draft.has_room(len, self.shape.get().pack_bytes);
        if !has_room {
            self.send_draft();
        }
    }

    fn draft_slot(&self, state: &mut State) -> Slot {
        *state.draft_slot.get_or_insert_with(|| {
            let id = PackId { epoch: self.epoch, seq: state.next };
            let pack = MappedPack { id, header_len: 0, data_len: 0 };
            state.extents.add_pack(pack, Some(Vec::new()))
        })
    }

    /// Sends the draft on its way, if there is one.
    pub(crate) fn send_draft(self: &Rc<Inner>) {
        let mut state = self.state.borrow_mut();
        let Some(slot) = state.draft_slot.take() else { return };
        let draft = std::mem::take(&mut state.draft);
        let memory = std::mem::take(&mut state.draft_memory);
        let id = PackId { epoch: self.epoch, seq: state.next };
        state.next += 1;
        let (volume, writer) = {
            let head = self.head.borrow();
            (head.0.volume, head.0.writer)
        };
        let header = Header { volume, writer, id, extents: draft.extents };
        let header_len = Header::len_of(header.extents.len());
        let mut object = vec![block(header.encode())];
        object.extend(draft.data.iter().cloned());
        state.extents.complete(slot, header_len, draft.len, draft.data);
        drop(state);
        let inner = Rc::clone(self);
        self.rt.spawn("pack", async move { inner.store_pack(id, slot, object, memory).await });
    }

    async fn store_pack(
        &self,
        id: PackId,
        slot: Slot,
        object: Vec<Block>,
        memory: Vec<BudgetGuard>,
    ) {
        let _turn = self.uploads.take(1).await;
        // A pack behind one that failed would never be read.
        if self.check().is_err() {
            return;
        }
        let overwrites = self.requests.planted.is(PlantedFault::PacksOverwrite);
        let when = if overwrites {
            crate::store::Condition::Always
        } else {
            crate::store::Condition::Absent
        };
        let name = id.name();
        match self.requests.write(&name, object, when).await {
            Ok(_) => {
                let mut state = self.state.borrow_mut();
                state.extents.is_durable(slot);
                state.stored_early.insert(id.seq);
                while state.stored_early.first() == Some(&state.stored) {
                    state.stored_early.pop_first();
                    state.stored += 1;
                }
                drop(state);
                drop(memory);
                self.progress.notify();
            }
            Err(why) => drop(self.fail_unwritten(&name, &why)),
        }
    }

    /// Waits until all packs before `to` are in the store.
    pub(crate) async fn stored(&self, to: u64) -> Result<(), String> {
        let overtakes = self.requests.planted.is(PlantedFault::FlushOvertakes);
        let is_there = || {
            let state = self.state.borrow();
            state.stored >= to || overtakes && state.stored_early.contains(&(to - 1))
        };
        self.progress.wait_until(|| is_there() || self.failed.borrow().is_some()).await;
        if is_there() { Ok(()) } else { self.check() }
    }

    pub(crate) async fn read(&self, at: u64, len: u64) -> Result<Vec<Block>, String> {
        let mut looks = 0;
        loop {
            let found = self.look_up(at, len);
            let parts: Vec<_> = found.iter().map(|part| self.read_part(*part)).collect();
            let mut blocks = Vec::new();
            let mut missing = None;
            for part in join_all(parts).await {
                match part {
                    Ok(part) => blocks.extend(part),
                    Err((name, StoreError::Missing)) => missing = Some(name),
                    Err((name, error)) => return Err(error.of(&name)),
                }
            }
            let Some(name) = missing else { return Ok(blocks) };
            looks += 1;
            // What was overwritten while this waited may be deleted by now, and then it is elsewhere.
            if looks == LOOKS || self.look_up(at, len) == found {
                self.check()?;
                self.has_lost.set(true);
                return Err(format!(
                    "{name} is missing: another writer or somebody else has deleted it"
                ));
            }
        }
    }

    /// Where bytes are; what lies side by side in a pack together.
    fn look_up(&self, at: u64, len: u64) -> Vec<Found> {
        let mut joined: Vec<Found> = Vec::new();
        for part in self.state.borrow().extents.look_up(at, len) {
            if let Some(last) = joined.last_mut()
                && let (Some((slot, offset)), Some(place)) = (last.place, part.place)
                && place == (slot, offset + last.len)
            {
                last.len += part.len;
            } else {
                joined.push(part);
            }
        }
        joined
    }

    async fn read_part(&self, part: Found) -> Result<Vec<Block>, (String, StoreError)> {
        let Some((slot, offset)) = part.place else { return Ok(vec![Block::Zero(part.len)]) };
        let (name, header_len) = {
            let state = self.state.borrow();
            let inside = |data: &[Block]| cut(data, offset.into(), part.len.into());
            if state.draft_slot == Some(slot) {
                return Ok(inside(&state.draft.data));
            }
            let Some(pack) = state.extents.pack(slot) else {
                return Err((format!("pack {slot}"), StoreError::Missing));
            };
            if let Some(data) = &pack.data {
                return Ok(inside(data));
            }
            (pack.id.name(), pack.header_len)
        };
        let from = u64::from(header_len) + u64::from(offset);
        match self.requests.get(&name, Some((from, part.len.into()))).await {
            Ok(content) => {
                let got: usize = content.blocks.iter().map(Block::len).sum();
                if got == part.len as usize {
                    Ok(content.blocks)
                } else {
                    Err((name, StoreError::Missing))
                }
            }
            Err(error) => Err((name, error)),
        }
    }
}
