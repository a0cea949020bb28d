//! Victim policies: which segment of a log is cleaned next.

use std::ffi::c_void;

use super::log::{Log, Setting, needs};
use super::{Module, answer, drop_it, kind, made, number, with};

/// Chooses segments to clean.
pub trait Victim: Sized {
    /// What it [needs].
    const NEEDS: u32 = needs::NOTHING;
    fn new(setting: Setting) -> Self;
    /// The segment to clean next, one of the [candidates](Log::candidates).
    fn choose(&mut self, log: &Log) -> Option<u32>;
}

#[repr(C)]
pub struct Hooks {
    pub make: unsafe extern "C" fn(&Setting) -> *mut c_void,
    pub drop: unsafe extern "C" fn(*mut c_void),
    pub choose: unsafe extern "C" fn(*mut c_void, &Log) -> i64,
    pub needs: u32,
}

struct Of<P>(std::marker::PhantomData<P>);

impl<P: Victim> Of<P> {
    const HOOKS: &'static Hooks =
        &Hooks { make: make::<P>, drop: drop_it::<P>, choose: choose::<P>, needs: P::NEEDS };
}

pub const fn module<P: Victim>(name: &'static str, about: &'static str) -> Module {
    Module::of(kind::VICTIM, name, about, std::ptr::from_ref(Of::<P>::HOOKS).cast())
}

unsafe extern "C" fn make<P: Victim>(setting: &Setting) -> *mut c_void {
    made(|| P::new(*setting))
}
unsafe extern "C" fn choose<P: Victim>(p: *mut c_void, log: &Log) -> i64 {
    // SAFETY: the caller gives a policy that `make` returned.
    unsafe { with(p, answer::PANICKED, |p: &mut P| number(p.choose(log))) }
}
