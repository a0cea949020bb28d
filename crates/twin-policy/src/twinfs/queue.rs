//! Disk queues: the order in which waiting requests are served.

use std::ffi::c_void;

use super::{Module, answer, drop_it, kind, made, number, tell, with};

/// A read or write that waits.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name; names are used again.
    pub id: u32,
    /// 1 for a write, 0 for a read.
    pub writes: u32,
    /// The order of arrival.
    pub seq: u64,
    /// First byte on the device, and bytes.
    pub at: u64,
    pub len: u64,
    pub arrived_ns: u64,
    /// When its maker needs it; `u64::MAX` if that is not known.
    pub deadline_ns: u64,
}

/// What a queue can see when it chooses.
#[repr(C)]
pub struct Head {
    /// The time at which the device is free.
    pub now_ns: u64,
    /// The byte behind the request that was started last.
    pub head_at: u64,
    pub context: *const c_void,
    pub reach_ns: unsafe extern "C" fn(*const c_void, &Waiting) -> u64,
}

impl Head {
    /// How long the device would take before the first byte of a request moves, in ns; where that is not known, the
    /// distance in bytes.
    pub fn positioning(&self, request: &Waiting) -> u64 {
        // SAFETY: twinfs answers for its own context as long as this value is lent.
        unsafe { (self.reach_ns)(self.context, request) }
    }
}

/// An order of service. Requests for one address must keep their order.
pub trait Queue: Sized {
    fn new() -> Self;
    /// A request has arrived.
    fn push(&mut self, request: Waiting);
    /// Takes the request to serve next, and returns its `id`; none if none waits.
    fn pop(&mut self, head: &Head) -> Option<u32>;
}

#[repr(C)]
pub struct Hooks {
    pub make: unsafe extern "C" fn() -> *mut c_void,
    pub drop: unsafe extern "C" fn(*mut c_void),
    pub push: unsafe extern "C" fn(*mut c_void, &Waiting) -> i64,
    pub pop: unsafe extern "C" fn(*mut c_void, &Head) -> i64,
}

struct Of<P>(std::marker::PhantomData<P>);

impl<P: Queue> Of<P> {
    const HOOKS: &'static Hooks =
        &Hooks { make: make::<P>, drop: drop_it::<P>, push: push::<P>, pop: pop::<P> };
}

pub const fn module<P: Queue>(name: &'static str, about: &'static str) -> Module {
    Module::of(kind::QUEUE, name, about, std::ptr::from_ref(Of::<P>::HOOKS).cast())
}

unsafe extern "C" fn make<P: Queue>() -> *mut c_void {
    made(P::new)
}
unsafe extern "C" fn push<P: Queue>(p: *mut c_void, request: &Waiting) -> i64 {
    // SAFETY: here and below the caller gives a policy that `make` returned.
    unsafe { tell(p, |p: &mut P| p.push(*request)) }
}
unsafe extern "C" fn pop<P: Queue>(p: *mut c_void, head: &Head) -> i64 {
    unsafe { with(p, answer::PANICKED, |p: &mut P| number(p.pop(head))) }
}
