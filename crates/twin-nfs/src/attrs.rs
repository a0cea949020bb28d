//! Attributes in the forms of the protocol (RFC 1813, section 2.5 and 2.6).

use twin_fs::acl::AccessAcl;
use twin_fs::{Attr, SetAttr, SetTime, Timestamp, mode};

use crate::xdr::{Garbage, Reader, Writer};

/// Bytes of the attributes of a file (`fattr3`).
pub const ATTR_LEN: usize = 84;

/// The attributes that tell a client whether a file has changed (`wcc_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Length of the file in bytes.
    pub size: u64,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
}

impl From<&Attr> for Before {
    fn from(attr: &Attr) -> Before {
        Before { size: attr.size, mtime: attr.mtime, ctime: attr.ctime }
    }
}

/// Weak cache consistency data (`wcc_data`): what a client needs to see whether the file or
/// directory was changed by its own operation alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// The attributes just before the operation, if nobody else changed the file at that time.
    pub before: Option<Before>,
    /// The attributes after it.
    pub after: Option<Attr>,
}

/// The number of a file type (`ftype3`).
pub fn file_type(kind: u32) -> u32 {
    match kind {
        mode::DIRECTORY => 2,
        mode::BLOCK => 3,
        mode::CHAR => 4,
        mode::SYMLINK => 5,
        mode::SOCKET => 6,
        mode::FIFO => 7,
        _ => 1,
    }
}

/// The type bits for the number of a file type; `None` if there is no such type.
pub fn kind_of(file_type: u32) -> Option<u32> {
    Some(match file_type {
        1 => mode::REGULAR,
        2 => mode::DIRECTORY,
        3 => mode::BLOCK,
        4 => mode::CHAR,
        5 => mode::SYMLINK,
        6 => mode::SOCKET,
        7 => mode::FIFO,
        _ => return None,
    })
}

/// The parts of a device number, in the form of Linux: major, minor.
pub fn split_device(rdev: u64) -> (u32, u32) {
    let major = (rdev >> 8) & 0xfff | (rdev >> 32) & 0xffff_f000;
    let minor = rdev & 0xff | (rdev >> 12) & 0xffff_ff00;
    (major as u32, minor as u32)
}

/// The inverse of [`split_device`].
pub fn join_device(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xfff) << 8 | (major & 0xffff_f000) << 32 | minor & 0xff | (minor & 0xffff_ff00) << 12
}

/// Writes a time. The protocol has seconds from 1970 to 2106; others are moved to the nearest.
fn time(out: &mut Writer, time: Timestamp) {
    match u32::try_from(time.secs) {
        Ok(secs) => {
            out.u32(secs);
            out.u32(time.nanos);
        }
        Err(_) => {
            out.u32(if time.secs < 0 { 0 } else { u32::MAX });
            out.u32(0);
        }
    }
}

/// Reads a time, which has 32-bit seconds and nanoseconds.
pub fn read_time(r: &mut Reader<'_>) -> Result<Timestamp, Garbage> {
    let (secs, nanos) = (r.u32()?, r.u32()?);
    if nanos >= 1_000_000_000 { Err(Garbage) } else { Ok(Timestamp { secs: secs.into(), nanos }) }
}

/// Writes the attributes of a file on a volume.
pub fn attributes(out: &mut Writer, volume: u64, attr: &Attr) {
    let (major, minor) = split_device(attr.rdev);
    out.u32(file_type(attr.kind()));
    out.u32(attr.mode & mode::PERMISSIONS);
    out.u32(attr.nlink);
    out.u32(attr.uid);
    out.u32(attr.gid);
    out.u64(attr.size);
    out.u64(attr.blocks.saturating_mul(512));
    out.u32(major);
    out.u32(minor);
    out.u64(volume);
    out.u64(attr.ino);
    time(out, attr.atime);
    time(out, attr.mtime);
    time(out, attr.ctime);
}

/// Reads the attributes of a file: what [`attributes`] wrote.
pub fn read_attributes(r: &mut Reader<'_>) -> Result<Attr, Garbage> {
    let kind = kind_of(r.u32()?).ok_or(Garbage)?;
    let permissions = r.u32()? & mode::PERMISSIONS;
    let (nlink, uid, gid) = (r.u32()?, r.u32()?, r.u32()?);
    let (size, used) = (r.u64()?, r.u64()?);
    let rdev = join_device(r.u32()?, r.u32()?);
    let (_volume, ino) = (r.u64()?, r.u64()?);
    let (atime, mtime, ctime) = (read_time(r)?, read_time(r)?, read_time(r)?);
    let blocks = used / 512;
    let mode = kind | permissions;
    let btime = Timestamp::default();
    let acl = AccessAcl::default();
    Ok(Attr { ino, mode, nlink, uid, gid, rdev, size, blocks, atime, mtime, ctime, btime, acl })
}

/// Writes attributes that may be missing (`post_op_attr`).
pub fn post_op(out: &mut Writer, volume: u64, attr: Option<&Attr>) {
    out.flag(attr.is_some());
    if let Some(attr) = attr {
        attributes(out, volume, attr);
    }
}

/// Writes weak cache consistency data.
pub fn wcc(out: &mut Writer, volume: u64, wcc: &Wcc) {
    out.flag(wcc.before.is_some());
    if let Some(before) = &wcc.before {
        out.u64(before.size);
        time(out, before.mtime);
        time(out, before.ctime);
    }
    post_op(out, volume, wcc.after.as_ref());
}

/// Reads weak cache consistency data.
pub fn read_wcc(r: &mut Reader<'_>) -> Result<Wcc, Garbage> {
    let before =
        r.optional(|r| Ok(Before { size: r.u64()?, mtime: read_time(r)?, ctime: read_time(r)? }))?;
    Ok(Wcc { before, after: r.optional(read_attributes)? })
}

/// Reads the attributes that a client wants to set (`sattr3`).
pub fn read_settings(r: &mut Reader<'_>) -> Result<SetAttr, Garbage> {
    let mode = r.optional(Reader::u32)?.map(|mode| mode & mode::PERMISSIONS);
    let (uid, gid) = (r.optional(Reader::u32)?, r.optional(Reader::u32)?);
    let size = r.optional(Reader::u64)?;
    let mut set_time = || match r.u32()? {
        0 => Ok(None),
        1 => Ok(Some(SetTime::Now)),
        2 => read_time(r).map(|time| Some(SetTime::At(time))),
        _ => Err(Garbage),
    };
    let (atime, mtime) = (set_time()?, set_time()?);
    Ok(SetAttr { mode, uid, gid, size, atime, mtime, ctime: None })
}

/// Writes attributes to set: what [`read_settings`] reads.
pub fn settings(out: &mut Writer, set: &SetAttr) {
    for value in [set.mode, set.uid, set.gid] {
        out.flag(value.is_some());
        value.into_iter().for_each(|value| out.u32(value));
    }
    out.flag(set.size.is_some());
    set.size.into_iter().for_each(|size| out.u64(size));
    for value in [set.atime, set.mtime] {
        match value {
            None => out.u32(0),
            Some(SetTime::Now) => out.u32(1),
            Some(SetTime::At(at)) => {
                out.u32(2);
                time(out, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_were() {
        let at = |secs| Timestamp { secs, nanos: 5 };
        let attr = Attr {
            ino: 9,
            mode: mode::CHAR | 0o4751,
            nlink: 2,
            uid: 3,
            gid: 4,
            rdev: join_device(0x12345, 0x6789a),
            size: 1 << 40,
            blocks: 17,
            atime: at(1),
            mtime: at(2),
            ctime: at(u32::MAX.into()),
            btime: Timestamp::default(),
            acl: AccessAcl::default(),
        };
        let mut out = Writer::default();
        attributes(&mut out, 5, &attr);
        assert_eq!(out.len(), ATTR_LEN);
        assert_eq!(read_attributes(&mut Reader::new(&out.into_bytes())), Ok(attr));
    }

    #[test]
    fn times_before_1970_and_after_2106_are_the_nearest_ones() {
        for (secs, sent) in [(-1, 0), (1 << 40, u32::MAX)] {
            let mut out = Writer::default();
            time(&mut out, Timestamp { secs, nanos: 7 });
            let read = read_time(&mut Reader::new(&out.into_bytes()));
            assert_eq!(read, Ok(Timestamp { secs: sent.into(), nanos: 0 }));
        }
    }

    #[test]
    fn settings_come_back_as_they_were() {
        let set = SetAttr {
            mode: Some(0o644),
            size: Some(7),
            atime: Some(SetTime::Now),
            mtime: Some(SetTime::At(Timestamp { secs: 1, nanos: 2 })),
            ..SetAttr::default()
        };
        let mut out = Writer::default();
        settings(&mut out, &set);
        assert_eq!(read_settings(&mut Reader::new(&out.into_bytes())), Ok(set));
    }

    #[test]
    fn device_numbers_are_joined_and_split_as_on_linux() {
        assert_eq!(join_device(8, 1), 0x801);
        for (major, minor) in [(0, 0), (8, 1), (0xfff, 0xff), (0x12345, 0xfffff)] {
            assert_eq!(split_device(join_device(major, minor)), (major, minor));
        }
    }
}
