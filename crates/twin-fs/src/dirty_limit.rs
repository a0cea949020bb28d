//! Dirty data as the flush policy sees it, and the operations that wait because there is too much.
//!
//! Contract: the policy is asked by the flusher ([`write_back`](crate::write_back)) and, unless
//! [`FlushBy`] is the flusher, by operations that need room. An operation that would make more dirty
//! than the policy permits waits in [`wait_for_room`] before it changes anything and before it is
//! admitted. The wait ends when there is room, when the volume stops, or when write-back has made no
//! room: what is then dirty belongs to operations that write it themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use twin_cache::flush::{DirtyBlock, DirtyFile, DirtyView, FlushBy, Survives};
use twin_cache::{FlushAdvice, FlushState, Lbn, Which};
use twin_rt::{BoxFuture, Time};

use crate::core::Core;
use crate::flushing::Chosen;
use crate::geometry::Ptr;
use crate::inodes::Inode;
use crate::layout::{Dirty, Layout};
use crate::nvram::{Member, Nvram};
use crate::{Ino, Result};

/// The dirty data of a volume.
struct View<'a>(&'a Core);

impl View<'_> {
    fn file_of(&self, inode: &Inode) -> DirtyFile {
        let (since, changed) = inode.dirty_times();
        let block = u64::from(self.0.geometry.block_size);
        let bytes = inode.frames.counts().1 as u64 * block;
        let is_dir = inode.d.borrow().is_dir();
        DirtyFile { ino: inode.ino, since, changed, bytes, is_dir }
    }
}

impl DirtyView for View<'_> {
    fn blocks(&self, f: &mut dyn FnMut(&DirtyBlock) -> bool) {
        // The layout's own structures go with the files that need them, as indirect blocks do.
        self.0.cache.for_dirty_data(|dirty| {
            let (ino, lbn) = (dirty.frame.ino(), dirty.frame.lbn());
            if !self.0.cached_inode(ino).is_some_and(|inode| inode.is_dirty()) {
                return true;
            }
            let (since, changed) = (dirty.since(), dirty.changed());
            f(&DirtyBlock { ino, lbn, since, changed, last_life_ns: dirty.last_life_ns() })
        });
    }

    fn files(&self, f: &mut dyn FnMut(&DirtyFile) -> bool) {
        self.0.for_dirty_inodes(|inode| f(&self.file_of(inode)));
    }

    fn file(&self, ino: u64) -> Option<DirtyFile> {
        let inode = self.0.cached_inode(ino)?;
        inode.is_dirty().then(|| self.file_of(&inode))
    }

    fn place(&self, ino: u64, lbn: Lbn) -> Option<u64> {
        let inode = self.0.cached_inode(ino)?;
        let ptr = self.0.resident_ptr(&inode, lbn).filter(Ptr::is_on_disk)?;
        Some(self.0.geometry.byte_of(ptr.addr))
    }
}

impl Core {
    /// The advice of the flush policy.
    pub(crate) fn flush_advice(&self, state: &FlushState) -> FlushAdvice {
        let deaths = self.cache.take_deaths();
        let mut state = *state;
        if self.flushing().survives == Survives::Nvram {
            let on_its_way = self.flushing().held_bytes();
            let of_others = self.flushing().lacked_by_others().saturating_sub(on_its_way);
            state.wanted_bytes = self.shortage_bytes(&state).max(of_others);
            if state.wanted_bytes == 0 {
                self.flushing().there_is_room();
            }
        }
        self.flushing().advise(self.rt.now(), &state, &View(self), &deaths)
    }

    /// The input of the flush policy, from what the layout says is dirty.
    pub(crate) fn flush_state(&self, dirty: &Dirty, oldest: Option<Time>) -> FlushState {
        FlushState {
            dirty_bytes: dirty.bytes,
            data_bytes: self.cache.dirty_data_bytes(),
            frame_bytes: self.cache.frame_bytes(),
            oldest,
            capacity_bytes: self.cache.capacity_bytes(),
            unit_bytes: dirty.unit_bytes,
            nvram_bytes: match self.nvram() {
                Some((shared, others)) => shared.bound_bytes().saturating_sub(others),
                None => self.settings.nvram_bytes,
            },
            wanted_bytes: 0,
        }
    }

    /// How far what is dirty and what operations wait for together exceed the policy's limit. What
    /// has been sent to the device already is not counted: it makes room when it is safe there.
    pub(crate) fn shortage_bytes(&self, state: &FlushState) -> u64 {
        let needed = state.dirty_bytes + self.flushing().wanted_bytes();
        needed.saturating_sub(self.flushing().limit_bytes(state))
    }

    /// The most bytes that the flush policy permits to be dirty, if the layout's units are so long.
    pub fn dirty_limit_bytes(&self, unit_bytes: u64) -> u64 {
        let dirty = Dirty { unit_bytes, ..Dirty::default() };
        self.flushing().limit_bytes(&self.flush_state(&dirty, None))
    }

    /// The most bytes that a layout may defer to write, because it could restore them: they need
    /// memory, but none that survives.
    pub fn deferred_limit_bytes(&self, unit_bytes: u64) -> u64 {
        match self.flushing().survives {
            Survives::Nvram => self.cache.capacity_bytes() / 4,
            Survives::Nothing | Survives::Memory => self.dirty_limit_bytes(unit_bytes) / 2,
        }
    }

    /// True if dirty data counts as safe because memory survives a power failure.
    pub fn memory_survives(&self) -> bool {
        self.flushing().survives != Survives::Nothing
    }

    /// The dirty files that a policy named, in the order in which they became dirty; `None` for all.
    pub(crate) fn chosen(&self, which: &Which) -> Option<Vec<Chosen>> {
        let whole = |inode| Chosen { inode, blocks: None };
        let mut chosen: Vec<Chosen> = match which {
            Which::All => return None,
            Which::UpTo(time) => {
                let dirty = self.dirty_inodes().into_iter();
                dirty.filter(|inode| inode.dirty_times().0 <= *time).map(whole).collect()
            }
            Which::Files(files) => {
                let files: BTreeSet<Ino> = files.iter().copied().collect();
                files.into_iter().filter_map(|ino| self.cached_inode(ino)).map(whole).collect()
            }
            Which::Blocks(blocks) => {
                let mut by_file: BTreeMap<Ino, BTreeSet<Lbn>> = BTreeMap::new();
                for (ino, lbn) in blocks {
                    by_file.entry(*ino).or_default().insert(*lbn);
                }
                let some = |(ino, blocks)| {
                    Some(Chosen { inode: self.cached_inode(ino)?, blocks: Some(blocks) })
                };
                by_file.into_iter().filter_map(some).collect()
            }
        };
        chosen.retain(|one| one.inode.is_dirty());
        chosen.sort_by_key(|one| one.inode.dirty_turn());
        Some(chosen)
    }
}

/// Writes what a policy named.
pub(crate) async fn write(core: &Rc<Core>, layout: &dyn Layout, which: &Which) -> Result<()> {
    match core.chosen(which) {
        Some(chosen) if chosen.is_empty() => Ok(()),
        chosen => layout.write_back(core, chosen).await,
    }
}

/// Sends to the device what a policy named that keeps dirty data in memory which survives. Returns the
/// bytes that are on their way: they are held until [`let_go`].
pub(crate) async fn send(core: &Rc<Core>, layout: &dyn Layout, which: &Which) -> Result<u64> {
    let before = core.cache.dirty_bytes();
    let written = write(core, layout, which).await;
    let bytes = before.saturating_sub(core.cache.dirty_bytes());
    core.flushing().hold(bytes);
    if written.is_err() {
        core.flushing().release(bytes);
    }
    written.map(|()| bytes)
}

/// Waits until what was sent may leave memory that survives: only what is as safe on the device as the
/// settings ask makes room.
pub(crate) async fn let_go(core: &Rc<Core>, layout: &dyn Layout, bytes: u64) -> Result<()> {
    let durable = !core.settings.nvram_until_reported || core.settings.durable_flush;
    let drained = layout.drain(core, durable).await;
    core.flushing().release(bytes);
    drained
}

/// The bytes that count against the policy's limit. What a layout defers because it could restore it
/// from what it has written needs memory, but none that survives.
fn at_risk(core: &Core, layout: &dyn Layout) -> u64 {
    let dirty = match core.memory_survives() {
        true => layout.dirty(core).bytes,
        false => core.cache.dirty_bytes(),
    };
    dirty + core.flushing().held_bytes()
}

/// Lets the dirty data of a volume lie in memory that other volumes of its host use too. Nothing
/// happens if its flush policy keeps it elsewhere.
pub(crate) fn join_nvram(core: &Rc<Core>, layout: &Rc<dyn Layout>, nvram: &Rc<Nvram>) {
    if core.flushing().survives == Survives::Nvram {
        let member = VolumeMember(Rc::downgrade(core), Rc::downgrade(layout));
        core.set_nvram(nvram, nvram.join(Rc::new(member)));
    }
}

/// A volume as a member of shared memory, which does not keep the volume in existence.
struct VolumeMember(Weak<Core>, Weak<dyn Layout>);

impl VolumeMember {
    fn volume(&self) -> Option<(Rc<Core>, Rc<dyn Layout>)> {
        self.0.upgrade().zip(self.1.upgrade())
    }
}

impl Member for VolumeMember {
    fn held_bytes(&self) -> u64 {
        self.volume().map_or(0, |(core, layout)| at_risk(&core, &*layout))
    }

    fn oldest(&self) -> Option<Time> {
        self.volume().and_then(|(core, _)| oldest(&core))
    }

    fn make_room(&self, bytes: u64) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            match self.volume() {
                Some((core, layout)) => make_room(&core, &*layout, bytes).await,
                None => Ok(()),
            }
        })
    }

    fn lacks_bytes(&self, bytes: u64) -> u64 {
        self.volume().map_or(0, |(core, layout)| lacks(&core, &*layout, bytes))
    }

    fn wait_for_round(&self, bytes: u64, needer: Option<Rc<dyn Member>>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            match (self.0.upgrade(), needer) {
                (Some(core), None) => core.flushing().wait_for_round(bytes).await,
                (Some(core), Some(needer)) => {
                    core.flushing().wait_for_round_of(&needer, bytes).await
                }
                (None, _) => false,
            }
        })
    }
}

/// By how much the room of a volume falls short of `bytes`, as [`wait_for_room`] computes it.
fn lacks(core: &Core, layout: &dyn Layout, bytes: u64) -> u64 {
    let limit = core.dirty_limit_bytes(layout.dirty(core).unit_bytes);
    (at_risk(core, layout) + bytes).saturating_sub(limit)
}

/// Since when the oldest dirty data is dirty. A block may be older than its file's place among the dirty
/// ones, if other blocks of the file were written since.
fn oldest(core: &Core) -> Option<Time> {
    let mut block = None;
    View(core).blocks(&mut |one| {
        block = Some(one.since);
        false
    });
    block.into_iter().chain(core.dirty_since()).min()
}

/// Writes what the policy names to make room for `bytes`.
async fn make_room(core: &Rc<Core>, layout: &dyn Layout, bytes: u64) -> Result<()> {
    let mut state = core.flush_state(&layout.dirty(core), None);
    state.wanted_bytes = bytes;
    let which = core.flushing().make_room(&state, &View(core));
    match core.flushing().survives {
        Survives::Nvram => {
            let sent = send(core, layout, &which).await?;
            let_go(core, layout, sent).await
        }
        Survives::Nothing | Survives::Memory => write(core, layout, &which).await,
    }
}

/// An operation does not wait any longer when its own write-back has made no room.
const IN_VAIN_MAX: u32 = 1;

/// The same for the flusher's rounds, in which others may have made as much dirty as was written.
const ROUNDS_IN_VAIN_MAX: u32 = 3;

/// Waits until an operation may make up to `bytes` dirty.
pub(crate) async fn wait_for_room(core: &Rc<Core>, layout: &dyn Layout, bytes: u64) -> Result<()> {
    let flushing = core.flushing();
    let mut in_vain = 0;
    loop {
        core.check_writable()?;
        let of_others = || core.nvram().map_or(0, |(_, others)| others);
        let dirty = at_risk(core, layout);
        let all = dirty + of_others();
        let limit = core.dirty_limit_bytes(layout.dirty(core).unit_bytes);
        // Memory that is all that there is must not be exceeded by what the operation adds.
        let strict = flushing.survives != Survives::Nothing && all > 0;
        let ahead = if strict { bytes } else { 0 };
        let patience = match flushing.by() {
            FlushBy::Flusher => ROUNDS_IN_VAIN_MAX,
            FlushBy::Helper | FlushBy::Needer => IN_VAIN_MAX,
        };
        if dirty + ahead <= limit || in_vain >= patience {
            return Ok(());
        }
        // Where memory is shared, the oldest data may be another volume's.
        let oldest = core.oldest_of_shared();
        let is_fruitless = match flushing.by() {
            FlushBy::Helper | FlushBy::Needer => {
                match oldest {
                    Some((member, _)) => member.make_room(bytes).await?,
                    None => make_room(core, layout, bytes).await?,
                }
                if flushing.by() == FlushBy::Needer {
                    layout.drain(core, false).await?;
                }
                at_risk(core, layout) + of_others() >= all
            }
            FlushBy::Flusher => match oldest {
                Some((member, needer)) => !member.wait_for_round(bytes, needer).await,
                None => !flushing.wait_for_round(bytes).await,
            },
        };
        in_vain = if is_fruitless { in_vain + 1 } else { 0 };
    }
}
