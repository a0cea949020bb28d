//! The lessons for WebAssembly: [`Session`]s behind pointers and lengths, without a generated binding.
//!
//! Contract: the page makes a session ([`twin_new`]) and gives it to every other function. It takes a place
//! ([`twin_take`]), puts a command there, calls [`twin_call`], and reads the answer at [`twin_answer`]. There is one
//! thread, and no call is made within another. All that is decided is in [`twin_lessons`]; this crate only passes bytes
//! over the border. Natively it is a crate like any other, so that its tests need no target of their own.

#![allow(unsafe_code)] // The border to the page, which the compiler does not guard.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use twin_lessons::Session;

/// A session, and the bytes that cross.
#[derive(Default)]
pub struct Border {
    session: Session,
    given: Vec<u8>,
    answer: Vec<u8>,
}

/// A new session. It lives as long as the page.
// SAFETY: no other symbol of the module has this name, so the page finds this function and no other.
#[unsafe(no_mangle)]
pub extern "C" fn twin_new() -> *mut Border {
    Box::into_raw(Box::default())
}

/// A place for this number of bytes of a command or an image. It is valid until the next call of this function.
///
/// # Safety
/// `border` is from [`twin_new`], and no other call with it is under way.
// SAFETY: as for `twin_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_take(border: *mut Border, len: usize) -> *mut u8 {
    // SAFETY: the caller promises a border that lives and that nobody else uses now.
    let border = unsafe { &mut *border };
    border.given.clear();
    border.given.resize(len, 0);
    border.given.as_mut_ptr()
}

/// Carries out the command that was put at the place; returns the length of the answer.
///
/// # Safety
/// As for [`twin_take`].
// SAFETY: as for `twin_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_call(border: *mut Border) -> usize {
    // SAFETY: the caller promises a border that lives and that nobody else uses now.
    let border = unsafe { &mut *border };
    let command = String::from_utf8_lossy(&border.given).into_owned();
    border.answer = border.session.call(&command).into_bytes();
    border.answer.len()
}

/// Takes the bytes at the place as an image; returns the length of the answer.
///
/// # Safety
/// As for [`twin_take`].
// SAFETY: as for `twin_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_load(border: *mut Border) -> usize {
    // SAFETY: the caller promises a border that lives and that nobody else uses now.
    let border = unsafe { &mut *border };
    border.answer = border.session.load(&border.given).into_bytes();
    border.given = Vec::new();
    border.answer.len()
}

/// Makes the bytes of the volume the answer; returns their number.
///
/// # Safety
/// As for [`twin_take`].
// SAFETY: as for `twin_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_image(border: *mut Border) -> usize {
    // SAFETY: the caller promises a border that lives and that nobody else uses now.
    let border = unsafe { &mut *border };
    border.answer = border.session.image();
    border.answer.len()
}

/// Where the last answer is. It is valid until the next call that answers.
///
/// # Safety
/// As for [`twin_take`].
// SAFETY: as for `twin_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn twin_answer(border: *const Border) -> *const u8 {
    // SAFETY: the caller promises a border that lives and that nobody changes now.
    unsafe { (*border).answer.as_ptr() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(border: *mut Border, command: &[u8]) -> Vec<u8> {
        // SAFETY: the border is from `twin_new`, and the calls follow one another; the place has room for the command,
        // and the answer has the length that was returned.
        unsafe {
            let place = twin_take(border, command.len());
            place.copy_from_nonoverlapping(command.as_ptr(), command.len());
            let len = twin_call(border);
            std::slice::from_raw_parts(twin_answer(border), len).to_vec()
        }
    }

    #[test]
    fn a_command_crosses_the_border_and_its_answer_comes_back() {
        let border = twin_new();
        let made = answered(border, br#"{"do":"make","settings":"vsfs:size=1M"}"#);
        assert!(made.starts_with(b"{") && made.windows(9).any(|part| part == b"\"ok\":true"));
        // SAFETY: as in `answered`; afterwards nobody has the pointer.
        unsafe {
            assert_eq!(twin_image(border), 1 << 20);
            drop(Box::from_raw(border));
        }
    }

    #[test]
    fn bytes_that_are_no_command_are_answered_too() {
        let border = twin_new();
        assert!(answered(border, &[0xff, 0]).windows(8).any(|part| part == b"\"ok\":fal"));
        // SAFETY: nobody else has the pointer.
        drop(unsafe { Box::from_raw(border) });
    }
}
