//! The errands of a [`Deputy`](super::Deputy), and the messages for them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The most errands that are under way at once: as many as the deputy has threads for them.
pub(super) const MOST_UNDER_WAY: usize = 4;
/// The longest message: three paths and a head.
pub(super) const MOST_BYTES: usize = 16 << 10;

/// An errand that a deputy does for its daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Learn where the mount is. This must have ended before any other errand begins.
    Know(Place),
    /// Open the file that tells the kernel that opens need no request, and close it again.
    Prime,
    /// Have the kernel write out a file, named by its node and generation, and wait for that.
    WriteOut { node: u64, generation: u32 },
    /// Have the kernel write out all files: when the errand has ended, the daemon has read every
    /// request for that. The number must be another one each time.
    WriteOutAll { number: u64 },
    /// Have the kernel begin to write out all files. This looks no name up, because whoever waits
    /// for it may hold the directory.
    StartWriting,
    /// Unmount; if a process uses the mount, write everything out and detach the mount.
    Unmount,
    /// Detach the mount from the tree.
    Detach,
}

/// The place of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// The device number of the mount as `major:minor`, to notice another file system mounted over
    /// it.
    pub(super) device: String,
    /// The name, in its root, of the file that the front end answers for itself.
    pub(super) own_file: String,
    /// True if fusermount3 unmounts it.
    pub(super) by_helper: bool,
}

/// The numbers of errands in messages.
pub(super) mod kind {
    pub(in super::super) const KNOW: u32 = 1;
    pub(in super::super) const PRIME: u32 = 2;
    pub(in super::super) const WRITE_OUT: u32 = 3;
    pub(in super::super) const WRITE_OUT_ALL: u32 = 4;
    pub(in super::super) const UNMOUNT: u32 = 5;
    pub(in super::super) const DETACH: u32 = 6;
    pub(in super::super) const START_WRITING: u32 = 7;
}

/// The head of a message to the deputy. That of `KNOW` is followed by the texts of the place, each
/// with a zero byte behind it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Order {
    pub(super) id: u64,
    pub(super) kind: u32,
    /// The generation of a file; for `KNOW`, whether fusermount3 unmounts.
    pub(super) generation: u32,
    /// A node, or the number of `WRITE_OUT_ALL`.
    pub(super) node: u64,
}

/// A message of the deputy: an errand has ended, with an errno or zero. The first one, with the number
/// zero, is followed by the numbers of the deputy's threads, 32 bits each.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Said {
    pub(super) id: u64,
    pub(super) errno: i32,
    pub(super) padding: i32,
}

impl Errand {
    /// The message for this errand.
    pub(super) fn encode(&self, id: u64) -> Vec<u8> {
        let mut order = Order { id, ..Order::default() };
        let mut texts = Vec::new();
        match self {
            Errand::Know(place) => {
                (order.kind, order.generation) = (kind::KNOW, place.by_helper.into());
                for text in [place.dir.as_os_str(), place.device.as_ref(), place.own_file.as_ref()]
                {
                    texts.extend_from_slice(OsStr::as_bytes(text));
                    texts.push(0);
                }
            }
            Errand::Prime => order.kind = kind::PRIME,
            Errand::WriteOut { node, generation } => {
                (order.kind, order.node, order.generation) = (kind::WRITE_OUT, *node, *generation);
            }
            Errand::WriteOutAll { number } => {
                (order.kind, order.node) = (kind::WRITE_OUT_ALL, *number);
            }
            Errand::StartWriting => order.kind = kind::START_WRITING,
            Errand::Unmount => order.kind = kind::UNMOUNT,
            Errand::Detach => order.kind = kind::DETACH,
        }
        let mut message = order.as_bytes().to_vec();
        message.append(&mut texts);
        message
    }

    /// The number and the errand of a message; `None` if it makes no sense.
    pub(super) fn decode(message: &[u8]) -> Option<(u64, Errand)> {
        let (order, rest) = Order::read_from_prefix(message).ok()?;
        let Order { id, kind, generation, node } = order;
        let errand = match kind {
            kind::KNOW => {
                let mut texts = rest.split(|&byte| byte == 0);
                let mut text = || texts.next().map(OsStr::from_bytes);
                let (dir, device, own_file) = (text()?.into(), text()?, text()?);
                let lossy = |text: &OsStr| text.to_string_lossy().into_owned();
                let (device, own_file) = (lossy(device), lossy(own_file));
                Errand::Know(Place { dir, device, own_file, by_helper: generation != 0 })
            }
            kind::PRIME => Errand::Prime,
            kind::WRITE_OUT => Errand::WriteOut { node, generation },
            kind::WRITE_OUT_ALL => Errand::WriteOutAll { number: node },
            kind::START_WRITING => Errand::StartWriting,
            kind::UNMOUNT => Errand::Unmount,
            kind::DETACH => Errand::Detach,
            _ => return None,
        };
        Some((id, errand))
    }
}

/// The result of an errand.
pub(super) type Done = Result<(), Errno>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errand_is_read_as_it_was_written() {
        let place = Place {
            dir: "/mnt/a b".into(),
            device: "0:41".into(),
            own_file: ".twinfs-1".into(),
            by_helper: true,
        };
        for errand in [
            Errand::Know(place),
            Errand::Prime,
            Errand::WriteOut { node: u64::MAX - 1, generation: 7 },
            Errand::WriteOutAll { number: 9 },
            Errand::StartWriting,
            Errand::Unmount,
            Errand::Detach,
        ] {
            assert_eq!(Errand::decode(&errand.encode(5)), Some((5, errand)));
        }
        assert_eq!(Errand::decode(&[0; 24]), None);
        assert_eq!(Errand::decode(&[1; 3]), None);
    }
}
