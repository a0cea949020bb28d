//! The lessons for WebAssembly: one [`Session`] behind pointers and lengths, without a generated binding.
//!
//! Contract: the page takes a buffer ([`twin_take`]), puts a command there, calls [`twin_call`], and reads the answer
//! at [`twin_answer`]. There is one session and one thread. All that is decided is in
//! [`twin_lessons`]; this crate only passes bytes over the border. Natively it is a crate like any other, so that its
//! tests need no target of their own.

#![allow(unsafe_code)] // The border to the page, which the compiler does not guard.

use std::cell::RefCell;

use twin_lessons::Session;

#[derive(Default)]
struct Border {
    session: Session,
    given: Vec<u8>,
    answer: Vec<u8>,
}

thread_local! {
    static BORDER: RefCell<Border> = RefCell::default();
}

/// A place for so many bytes of a command or an image. It is valid until the next call of this function.
// SAFETY: no other symbol of the module has this name, so the page finds this function and no other.
#[unsafe(no_mangle)]
pub extern "C" fn twin_take(len: usize) -> *mut u8 {
    BORDER.with_borrow_mut(|border| {
        border.given.clear();
        border.given.resize(len, 0);
        border.given.as_mut_ptr()
    })
}

/// Carries out the command that was put at the place; returns the length of the answer.
// SAFETY: as for `twin_take`.
#[unsafe(no_mangle)]
pub extern "C" fn twin_call() -> usize {
    BORDER.with_borrow_mut(|border| {
        let command = String::from_utf8_lossy(&border.given).into_owned();
        border.answer = border.session.call(&command).into_bytes();
        border.answer.len()
    })
}

/// Takes the bytes at the place as an image; returns the length of the answer.
// SAFETY: as for `twin_take`.
#[unsafe(no_mangle)]
pub extern "C" fn twin_load() -> usize {
    BORDER.with_borrow_mut(|border| {
        border.answer = border.session.load(&border.given).into_bytes();
        border.given = Vec::new();
        border.answer.len()
    })
}

/// Makes the bytes of the volume the answer; returns their number.
// SAFETY: as for `twin_take`.
#[unsafe(no_mangle)]
pub extern "C" fn twin_image() -> usize {
    BORDER.with_borrow_mut(|border| {
        border.answer = border.session.image();
        border.answer.len()
    })
}

/// Where the last answer is. It is valid until the next call that answers.
// SAFETY: as for `twin_take`.
#[unsafe(no_mangle)]
pub extern "C" fn twin_answer() -> *const u8 {
    BORDER.with_borrow(|border| border.answer.as_ptr())
}
