//! Trigger policies: when the cleaner works.

use std::ffi::c_void;

use super::{Module, answer, drop_it, kind, made, tell, with};

/// What a policy on the moment of cleaning decides from.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerInput {
    pub now_ns: u64,
    /// Since when the device has had no user requests; `u64::MAX` while it has some.
    pub idle_since_ns: u64,
    pub clean_segments: u32,
    pub segments: u32,
    /// Clean segments below which writers wait.
    pub reserve_segments: u32,
    /// About how long it takes to clean one more segment.
    pub step_ns: u64,
}

/// When to clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// One segment now; then the policy is asked again.
    Now,
    /// Not before this moment, unless something changes.
    At(u64),
    /// Not until something changes.
    Wait,
}

/// Decides when the cleaner works.
pub trait Trigger: Sized {
    fn new() -> Self;
    fn decide(&mut self, input: &TriggerInput) -> When;
    /// A user's request has ended an idle time of this length.
    fn idle_ended(&mut self, _idle_ns: u64) {}
}

#[repr(C)]
pub struct Hooks {
    pub make: unsafe extern "C" fn() -> *mut c_void,
    pub drop: unsafe extern "C" fn(*mut c_void),
    /// Answers yes for now, no for waiting, 0 for the moment that it writes.
    pub decide: unsafe extern "C" fn(*mut c_void, &TriggerInput, &mut u64) -> i64,
    pub idle_ended: unsafe extern "C" fn(*mut c_void, u64) -> i64,
}

struct Of<P>(std::marker::PhantomData<P>);

impl<P: Trigger> Of<P> {
    const HOOKS: &'static Hooks = &Hooks {
        make: make::<P>,
        drop: drop_it::<P>,
        decide: decide::<P>,
        idle_ended: idle_ended::<P>,
    };
}

pub const fn module<P: Trigger>(name: &'static str, about: &'static str) -> Module {
    Module::of(kind::TRIGGER, name, about, std::ptr::from_ref(Of::<P>::HOOKS).cast())
}

unsafe extern "C" fn make<P: Trigger>() -> *mut c_void {
    made(P::new)
}
unsafe extern "C" fn decide<P: Trigger>(p: *mut c_void, input: &TriggerInput, at: &mut u64) -> i64 {
    let decide = |p: &mut P| match p.decide(input) {
        When::Now => answer::YES,
        When::Wait => answer::NO,
        When::At(then) => {
            *at = then;
            0
        }
    };
    // SAFETY: here and below the caller gives a policy that `make` returned.
    unsafe { with(p, answer::PANICKED, decide) }
}
unsafe extern "C" fn idle_ended<P: Trigger>(p: *mut c_void, idle_ns: u64) -> i64 {
    unsafe { tell(p, |p: &mut P| p.idle_ended(idle_ns)) }
}
