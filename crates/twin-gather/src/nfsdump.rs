//! The text of nfsdump (Ellard and Seltzer, "New NFS Tracing Tools and Techniques for System Analysis", LISA
//! 2003), in which the traces of Harvard's file servers of 2001 to 2003 are published: a line for each call
//! and each reply of NFS version 2 or 3.
//!
//! A line has the time (seconds and microseconds), the two addresses (`IP.PORT`), `U` or `T` for UDP or TCP,
//! `C` or `R` with the version, the number of the call, the number and the name of the procedure; a reply
//! has a status then, `OK` or a number. Names and values follow in turn, `fh` a handle, `name` or `fn` a name
//! in quotes; attributes of a directory behind those of a file have the same names, so the first
//! occurrence counts. From `con` or `status=` on the line tells of its packet. All numbers but times are
//! hexadecimal.
//!
//! Contract: a line that cannot be read is counted and passed over, as the published traces have some.
//! Names of listings are not in the text.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::io::{self, BufRead};

use twin_fs::mode;

use crate::Gathered;
use crate::gatherer::Matcher;
use crate::nfs::{self, Answer, Attr, Call, Handle, LONGEST_HANDLE, LONGEST_PATH, type_bits};
use crate::rpc::{CallKey, Caller, Target};

/// The longest line, in bytes; what is longer is cut.
const LONGEST_LINE: u64 = 64 << 10;
/// How many lines of the beginning are looked at to recognize the format.
const LOOKED_AT: usize = 8;

/// The fields of a line.
struct Line<'a> {
    at_ns: u64,
    from: SocketAddr,
    to: SocketAddr,
    is_call: bool,
    xid: u32,
    target: Target,
    procedure: &'a str,
    /// The status of a reply.
    status: u32,
    fields: Fields<'a>,
}

/// Names with their values.
struct Fields<'a>(Vec<(&'a str, &'a str)>);

/// True if a text that begins so has lines of nfsdump. The last of them may be cut.
pub fn looks_like(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let lines = text.lines().filter(|line| !is_remark(line)).take(LOOKED_AT);
    let known: Vec<bool> = lines.map(|line| parse(line).is_some()).collect();
    known.first() == Some(&true) && known.iter().filter(|known| **known).count() * 2 > known.len()
}

/// Reads a text to its end, or until `goes_on`, which gets the number of lines so far, returns false.
pub fn read(
    mut input: impl BufRead,
    mut goes_on: impl FnMut(u64) -> bool,
) -> io::Result<(Gathered, u64)> {
    let mut matcher = Matcher::default();
    let (mut bytes, mut lines) = (Vec::new(), 0);
    loop {
        bytes.clear();
        let len = io::Read::take(&mut input, LONGEST_LINE).read_until(b'\n', &mut bytes)?;
        if len == 0 {
            break;
        }
        lines += 1;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        if !is_remark(text) {
            match parse(text) {
                Some(line) => take(&mut matcher, &line),
                None if is_reply(text) => matcher.tally.malformed_replies += 1,
                None => matcher.tally.malformed_calls += 1,
            }
        }
        if !goes_on(lines) {
            break;
        }
    }
    Ok((matcher.finish(), lines))
}

/// True for remarks of nfsdump itself, and for empty lines.
fn is_remark(line: &str) -> bool {
    line.is_empty() || line.starts_with("XX ") || line.starts_with('#')
}

fn is_reply(line: &str) -> bool {
    line.split(' ').nth(4).is_some_and(|field| field.starts_with('R'))
}

fn take(matcher: &mut Matcher, line: &Line<'_>) {
    let Line { at_ns, from, to, xid, target, .. } = *line;
    if line.is_call {
        let caller = Caller {
            uid: line.fields.number("euid").unwrap_or(0) as u32,
            gid: line.fields.number("egid").unwrap_or(0) as u32,
        };
        let digest = line.fields.digest();
        let key = CallKey { client: from, server: to, xid };
        matcher.read_call(key, at_ns, (target, caller, digest), call(line));
    } else {
        let key = CallKey { client: to, server: from, xid };
        matcher.read_reply(key, at_ns, answer(line));
    }
}

/// A line; `None` if it is none of a call or reply.
fn parse(line: &str) -> Option<Line<'_>> {
    let mut rest = line;
    let mut word = || word(&mut rest);
    let at_ns = time_ns(word()?)?;
    let (from, to) = (address(word()?)?, address(word()?)?);
    if !matches!(word()?, "U" | "T") {
        return None;
    }
    let (is_call, version) = match word()? {
        "C2" => (true, 2),
        "C3" => (true, 3),
        "R2" => (false, 2),
        "R3" => (false, 3),
        _ => return None,
    };
    let xid = u32::try_from(hex(word()?)?).ok()?;
    let number = u32::try_from(hex(word()?)?).ok()?;
    let procedure = word()?;
    let target = Target { program: nfs::PROGRAM, version, procedure: number };
    let status = match is_call {
        true => 0,
        false => match word()? {
            "OK" | "status=0" => 0,
            status => u32::try_from(hex(status)?).ok()?,
        },
    };
    let fields = Fields::of(rest)?;
    Some(Line { at_ns, from, to, is_call, xid, target, procedure, status, fields })
}

/// The next word of a line: up to a space, or of a name in quotes up to the quote before one.
fn word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start_matches(' ');
    if text.is_empty() {
        return None;
    }
    let end = match text.starts_with('"') {
        // A name may have quotes and spaces in it.
        true => text[1..].find("\" ").map_or(text.len(), |at| at + 2),
        false => text.find(' ').unwrap_or(text.len()),
    };
    let (word, behind) = text.split_at(end);
    *rest = behind;
    Some(word)
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// A time in seconds and microseconds, in nanoseconds.
fn time_ns(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let micros: u64 = micros.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(micros * 1000)
}

/// An address and a port, in hexadecimal.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once('.')?;
    let ip = Ipv4Addr::from_bits(u32::try_from(hex(ip)?).ok()?);
    Some(SocketAddr::new(IpAddr::V4(ip), u16::try_from(hex(port)?).ok()?))
}

impl<'a> Fields<'a> {
    fn of(mut rest: &'a str) -> Option<Fields<'a>> {
        let mut fields = Vec::new();
        while let Some(name) = word(&mut rest) {
            if name == "con" || name.starts_with("status=") {
                break;
            }
            // The packet was not captured whole: the captured part counts.
            if name == "SHORT" {
                break;
            }
            fields.push((name, word(&mut rest)?));
        }
        Some(Fields(fields))
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    fn number(&self, name: &str) -> Option<u64> {
        hex(self.text(name)?)
    }

    fn small(&self, name: &str) -> Option<u32> {
        u32::try_from(self.number(name)?).ok()
    }

    fn handle(&self, name: &str) -> Option<Handle> {
        let text = self.text(name)?;
        let len = text.len() / 2;
        if !text.len().is_multiple_of(2) || !(1..=LONGEST_HANDLE).contains(&len) {
            return None;
        }
        let byte = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        (0..len).map(|at| byte(2 * at)).collect()
    }

    /// A name, with the name that the field has in version 3, or that in version 2.
    fn name(&self, fields: [&str; 2]) -> Option<Box<[u8]>> {
        let text = fields.iter().find_map(|field| self.text(field))?;
        let name = text.strip_prefix('"')?.strip_suffix('"')?;
        (!name.is_empty() && name.len() <= LONGEST_PATH).then(|| name.as_bytes().into())
    }

    fn attr(&self) -> Option<Attr> {
        let kind = type_bits(self.small("ftype")?)?;
        Some(Attr {
            mode: kind | self.small("mode")? & mode::PERMISSIONS,
            nlink: self.small("nlink")?,
            uid: self.small("uid")?,
            gid: self.small("gid")?,
            size: self.number("size")?,
            // Version 2 tells a number of blocks, which may be less: of a file with holes.
            used: self.number("used").or_else(|| self.number("size"))?,
        })
    }

    /// Tells calls with other arguments apart.
    fn digest(&self) -> u64 {
        let each = |sum: u64, (name, value): &(&str, &str)| {
            let both = crc32c::crc32c_append(crc32c::crc32c(name.as_bytes()), value.as_bytes());
            sum.rotate_left(7) ^ u64::from(both)
        };
        self.0.iter().fold(0, each)
    }
}

fn call(line: &Line<'_>) -> Option<Call> {
    let fields = &line.fields;
    let file = || fields.handle("fh");
    let name = || fields.name(["name", "fn"]);
    let off = || fields.number("off").or_else(|| fields.number("offset"));
    let created = |kind: u32, default: u32| {
        Some(Call::Create {
            dir: file()?,
            name: name()?,
            mode: kind | fields.small("mode").unwrap_or(default) & mode::PERMISSIONS,
            exclusive: matches!(fields.text("how"), Some("G" | "X")),
            size: fields.number("size").filter(|_| kind == mode::REGULAR),
            target: match kind {
                mode::SYMLINK => fields.name(["sdata", "name2"])?,
                _ => Box::default(),
            },
        })
    };
    Some(match line.procedure {
        "getattr" => Call::GetAttr { file: file()? },
        "setattr" => Call::SetAttr {
            file: file()?,
            mode: fields.small("mode").map(|bits| bits & mode::PERMISSIONS),
            size: fields.number("size").filter(|size| *size != u64::from(u32::MAX)),
        },
        "lookup" => Call::Lookup { dir: file()?, name: name()? },
        "access" => Call::Access { file: file()? },
        "readlink" => Call::ReadLink { file: file()? },
        "read" => Call::Read { file: file()?, off: off()?, len: fields.small("count")? },
        "write" => Call::Write {
            file: file()?,
            off: off().or_else(|| fields.number("begoff"))?,
            len: fields.small("count").or_else(|| fields.small("tcount"))?,
            stable: !matches!(fields.text("stable"), Some("U")),
        },
        "create" => created(mode::REGULAR, 0o666)?,
        "mkdir" => created(mode::DIRECTORY, 0o777)?,
        "symlink" => created(mode::SYMLINK, 0o777)?,
        "mknod" => created(type_bits(fields.small("ftype")?)?, 0o666)?,
        "remove" => Call::Remove { dir: file()?, name: name()?, is_dir: false },
        "rmdir" => Call::Remove { dir: file()?, name: name()?, is_dir: true },
        "rename" => Call::Rename {
            dir: file()?,
            name: name()?,
            to_dir: fields.handle("fh2")?,
            to_name: fields.name(["name2", "fn2"])?,
        },
        "link" => Call::Link { file: file()?, dir: fields.handle("fh2")?, name: name()? },
        "readdir" | "readdirp" => Call::ReadDir {
            dir: file()?,
            cookie: fields.number("cookie").unwrap_or(0),
            bytes: fields.small("maxcnt").or_else(|| fields.small("count")).unwrap_or(4096),
            plus: line.procedure == "readdirp",
        },
        "fsstat" | "statfs" => Call::StatFs,
        "commit" => Call::Commit { file: file()? },
        _ => Call::Nothing,
    })
}

/// Decodes an answer. Attributes behind an error may be a directory's.
fn answer(line: &Line<'_>) -> Answer {
    let fields = &line.fields;
    let done = line.status == 0;
    let of_file = !matches!(
        line.procedure,
        "remove" | "rmdir" | "rename" | "readdir" | "readdirp" | "fsstat" | "fsinfo" | "statfs"
    );
    Answer {
        status: line.status,
        handle: fields.handle("fh").filter(|_| done),
        attr: fields.attr().filter(|_| done && of_file),
        size_before: fields.number("pre-size").filter(|_| of_file),
        count: fields.small("count").filter(|_| done),
        entries: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer;

    /// After the examples in the description of the format and the published traces: a file is found, read in
    /// two parts, written and removed, with a directory's attributes behind those of files.
    const TEXT: &str = include_str!("../tests/data/nfsdump.txt");

    fn gathered(text: &str) -> Gathered {
        read(text.as_bytes(), |_| true).unwrap().0
    }

    #[test]
    fn calls_meet_their_replies_and_become_operations() {
        assert!(looks_like(TEXT.as_bytes()));
        let all = gathered(TEXT);
        let calls: Vec<&Call> = all.exchanges.iter().map(|one| &one.call).collect();
        let dir: Handle = vec![0x2f, 0xb3, 0x92, 0x84].into();
        assert!(
            matches!(calls[0], Call::Lookup { dir: at, name } if *at == dir && &**name == b"inbox")
        );
        let Call::Read { off, len, .. } = calls[2] else { panic!("{:?}", calls[2]) };
        assert_eq!((*off, *len), (0x2000, 0x2000));
        assert_eq!(all.exchanges[1].answer.count, Some(0x2000));
        let attr = all.exchanges[0].answer.attr.unwrap();
        assert_eq!((attr.size, attr.mode), (0x3000, mode::REGULAR | 0o600));
        assert_eq!(all.exchanges[0].caller, Caller { uid: 0x18a8, gid: 0x18a8 });
        let write =
            all.exchanges.iter().find(|one| matches!(one.call, Call::Write { .. })).unwrap();
        assert_eq!(write.answer.size_before, Some(0x3000));
        let names: Vec<&str> = all.tally.by_name().map(|(_, name, _)| name).collect();
        assert_eq!(names, ["lookup", "read", "lookup", "read", "write", "remove"]);
        // A call without an answer, an answer without its call, one that was sent again, and garbage.
        let tally = &all.tally;
        assert_eq!((tally.unanswered, tally.unasked, tally.retransmitted), (1, 1, 1));
        assert_eq!((tally.malformed_calls, tally.malformed_replies), (1, 1));
        let options =
            infer::Options { close_after_ns: twin_rt::SECS, anonymous: false, text: String::new() };
        let (_, records, inferred) = infer::trace(&all.exchanges, &options);
        assert!(records.len() > 10 && inferred.opens >= 2, "{inferred:?}");
        assert_eq!((inferred.contradictions, inferred.without_counterpart), (0, 0));
    }

    #[test]
    fn other_texts_are_not_taken_for_it() {
        for text in
            ["", "Dear reader,\nthis is a letter.\n", "1003429220.137370 1 2 3\n", "0,W,1,2,3\n"]
        {
            assert!(!looks_like(text.as_bytes()), "{text}");
        }
        // The beginning of a file ends anywhere.
        assert!(looks_like(&TEXT.as_bytes()[..TEXT.len() / 3]));
    }

    #[test]
    fn no_text_is_too_strange() {
        for at in 0..TEXT.len() {
            let mut bytes = TEXT.as_bytes().to_vec();
            bytes[at] = bytes[at].wrapping_add(1 + (at % 251) as u8);
            let all = read(&bytes[..], |_| true).unwrap().0;
            let options = infer::Options {
                close_after_ns: twin_rt::SECS,
                anonymous: true,
                text: String::new(),
            };
            let _ = infer::trace(&all.exchanges, &options);
        }
    }
}
