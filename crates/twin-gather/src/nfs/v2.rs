//! NFS version 2 (RFC 1094, section 2.2).

use twin_fs::mode;

use super::{Answer, Attr, Call, Handle, Listed, MOST_ENTRIES, Stop, name, type_bits};
use crate::xdr::Xdr;

pub(super) const PROCEDURES: [&str; 18] = [
    "null",
    "getattr",
    "setattr",
    "root",
    "lookup",
    "readlink",
    "read",
    "writecache",
    "write",
    "create",
    "remove",
    "rename",
    "link",
    "symlink",
    "mkdir",
    "rmdir",
    "readdir",
    "statfs",
];

/// Bytes of a file handle.
const HANDLE: usize = 32;

fn handle(xdr: &mut Xdr<'_>) -> Option<Handle> {
    xdr.fixed(HANDLE).map(Into::into)
}

/// Attributes to set: permission bits and length. All bits set stand for "leave it".
fn set(xdr: &mut Xdr<'_>) -> Option<(Option<u32>, Option<u64>)> {
    let given = |word: u32| (word != u32::MAX).then_some(word);
    let bits = given(xdr.u32()?).map(|bits| bits & mode::PERMISSIONS);
    xdr.skip(2)?;
    let size = given(xdr.u32()?).map(u64::from);
    xdr.skip(4)?;
    Some((bits, size))
}

pub(super) fn call(procedure: u32, xdr: &mut Xdr<'_>) -> Option<Call> {
    Some(match procedure {
        0 | 3 | 7 => Call::Nothing,
        1 => Call::GetAttr { file: handle(xdr)? },
        2 => {
            let (file, (mode, size)) = (handle(xdr)?, set(xdr)?);
            Call::SetAttr { file, mode, size }
        }
        4 => Call::Lookup { dir: handle(xdr)?, name: name(xdr)? },
        5 => Call::ReadLink { file: handle(xdr)? },
        6 => Call::Read { file: handle(xdr)?, off: xdr.u32()?.into(), len: xdr.u32()? },
        8 => {
            let file = handle(xdr)?;
            xdr.skip(1)?;
            let off = xdr.u32()?.into();
            xdr.skip(1)?;
            // The length of the data, of which little may have been captured. Servers of this version write
            // it before they answer.
            Call::Write { file, off, len: xdr.u32()?, stable: true }
        }
        9 | 13 | 14 => create(procedure, xdr)?,
        10 | 15 => {
            let is_dir = procedure == 15;
            Call::Remove { dir: handle(xdr)?, name: name(xdr)?, is_dir }
        }
        11 => Call::Rename {
            dir: handle(xdr)?,
            name: name(xdr)?,
            to_dir: handle(xdr)?,
            to_name: name(xdr)?,
        },
        12 => Call::Link { file: handle(xdr)?, dir: handle(xdr)?, name: name(xdr)? },
        16 => {
            let (dir, cookie) = (handle(xdr)?, xdr.u32()?.into());
            Call::ReadDir { dir, cookie, bytes: xdr.u32()?, plus: false }
        }
        17 => Call::StatFs,
        _ => return None,
    })
}

/// Decodes the arguments of CREATE, SYMLINK or MKDIR.
fn create(procedure: u32, xdr: &mut Xdr<'_>) -> Option<Call> {
    let (dir, name_) = (handle(xdr)?, name(xdr)?);
    let (kind, default) = match procedure {
        9 => (mode::REGULAR, 0o644),
        13 => (mode::SYMLINK, 0o777),
        _ => (mode::DIRECTORY, 0o755),
    };
    let target = if kind == mode::SYMLINK { name(xdr)? } else { Box::default() };
    let (bits, size) = set(xdr)?;
    let mode = kind | bits.unwrap_or(default);
    Some(Call::Create { dir, name: name_, mode, exclusive: false, size, target })
}

fn attr(xdr: &mut Xdr<'_>) -> Result<Attr, Stop> {
    let kind = match xdr.u32().ok_or(Stop::Cut)? {
        // NFNON: of special files, whose mode tells the type.
        0 => 0,
        number @ 1..=5 => type_bits(number).ok_or(Stop::Malformed)?,
        _ => return Err(Stop::Malformed),
    };
    let rest = |xdr: &mut Xdr<'_>| {
        let (bits, nlink, uid, gid) = (xdr.u32()?, xdr.u32()?, xdr.u32()?, xdr.u32()?);
        let size = u64::from(xdr.u32()?);
        xdr.skip(2)?;
        let used = u64::from(xdr.u32()?) * 512;
        // File system, number, three times.
        xdr.skip(2 + 6)?;
        let bits = if kind == 0 { bits } else { kind | bits & mode::PERMISSIONS };
        Some(Attr { mode: bits, nlink, uid, gid, size, used })
    };
    rest(xdr).ok_or(Stop::Cut)
}

pub(super) fn answer(call: &Call, xdr: &mut Xdr<'_>, answer: &mut Answer) -> Result<(), Stop> {
    if answer.status != 0 {
        return Ok(());
    }
    match call {
        Call::GetAttr { .. } | Call::SetAttr { .. } => answer.attr = Some(attr(xdr)?),
        Call::Write { len, .. } => {
            answer.count = Some(*len);
            answer.attr = Some(attr(xdr)?);
        }
        Call::Read { .. } => {
            answer.attr = Some(attr(xdr)?);
            answer.count = Some(xdr.u32().ok_or(Stop::Cut)?);
        }
        // SYMLINK answers with a status alone.
        Call::Create { mode, .. } if mode & mode::TYPE == mode::SYMLINK => {}
        Call::Lookup { .. } | Call::Create { .. } => {
            answer.handle = Some(handle(xdr).ok_or(Stop::Cut)?);
            answer.attr = Some(attr(xdr)?);
        }
        Call::ReadDir { .. } => listing(xdr, &mut answer.entries)?,
        _ => {}
    }
    Ok(())
}

fn listing(xdr: &mut Xdr<'_>, entries: &mut Vec<Listed>) -> Result<(), Stop> {
    while entries.len() < MOST_ENTRIES {
        match xdr.u32() {
            Some(0) => return Ok(()),
            Some(1) => {}
            Some(_) => return Err(Stop::Malformed),
            None => return Err(Stop::Cut),
        }
        xdr.skip(1).ok_or(Stop::Cut)?;
        let name = name(xdr).ok_or(Stop::Cut)?;
        xdr.skip(1).ok_or(Stop::Cut)?;
        entries.push(Listed { name, attr: None, handle: None });
    }
    Ok(())
}
