//! Translates a call of the kernel into an operation of the core and the expected form of its
//! reply.
//!
//! Conventions of the kernel that do not concern the core end here: node numbers, flag words,
//! masks, and calls that need no operation.

use rustix::io::Errno;
use twin_fs::snapshots::is_volatile;
use twin_fs::{
    Cred, Data, Fallocate, Ino, Op, ROOT_INO, RenameMode, SeekFor, SetAttr, SetTime, Timestamp,
    XattrMode, acl, mode,
};

use super::abi::{self, InHeader, fattr};
use super::options::{Agreed, SessionOptions};
use super::parse::Call;

/// The form of the reply that the kernel expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// No reply at all.
    Silence,
    /// A reply without contents: success alone.
    Done,
    /// An entry. A missing name may be reported as a negative entry.
    Lookup,
    /// The attributes of an inode to which a name led.
    Entry,
    /// An entry and an open.
    Create {
        /// The client insists that the file is new (O_EXCL).
        exclusive: bool,
        /// The core counts the open.
        opened: bool,
    },
    Attr,
    /// Attributes for a caller that is about to write.
    Gate,
    /// Attributes that the operation has just changed.
    Changed,
    Statx,
    Open {
        dir: bool,
    },
    /// Success alone, of a call by which the file may have lost set-id bits without the kernel's
    /// knowledge.
    Allocated {
        stale: Option<u64>,
    },
    Data,
    Written {
        /// The file of this number may have lost set-id bits without the kernel's knowledge.
        stale: Option<u64>,
        /// The kernel wrote on its own account: the answer may be held back.
        late: bool,
    },
    Bytes,
    /// Bytes that must fit a buffer of this size, or only their length if the size is zero.
    Sized(u32),
    Dir {
        plus: bool,
    },
    /// The figures of the volume, as somebody in this directory sees them.
    Stat(Ino),
    Offset,
    Ioctl,
}

/// The operation that a WRITE stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteHow {
    /// A client writes now.
    Now,
    /// A client appends now, and others may have done so since the kernel learned of the end.
    Append,
    /// The kernel writes what it collected.
    Late,
}

/// How to treat a call.
pub(super) enum Plan {
    /// Execute this operation for this user, and answer in this form.
    Ask(Cred, Op, Expect),
    /// Execute a WRITE, whose data is still in the packet.
    Write { cred: Cred, ino: Ino, off: u64, len: usize, how: WriteHow, stale: Option<u64> },
    /// Execute these operations, without replies.
    Forget(Vec<Op>),
    /// Answer at once with this error.
    Refuse(Errno),
    /// Answer success at once.
    Accept,
    /// Answer with the entry of our own file.
    Prime,
    /// Answer with the attributes of our own file.
    OwnAttr,
    /// Answer with bytes of our own file.
    OwnData { len: u32 },
    /// Answer an open of the deputy, which no file system sees.
    OwnOpen { dir: bool },
    /// Answer when what the kernel holds has arrived.
    Fetch,
    /// Answer with the number of this process.
    TellDaemon,
    /// Answer with the number of writes that were lost.
    TellLost,
    /// Answer whether a recording ended before its time.
    TellRecording,
    /// Agree on the protocol.
    Init { init: abi::InitIn, flags2: u32 },
}

/// The node of our own file, which no listing shows: its first open tells the kernel that opens need
/// no request, and reading it tells us that the kernel has sent what it sent before.
pub(super) const PRIME_NODE: u64 = u64::MAX;
/// The handle of what the deputy opens.
pub(super) const OWN_HANDLE: u64 = u64::MAX;

/// The inode number of a node of the kernel.
pub(super) fn ino(node: u64) -> Result<Ino, Errno> {
    match node {
        abi::ROOT_NODE => Ok(ROOT_INO),
        // The node with our root's number gets the kernel's root number, so that the mapping is one
        // to one.
        ROOT_INO => Ok(abi::ROOT_NODE),
        0 | PRIME_NODE => Err(Errno::STALE),
        node => Ok(node),
    }
}

/// The node number that the kernel uses for an inode.
pub(super) fn node(ino: Ino) -> u64 {
    match ino {
        ROOT_INO => abi::ROOT_NODE,
        abi::ROOT_NODE => ROOT_INO,
        ino => ino,
    }
}

/// The credentials of a client. `groups` is called if the core may need the groups.
fn cred(header: &InHeader, options: &SessionOptions, groups: bool) -> Cred {
    let wanted = header.uid != 0 && (groups || !options.kernel_checks);
    let groups = if wanted { super::client::groups_of(header.pid) } else { Box::default() };
    Cred { uid: header.uid, gid: header.gid, groups, checked: options.kernel_checks }
}

/// Plans a call. `prime` is the name of the file of [`Plan::Prime`].
pub(super) fn plan(
    header: &InHeader,
    call: Call<'_>,
    options: &SessionOptions,
    agreed: &Agreed,
    prime: &[u8],
) -> Plan {
    match translate(header, call, options, agreed, prime) {
        Ok(plan) => plan,
        Err(errno) => Plan::Refuse(errno),
    }
}

fn translate(
    header: &InHeader,
    call: Call<'_>,
    options: &SessionOptions,
    agreed: &Agreed,
    prime: &[u8],
) -> Result<Plan, Errno> {
    match call {
        Call::Init { init, flags2 } => return Ok(Plan::Init { init, flags2 }),
        _ if !agreed.started => return Err(Errno::PROTO),
        Call::Lookup { name } if header.nodeid == abi::ROOT_NODE && name == prime => {
            return Ok(Plan::Prime);
        }
        Call::Forget { count } => return Ok(forget(&[(header.nodeid, count)])),
        Call::BatchForget { forgets } => {
            let forgets: Vec<_> = forgets.iter().map(|f| (f.nodeid, f.nlookup)).collect();
            return Ok(forget(&forgets));
        }
        // After this answer to a flush, the kernel sends no more of them. Operations cannot be
        // interrupted either: they end by themselves.
        Call::Flush | Call::Interrupt | Call::Other => return Err(Errno::NOSYS),
        call if header.nodeid == PRIME_NODE => return own_file(&call, agreed),
        Call::Ioctl { ioctl } => return own_ioctl(header, &ioctl, options),
        Call::Destroy => return Ok(Plan::Accept),
        Call::Open { .. } if agreed.no_open => return Err(Errno::NOSYS),
        Call::OpenDir if agreed.no_opendir => return Err(Errno::NOSYS),
        Call::Release { fh: OWN_HANDLE } | Call::ReleaseDir { fh: OWN_HANDLE } => {
            return Ok(Plan::Accept);
        }
        Call::Release { .. } if agreed.no_open => return Ok(Plan::Accept),
        Call::ReleaseDir { .. } if agreed.no_opendir => return Ok(Plan::Accept),
        Call::SetXattr { .. }
        | Call::GetXattr { .. }
        | Call::ListXattr { .. }
        | Call::RemoveXattr { .. }
            if !options.xattrs =>
        {
            return Err(Errno::NOSYS);
        }
        Call::SetXattr { name, .. } | Call::GetXattr { name, .. } | Call::RemoveXattr { name }
            if !options.serves_acls() && name.starts_with(b"system.posix_acl_") =>
        {
            return Err(Errno::OPNOTSUPP);
        }
        Call::Write { write } => {
            return write_plan(header, &write, options, agreed);
        }
        _ => {}
    }
    let valid = if let Call::SetAttr { set } = &call { set.valid } else { 0 };
    let allocates = matches!(call, Call::Fallocate { .. });
    let mut cred = cred(header, options, needs_groups(&call));
    // The permission of a process that has the file open for writing was checked at the open.
    cred.checked |= valid & fattr::FH != 0;
    // A change of a file, by any user, removes its capabilities. The kernel sends this request in
    // the name of that user; it has already refused direct requests of users without permission.
    if matches!(&call, Call::RemoveXattr { name } if *name == b"security.capability") {
        cred.uid = 0;
    }
    let (op, mut expect) = operation(ino(header.nodeid)?, call, agreed)?;
    if allocates {
        // A kernel that leaves set-id bits to the server believes that they remain.
        let falls = agreed.kill_privileges && cred.uid != 0;
        expect = Expect::Allocated { stale: falls.then_some(header.nodeid) };
    }
    Ok(Plan::Ask(cred, op, expect))
}

/// True if a call depends on ownership and so on the groups of the client: a member's allocation keeps the
/// set-group-id bit of a file that its group may not execute, and so does a member's ACL.
fn needs_groups(call: &Call<'_>) -> bool {
    match call {
        Call::SetAttr { set } => set.valid & (fattr::GID | fattr::MODE) != 0,
        Call::Fallocate { .. } | Call::SetXattr { name: acl::ACCESS, .. } => true,
        _ => false,
    }
}

/// Plans an ioctl of ours.
fn own_ioctl(
    header: &InHeader,
    ioctl: &abi::IoctlIn,
    options: &SessionOptions,
) -> Result<Plan, Errno> {
    match (ioctl.cmd, ioctl.out_size) {
        (abi::IOCTL_DAEMON, 4) => Ok(Plan::TellDaemon),
        (abi::IOCTL_LOST, 8) => Ok(Plan::TellLost),
        (abi::IOCTL_RECORDING, 4) => Ok(Plan::TellRecording),
        (abi::IOCTL_SYNC, _) => {
            Ok(Plan::Ask(cred(header, options, false), Op::Sync, Expect::Ioctl))
        }
        (abi::IOCTL_FETCH, _) => Ok(Plan::Fetch),
        _ => Err(Errno::NOTTY),
    }
}

/// Plans a call on our own file.
fn own_file(call: &Call<'_>, agreed: &Agreed) -> Result<Plan, Errno> {
    match call {
        Call::GetAttr { .. } => Ok(Plan::OwnAttr),
        Call::Open { .. } if agreed.no_open => Err(Errno::NOSYS),
        Call::Open { .. } => Ok(Plan::OwnOpen { dir: false }),
        Call::Read { read } => Ok(Plan::OwnData { len: read.size.min(MAX_READ) }),
        Call::Release { .. } => Ok(Plan::Accept),
        // A kernel that checks by ACLs looks for one before it lets others than the owner read.
        Call::GetXattr { .. } => Err(Errno::NODATA),
        _ => Err(Errno::STALE),
    }
}

impl Plan {
    /// The plan for a call of the deputy: it opens only to have the kernel write out, which neither
    /// the file system nor what observes it has to do with.
    pub(super) fn of_deputy(self) -> Plan {
        match self {
            Plan::Ask(_, Op::Open { .. }, Expect::Open { dir }) => Plan::OwnOpen { dir },
            // This would wait for a log write, which does not belong to writing out.
            Plan::Ask(_, Op::Sync, Expect::Done) => Plan::Accept,
            plan => plan,
        }
    }
}

fn write_plan(
    header: &InHeader,
    write: &abi::WriteIn,
    options: &SessionOptions,
    agreed: &Agreed,
) -> Result<Plan, Errno> {
    let cred = writer(header, write.write_flags, options, agreed);
    let (ino, off, len) = (ino(header.nodeid)?, write.offset, write.size as usize);
    // Pages from the kernel's write-back cache, whose times the kernel sends itself.
    let late = agreed.writeback && write.write_flags & abi::write::CACHE != 0;
    // A kernel that collects writes is the only one that knows where a file ends, so the offset
    // that it sends is right. Any other kernel knows only the end in our last answer, and beside a
    // server or above a mirrored directory others append too. (The flag is that of the open file. A
    // single write that appends, or does not, by RWF_APPEND or RWF_NOAPPEND looks like any other
    // write.)
    let append = !agreed.writeback
        && write.write_flags & abi::write::CACHE == 0
        && write.flags & libc::O_APPEND as u32 != 0;
    let how = match (late, append) {
        (true, _) => WriteHow::Late,
        (false, true) => WriteHow::Append,
        (false, false) => WriteHow::Now,
    };
    // Such a kernel sends a write at once only if the file has set-id bits, and believes that they
    // remain until it asks for the attributes.
    let falls = agreed.writeback && write.write_flags & abi::write::KILL_SUIDGID != 0;
    let stale = falls.then_some(header.nodeid);
    Ok(Plan::Write { cred, ino, off, len, how, stale })
}

fn forget(forgets: &[(u64, u64)]) -> Plan {
    let op = |&(node, count): &(u64, u64)| Some(Op::Forget { ino: ino(node).ok()?, count });
    // The root needs no reference, so none is given back.
    let forgets = forgets.iter().filter(|(node, count)| *node != abi::ROOT_NODE && *count > 0);
    Plan::Forget(forgets.filter_map(op).collect())
}

/// The credentials of a write. The kernel says in a flag whether set-id bits are cleared, but the
/// core decides it by the user. So a write without the flag is made as the superuser, and a write
/// with it never is.
fn writer(header: &InHeader, flags: u32, options: &SessionOptions, agreed: &Agreed) -> Cred {
    const NOBODY: u32 = 65_534;
    let mut cred = cred(header, options, false);
    if agreed.kill_privileges && options.kernel_checks {
        if flags & abi::write::KILL_SUIDGID == 0 {
            cred.uid = 0;
        } else if cred.uid == 0 {
            cred.uid = NOBODY;
        }
    }
    cred
}

fn operation(ino: Ino, call: Call<'_>, agreed: &Agreed) -> Result<(Op, Expect), Errno> {
    let dir = ino;
    Ok(match call {
        // The kernel does not remember that there is no state of a name.
        Call::Lookup { name } if is_volatile(dir) => {
            (Op::Lookup { dir, name: name.into() }, Expect::Entry)
        }
        Call::Lookup { name } => (Op::Lookup { dir, name: name.into() }, Expect::Lookup),
        Call::GetAttr { by_handle } => {
            let expect = if by_handle && agreed.gated { Expect::Gate } else { Expect::Attr };
            (Op::GetAttr { ino }, expect)
        }
        Call::Statx => (Op::GetAttr { ino }, Expect::Statx),
        Call::SetAttr { set } => (Op::SetAttr { ino, set: set_attr(&set) }, Expect::Changed),
        Call::ReadLink => (Op::ReadLink { ino }, Expect::Bytes),
        Call::Open { open } => (open_file(ino, open.flags), Expect::Open { dir: false }),
        Call::OpenDir => {
            let op = Op::Open { ino, read: true, write: false, truncate: false };
            (op, Expect::Open { dir: true })
        }
        Call::Release { .. } | Call::ReleaseDir { .. } => (Op::Release { ino }, Expect::Done),
        Call::Read { read } => {
            let len = read.size.min(MAX_READ);
            (Op::Read { ino, off: read.offset, len }, Expect::Data)
        }
        Call::StatFs => (Op::StatFs, Expect::Stat(ino)),
        Call::SyncFs => (Op::Sync, Expect::Done),
        Call::Fsync { data_only } | Call::FsyncDir { data_only } => {
            (Op::Fsync { ino, data_only }, Expect::Done)
        }
        Call::ReadDir { read, plus } => {
            let max_bytes = read.size.min(MAX_READ);
            (Op::ReadDir { dir, cookie: read.offset, max_bytes, plus }, Expect::Dir { plus })
        }
        Call::Access { mask } => (Op::Access { ino, mask: mask & 7 }, Expect::Done),
        Call::GetXattr { name, room } => {
            (Op::GetXattr { ino, name: name.into() }, Expect::Sized(room))
        }
        Call::ListXattr { room } => (Op::ListXattr { ino }, Expect::Sized(room)),
        Call::RemoveXattr { name } => (Op::RemoveXattr { ino, name: name.into() }, Expect::Done),
        Call::SetXattr { name, value, flags } => {
            let mode = xattr_mode(flags)?;
            (Op::SetXattr { ino, name: name.into(), value: value.into(), mode }, Expect::Done)
        }
        Call::Fallocate { range } => {
            let (off, len, mode) = (range.offset, range.length, fallocate_mode(range.mode)?);
            (Op::Fallocate { ino, off, len, mode }, Expect::Done)
        }
        Call::Seek { seek } => {
            let what = seek_for(seek.whence)?;
            (Op::Seek { ino, off: seek.offset, what }, Expect::Offset)
        }
        call => return naming(dir, call, agreed),
    })
}

/// The calls that change names.
fn naming(dir: Ino, call: Call<'_>, agreed: &Agreed) -> Result<(Op, Expect), Errno> {
    Ok(match call {
        Call::MakeNode { name, node } => {
            let (mode, rdev) = (new_mode(node.mode, node.umask, agreed), u64::from(node.rdev));
            (Op::MakeNode { dir, name: name.into(), mode, rdev }, Expect::Entry)
        }
        Call::MakeDir { name, dir: make } => {
            let mode = new_mode(make.mode, make.umask, agreed);
            (Op::MakeDir { dir, name: name.into(), mode }, Expect::Entry)
        }
        Call::Symlink { name, target } => {
            (Op::Symlink { dir, name: name.into(), target: target.into() }, Expect::Entry)
        }
        Call::Create { name, create } => {
            let exclusive = create.flags & libc::O_EXCL as u32 != 0;
            let (name, mode) = (name.into(), new_mode(create.mode, create.umask, agreed));
            // The kernel has looked the name up and found nothing. If it exists after all, the
            // kernel must look again, because we could not truncate the file as the open may
            // demand.
            if agreed.no_open {
                let expect = Expect::Create { exclusive, opened: false };
                (Op::MakeNode { dir, name, mode, rdev: 0 }, expect)
            } else {
                let expect = Expect::Create { exclusive, opened: true };
                (Op::Create { dir, name, mode, exclusive: true }, expect)
            }
        }
        Call::Unlink { name } => (Op::Unlink { dir, name: name.into() }, Expect::Done),
        Call::RemoveDir { name } => (Op::RemoveDir { dir, name: name.into() }, Expect::Done),
        Call::Rename { to_dir, name, to_name, flags } => {
            let (to_dir, mode) = (ino(to_dir)?, rename_mode(flags)?);
            let (name, to_name) = (name.into(), to_name.into());
            (Op::Rename { dir, name, to_dir, to_name, mode }, Expect::Done)
        }
        Call::Link { old, name } => {
            (Op::Link { ino: ino(old)?, dir, name: name.into() }, Expect::Entry)
        }
        _ => return Err(Errno::NOSYS),
    })
}

/// The mode of a new inode. The core applies the umask of a kernel that leaves it to us, unless the
/// directory has a default ACL.
fn new_mode(mode: u32, umask: u32, agreed: &Agreed) -> u32 {
    match agreed.passes_umask {
        true => mode::with_umask(mode & (mode::TYPE | mode::PERMISSIONS), umask),
        false => mode & !umask,
    }
}

/// More than any kernel reads at once. It bounds packets that do not come from a kernel.
const MAX_READ: u32 = 4 << 20;

fn open_file(ino: Ino, flags: u32) -> Op {
    let flags = flags as i32;
    let access = flags & libc::O_ACCMODE;
    let write = access != libc::O_RDONLY;
    Op::Open { ino, read: access != libc::O_WRONLY, write, truncate: flags & libc::O_TRUNC != 0 }
}

fn set_attr(set: &abi::SetattrIn) -> SetAttr {
    let has = |flag: u32| set.valid & flag != 0;
    let at = |secs: u64, nanos: u32| Timestamp { secs: secs as i64, nanos: nanos.min(999_999_999) };
    let time = |flag, now, secs, nanos| match (has(flag), has(now)) {
        (false, _) => None,
        (true, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(at(secs, nanos))),
    };
    SetAttr {
        mode: has(fattr::MODE).then_some(set.mode & twin_fs::mode::PERMISSIONS),
        uid: has(fattr::UID).then_some(set.uid),
        gid: has(fattr::GID).then_some(set.gid),
        size: has(fattr::SIZE).then_some(set.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, set.atime, set.atimensec),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, set.mtime, set.mtimensec),
        ctime: has(fattr::CTIME).then(|| at(set.ctime, set.ctimensec)),
    }
}

const WHITEOUT_NOREPLACE: u32 = libc::RENAME_WHITEOUT | libc::RENAME_NOREPLACE;

fn rename_mode(flags: u32) -> Result<RenameMode, Errno> {
    match flags {
        0 => Ok(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        libc::RENAME_WHITEOUT => Ok(RenameMode::Whiteout),
        WHITEOUT_NOREPLACE => Ok(RenameMode::WhiteoutNoReplace),
        _ => Err(Errno::INVAL),
    }
}

fn xattr_mode(flags: u32) -> Result<XattrMode, Errno> {
    match flags as i32 {
        0 => Ok(XattrMode::Any),
        libc::XATTR_CREATE => Ok(XattrMode::Create),
        libc::XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(Errno::INVAL),
    }
}

fn fallocate_mode(mode: u32) -> Result<Fallocate, Errno> {
    let (keep, punch, zero) =
        (libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_ZERO_RANGE);
    let mode = mode as i32;
    let keep_size = mode & keep != 0;
    match mode & !keep {
        0 => Ok(Fallocate::Allocate { keep_size }),
        mode if mode == punch && keep_size => Ok(Fallocate::PunchHole),
        mode if mode == zero => Ok(Fallocate::ZeroRange { keep_size }),
        _ => Err(Errno::OPNOTSUPP),
    }
}

fn seek_for(whence: u32) -> Result<SeekFor, Errno> {
    match whence as i32 {
        libc::SEEK_DATA => Ok(SeekFor::Data),
        libc::SEEK_HOLE => Ok(SeekFor::Hole),
        _ => Err(Errno::INVAL),
    }
}

/// The operation of a write, after its data was read.
pub(super) fn write_op(ino: Ino, off: u64, data: twin_disk::Bytes, how: WriteHow) -> Op {
    let data = Data::Bytes(data);
    match how {
        WriteHow::Now => Op::Write { ino, off, data },
        WriteHow::Append => Op::Append { ino, off, data },
        WriteHow::Late => Op::WriteBack { ino, off, data },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::abi::opcode;
    use crate::fuse::parse::{parse, tests::packet};
    use zerocopy::IntoBytes;

    fn plan_of(opcode: u32, node: u64, arguments: &[&[u8]], agreed: Agreed) -> Plan {
        let packet = packet(opcode, node, arguments);
        let (header, call) = parse(&packet).unwrap();
        plan(&header, call, &SessionOptions::default(), &agreed, b"prime")
    }

    fn started() -> Agreed {
        Agreed { started: true, kill_privileges: true, ..Agreed::default() }
    }

    #[test]
    fn the_root_s_node_is_the_core_s_root_and_back() {
        assert_eq!((ino(1), node(2), ino(node(1)), ino(0)), (Ok(2), 1, Ok(1), Err(Errno::STALE)));
    }

    #[test]
    fn nothing_is_executed_before_init() {
        let plan = plan_of(opcode::GETATTR, 1, &[], Agreed::default());
        assert!(matches!(plan, Plan::Refuse(Errno::PROTO)));
    }

    #[test]
    fn the_umask_is_taken_off_new_modes() {
        let create = abi::CreateIn { mode: 0o100_666, umask: 0o022, ..Default::default() };
        let plan = plan_of(opcode::CREATE, 1, &[create.as_bytes(), b"a\0"], started());
        let Plan::Ask(_, Op::Create { dir, mode, .. }, expect) = plan else { panic!() };
        assert_eq!((dir, mode), (ROOT_INO, 0o100_644));
        assert_eq!(expect, Expect::Create { exclusive: false, opened: true });
    }

    #[test]
    fn a_umask_that_is_left_to_us_goes_to_the_core_beside_the_mode() {
        let make = abi::MkdirIn { mode: 0o1777, umask: 0o022 };
        let agreed = Agreed { passes_umask: true, ..started() };
        let plan = plan_of(opcode::MKDIR, 1, &[make.as_bytes(), b"a\0"], agreed);
        let Plan::Ask(_, Op::MakeDir { mode, .. }, _) = plan else { panic!() };
        assert_eq!(mode, mode::with_umask(0o1777, 0o022));
        assert_eq!(mode::without_umask(mode), 0o1755);
    }

    #[test]
    fn acls_are_refused_unless_they_are_served() {
        for (acls, refused) in [(false, true), (true, false)] {
            let packet = packet(opcode::GETXATTR, 5, &[&[0; 8], b"system.posix_acl_access\0"]);
            let (header, call) = parse(&packet).unwrap();
            let options = SessionOptions { acls, ..SessionOptions::default() };
            let plan = plan(&header, call, &options, &started(), b"prime");
            assert_eq!(matches!(plan, Plan::Refuse(Errno::OPNOTSUPP)), refused);
        }
    }

    /// Otherwise the deputy of a mount of an ordinary user could not open our own file.
    #[test]
    fn our_own_file_has_no_acl() {
        let arguments: [&[u8]; 2] = [&[0; 8], b"system.posix_acl_access\0"];
        let plan = plan_of(opcode::GETXATTR, PRIME_NODE, &arguments, started());
        assert!(matches!(plan, Plan::Refuse(Errno::NODATA)));
    }

    #[test]
    fn a_create_without_opens_makes_a_node() {
        let create = abi::CreateIn { mode: 0o100_600, ..Default::default() };
        let agreed = Agreed { no_open: true, ..started() };
        let plan = plan_of(opcode::CREATE, 1, &[create.as_bytes(), b"a\0"], agreed);
        assert!(matches!(plan, Plan::Ask(_, Op::MakeNode { mode: 0o100_600, .. }, _)));
    }

    #[test]
    fn set_id_bits_fall_by_the_flag_of_the_write() {
        for (flags, uid) in [(0, 0), (abi::write::KILL_SUIDGID, 65_534)] {
            let write = abi::WriteIn { write_flags: flags, ..Default::default() };
            let plan = plan_of(opcode::WRITE, 5, &[write.as_bytes()], started());
            let Plan::Write { cred, .. } = plan else { panic!() };
            assert_eq!(cred.uid, uid);
        }
    }

    /// The kernel showed the bits of a file that an ordinary user had allocated blocks for until it asked
    /// for the attributes again (xfstests generic/683 to 685).
    #[test]
    fn set_id_bits_fall_by_an_allocation_of_an_ordinary_user() {
        let range = abi::FallocateIn { length: 4096, ..Default::default() };
        for (uid, stale) in [(0, None), (1000, Some(5))] {
            let packet = packet(opcode::FALLOCATE, 5, &[range.as_bytes()]);
            let (header, call) = parse(&packet).unwrap();
            let header = InHeader { uid, ..header };
            let plan = plan(&header, call, &SessionOptions::default(), &started(), b"prime");
            assert!(matches!(plan, Plan::Ask(_, _, Expect::Allocated { stale: s }) if s == stale));
        }
    }

    #[test]
    fn what_the_kernel_collected_is_written_back_and_what_it_passes_on_is_written() {
        let collects = Agreed { writeback: true, ..started() };
        for (agreed, flags, is_late, is_stale) in [
            (started(), abi::write::CACHE, false, false),
            (started(), abi::write::KILL_SUIDGID, false, false),
            (collects, abi::write::CACHE, true, false),
            (collects, 0, false, false),
            (collects, abi::write::KILL_SUIDGID, false, true),
        ] {
            let write = abi::WriteIn { write_flags: flags, ..Default::default() };
            let plan = plan_of(opcode::WRITE, 5, &[write.as_bytes()], agreed);
            let Plan::Write { how, stale, .. } = plan else { panic!() };
            assert_eq!((how == WriteHow::Late, stale), (is_late, is_stale.then_some(5)));
        }
    }

    #[test]
    fn an_append_is_one_unless_the_kernel_knows_the_end_better_than_we_do() {
        let collects = Agreed { writeback: true, ..started() };
        for (agreed, write_flags, flags, how) in [
            (started(), 0, libc::O_APPEND, WriteHow::Append),
            (started(), 0, libc::O_APPEND | libc::O_SYNC, WriteHow::Append),
            (started(), 0, 0, WriteHow::Now),
            // A page of mapped memory.
            (started(), abi::write::CACHE, libc::O_APPEND, WriteHow::Now),
            (collects, 0, libc::O_APPEND, WriteHow::Now),
            (collects, abi::write::CACHE, libc::O_APPEND, WriteHow::Late),
        ] {
            let write = abi::WriteIn { write_flags, flags: flags as u32, ..Default::default() };
            let plan = plan_of(opcode::WRITE, 5, &[write.as_bytes()], agreed);
            let Plan::Write { how: planned, .. } = plan else { panic!() };
            assert_eq!(planned, how);
        }
    }

    #[test]
    fn anybody_s_change_takes_a_capability() {
        for (name, uid) in [(&b"security.capability\0"[..], 0), (b"security.other\0", 77)] {
            let packet = packet(opcode::REMOVEXATTR, 5, &[name]);
            let (mut header, call) = parse(&packet).unwrap();
            header.uid = 77;
            let options = SessionOptions::default();
            let plan = plan(&header, call, &options, &started(), b"prime");
            let Plan::Ask(cred, Op::RemoveXattr { .. }, _) = plan else { panic!() };
            assert_eq!(cred.uid, uid);
        }
    }

    #[test]
    fn the_root_is_not_forgotten() {
        let one = |nodeid| abi::ForgetOne { nodeid, nlookup: 3 };
        let head = abi::BatchForgetIn { count: 3, dummy: 0 };
        let forgets = [one(1), one(9), one(0)];
        let arguments = [head.as_bytes(), forgets.as_bytes()];
        let Plan::Forget(ops) = plan_of(opcode::BATCH_FORGET, 0, &arguments, started()) else {
            panic!()
        };
        assert_eq!(ops, [Op::Forget { ino: 9, count: 3 }]);
    }

    #[test]
    fn unknown_flags_are_refused() {
        assert!(rename_mode(8).is_err() && xattr_mode(3).is_err() && seek_for(0).is_err());
        assert!(fallocate_mode(libc::FALLOC_FL_COLLAPSE_RANGE as u32).is_err());
        assert!(fallocate_mode(libc::FALLOC_FL_PUNCH_HOLE as u32).is_err());
    }
}
