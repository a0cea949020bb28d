//! The interface between twinfs and a policy in a module of its own, a shared library that twinfs loads.
//!
//! Contract: this file and the one of a kind of policy are all that a module needs. They are the same on both sides:
//! modules contain a copy of them, and twinfs is built with them. Implement the trait of the kind and name the type
//! once:
//!
//! ```ignore
//! crate::export!(replacement, "my-policy", "what it does, in one line", MyPolicy);
//! ```
//!
//! Whatever crosses the border is plain data and functions of C's calling convention. A panic ends at the border:
//! twinfs is told, and fails the run with its words. A module is native code with all rights of the program, and is
//! as safe as you make it: twinfs checks what it answers, not what it does.
//!
//! A policy is used by one thread, and must answer the same for the same calls: it draws from the seed that it
//! gets, not from clocks or addresses.

#![allow(dead_code, unsafe_code, missing_docs, clippy::missing_safety_doc)]

pub mod flush;
pub mod log;
pub mod placement;
pub mod queue;
pub mod replacement;
pub mod trigger;
pub mod victim;

use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The version of this interface. twinfs loads modules of this version only.
pub const ABI: u32 = 1;
/// The version of twinfs that this file comes from.
pub const TWINFS: &str = "0.1.0";
/// The name under which a module exports its [`Module`].
pub const SYMBOL: &str = "twinfs_policy";

/// What a hook answers besides numbers.
pub mod answer {
    /// No, or none, or nothing to say.
    pub const NO: i64 = -1;
    /// The policy panicked; [`Module::words`](super::Module) has the words.
    pub const PANICKED: i64 = -2;
    /// Yes, or done.
    pub const YES: i64 = 1;
}

/// A text that is not changed while the module is loaded.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    pub start: *const u8,
    pub bytes: usize,
}

impl Text {
    pub const fn of(text: &'static str) -> Text {
        Text { start: text.as_ptr(), bytes: text.len() }
    }
}

/// The kinds of policies, by their numbers at the border.
pub mod kind {
    pub const REPLACEMENT: u32 = 1;
    pub const FLUSH: u32 = 2;
    pub const VICTIM: u32 = 3;
    pub const PLACEMENT: u32 = 4;
    pub const TRIGGER: u32 = 5;
    pub const QUEUE: u32 = 6;
}

/// What a module says of itself. The first two fields are the same in all versions.
#[repr(C)]
pub struct Module {
    pub abi: u32,
    pub built_with: Text,
    pub kind: u32,
    pub name: Text,
    pub about: Text,
    /// The hooks of its kind.
    pub hooks: *const c_void,
    /// Writes the words of the last panic of this thread into a buffer; returns how many bytes.
    pub words: unsafe extern "C" fn(buffer: *mut u8, bytes: usize) -> usize,
}

// SAFETY: a module is constant, and all that it points to is.
unsafe impl Sync for Module {}

impl Module {
    pub const fn of(
        kind: u32,
        name: &'static str,
        about: &'static str,
        hooks: *const c_void,
    ) -> Module {
        let (name, about, built_with) = (Text::of(name), Text::of(about), Text::of(TWINFS));
        Module { abi: ABI, built_with, kind, name, about, hooks, words }
    }
}

/// Exports a policy: its kind, its name, what it does, and its type.
#[macro_export]
macro_rules! export {
    ($kind:ident, $name:literal, $about:literal, $policy:ty) => {
        /// What twinfs finds when it loads this module.
        #[unsafe(export_name = "twinfs_policy")]
        pub static TWINFS_POLICY: $crate::twinfs::Module =
            $crate::twinfs::$kind::module::<$policy>($name, $about);
    };
}

thread_local! {
    static WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

unsafe extern "C" fn words(buffer: *mut u8, bytes: usize) -> usize {
    WORDS.with_borrow(|words| {
        let bytes = bytes.min(words.len());
        // SAFETY: the caller has a buffer of this many bytes, which is its own.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), buffer, bytes) };
        bytes
    })
}

/// Calls `f`; a panic ends here.
fn guarded<T>(panicked: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|what| {
        let text = what.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| what.downcast_ref::<&str>().copied());
        WORDS.with_borrow_mut(|words| text.unwrap_or("a panic without words").clone_into(words));
        panicked
    })
}

/// Calls `f` with a policy.
///
/// # Safety
/// `policy` is one that [`made`] returned for a `P`, and nobody else uses it meanwhile.
unsafe fn with<P, T>(policy: *mut c_void, panicked: T, f: impl FnOnce(&mut P) -> T) -> T {
    // SAFETY: as the caller says.
    let policy = unsafe { &mut *policy.cast::<P>() };
    guarded(panicked, || f(policy))
}

/// As [`with`], for a hook that answers nothing.
unsafe fn tell<P>(policy: *mut c_void, f: impl FnOnce(&mut P)) -> i64 {
    let done = |policy: &mut P| {
        f(policy);
        answer::YES
    };
    // SAFETY: as the caller says.
    unsafe { with(policy, answer::PANICKED, done) }
}

fn made<P>(make: impl FnOnce() -> P) -> *mut c_void {
    guarded(std::ptr::null_mut(), || Box::into_raw(Box::new(make())).cast())
}

unsafe extern "C" fn drop_it<P>(policy: *mut c_void) {
    // SAFETY: the caller gives back what `made` returned, once.
    guarded((), || drop(unsafe { Box::from_raw(policy.cast::<P>()) }));
}

fn number(found: Option<u32>) -> i64 {
    found.map_or(answer::NO, i64::from)
}
