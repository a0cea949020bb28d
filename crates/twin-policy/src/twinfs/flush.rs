//! Flush policies: which dirty data is written back, when, and who waits for it.

use std::ffi::c_void;

use super::{Module, answer, drop_it, kind, made, tell, with};

/// The time that stands for none.
pub const NEVER: u64 = u64::MAX;

/// The amounts of dirty data.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub dirty_bytes: u64,
    /// Dirty bytes of data blocks, in whole frames.
    pub data_bytes: u64,
    /// Bytes of a frame of the cache.
    pub frame_bytes: u64,
    /// When the oldest became dirty; [`NEVER`] if nothing is.
    pub oldest_ns: u64,
    /// Bytes of the cache.
    pub capacity_bytes: u64,
    /// What the layout prefers to write at once: a segment or a cluster.
    pub unit_bytes: u64,
    /// Bytes for which operations wait.
    pub wanted_bytes: u64,
}

/// A dirty block of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyBlock {
    /// The inode number of its file.
    pub file: u64,
    pub block: i64,
    /// When it became dirty.
    pub since_ns: u64,
    /// When its content last changed.
    pub changed_ns: u64,
    /// How long the content before this one lived; [`NEVER`] if this is the first in memory.
    pub last_life_ns: u64,
}

/// A file with changes in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyFile {
    /// Its inode number.
    pub file: u64,
    /// When it became dirty.
    pub since_ns: u64,
    /// When it last changed.
    pub changed_ns: u64,
    /// Bytes of its dirty blocks.
    pub bytes: u64,
    pub is_dir: bool,
}

/// Called for one after another, until it returns false.
type Visit<T> = unsafe extern "C" fn(context: *mut c_void, of: &T) -> bool;
type Each<T> = unsafe extern "C" fn(dirty: *const c_void, visitor: *mut c_void, visit: Visit<T>);

/// The dirty data of a volume.
#[repr(C)]
pub struct Dirty {
    pub context: *const c_void,
    pub each_block: Each<DirtyBlock>,
    pub each_file: Each<DirtyFile>,
    /// The byte on the device where a block lies now; [`NEVER`] if it has no place.
    pub place_of: unsafe extern "C" fn(*const c_void, u64, i64) -> u64,
}

unsafe extern "C" fn visit<T>(visitor: *mut c_void, of: &T) -> bool {
    // SAFETY: `each` below gives a pointer to such a reference, which lives until its call returns.
    let visitor = unsafe { &mut *visitor.cast::<&mut dyn FnMut(&T) -> bool>() };
    visitor(of)
}

impl Dirty {
    /// Calls `f` for dirty blocks, from the one that became dirty first, until it returns false.
    pub fn blocks(&self, mut f: impl FnMut(&DirtyBlock) -> bool) {
        self.each(self.each_block, &mut f);
    }

    /// Calls `f` for dirty files, from the one that became dirty first, until it returns false.
    pub fn files(&self, mut f: impl FnMut(&DirtyFile) -> bool) {
        self.each(self.each_file, &mut f);
    }

    fn each<T>(&self, each: Each<T>, f: &mut dyn FnMut(&T) -> bool) {
        // A panic may not cross twinfs: it is kept, and goes on behind the call.
        let mut panic = None;
        let mut guarded = |of: &T| {
            let called = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(of)));
            called.unwrap_or_else(|what| {
                panic = Some(what);
                false
            })
        };
        let mut visitor: &mut dyn FnMut(&T) -> bool = &mut guarded;
        // SAFETY: twinfs answers for its own context as long as this value is lent, and calls before it returns.
        unsafe { each(self.context, (&raw mut visitor).cast(), visit::<T>) };
        if let Some(what) = panic {
            std::panic::resume_unwind(what);
        }
    }

    /// The byte on the device where a block lies now.
    pub fn place(&self, file: u64, block: i64) -> Option<u64> {
        // SAFETY: as above.
        let place = unsafe { (self.place_of)(self.context, file, block) };
        (place != NEVER).then_some(place)
    }
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    All,
    /// The files that became dirty at this time or before.
    UpTo(u64),
    Files(Vec<u64>),
    /// Files and blocks in them.
    Blocks(Vec<(u64, i64)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Write this now.
    Write(Which),
    /// Ask again at this time, or when there are enough dirty bytes to start.
    WaitUntil(u64),
    /// Ask again when something has changed.
    Wait,
}

/// The smallest part that a policy names, which decides what a power failure may part.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    Everything,
    Files,
    Blocks,
}

/// Decides what is written back, and when. Times are nanoseconds.
pub trait Flush: Sized {
    /// The default of the age limit (`flush-age`).
    const AGE_NS: u64;
    const GRAIN: Grain;
    fn new(age_ns: u64) -> Self;
    fn advise(&mut self, now_ns: u64, state: &State, dirty: &Dirty) -> Advice;
    /// The dirty bytes from which on it wants to be asked, whatever their age.
    fn start_bytes(&self, state: &State) -> u64;
    /// The most dirty bytes: whoever would make more waits.
    fn limit_bytes(&self, state: &State) -> u64 {
        state.capacity_bytes / 2
    }
    /// What is to be written because an operation waits for room.
    fn make_room(&mut self, _state: &State, _dirty: &Dirty) -> Which {
        Which::All
    }
}

/// How an advice is told.
pub mod advice {
    pub const WAIT: i64 = 0;
    pub const ALL: i64 = 1;
    pub const UP_TO: i64 = 2;
    pub const FILES: i64 = 3;
    pub const BLOCKS: i64 = 4;
    pub const WAIT_UNTIL: i64 = 5;
}

/// Where an advice is put: a time, and what is called for each file or block.
#[repr(C)]
pub struct Put {
    pub time_ns: u64,
    pub context: *mut c_void,
    pub add: unsafe extern "C" fn(context: *mut c_void, file: u64, block: i64),
}

impl Put {
    fn advice(&mut self, advice: Advice) -> i64 {
        match advice {
            Advice::Wait => advice::WAIT,
            Advice::WaitUntil(time) => {
                self.time_ns = time;
                advice::WAIT_UNTIL
            }
            Advice::Write(which) => self.which(which),
        }
    }

    fn which(&mut self, which: Which) -> i64 {
        // SAFETY: twinfs answers for its own context as long as this value is lent.
        let add = |file, block| unsafe { (self.add)(self.context, file, block) };
        match which {
            Which::All => advice::ALL,
            Which::UpTo(time) => {
                self.time_ns = time;
                advice::UP_TO
            }
            Which::Files(files) => {
                files.into_iter().for_each(|file| add(file, 0));
                advice::FILES
            }
            Which::Blocks(blocks) => {
                blocks.into_iter().for_each(|(file, block)| add(file, block));
                advice::BLOCKS
            }
        }
    }
}

#[repr(C)]
pub struct Hooks {
    pub make: unsafe extern "C" fn(u64) -> *mut c_void,
    pub drop: unsafe extern "C" fn(*mut c_void),
    pub advise: unsafe extern "C" fn(*mut c_void, u64, &State, &Dirty, &mut Put) -> i64,
    pub make_room: unsafe extern "C" fn(*mut c_void, &State, &Dirty, &mut Put) -> i64,
    pub start_bytes: unsafe extern "C" fn(*mut c_void, &State, &mut u64) -> i64,
    pub limit_bytes: unsafe extern "C" fn(*mut c_void, &State, &mut u64) -> i64,
    pub age_ns: u64,
    /// The number of its grain.
    pub grain: u32,
}

struct Of<P>(std::marker::PhantomData<P>);

impl<P: Flush> Of<P> {
    const HOOKS: &'static Hooks = &Hooks {
        make: make::<P>,
        drop: drop_it::<P>,
        advise: advise::<P>,
        make_room: make_room::<P>,
        start_bytes: start_bytes::<P>,
        limit_bytes: limit_bytes::<P>,
        age_ns: P::AGE_NS,
        grain: P::GRAIN as u32,
    };
}

pub const fn module<P: Flush>(name: &'static str, about: &'static str) -> Module {
    Module::of(kind::FLUSH, name, about, std::ptr::from_ref(Of::<P>::HOOKS).cast())
}

unsafe extern "C" fn make<P: Flush>(age_ns: u64) -> *mut c_void {
    made(|| P::new(age_ns))
}
unsafe extern "C" fn advise<P: Flush>(
    p: *mut c_void,
    now_ns: u64,
    state: &State,
    dirty: &Dirty,
    put: &mut Put,
) -> i64 {
    // SAFETY: here and below the caller gives a policy that `make` returned.
    unsafe { with(p, answer::PANICKED, |p: &mut P| put.advice(p.advise(now_ns, state, dirty))) }
}
unsafe extern "C" fn make_room<P: Flush>(
    p: *mut c_void,
    state: &State,
    dirty: &Dirty,
    put: &mut Put,
) -> i64 {
    unsafe { with(p, answer::PANICKED, |p: &mut P| put.which(p.make_room(state, dirty))) }
}
unsafe extern "C" fn start_bytes<P: Flush>(p: *mut c_void, state: &State, bytes: &mut u64) -> i64 {
    unsafe { tell(p, |p: &mut P| *bytes = p.start_bytes(state)) }
}
unsafe extern "C" fn limit_bytes<P: Flush>(p: *mut c_void, state: &State, bytes: &mut u64) -> i64 {
    unsafe { tell(p, |p: &mut P| *bytes = p.limit_bytes(state)) }
}
