//! Where strings and the paths of descriptors end.
//!
//! Contract: places are those of bytes; `None` if what begins does not end. Nothing is unescaped.

/// The place of the quote that ends a string which begins at `at`.
pub(super) fn past_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        match bytes.get(at)? {
            b'\\' => at += 1,
            b'"' => return Some(at),
            _ => {}
        }
    }
}

/// True if the path of a descriptor begins here; `<` also stands between numbers.
pub(super) fn is_path(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| bytes.get(at));
    let is_after = before.is_some_and(|c| c.is_ascii_digit() || matches!(c, b'D' | b'/'));
    is_after && bytes.get(at + 1) != Some(&b'<')
}

/// The place of the bracket that ends the path of a descriptor. A path has its own brackets escaped, but
/// `-yy` adds what a device is, as `</dev/tty<char 5:0>>`, and sockets have arrows.
pub(super) fn past_path(bytes: &[u8], at: usize) -> Option<usize> {
    let is_file = bytes.get(at + 1) == Some(&b'/');
    let (mut depth, mut brackets) = (0usize, 0usize);
    let mut here = at;
    while let Some(&c) = bytes.get(here) {
        match c {
            b'\\' => here += 1,
            b'<' => depth += 1,
            b'[' if !is_file => brackets += 1,
            b']' if !is_file => brackets = brackets.saturating_sub(1),
            b'"' if !is_file => here = past_string(bytes, here)?,
            b'>' if brackets == 0 && depth == 1 => return Some(here),
            b'>' if brackets == 0 => depth -= 1,
            _ => {}
        }
        here += 1;
    }
    None
}
