//! Replacement policies: which clean frame leaves the cache.

use std::ffi::c_void;

use super::{Module, answer, drop_it, kind, made, number, tell, with};

/// The cache that a policy is made for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// What it holds: frames, or bytes of objects.
    pub units: u64,
    /// The mean weight of an item, at least 1.
    pub mean: u64,
}

/// What a frame holds.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The inode number of the file.
    pub file: u64,
    /// The block in it; in studies of recorded accesses the number of the block or object.
    pub block: i64,
    /// How much of the capacity it takes: 1 for a block.
    pub weight: u32,
}

/// Why a frame is no longer ranked.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was the victim.
    Evicted,
    /// It became dirty. It stays in memory until it is [cleaned](Replacement::cleaned) or dropped.
    Dirtied,
    /// It was dropped, not by the policy's choice.
    Dropped,
}

/// Ranks clean frames, which it knows by their slots. For a block that is in no frame the cache calls `missed`, then
/// `victim` and `removed` until there is room, then `inserted`.
pub trait Replacement: Sized {
    /// A policy for a cache that is empty.
    fn new(capacity: Capacity) -> Self;
    /// A block is in no frame. False if a study need not keep it; a cache keeps it all the same.
    fn missed(&mut self, _item: Item) -> bool {
        true
    }
    /// A frame was added.
    fn inserted(&mut self, slot: u32, item: Item);
    /// A frame that was [dirty](Removal::Dirtied) is clean again.
    fn cleaned(&mut self, slot: u32, item: Item) {
        self.inserted(slot, item);
    }
    /// A frame is used.
    fn touched(&mut self, slot: u32);
    /// A frame is no longer to be ranked; told again when it is dropped while it is dirty.
    fn removed(&mut self, slot: u32, why: Removal);
    /// The frame to evict, among those that were added and not removed, and for which `usable` returns true.
    fn victim(&mut self, usable: &mut dyn FnMut(u32) -> bool) -> Option<u32>;
    /// The cache has another capacity from now on.
    fn resized(&mut self, _capacity: Capacity) {}
}

/// A question about a slot: a function and its context.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Usable {
    pub context: *mut c_void,
    pub ask: unsafe extern "C" fn(context: *mut c_void, slot: u32) -> bool,
}

#[repr(C)]
pub struct Hooks {
    pub make: unsafe extern "C" fn(Capacity) -> *mut c_void,
    pub drop: unsafe extern "C" fn(*mut c_void),
    pub missed: unsafe extern "C" fn(*mut c_void, &Item) -> i64,
    pub inserted: unsafe extern "C" fn(*mut c_void, u32, &Item) -> i64,
    pub cleaned: unsafe extern "C" fn(*mut c_void, u32, &Item) -> i64,
    pub touched: unsafe extern "C" fn(*mut c_void, u32) -> i64,
    pub removed: unsafe extern "C" fn(*mut c_void, u32, Removal) -> i64,
    pub victim: unsafe extern "C" fn(*mut c_void, Usable) -> i64,
    pub resized: unsafe extern "C" fn(*mut c_void, Capacity) -> i64,
}

struct Of<P>(std::marker::PhantomData<P>);

impl<P: Replacement> Of<P> {
    const HOOKS: &'static Hooks = &Hooks {
        make: make::<P>,
        drop: drop_it::<P>,
        missed: missed::<P>,
        inserted: inserted::<P>,
        cleaned: cleaned::<P>,
        touched: touched::<P>,
        removed: removed::<P>,
        victim: victim::<P>,
        resized: resized::<P>,
    };
}

pub const fn module<P: Replacement>(name: &'static str, about: &'static str) -> Module {
    Module::of(kind::REPLACEMENT, name, about, std::ptr::from_ref(Of::<P>::HOOKS).cast())
}

unsafe extern "C" fn make<P: Replacement>(capacity: Capacity) -> *mut c_void {
    made(|| P::new(capacity))
}
unsafe extern "C" fn missed<P: Replacement>(p: *mut c_void, item: &Item) -> i64 {
    let keeps = |p: &mut P| if p.missed(*item) { answer::YES } else { answer::NO };
    // SAFETY: here and below the caller gives a policy that `make` returned.
    unsafe { with(p, answer::PANICKED, keeps) }
}
unsafe extern "C" fn inserted<P: Replacement>(p: *mut c_void, slot: u32, item: &Item) -> i64 {
    unsafe { tell(p, |p: &mut P| p.inserted(slot, *item)) }
}
unsafe extern "C" fn cleaned<P: Replacement>(p: *mut c_void, slot: u32, item: &Item) -> i64 {
    unsafe { tell(p, |p: &mut P| p.cleaned(slot, *item)) }
}
unsafe extern "C" fn touched<P: Replacement>(p: *mut c_void, slot: u32) -> i64 {
    unsafe { tell(p, |p: &mut P| p.touched(slot)) }
}
unsafe extern "C" fn removed<P: Replacement>(p: *mut c_void, slot: u32, why: Removal) -> i64 {
    unsafe { tell(p, |p: &mut P| p.removed(slot, why)) }
}
unsafe extern "C" fn victim<P: Replacement>(p: *mut c_void, usable: Usable) -> i64 {
    // SAFETY: the question may be asked until this hook returns.
    let mut ask = |slot: u32| unsafe { (usable.ask)(usable.context, slot) };
    unsafe { with(p, answer::PANICKED, |p: &mut P| number(p.victim(&mut ask))) }
}
unsafe extern "C" fn resized<P: Replacement>(p: *mut c_void, capacity: Capacity) -> i64 {
    unsafe { tell(p, |p: &mut P| p.resized(capacity)) }
}
