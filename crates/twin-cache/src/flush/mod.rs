//! Flush policies: which dirty blocks are written back, when, and who waits for it.
//!
//! A policy looks at the dirty data ([`FlushState`] has the amounts, [`DirtyView`] the blocks and
//! files with their ages and places) and gives advice; write-back acts. A layout writes what the
//! policy named and what must go with it so that a crash leaves a consistent volume, not more. A new
//! policy needs a file here and a line in [`REGISTRY`].
//!
//! The policies come from "Cut-and-paste file systems" (1996), section 5.1, if their file names no
//! other source.

mod buffers;
mod delayed;
mod eager;
mod lifetimes;
mod nvram;
mod segment;
#[cfg(test)]
mod tests;
mod twin;
mod update;
mod ups;
mod watermarks;

use twin_rt::{MILLIS, Nanos, SECS, Time};
use twin_settings::{Registry, RegistryEntry};

use crate::Lbn;

/// The amounts of dirty data.
#[derive(Clone, Copy, Debug)]
pub struct FlushState {
    /// The number of dirty bytes.
    pub dirty_bytes: u64,
    /// Dirty bytes of data blocks, in whole frames.
    pub data_bytes: u64,
    /// Bytes of a frame of the cache.
    pub frame_bytes: u64,
    /// The time when the oldest of them became dirty; `None` if nothing is dirty.
    pub oldest: Option<Time>,
    /// The capacity of the cache, in bytes.
    pub capacity_bytes: u64,
    /// The number of bytes that the layout prefers to write at once: a segment or a cluster.
    pub unit_bytes: u64,
    /// The bytes of memory that survives a power failure, for policies that keep dirty data in it.
    pub nvram_bytes: u64,
    /// The bytes for which operations wait, beyond what is free or on its way to the device.
    pub wanted_bytes: u64,
}

/// A dirty block of a file.
#[derive(Clone, Copy, Debug)]
pub struct DirtyBlock {
    /// The inode number of its file.
    pub ino: u64,
    /// The block within the file.
    pub lbn: Lbn,
    /// When the block became dirty.
    pub since: Time,
    /// When its content last changed.
    pub changed: Time,
    /// How long the content before this one lived; `None` if this is the first in memory.
    pub last_life_ns: Option<Nanos>,
}

/// A file with changes in memory. Small files and changed attributes make a file dirty that has no
/// dirty block.
#[derive(Clone, Copy, Debug)]
pub struct DirtyFile {
    /// The inode number of the file.
    pub ino: u64,
    /// When the file became dirty.
    pub since: Time,
    /// When it last changed.
    pub changed: Time,
    /// The bytes of its dirty blocks.
    pub bytes: u64,
    /// True for a directory.
    pub is_dir: bool,
}

/// The dirty data of a volume, as a policy sees it.
pub trait DirtyView {
    /// Calls `f` for dirty blocks of files, from the one that became dirty first, until it returns
    /// false.
    fn blocks(&self, f: &mut dyn FnMut(&DirtyBlock) -> bool);
    /// Calls `f` for dirty files, from the one that became dirty first, until it returns false.
    fn files(&self, f: &mut dyn FnMut(&DirtyFile) -> bool);
    /// The file of this inode number, if it is dirty.
    fn file(&self, ino: u64) -> Option<DirtyFile>;
    /// The byte on the device where a block lies now; `None` if it has no place yet.
    fn place(&self, ino: u64, lbn: Lbn) -> Option<u64>;
}

/// What a policy wants to have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that is dirty.
    All,
    /// The files that became dirty at this time or before.
    UpTo(Time),
    /// The dirty data of these files.
    Files(Vec<u64>),
    /// These blocks: inode number and block.
    Blocks(Vec<(u64, Lbn)>),
}

/// The advice of a flush policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlushAdvice {
    /// Write this now.
    Write(Which),
    /// Ask the policy again at this time, or when there are enough dirty bytes for it to start.
    WaitUntil(Time),
    /// Ask the policy again when something has changed.
    Wait,
}

/// The end of a version of a block, which lasts from one change of its content to the next, or to
/// the removal of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The inode number of the file.
    pub ino: u64,
    /// The block within the file.
    pub lbn: Lbn,
    /// When the version came to be.
    pub born: Time,
    /// When it was overwritten or removed.
    pub at: Time,
    /// How long the version before it lived.
    pub last_life_ns: Option<Nanos>,
    /// True if it was never written back.
    pub unwritten: bool,
}

/// Decides what is written back, and when.
pub trait FlushPolicy {
    /// The advice for this state.
    fn advise(&mut self, now: Time, state: &FlushState, dirty: &dyn DirtyView) -> FlushAdvice;

    /// The number of dirty bytes from which on the policy wants to be asked, whatever their age.
    fn start_bytes(&self, state: &FlushState) -> u64;

    /// The most dirty bytes: an operation that would make more dirty waits until less is.
    fn limit_bytes(&self, state: &FlushState) -> u64 {
        state.capacity_bytes / 2
    }

    /// What is to be written because an operation waits for room.
    fn make_room(&mut self, _state: &FlushState, _dirty: &dyn DirtyView) -> Which {
        Which::All
    }

    /// True if the policy wants to hear of deaths.
    fn learns(&self) -> bool {
        false
    }

    /// Called before [`advise`](Self::advise) with the versions that died meanwhile.
    fn note_deaths(&mut self, _deaths: &[Death]) {}
}

/// The part of memory that survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// Nothing in memory survives a power failure.
    Nothing,
    /// A part of [`FlushState::nvram_bytes`], to which the dirty data is confined.
    Nvram,
    /// All of it: the machine has an uninterruptible power supply.
    Memory,
}

/// The smallest part that a policy names, which decides what a power failure may part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// All dirty data, always.
    Everything,
    /// A flush takes whole files.
    Files,
    /// A flush takes single blocks.
    Blocks,
}

/// Who writes back for an operation that needs room when too much is dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushBy {
    /// The flusher; the operation waits only until there is enough room.
    Flusher,
    /// The operation sends the writes itself and goes on while they are under way.
    Helper,
    /// The operation itself, which also waits until what the policy named is written: the first design
    /// of the authors of "Cut-and-paste file systems", section 5.2.
    Needer,
}

impl FlushBy {
    /// All values, for display and tests.
    pub const ALL: [FlushBy; 3] = [FlushBy::Flusher, FlushBy::Helper, FlushBy::Needer];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            FlushBy::Flusher => "flusher",
            FlushBy::Helper => "helper",
            FlushBy::Needer => "needer",
        }
    }
}

/// Makes a policy with an age limit. It may hold what it needs for that.
pub type Maker = &'static (dyn Fn(Nanos) -> Box<dyn FlushPolicy> + Send + Sync);

/// A flush policy in the registry.
pub struct FlushSpec {
    /// The default age limit: what it means depends on the policy.
    pub age_ns: Nanos,
    /// The part of memory that the policy takes for safe.
    pub survives: Survives,
    /// The smallest part that it names.
    pub grain: Grain,
    /// Who writes back for operations that need room, unless the settings choose it.
    pub by: FlushBy,
    make: Maker,
}

impl FlushSpec {
    /// A policy from outside, to be [added](Registry::add) to the [registry](REGISTRY), with its default age limit
    /// and the smallest part that it names. Nothing in memory survives for it. It is kept until the program ends.
    pub fn from_outside(
        age_ns: Nanos,
        grain: Grain,
        make: impl Fn(Nanos) -> Box<dyn FlushPolicy> + Send + Sync + 'static,
    ) -> FlushSpec {
        let (survives, make) = (Survives::Nothing, Box::leak(Box::new(make)));
        FlushSpec { age_ns, survives, grain, by: who_writes(grain), make }
    }

    /// Makes the policy with this age limit; `None` means the default one.
    pub fn make(&self, age_ns: Option<Nanos>) -> Box<dyn FlushPolicy> {
        (self.make)(age_ns.unwrap_or(self.age_ns))
    }
}

/// An entry of the registry.
macro_rules! entry {
    ($name:literal, $about:literal, $age_ns:expr, $survives:ident, $grain:ident, $make:expr $(,)?) => {
        RegistryEntry::new(
            $name,
            $about,
            FlushSpec {
                age_ns: $age_ns,
                survives: Survives::$survives,
                grain: Grain::$grain,
                by: who_writes(Grain::$grain),
                make: &$make,
            },
        )
    };
}

/// Policies that always write everything come from a time when writers helped.
const fn who_writes(grain: Grain) -> FlushBy {
    match grain {
        Grain::Everything => FlushBy::Helper,
        Grain::Files | Grain::Blocks => FlushBy::Flusher,
    }
}

/// All policies.
pub static REGISTRY: Registry<FlushSpec> = Registry::with_default(
    "flush policy",
    "segment",
    &[
        entry!(
            "segment",
            "as soon as eight units of the layout (segments) are dirty, or data is 5 s old",
            5 * SECS,
            Nothing,
            Everything,
            |age_ns| Box::new(segment::Segment { age_ns }),
        ),
        entry!(
            "delayed",
            "as soon as data is 30 s old, or when a quarter of the cache is dirty (the UNIX update daemon)",
            30 * SECS,
            Nothing,
            Everything,
            |age_ns| Box::new(delayed::Delayed { age_ns }),
        ),
        entry!(
            "update",
            "every 5 s the files with a block of 30 s, as SVR4 does it",
            30 * SECS,
            Nothing,
            Files,
            |age_ns| Box::new(update::Update { age_ns, next: Time(0) }),
        ),
        entry!(
            "watermarks",
            "every 5 s files of 30 s, from a tenth of the cache on the oldest at once; writers wait at a fifth (Linux)",
            30 * SECS,
            Nothing,
            Files,
            |age_ns| {
                let expiry = update::Update { age_ns, next: Time(0) };
                Box::new(watermarks::Watermarks { expiry })
            },
        ),
        entry!(
            "eager",
            "files that have not changed for 1 s, the oldest at once from an eighth of the cache on",
            SECS,
            Nothing,
            Files,
            |age_ns| Box::new(eager::Eager { age_ns }),
        ),
        entry!(
            "twin",
            "learns how soon what is written dies, and writes at once what lives; \
             flush-age is what a written byte may cost, in seconds of a byte at risk",
            5 * SECS,
            Nothing,
            Blocks,
            |age_ns| Box::new(twin::Twin::new(age_ns)),
        ),
        entry!(
            "ups",
            "only when memory is needed: all of it survives a power failure",
            0,
            Memory,
            Files,
            |_| Box::new(ups::Ups),
        ),
        entry!(
            "nvram-file",
            "dirty data is in memory that survives a power failure, of nvram bytes; \
             when that is full the file of the oldest block is written",
            0,
            Nvram,
            Files,
            |_| Box::new(nvram::Nvram { whole_files: true }),
        ),
        entry!(
            "nvram-block",
            "as nvram-file, but the oldest block alone is written",
            0,
            Nvram,
            Blocks,
            |_| Box::new(nvram::Nvram { whole_files: false }),
        ),
        entry!(
            "buffers",
            "as soon as data is 30 s old, or when a quarter of the buffers less ten are dirty, with a buffer for each 4 KB of the cache (4.4BSD-LFS of 1992 and of the paper of 1995)",
            30 * SECS,
            Nothing,
            Everything,
            |age_ns| Box::new(buffers::Buffers { age_ns, one_in: 4 }),
        ),
        entry!(
            "half-buffers",
            "as buffers, but when a half of them less ten are dirty (4.4BSD-LFS from December 1992 on)",
            30 * SECS,
            Nothing,
            Everything,
            |age_ns| Box::new(buffers::Buffers { age_ns, one_in: 2 }),
        ),
    ],
);

/// How often policies look that do so at intervals: the interval of SVR4's `fsflush` and of Linux's
/// flusher.
const LOOK_NS: Nanos = 5 * SECS;

/// The shortest time between two looks of a policy that looks for what is due.
const SHORTEST_LOOK_NS: Nanos = 50 * MILLIS;

/// The file that became dirty first, and when.
fn oldest_file(dirty: &dyn DirtyView) -> Option<DirtyFile> {
    let mut oldest = None;
    dirty.files(&mut |file| {
        oldest = Some(*file);
        false
    });
    oldest
}

/// The oldest files with together at least `bytes` of dirty blocks, or all of them. Files without
/// dirty blocks come along.
fn oldest_files(dirty: &dyn DirtyView, bytes: u64) -> Which {
    let (mut files, mut sum) = (Vec::new(), 0);
    dirty.files(&mut |file| {
        files.push(file.ino);
        sum += file.bytes;
        sum < bytes
    });
    Which::Files(files)
}

/// The advice to write the oldest files until at most `start_bytes` are dirty, if more are.
fn write_surplus(
    start_bytes: u64,
    state: &FlushState,
    dirty: &dyn DirtyView,
) -> Option<FlushAdvice> {
    let surplus = state.dirty_bytes.checked_sub(start_bytes).filter(|&bytes| bytes > 0)?;
    Some(FlushAdvice::Write(oldest_files(dirty, surplus.max(state.unit_bytes))))
}
