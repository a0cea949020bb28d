//! NFS version 3 (RFC 1813, section 3.3).

use twin_fs::mode;

use super::{
    Answer, Attr, Call, Handle, LONGEST_HANDLE, Listed, MOST_ENTRIES, Stop, name, type_bits,
};
use crate::xdr::Xdr;

fn handle(xdr: &mut Xdr<'_>) -> Option<Handle> {
    xdr.opaque(LONGEST_HANDLE).map(Into::into)
}

/// Attributes to set: permission bits and length.
#[derive(Default)]
struct Set {
    mode: Option<u32>,
    size: Option<u64>,
}

fn set(xdr: &mut Xdr<'_>) -> Option<Set> {
    let mode = if xdr.bool()? { Some(xdr.u32()? & mode::PERMISSIONS) } else { None };
    for _owner_and_group in 0..2 {
        if xdr.bool()? {
            xdr.u32()?;
        }
    }
    let size = if xdr.bool()? { Some(xdr.u64()?) } else { None };
    for _access_and_change in 0..2 {
        match xdr.u32()? {
            0 | 1 => {}
            2 => xdr.skip(2)?,
            _ => return None,
        }
    }
    Some(Set { mode, size })
}

pub(super) fn call(procedure: u32, xdr: &mut Xdr<'_>) -> Option<Call> {
    Some(match procedure {
        0 | 19 | 20 => Call::Nothing,
        1 => Call::GetAttr { file: handle(xdr)? },
        2 => {
            let (file, Set { mode, size }) = (handle(xdr)?, set(xdr)?);
            Call::SetAttr { file, mode, size }
        }
        3 => Call::Lookup { dir: handle(xdr)?, name: name(xdr)? },
        4 => Call::Access { file: handle(xdr)? },
        5 => Call::ReadLink { file: handle(xdr)? },
        6 => Call::Read { file: handle(xdr)?, off: xdr.u64()?, len: xdr.u32()? },
        7 => {
            let (file, off, len) = (handle(xdr)?, xdr.u64()?, xdr.u32()?);
            let stable @ 0..=2 = xdr.u32()? else { return None };
            Call::Write { file, off, len, stable: stable != 0 }
        }
        8..=11 => create(procedure, xdr)?,
        12 | 13 => {
            let is_dir = procedure == 13;
            Call::Remove { dir: handle(xdr)?, name: name(xdr)?, is_dir }
        }
        14 => Call::Rename {
            dir: handle(xdr)?,
            name: name(xdr)?,
            to_dir: handle(xdr)?,
            to_name: name(xdr)?,
        },
        15 => Call::Link { file: handle(xdr)?, dir: handle(xdr)?, name: name(xdr)? },
        16 | 17 => {
            let plus = procedure == 17;
            let (dir, cookie) = (handle(xdr)?, xdr.u64()?);
            xdr.skip(if plus { 3 } else { 2 })?;
            Call::ReadDir { dir, cookie, bytes: xdr.u32()?, plus }
        }
        18 => Call::StatFs,
        21 => Call::Commit { file: handle(xdr)? },
        _ => return None,
    })
}

/// CREATE, MKDIR, SYMLINK, MKNOD.
fn create(procedure: u32, xdr: &mut Xdr<'_>) -> Option<Call> {
    let (dir, name_) = (handle(xdr)?, name(xdr)?);
    let mut exclusive = false;
    let mut target = Box::default();
    let (kind, set) = match procedure {
        8 => {
            let how @ 0..=2 = xdr.u32()? else { return None };
            exclusive = how != 0;
            let set = if how == 2 { Set::default() } else { set(xdr)? };
            (mode::REGULAR, set)
        }
        9 => (mode::DIRECTORY, set(xdr)?),
        10 => {
            let set = set(xdr)?;
            target = name(xdr)?;
            (mode::SYMLINK, set)
        }
        _ => {
            let kind = type_bits(xdr.u32()?)?;
            (kind, set(xdr).unwrap_or_default())
        }
    };
    let default = if kind == mode::DIRECTORY { 0o755 } else { 0o644 };
    let mode = kind | set.mode.unwrap_or(default);
    Some(Call::Create { dir, name: name_, mode, exclusive, size: set.size, target })
}

fn attr(xdr: &mut Xdr<'_>) -> Result<Attr, Stop> {
    let kind = type_bits(xdr.u32().ok_or(Stop::Cut)?).ok_or(Stop::Malformed)?;
    let rest = |xdr: &mut Xdr<'_>| {
        let (bits, nlink, uid, gid) = (xdr.u32()?, xdr.u32()?, xdr.u32()?, xdr.u32()?);
        let (size, used) = (xdr.u64()?, xdr.u64()?);
        // Device, file system, number, three times.
        xdr.skip(2 + 2 + 2 + 6)?;
        Some(Attr { mode: kind | bits & mode::PERMISSIONS, nlink, uid, gid, size, used })
    };
    rest(xdr).ok_or(Stop::Cut)
}

fn given(xdr: &mut Xdr<'_>) -> Result<bool, Stop> {
    match xdr.u32() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(Stop::Malformed),
        None => Err(Stop::Cut),
    }
}

fn maybe_attr(xdr: &mut Xdr<'_>) -> Result<Option<Attr>, Stop> {
    if given(xdr)? { attr(xdr).map(Some) } else { Ok(None) }
}

fn maybe_handle(xdr: &mut Xdr<'_>) -> Result<Option<Handle>, Stop> {
    if given(xdr)? { handle(xdr).map(Some).ok_or(Stop::Cut) } else { Ok(None) }
}

/// Attributes before and after: the length before, and the attributes after.
fn change(xdr: &mut Xdr<'_>) -> Result<(Option<u64>, Option<Attr>), Stop> {
    let mut before = None;
    if given(xdr)? {
        before = xdr.u64();
        xdr.skip(4).ok_or(Stop::Cut)?;
    }
    Ok((before, maybe_attr(xdr)?))
}

pub(super) fn answer(
    procedure: u32,
    call: &Call,
    xdr: &mut Xdr<'_>,
    answer: &mut Answer,
) -> Result<(), Stop> {
    let done = answer.status == 0;
    match call {
        Call::GetAttr { .. } if done => answer.attr = Some(attr(xdr)?),
        Call::Lookup { .. } if done => {
            answer.handle = Some(handle(xdr).ok_or(Stop::Cut)?);
            answer.attr = maybe_attr(xdr)?;
        }
        Call::Create { .. } if done => {
            answer.handle = maybe_handle(xdr)?;
            answer.attr = maybe_attr(xdr)?;
        }
        Call::Access { .. } | Call::ReadLink { .. } => answer.attr = maybe_attr(xdr)?,
        Call::Read { .. } => {
            answer.attr = maybe_attr(xdr)?;
            if done {
                answer.count = Some(xdr.u32().ok_or(Stop::Cut)?);
            }
        }
        Call::Write { .. } => {
            (answer.size_before, answer.attr) = change(xdr)?;
            if done {
                answer.count = Some(xdr.u32().ok_or(Stop::Cut)?);
                // How durable the data is.
                if !matches!(xdr.u32().ok_or(Stop::Cut)?, 0..=2) {
                    return Err(Stop::Malformed);
                }
            }
        }
        Call::SetAttr { .. } | Call::Commit { .. } => {
            (answer.size_before, answer.attr) = change(xdr)?;
        }
        Call::Link { .. } => answer.attr = maybe_attr(xdr)?,
        Call::ReadDir { plus, .. } if done => {
            maybe_attr(xdr)?;
            xdr.skip(2).ok_or(Stop::Cut)?;
            listing(xdr, *plus, &mut answer.entries)?;
        }
        // FSINFO and PATHCONF: nothing of them is used, but their attributes tell nonsense.
        Call::Nothing if procedure != 0 => drop(maybe_attr(xdr)?),
        _ => {}
    }
    Ok(())
}

fn listing(xdr: &mut Xdr<'_>, plus: bool, entries: &mut Vec<Listed>) -> Result<(), Stop> {
    while given(xdr)? && entries.len() < MOST_ENTRIES {
        xdr.skip(2).ok_or(Stop::Cut)?;
        let name = name(xdr).ok_or(Stop::Cut)?;
        xdr.skip(2).ok_or(Stop::Cut)?;
        let (mut attr, mut handle) = (None, None);
        if plus {
            attr = maybe_attr(xdr)?;
            handle = maybe_handle(xdr)?;
        }
        entries.push(Listed { name, attr, handle });
    }
    Ok(())
}
