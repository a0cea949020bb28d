//! What the arguments of calls say: descriptors with their paths, strings, flags, numbers, fields.
//!
//! Contract: nothing is remembered from one call to the next. Strings and paths are unescaped, whether strace
//! escaped what cannot be printed (`\303`), all of it (`-xx`) or in hexadecimal (`-x`). Flags are told by their
//! names, by their numbers (`-X raw`, those of x86 and arm) or by both (`-X verbose`).

use std::borrow::Cow;
use std::hash::Hasher;

use twin_rt::FixedHasher;

use super::brackets::past_path;

/// The descriptor that stands for the working directory.
pub(super) const AT_FDCWD: i64 = -100;

/// The facts that `-y` shows about a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FdPath {
    /// The path, or what it is in place of a file, as `pipe:[5]`.
    pub(super) bytes: Vec<u8>,
    /// The last name of the file was removed.
    pub(super) is_deleted: bool,
    /// A device, as `-yy` tells.
    is_device: bool,
}

impl FdPath {
    /// True if it may be the path of a file.
    pub(super) fn is_file(&self) -> bool {
        self.bytes.starts_with(b"/")
            && !self.is_device
            && ![&b"/memfd:"[..], b"/SYSV", b"/[aio]", b"/dmabuf:"]
                .iter()
                .any(|start| self.bytes.starts_with(start))
    }
}

impl FdPath {
    /// A number that is the same for the same path, and never zero.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = FixedHasher::default();
        hasher.write(&self.bytes);
        hasher.finish() | 1
    }
}

/// A descriptor with its path, as `3</tmp/a>(deleted)`.
pub(super) fn descriptor(text: &str) -> Option<(i64, Option<FdPath>)> {
    let text = text.trim_start_matches('[');
    let digits = text.strip_prefix('-').unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number = match text.starts_with("AT_FDCWD") {
        true => AT_FDCWD,
        false => text[..text.len() - digits.len() + end].parse().ok()?,
    };
    let path = text.find('<').and_then(|at| {
        let end = past_path(text.as_bytes(), at)?;
        Some(fd_path(&text[at + 1..end], &text[end + 1..]))
    });
    Some((number, path))
}

/// The path between the brackets, and what follows them.
fn fd_path(inner: &str, after: &str) -> FdPath {
    let path = match inner.rfind('<') {
        Some(at) if inner.ends_with('>') => &inner[..at],
        _ => inner,
    };
    let is_device = path.len() < inner.len();
    let (path, was_inside) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let is_deleted = was_inside || after.starts_with("(deleted)");
    FdPath { bytes: unescaped(path.as_bytes()).unwrap_or_default(), is_deleted, is_device }
}

/// The number at the beginning of a text.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        return u64::from_str_radix(&hex[..end], 16).ok();
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number at the beginning of a result that is no error.
pub(super) fn number(text: &str) -> Option<i64> {
    i64::try_from(unsigned(text)?).ok()
}

/// The text from behind the `=` of a field of a structure on.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = text[from..].find(name) {
        let (start, end) = (from + at, from + at + name.len());
        let is_begun =
            start == 0 || matches!(text.as_bytes()[start - 1], b'{' | b' ' | b',' | b'[');
        if is_begun && let Some(value) = text[end..].strip_prefix('=') {
            return Some(value);
        }
        from = end;
    }
    None
}

/// Whether flags have one of this name, or of these bits where they are a number.
pub(super) fn has_flag(text: &str, name: &str, bits: u64) -> bool {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let mut is_number = false;
    for (at, word) in words.enumerate() {
        if word == name {
            return true;
        }
        is_number |=
            at == 0 && unsigned(word).is_some_and(|flags| bits != 0 && flags & bits == bits);
    }
    is_number && !text.contains("/*")
}

/// The bits of a mode, as `S_IFREG|0644` or `0100644`.
pub(super) fn mode_of(text: &str) -> Option<u32> {
    use twin_fs::mode::{BLOCK, CHAR, DIRECTORY, FIFO, REGULAR, SOCKET, SYMLINK};
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '|')));
    let mut mode = 0;
    for word in text[..end.unwrap_or(text.len())].split('|') {
        mode |= match word {
            "S_IFREG" => REGULAR,
            "S_IFDIR" => DIRECTORY,
            "S_IFLNK" => SYMLINK,
            "S_IFIFO" => FIFO,
            "S_IFSOCK" => SOCKET,
            "S_IFCHR" => CHAR,
            "S_IFBLK" => BLOCK,
            "S_ISUID" => twin_fs::mode::SETUID,
            "S_ISGID" => twin_fs::mode::SETGID,
            "S_ISVTX" => twin_fs::mode::STICKY,
            octal => u32::from_str_radix(octal, 8).ok()?,
        };
    }
    Some(mode)
}

/// The bytes of a string in quotes; `None` if it is none, or not whole.
pub(super) fn string(text: &str) -> Option<Vec<u8>> {
    let rest = text.strip_prefix('"')?;
    // A context of --secontext may follow.
    let inner = match rest.strip_suffix('"') {
        Some(inner) => inner,
        None => &rest[..rest.rfind("\" [")?],
    };
    unescaped(inner.as_bytes())
}

/// Bytes whose escapes are those of C.
fn unescaped(inner: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut at) = (Vec::with_capacity(inner.len()), 0);
    while at < inner.len() {
        let byte = inner[at];
        at += 1;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits = |from: usize, most: usize, radix: u32| {
            let is = |byte: &&u8| char::from(**byte).is_digit(radix);
            let count = inner.iter().skip(from).take(most).take_while(is).count();
            let text = std::str::from_utf8(&inner[from..from + count]).ok()?;
            Some((u32::from_str_radix(text, radix).ok()? as u8, count))
        };
        let kind = *inner.get(at)?;
        let (byte, count) = match kind {
            b'0'..=b'7' => digits(at, 3, 8)?,
            b'x' => digits(at + 1, 2, 16).map(|(byte, count)| (byte, count + 1))?,
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'r' => (b'\r', 1),
            b'v' => (11, 1),
            b'f' => (12, 1),
            other => (other, 1),
        };
        bytes.push(byte);
        at += count;
    }
    Some(bytes)
}

/// A text with the meaning of `-X verbose` alone: the names in the comment, if there is one.
pub(super) fn named(text: &str) -> Cow<'_, str> {
    match text.split_once("/*").and_then(|(_, rest)| rest.split_once("*/")) {
        Some((names, _)) => Cow::Owned(names.trim().to_owned()),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_descriptors_are_unescaped_and_told_from_what_is_no_file() {
        let path = |text: &str| descriptor(text).unwrap().1.unwrap();
        assert_eq!(path("3</w/\\303\\274>").bytes, "/w/ü".as_bytes());
        assert_eq!(path("3<\\x2f\\x77>").bytes, b"/w");
        assert!(path("3</w/#5>(deleted)").is_deleted && path("3</w/a (deleted)>").is_deleted);
        assert_eq!(path("3</w/a (deleted)>").bytes, b"/w/a");
        assert!(path("3</w/a>").is_file() && !path("3</w/a>").is_deleted);
        for other in
            ["1</dev/null<char 1:3>>", "1<pipe:[5]>", "1<anon_inode:[eventfd]>", "1</memfd:x>"]
        {
            assert!(!path(other).is_file(), "{other}");
        }
        assert_eq!(descriptor("AT_FDCWD").unwrap(), (AT_FDCWD, None));
        assert_eq!(descriptor("-100 /* AT_FDCWD */").unwrap(), (AT_FDCWD, None));
        assert_eq!(descriptor("-1").unwrap(), (-1, None));
        assert_eq!(descriptor("NULL"), None);
    }

    #[test]
    fn flags_are_told_by_names_and_by_numbers() {
        assert!(has_flag("O_RDWR|O_CREAT", "O_CREAT", 0o100));
        assert!(!has_flag("O_RDWR|O_CREAT", "O_EXCL", 0o200));
        assert!(has_flag("0x241", "O_CREAT", 0o100) && !has_flag("0x241", "O_EXCL", 0o200));
        assert!(has_flag("0x241 /* O_WRONLY|O_CREAT|O_TRUNC */", "O_TRUNC", 0o1000));
        assert!(!has_flag("0x241 /* O_WRONLY|O_CREAT|O_TRUNC */", "O_EXCL", 0o200));
        assert!(has_flag("{flags=O_RDWR|O_CREAT, mode=0644}", "O_CREAT", 0o100));
    }

    #[test]
    fn modes_are_told_by_names_and_by_numbers() {
        assert_eq!(mode_of("S_IFREG|0644"), Some(0o100_644));
        assert_eq!(mode_of("S_IFDIR|S_ISVTX|0777, x"), Some(0o041_777));
        assert_eq!(mode_of("0100600"), Some(0o100_600));
    }

    #[test]
    fn fields_are_whole_words() {
        assert_eq!(field("{st_mode=1, stx_size=5}", "st_size"), None);
        assert_eq!(field("{st_mode=1, st_size=5}", "st_size"), Some("5}"));
    }
}
