//! The inode numbers below `.twinfs`, where kept states are found
//! ([`snapshots_directory`](crate::snapshots_directory)), and the operations that are about them.

use crate::{FsError, Ino, Op, ROOT_INO, Result};

/// The name in the root.
pub const DOT_TWINFS: &[u8] = b".twinfs";
/// The one name in it.
pub(crate) const SNAPSHOTS: &[u8] = b"snapshots";
/// The bit of inode numbers below `.twinfs`. It is not the highest one, so that the numbers stay positive for programs
/// that take them for signed ones.
const BELOW: Ino = 1 << 62;
/// The bits for the number of an inode in its state. Above them are those for the number of the state, which is 0
/// for the two directories that are in no state.
const INO_BITS: u32 = 38;
/// The directory `.twinfs`.
pub(crate) const DOT_INO: Ino = BELOW | 1;
/// The directory `.twinfs/snapshots`.
pub(crate) const SNAPSHOTS_INO: Ino = BELOW | 2;

/// True for the number of an inode below `.twinfs`, or of that directory itself.
pub fn is_below(ino: Ino) -> bool {
    ino & BELOW != 0
}

/// True if the name that leads to this inode may lead to another one without an operation on its directory: the name
/// of a state, and those of the directories above. Clients must not rely on what they know of it.
pub fn is_volatile(ino: Ino) -> bool {
    is_below(ino) && matches!(apart(ino), (0, _) | (_, ROOT_INO))
}

/// True if an operation is about something below `.twinfs`.
pub(crate) fn concerns(op: &Op) -> bool {
    match op {
        Op::Rename { dir, to_dir, .. } => is_below(*dir | *to_dir),
        Op::Link { ino, dir, .. } => is_below(*ino | *dir),
        op => is_below(op.subject()),
    }
}

/// True if an operation is about something below `.twinfs`, or looks for that name.
pub fn leads_below(op: &Op) -> bool {
    concerns(op) || finds_it(op)
}

/// True if an operation looks for `.twinfs` in the root.
pub(crate) fn finds_it(op: &Op) -> bool {
    matches!(op, Op::Lookup { dir: ROOT_INO, name } if **name == *DOT_TWINFS)
}

/// The largest number of a state that an inode number has room for.
const ID_MASK: u64 = (BELOW >> INO_BITS) - 1;

/// The number below `.twinfs` of an inode of a state.
pub(crate) fn number_below(id: u64, ino: Ino) -> Result<Ino> {
    match ino >> INO_BITS == 0 && id <= ID_MASK {
        true => Ok(BELOW | id << INO_BITS | ino),
        false => Err(FsError::NotSupported(
            "too large a number for .twinfs/snapshots: use mount --snapshot",
        )),
    }
}

/// The state and the number in it of an inode below `.twinfs`.
pub(crate) fn apart(ino: Ino) -> (u64, Ino) {
    (ino >> INO_BITS & ID_MASK, ino & ((1 << INO_BITS) - 1))
}
