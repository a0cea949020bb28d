//! The kernel's side of the FUSE protocol: opcodes, flags and the layout of every structure that
//! passes `/dev/fuse`, as in the kernel's `include/uapi/linux/fuse.h`, protocol 7.31 to 7.45.
//!
//! Names follow that header without its prefixes. Numbers are in the machine's byte order.
#![allow(unreachable_pub)] // Private as a whole; inside it all is one table.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The protocol that this front end speaks.
pub const MAJOR: u32 = 7;
/// The newest minor version that it supports.
pub const MINOR: u32 = 45;
/// The oldest minor version that it accepts, that of Linux 5.4.
pub const OLDEST_MINOR: u32 = 31;
/// The root directory's node number.
pub const ROOT_NODE: u64 = 1;

macro_rules! opcodes {
    ($($name:ident = $code:literal),* $(,)?) => {
        /// Numbers of the requests of the kernel.
        pub mod opcode {
            $(pub const $name: u32 = $code;)*
        }
        /// The name of an opcode, for messages and task names.
        pub fn opcode_name(code: u32) -> &'static str {
            match code {
                $(opcode::$name => concat!("FUSE_", stringify!($name)),)*
                _ => "an unknown FUSE opcode",
            }
        }
    };
}

opcodes! {
    LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8,
    MKDIR = 9, UNLINK = 10, RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16,
    STATFS = 17, RELEASE = 18, FSYNC = 20, SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23,
    REMOVEXATTR = 24, FLUSH = 25, INIT = 26, OPENDIR = 27, READDIR = 28, RELEASEDIR = 29,
    FSYNCDIR = 30, GETLK = 31, SETLK = 32, SETLKW = 33, ACCESS = 34, CREATE = 35, INTERRUPT = 36,
    BMAP = 37, DESTROY = 38, IOCTL = 39, POLL = 40, NOTIFY_REPLY = 41, BATCH_FORGET = 42,
    FALLOCATE = 43, READDIRPLUS = 44, RENAME2 = 45, LSEEK = 46, COPY_FILE_RANGE = 47,
    SETUPMAPPING = 48, REMOVEMAPPING = 49, SYNCFS = 50, TMPFILE = 51, STATX = 52,
}

/// Flags of INIT, the upper half of which travels in `flags2`.
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const INIT_EXT: u64 = 1 << 30;
}

/// The bits that say which fields of `SetattrIn` are valid.
pub mod fattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const CTIME: u32 = 1 << 10;
}

/// The flags of the reply to an open, which allow the kernel things.
pub mod fopen {
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const CACHE_DIR: u32 = 1 << 3;
}

/// The flags of a WRITE request.
pub mod write {
    /// The write comes from the page cache, and the kernel does not know which process made it.
    pub const CACHE: u32 = 1 << 0;
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

/// The notice that the kernel's attributes of an inode are out of date, and so are its cached pages
/// from an offset on (none if the offset is negative). It is sent in the error field, with the
/// number 0 in place of a request's.
pub const NOTIFY_INVAL_INODE: i32 = 2;

/// Flag of GETATTR: the request has a file handle.
pub const GETATTR_FH: u32 = 1;

/// The minor version of Linux 5.16. From this version on, only writes ask for attributes by a file
/// handle, as long as the attributes have not expired.
pub const GATED_MINOR: u32 = 35;

/// The minor version of Linux 6.16. From this version on, the kernel holds a page as being written
/// until its write was answered, so that who waits for the page waits for that.
pub const TELLS_WRITTEN_MINOR: u32 = 44;

/// Flag of FSYNC and FSYNCDIR.
pub const FSYNC_FDATASYNC: u32 = 1;

macro_rules! structures {
    ($($(#[$doc:meta])* struct $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub struct $name { $(pub $field: $type),* }
        )*
    };
}

structures! {
    /// The header of every request.
    struct InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32,
        total_extlen: u16, padding: u16,
    }
    /// The header of every reply. `error` is zero or a negative errno.
    struct OutHeader { len: u32, error: i32, unique: u64 }
    struct Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32,
        mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }
    struct InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    /// Follows `InitIn` when its flags have `INIT_EXT`.
    struct InitInExt { flags2: u32, unused: [u32; 11] }
    struct InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, unused: [u32; 6],
    }
    struct EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }
    /// Follows the header of GETATTR.
    struct GetattrIn { getattr_flags: u32, dummy: u32, fh: u64 }
    struct AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    struct ForgetIn { nlookup: u64 }
    struct ForgetOne { nodeid: u64, nlookup: u64 }
    struct BatchForgetIn { count: u32, dummy: u32 }
    struct SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64,
        ctime: u64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32,
        uid: u32, gid: u32, unused5: u32,
    }
    struct MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    struct MkdirIn { mode: u32, umask: u32 }
    struct RenameIn { newdir: u64 }
    struct Rename2In { newdir: u64, flags: u32, padding: u32 }
    struct LinkIn { oldnodeid: u64 }
    struct OpenIn { flags: u32, open_flags: u32 }
    struct CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    struct OpenOut { fh: u64, open_flags: u32, backing_id: i32 }
    struct ReadIn {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    struct WriteIn {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    struct WriteOut { size: u32, padding: u32 }
    struct NotifyInvalInodeOut { ino: u64, off: i64, len: i64 }
    struct StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32,
        frsize: u32, padding: u32, spare: [u32; 6],
    }
    /// The arguments of RELEASE and RELEASEDIR.
    struct ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    struct FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }
    struct SetxattrIn { size: u32, flags: u32 }
    struct GetxattrIn { size: u32, padding: u32 }
    struct GetxattrOut { size: u32, padding: u32 }
    struct AccessIn { mask: u32, padding: u32 }
    struct FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    struct IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    struct IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    struct LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    struct LseekOut { offset: u64 }
    struct Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
    struct SxTime { secs: i64, nanos: u32, reserved: i32 }
    struct Statx {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16,
        spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64, atime: SxTime,
        btime: SxTime, ctime: SxTime, mtime: SxTime, rdev_major: u32, rdev_minor: u32,
        dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    struct StatxOut {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx,
    }
}

/// Our own ioctl on any file of a mount. It returns the number of the process that serves the
/// mount, as 32 bits; `umount` so learns for which process to wait. Encoded as `_IOR(0xf5, 1,
/// u32)`.
pub const IOCTL_DAEMON: u32 = 2 << 30 | 4 << 16 | 0xf5 << 8 | 1;

/// Our own ioctl that makes the whole volume durable, with all that the kernel had collected, and
/// reports whether that succeeded, which no system call reports on a FUSE mount. Encoded as `_IO(0xf5, 2)`.
pub const IOCTL_SYNC: u32 = 0xf5 << 8 | 2;

/// Our own ioctl that returns the number of the kernel's own writes that have failed so far, as 64
/// bits. Encoded as `_IOR(0xf5, 3, u64)`.
pub const IOCTL_LOST: u32 = 2 << 30 | 8 << 16 | 0xf5 << 8 | 3;

/// Our own ioctl that returns 1 if a recording of the mount ended before its time, as 32 bits; what
/// is recorded until then is written out. Encoded as `_IOR(0xf5, 8, u32)`.
pub const IOCTL_RECORDING: u32 = 2 << 30 | 4 << 16 | 0xf5 << 8 | 8;

/// Our own ioctl that returns when everything that the kernel had collected has arrived, which syncfs does
/// not wait for. Encoded as `_IO(0xf5, 4)`.
pub const IOCTL_FETCH: u32 = 0xf5 << 8 | 4;

/// The length of the two structures before the data of a WRITE.
pub const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// Lengths of directory entries are rounded up to a multiple of this.
pub const DIRENT_ALIGN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernel_s_sizes() {
        let sizes = [
            (size_of::<InHeader>(), 40),
            (size_of::<OutHeader>(), 16),
            (size_of::<Attr>(), 88),
            (size_of::<InitIn>() + size_of::<InitInExt>(), 64),
            (size_of::<InitOut>(), 64),
            (size_of::<EntryOut>(), 128),
            (size_of::<AttrOut>(), 104),
            (size_of::<SetattrIn>(), 88),
            (size_of::<CreateIn>(), 16),
            (size_of::<OpenOut>(), 16),
            (size_of::<ReadIn>(), 40),
            (size_of::<WriteIn>(), 40),
            (size_of::<StatfsOut>(), 80),
            (size_of::<Dirent>(), 24),
            (size_of::<Statx>(), 256),
            (size_of::<StatxOut>(), 288),
        ];
        for (ours, theirs) in sizes {
            assert_eq!(ours, theirs);
        }
    }
}
