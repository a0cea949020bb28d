//! Placement policies: which blocks of a log are written together.

use std::ffi::c_void;

use super::log::{Log, Segment, Setting, needs};
use super::{Module, answer, drop_it, kind, made, tell, with};

/// A block that is written to the log: by a user, or by the cleaner that moves it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub block: u32,
    /// The segment with its copy so far; `u32::MAX` for none.
    pub old_segment: u32,
    /// The class of that segment, of a block that the cleaner moves.
    pub old_class: u32,
    /// 0: data, 1: directory, 2: inodes, 3: inode of a directory, 4: pointers.
    pub kind: u32,
}

/// Chooses the class of each block that is written: one segment is open for each class. It may keep 64 bits with each
/// block, its word, which is 0 at first.
pub trait Placement: Sized {
    const NEEDS: u32 = needs::NOTHING;
    /// The least and the most classes with which it works; at most 64.
    const CLASSES: (u8, u8);
    /// True if it keeps words with blocks.
    const WORDS: bool = false;
    fn new(setting: Setting) -> Self;
    /// The class of a block that a user writes.
    fn user_write(&mut self, write: &Write, word: &mut u64, log: &Log) -> u8;
    /// The class of a block that the cleaner moves.
    fn cleaner_write(&mut self, write: &Write, word: &mut u64, log: &Log) -> u8;
    /// A block from before the policy was made is about to be written or moved for the first time.
    fn import_block(&mut self, _written_at: u64, _word: &mut u64, _log: &Log) {}
    /// A user's request; calls for its blocks follow.
    fn request(&mut self, _first_block: u32, _blocks: u32, _log: &Log) {}
    /// A block was deleted.
    fn trimmed(&mut self, _block: u32, _old_segment: u32, _word: &mut u64, _log: &Log) {}
    /// A segment is full.
    fn sealed(&mut self, _segment: &Segment, _log: &Log) {}
    /// A segment is about to be cleaned.
    fn collected(&mut self, _segment: &Segment, _log: &Log) {}
}

#[repr(C)]
pub struct Hooks {
    pub make: unsafe extern "C" fn(&Setting) -> *mut c_void,
    pub drop: unsafe extern "C" fn(*mut c_void),
    pub user_write: unsafe extern "C" fn(*mut c_void, &Write, &mut u64, &Log) -> i64,
    pub cleaner_write: unsafe extern "C" fn(*mut c_void, &Write, &mut u64, &Log) -> i64,
    pub import_block: unsafe extern "C" fn(*mut c_void, u64, &mut u64, &Log) -> i64,
    pub request: unsafe extern "C" fn(*mut c_void, u32, u32, &Log) -> i64,
    pub trimmed: unsafe extern "C" fn(*mut c_void, u32, u32, &mut u64, &Log) -> i64,
    pub sealed: unsafe extern "C" fn(*mut c_void, &Segment, &Log) -> i64,
    pub collected: unsafe extern "C" fn(*mut c_void, &Segment, &Log) -> i64,
    pub needs: u32,
    pub least_classes: u32,
    pub most_classes: u32,
    pub keeps_words: bool,
}

struct Of<P>(std::marker::PhantomData<P>);

impl<P: Placement> Of<P> {
    const HOOKS: &'static Hooks = &Hooks {
        make: make::<P>,
        drop: drop_it::<P>,
        user_write: user_write::<P>,
        cleaner_write: cleaner_write::<P>,
        import_block: import_block::<P>,
        request: request::<P>,
        trimmed: trimmed::<P>,
        sealed: sealed::<P>,
        collected: collected::<P>,
        needs: P::NEEDS,
        least_classes: P::CLASSES.0 as u32,
        most_classes: P::CLASSES.1 as u32,
        keeps_words: P::WORDS,
    };
}

pub const fn module<P: Placement>(name: &'static str, about: &'static str) -> Module {
    Module::of(kind::PLACEMENT, name, about, std::ptr::from_ref(Of::<P>::HOOKS).cast())
}

unsafe extern "C" fn make<P: Placement>(setting: &Setting) -> *mut c_void {
    made(|| P::new(*setting))
}
unsafe extern "C" fn user_write<P: Placement>(
    p: *mut c_void,
    write: &Write,
    word: &mut u64,
    log: &Log,
) -> i64 {
    // SAFETY: here and below the caller gives a policy that `make` returned.
    unsafe { with(p, answer::PANICKED, |p: &mut P| p.user_write(write, word, log).into()) }
}
unsafe extern "C" fn cleaner_write<P: Placement>(
    p: *mut c_void,
    write: &Write,
    word: &mut u64,
    log: &Log,
) -> i64 {
    unsafe { with(p, answer::PANICKED, |p: &mut P| p.cleaner_write(write, word, log).into()) }
}
unsafe extern "C" fn import_block<P: Placement>(
    p: *mut c_void,
    written_at: u64,
    word: &mut u64,
    log: &Log,
) -> i64 {
    unsafe { tell(p, |p: &mut P| p.import_block(written_at, word, log)) }
}
unsafe extern "C" fn request<P: Placement>(
    p: *mut c_void,
    first_block: u32,
    blocks: u32,
    log: &Log,
) -> i64 {
    unsafe { tell(p, |p: &mut P| p.request(first_block, blocks, log)) }
}
unsafe extern "C" fn trimmed<P: Placement>(
    p: *mut c_void,
    block: u32,
    old_segment: u32,
    word: &mut u64,
    log: &Log,
) -> i64 {
    unsafe { tell(p, |p: &mut P| p.trimmed(block, old_segment, word, log)) }
}
unsafe extern "C" fn sealed<P: Placement>(p: *mut c_void, segment: &Segment, log: &Log) -> i64 {
    unsafe { tell(p, |p: &mut P| p.sealed(segment, log)) }
}
unsafe extern "C" fn collected<P: Placement>(p: *mut c_void, segment: &Segment, log: &Log) -> i64 {
    unsafe { tell(p, |p: &mut P| p.collected(segment, log)) }
}
