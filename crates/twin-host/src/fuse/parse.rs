//! Parses a packet of the kernel into a call with its arguments.
//!
//! Contract: no packet causes a panic. A packet that is short, unterminated or out of range gives a
//! [`Malformed`] that describes it. Names are checked here (not empty, without a slash), so that
//! every parsed name is a [`twin_fs::Name`].

use std::fmt;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::abi::{self, InHeader, InitInExt, opcode};

/// A request of the kernel, its arguments still in the packet.
#[derive(Debug)]
pub(super) enum Call<'a> {
    Init {
        init: abi::InitIn,
        flags2: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    Forget {
        count: u64,
    },
    BatchForget {
        forgets: Vec<abi::ForgetOne>,
    },
    GetAttr {
        by_handle: bool,
    },
    Statx,
    SetAttr {
        set: abi::SetattrIn,
    },
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        name: &'a [u8],
        node: abi::MknodIn,
    },
    MakeDir {
        name: &'a [u8],
        dir: abi::MkdirIn,
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        to_dir: u64,
        to_name: &'a [u8],
        flags: u32,
    },
    Link {
        old: u64,
        name: &'a [u8],
    },
    Open {
        open: abi::OpenIn,
    },
    Read {
        read: abi::ReadIn,
    },
    /// The data follows the two structures (`abi::WRITE_HEAD`).
    Write {
        write: abi::WriteIn,
    },
    StatFs,
    Release {
        fh: u64,
    },
    Fsync {
        data_only: bool,
    },
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        room: u32,
    },
    ListXattr {
        room: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Flush,
    OpenDir,
    ReadDir {
        read: abi::ReadIn,
        plus: bool,
    },
    ReleaseDir {
        fh: u64,
    },
    FsyncDir {
        data_only: bool,
    },
    Access {
        mask: u32,
    },
    Create {
        name: &'a [u8],
        create: abi::CreateIn,
    },
    Fallocate {
        range: abi::FallocateIn,
    },
    Seek {
        seek: abi::LseekIn,
    },
    SyncFs,
    Destroy,
    Interrupt,
    Ioctl {
        ioctl: abi::IoctlIn,
    },
    /// A call that this front end does not support.
    Other,
}

/// A packet that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// The number of the request to answer, if it could be read.
    pub(super) unique: Option<u64>,
    /// The opcode, or zero if it could not be read.
    pub(super) opcode: u32,
    /// The part of the packet that is wrong.
    pub(super) what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed packet, {}: {}", abi::opcode_name(self.opcode), self.what)
    }
}

/// Parses a packet.
pub(super) fn parse(packet: &[u8]) -> Result<(InHeader, Call<'_>), Malformed> {
    let Ok((header, rest)) = InHeader::read_from_prefix(packet) else {
        return Err(Malformed { unique: None, opcode: 0, what: "shorter than a header" });
    };
    let malformed = |what| Malformed { unique: Some(header.unique), opcode: header.opcode, what };
    if header.len as usize != packet.len() {
        return Err(malformed("its length is not that of the packet"));
    }
    // Behind the arguments there may be extensions that we did not ask for.
    let extensions = usize::from(header.total_extlen) * 8;
    let Some(len) = rest.len().checked_sub(extensions) else {
        return Err(malformed("its extensions are longer than the packet"));
    };
    let call = arguments(header.opcode, Arguments(&rest[..len])).map_err(malformed)?;
    Ok((header, call))
}

fn arguments(code: u32, mut args: Arguments<'_>) -> Result<Call<'_>, &'static str> {
    Ok(match code {
        opcode::LOOKUP => Call::Lookup { name: args.any_name()? },
        opcode::FORGET => Call::Forget { count: args.take::<abi::ForgetIn>()?.nlookup },
        opcode::BATCH_FORGET => Call::BatchForget { forgets: args.forgets()? },
        opcode::GETATTR => {
            let ask: abi::GetattrIn = args.take().unwrap_or_default();
            Call::GetAttr { by_handle: ask.getattr_flags & abi::GETATTR_FH != 0 }
        }
        opcode::STATX => Call::Statx,
        opcode::SETATTR => Call::SetAttr { set: args.take()? },
        opcode::READLINK => Call::ReadLink,
        opcode::OPEN => Call::Open { open: args.take()? },
        opcode::READ => Call::Read { read: args.take()? },
        opcode::WRITE => args.write()?,
        opcode::STATFS => Call::StatFs,
        opcode::RELEASE => Call::Release { fh: args.handle() },
        opcode::FSYNC => Call::Fsync { data_only: args.data_only()? },
        opcode::FLUSH => Call::Flush,
        opcode::OPENDIR => Call::OpenDir,
        opcode::READDIR => Call::ReadDir { read: args.take()?, plus: false },
        opcode::READDIRPLUS => Call::ReadDir { read: args.take()?, plus: true },
        opcode::RELEASEDIR => Call::ReleaseDir { fh: args.handle() },
        opcode::FSYNCDIR => Call::FsyncDir { data_only: args.data_only()? },
        opcode::ACCESS => Call::Access { mask: args.take::<abi::AccessIn>()?.mask },
        opcode::FALLOCATE => Call::Fallocate { range: args.take()? },
        opcode::LSEEK => Call::Seek { seek: args.take()? },
        opcode::SYNCFS => Call::SyncFs,
        opcode::DESTROY => Call::Destroy,
        opcode::INTERRUPT => Call::Interrupt,
        opcode::IOCTL => Call::Ioctl { ioctl: args.take()? },
        opcode::INIT => args.init()?,
        _ => return names(code, args),
    })
}

/// The calls that carry names.
fn names(code: u32, mut args: Arguments<'_>) -> Result<Call<'_>, &'static str> {
    Ok(match code {
        opcode::SYMLINK => Call::Symlink { name: args.name()?, target: args.text()? },
        opcode::MKNOD => {
            let node = args.take()?;
            Call::MakeNode { name: args.name()?, node }
        }
        opcode::MKDIR => {
            let dir = args.take()?;
            Call::MakeDir { name: args.name()?, dir }
        }
        opcode::UNLINK => Call::Unlink { name: args.name()? },
        opcode::RMDIR => Call::RemoveDir { name: args.name()? },
        opcode::RENAME => {
            let to_dir = args.take::<abi::RenameIn>()?.newdir;
            Call::Rename { to_dir, name: args.name()?, to_name: args.name()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let abi::Rename2In { newdir: to_dir, flags, .. } = args.take()?;
            Call::Rename { to_dir, name: args.name()?, to_name: args.name()?, flags }
        }
        opcode::LINK => {
            let old = args.take::<abi::LinkIn>()?.oldnodeid;
            Call::Link { old, name: args.name()? }
        }
        opcode::CREATE => {
            let create = args.take()?;
            Call::Create { name: args.name()?, create }
        }
        opcode::SETXATTR => {
            let abi::SetxattrIn { size, flags } = args.take()?;
            let name = args.text()?;
            Call::SetXattr { name, value: args.bytes(size)?, flags }
        }
        opcode::GETXATTR => {
            let room = args.take::<abi::GetxattrIn>()?.size;
            Call::GetXattr { name: args.text()?, room }
        }
        opcode::LISTXATTR => Call::ListXattr { room: args.take::<abi::GetxattrIn>()?.size },
        opcode::REMOVEXATTR => Call::RemoveXattr { name: args.text()? },
        _ => Call::Other,
    })
}

/// The unread part of a packet.
struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, &'static str> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| "its arguments are cut off")?;
        self.0 = rest;
        Ok(value)
    }

    fn bytes(&mut self, len: u32) -> Result<&'a [u8], &'static str> {
        let (bytes, rest) = self.0.split_at_checked(len as usize).ok_or("its data is cut off")?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The bytes before the next zero byte, at least one.
    fn text(&mut self) -> Result<&'a [u8], &'static str> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or("a name without an end")?;
        let text = &self.0[..end];
        self.0 = &self.0[end + 1..];
        if text.is_empty() { Err("an empty name") } else { Ok(text) }
    }

    /// A file name, including `.` and `..`.
    fn any_name(&mut self) -> Result<&'a [u8], &'static str> {
        let name = self.text()?;
        if name.contains(&b'/') { Err("a name with a slash") } else { Ok(name) }
    }

    fn name(&mut self) -> Result<&'a [u8], &'static str> {
        let name = self.any_name()?;
        if name == b"." || name == b".." { Err("a name of dots") } else { Ok(name) }
    }

    /// The handle of what is released.
    fn handle(&mut self) -> u64 {
        self.take::<abi::ReleaseIn>().map_or(0, |release| release.fh)
    }

    fn data_only(&mut self) -> Result<bool, &'static str> {
        Ok(self.take::<abi::FsyncIn>()?.fsync_flags & abi::FSYNC_FDATASYNC != 0)
    }

    fn forgets(&mut self) -> Result<Vec<abi::ForgetOne>, &'static str> {
        let count = self.take::<abi::BatchForgetIn>()?.count;
        // The count must not size a vector unless the packet is large enough for it.
        let fits = self.0.len() / size_of::<abi::ForgetOne>();
        if count as usize > fits {
            return Err("more inodes to forget than it holds");
        }
        (0..count).map(|_| self.take()).collect()
    }

    fn write(&mut self) -> Result<Call<'a>, &'static str> {
        let write: abi::WriteIn = self.take()?;
        if self.0.len() != write.size as usize {
            return Err("its data is not as long as it says");
        }
        Ok(Call::Write { write })
    }

    fn init(&mut self) -> Result<Call<'a>, &'static str> {
        let init: abi::InitIn = self.take()?;
        let extended = u64::from(init.flags) & abi::init::INIT_EXT != 0;
        let flags2 = if extended { self.take::<InitInExt>()?.flags2 } else { 0 };
        Ok(Call::Init { init, flags2 })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use twin_rt::Rng;
    use zerocopy::IntoBytes;

    /// A packet as the kernel would make it.
    pub(in super::super) fn packet(opcode: u32, nodeid: u64, arguments: &[&[u8]]) -> Vec<u8> {
        let len = size_of::<InHeader>() + arguments.iter().map(|a| a.len()).sum::<usize>();
        let header =
            InHeader { len: len as u32, opcode, unique: 77, nodeid, ..InHeader::default() };
        let mut packet = header.as_bytes().to_vec();
        arguments.iter().for_each(|a| packet.extend_from_slice(a));
        packet
    }

    fn samples() -> Vec<Vec<u8>> {
        let mut packets: Vec<_> = (0..60).map(|code| packet(code, 1, &[&[0u8; 128]])).collect();
        let name: &[u8] = b"name\0";
        let write = abi::WriteIn { size: 10, ..Default::default() };
        let set = abi::SetxattrIn { size: 5, flags: 0 };
        let forgets = abi::BatchForgetIn { count: 2, dummy: 0 };
        packets.extend([
            packet(opcode::LOOKUP, 1, &[name]),
            packet(opcode::WRITE, 3, &[write.as_bytes(), &[9; 10]]),
            packet(opcode::RENAME2, 1, &[abi::Rename2In::default().as_bytes(), name, b"to\0"]),
            packet(opcode::SETXATTR, 3, &[set.as_bytes(), b"user.a\0", b"value"]),
            packet(opcode::BATCH_FORGET, 0, &[forgets.as_bytes(), &[1; 32]]),
            packet(opcode::CREATE, 1, &[abi::CreateIn::default().as_bytes(), name]),
            packet(opcode::SYMLINK, 1, &[name, b"/a/target\0"]),
        ]);
        packets
    }

    #[test]
    fn no_mutation_of_a_packet_makes_the_parser_panic() {
        let samples = samples();
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let mut packet = rng.pick(&samples).clone();
            for _ in 0..rng.range(1, 6) {
                match rng.below(3) {
                    0 => packet.truncate(rng.below(packet.len() as u64 + 1) as usize),
                    1 => packet.extend((0..rng.below(40)).map(|i| i as u8)),
                    _ if packet.is_empty() => {}
                    _ => {
                        let at = rng.below(packet.len() as u64) as usize;
                        packet[at] = rng.next_u64() as u8;
                    }
                }
            }
            if rng.chance(0.8) && packet.len() >= 4 {
                let len = packet.len() as u32;
                packet[..4].copy_from_slice(&len.to_ne_bytes());
            }
            let _ = parse(&packet);
        }
    }

    #[test]
    fn a_cut_packet_is_malformed_at_every_length() {
        for whole in samples().into_iter().skip(60) {
            for len in 0..whole.len() {
                let mut cut = whole[..len].to_vec();
                if len >= 4 {
                    cut[..4].copy_from_slice(&(len as u32).to_ne_bytes());
                }
                assert!(parse(&cut).is_err(), "{len} of {}", whole.len());
            }
            assert!(parse(&whole).is_ok());
        }
    }

    #[test]
    fn the_payload_of_a_write_begins_where_it_is_said_to() {
        let write = abi::WriteIn { size: 3, offset: 9, ..Default::default() };
        let packet = packet(opcode::WRITE, 5, &[write.as_bytes(), b"abc"]);
        let (header, call) = parse(&packet).unwrap();
        let Call::Write { write } = call else { panic!("{call:?}") };
        let data = &packet[abi::WRITE_HEAD..];
        assert_eq!((header.nodeid, write.offset, data), (5, 9, &b"abc"[..]));
    }

    #[test]
    fn names_with_slashes_or_of_dots_are_refused() {
        for name in [&b"a/b\0"[..], b"\0", b"noend"] {
            assert!(parse(&packet(opcode::LOOKUP, 1, &[name])).is_err());
        }
        assert!(parse(&packet(opcode::LOOKUP, 1, &[b"..\0"])).is_ok());
        assert!(parse(&packet(opcode::UNLINK, 1, &[b"..\0"])).is_err());
    }

    #[test]
    fn extensions_behind_the_arguments_are_skipped() {
        let mut packet = packet(opcode::LOOKUP, 1, &[b"name\0", &[0; 3], &[1; 8]]);
        let at = std::mem::offset_of!(InHeader, total_extlen);
        packet[at..at + 2].copy_from_slice(&1u16.to_ne_bytes());
        let (_, call) = parse(&packet).unwrap();
        assert!(matches!(call, Call::Lookup { name: b"name" }));
    }
}
