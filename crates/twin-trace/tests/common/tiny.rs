//! A small file system in memory for the tests of recorder and replayer: enough of POSIX for their
//! workloads, inode numbers from a chosen start that are reused at once, stamps for synthetic data,
//! and, as an option, operations that take random times.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use twin_disk::{Block, Stamp};
use twin_fs::{
    Attr, Data, DirEntry, FileSystem, FsError, Ino, LookupEntry, Name, Op, ROOT_INO, Reply,
    Request, Result, SetAttr, Timestamp, VolumeStat, mode,
};
use twin_rt::{Rng, Rt};

pub const BLOCK: u64 = 4096;

#[derive(Clone, Default)]
pub struct Inode {
    pub attr: Attr,
    pub names: BTreeMap<Name, Ino>,
    parent: Ino,
    generation: u32,
    pub target: Name,
    /// Blocks of a file; missing ones are holes.
    blocks: BTreeMap<u64, Block>,
    pub refs: u64,
    pub opens: u64,
}

pub struct Tiny {
    rt: Rt,
    pub inodes: RefCell<BTreeMap<Ino, Inode>>,
    free: RefCell<Vec<Ino>>,
    next: Cell<Ino>,
    generation: Cell<u32>,
    /// The longest delay of an operation, in nanoseconds; 0: it ends at once.
    pub delay_ns: Cell<u64>,
    rng: RefCell<Rng>,
    /// All requests that came, unchanged.
    pub seen: RefCell<Vec<Op>>,
    pub under_way: Cell<usize>,
    pub max_under_way: Cell<usize>,
    /// Whether entries have generations and creation times, which distinguish the uses of a number.
    pub births: Cell<bool>,
    /// A deliberate bug: reads return the content before the last write.
    pub stale_reads: Cell<bool>,
}

impl Tiny {
    pub fn new(rt: &Rt, first_ino: Ino) -> Tiny {
        let attr =
            Attr { ino: ROOT_INO, mode: mode::DIRECTORY | 0o755, nlink: 2, ..Attr::default() };
        let root = Inode { attr, parent: ROOT_INO, ..Inode::default() };
        Tiny {
            rt: rt.clone(),
            inodes: RefCell::new([(ROOT_INO, root)].into()),
            free: RefCell::default(),
            next: Cell::new(first_ino),
            generation: Cell::new(0),
            delay_ns: Cell::new(0),
            rng: RefCell::new(rt.rng("tiny")),
            seen: RefCell::default(),
            under_way: Cell::new(0),
            max_under_way: Cell::new(0),
            births: Cell::new(true),
            stale_reads: Cell::new(false),
        }
    }

    /// All paths with their attributes, except for hard links and inode numbers.
    pub fn tree(&self) -> Vec<(String, u32, u32, u32, u64)> {
        let mut out = Vec::new();
        self.walk(ROOT_INO, "", &mut out);
        out
    }

    fn walk(&self, dir: Ino, path: &str, out: &mut Vec<(String, u32, u32, u32, u64)>) {
        let names: Vec<_> = {
            let inodes = self.inodes.borrow();
            inodes[&dir].names.iter().map(|(name, ino)| (name.clone(), *ino)).collect()
        };
        for (name, ino) in names {
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            let attr = self.inodes.borrow()[&ino].attr.clone();
            out.push((path.clone(), attr.mode, attr.uid, attr.nlink, attr.size));
            if attr.is_dir() {
                self.walk(ino, &path, out);
            }
        }
    }

    /// Number of inodes that have no name but are referenced.
    pub fn orphans(&self) -> usize {
        self.inodes.borrow().values().filter(|inode| inode.attr.nlink == 0).count()
    }

    fn new_inode(&self, request: &Request, dir: Ino, name: &Name, mode: u32) -> Result<Ino> {
        living(&self.inodes.borrow(), dir)?;
        if self.child(dir, name).is_ok() {
            return Err(FsError::Exists);
        }
        let ino = self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.next.set(self.next.get() + 1);
            self.next.get() - 1
        });
        let nlink = if mode & mode::TYPE == mode::DIRECTORY { 2 } else { 1 };
        let (uid, gid) = (request.cred.uid, request.cred.gid);
        let now = Timestamp::from(self.rt.now());
        let btime = if self.births.get() { now } else { Timestamp::default() };
        let births = u32::from(self.births.get());
        self.generation.set(self.generation.get() + births);
        let attr = Attr { ino, mode, nlink, uid, gid, btime, ..Attr::default() };
        let mut inodes = self.inodes.borrow_mut();
        let generation = self.generation.get();
        inodes.insert(ino, Inode { attr, parent: dir, generation, ..Inode::default() });
        dir_of(&mut inodes, dir)?.names.insert(name.clone(), ino);
        Ok(ino)
    }

    fn child(&self, dir: Ino, name: &Name) -> Result<Ino> {
        let inodes = self.inodes.borrow();
        let inode = inodes.get(&dir).ok_or(FsError::Stale)?;
        if !inode.attr.is_dir() {
            return Err(FsError::NotDirectory);
        }
        match &**name {
            b"." => Ok(dir),
            b".." => Ok(inode.parent),
            _ => inode.names.get(name).copied().ok_or(FsError::NotFound),
        }
    }

    fn entry(&self, ino: Ino) -> Reply {
        let mut inodes = self.inodes.borrow_mut();
        let inode = inodes.get_mut(&ino).expect("it was just found");
        inode.refs += u64::from(ino != ROOT_INO);
        let blocks = inode.blocks.len() as u64 * BLOCK / 512;
        let generation = inode.generation;
        Reply::Entry(LookupEntry { attr: Attr { blocks, ..inode.attr.clone() }, generation })
    }

    fn unlink(&self, dir: Ino, name: &Name, want_dir: bool) -> Result<Reply> {
        let ino = self.child(dir, name)?;
        let mut inodes = self.inodes.borrow_mut();
        let inode = inodes.get_mut(&ino).ok_or(FsError::Stale)?;
        match (inode.attr.is_dir(), want_dir) {
            (true, false) => return Err(FsError::IsDirectory),
            (false, true) => return Err(FsError::NotDirectory),
            (true, true) if !inode.names.is_empty() => return Err(FsError::NotEmpty),
            (true, true) => inode.attr.nlink = 0,
            (false, false) => inode.attr.nlink -= 1,
        }
        dir_of(&mut inodes, dir)?.names.remove(name);
        drop(inodes);
        self.reap(ino);
        Ok(Reply::Done)
    }

    fn reap(&self, ino: Ino) {
        let mut inodes = self.inodes.borrow_mut();
        if let Some(inode) = inodes.get(&ino)
            && inode.attr.nlink + (inode.refs + inode.opens) as u32 == 0
        {
            inodes.remove(&ino);
            self.free.borrow_mut().push(ino);
        }
    }

    fn rename(&self, dir: Ino, name: &Name, to_dir: Ino, to_name: &Name) -> Result<Reply> {
        let ino = self.child(dir, name)?;
        living(&self.inodes.borrow(), to_dir)?;
        let mut above = to_dir;
        while above != ROOT_INO {
            if above == ino {
                return Err(FsError::Invalid("a directory cannot be moved into itself"));
            }
            above = self.inodes.borrow()[&above].parent;
        }
        if let Ok(target) = self.child(to_dir, to_name) {
            if target == ino {
                return Ok(Reply::Done);
            }
            let is_dir = self.inodes.borrow()[&target].attr.is_dir();
            self.unlink(to_dir, to_name, is_dir)?;
        }
        let mut inodes = self.inodes.borrow_mut();
        dir_of(&mut inodes, dir)?.names.remove(name);
        dir_of(&mut inodes, to_dir)?.names.insert(to_name.clone(), ino);
        dir_of(&mut inodes, ino)?.parent = to_dir;
        Ok(Reply::Done)
    }

    fn write(&self, id: u64, ino: Ino, off: u64, data: &Data) -> Result<Reply> {
        let mut inodes = self.inodes.borrow_mut();
        let inode = inodes.get_mut(&ino).ok_or(FsError::Stale)?;
        let (mut at, end) = (off, off + data.len());
        while at < end {
            let (lbn, within) = (at / BLOCK, at % BLOCK);
            let len = (BLOCK - within).min(end - at);
            let new = match data {
                Data::Synthetic(_) => {
                    let (off, len) = (within as u32, len as u32);
                    Block::Stamp(Stamp { ino, lbn, version: id, off, len })
                }
                Data::Bytes(bytes) => Block::Bytes(bytes.slice((at - off) as usize, len as usize)),
            };
            let old = inode.blocks.entry(lbn).or_insert(Block::Zero(BLOCK as u32));
            let (end, rest) = (within + len, BLOCK - within - len);
            let parts =
                [old.slice(0, within as usize), new, old.slice(end as usize, rest as usize)];
            *old = twin_disk::gather(&parts, 0, BLOCK as usize);
            at += len;
        }
        inode.attr.size = inode.attr.size.max(end);
        Ok(Reply::Written(data.len()))
    }

    fn read(&self, ino: Ino, off: u64, len: u64) -> Result<Reply> {
        let inodes = self.inodes.borrow();
        let inode = inodes.get(&ino).ok_or(FsError::Stale)?;
        let end = off.saturating_add(len).min(inode.attr.size);
        let (mut at, mut out) = (off, Vec::new());
        while at < end {
            let (lbn, within) = (at / BLOCK, at % BLOCK);
            let len = (BLOCK - within).min(end - at);
            let hole = Block::Zero(BLOCK as u32);
            let block = inode.blocks.get(&lbn).unwrap_or(&hole);
            let mut block = block.slice(within as usize, len as usize);
            if let (Block::Stamp(stamp), true) = (&mut block, self.stale_reads.get()) {
                stamp.version -= 1;
            }
            out.push(block);
            at += len;
        }
        Ok(Reply::Data(out))
    }

    fn set_attr(&self, ino: Ino, set: &SetAttr) -> Result<Reply> {
        let mut inodes = self.inodes.borrow_mut();
        let inode = inodes.get_mut(&ino).ok_or(FsError::Stale)?;
        let attr = &mut inode.attr;
        attr.mode = set.mode.map_or(attr.mode, |m| attr.mode & mode::TYPE | m);
        (attr.uid, attr.gid) = (set.uid.unwrap_or(attr.uid), set.gid.unwrap_or(attr.gid));
        if let Some(size) = set.size {
            attr.size = size;
            inode.blocks.retain(|&lbn, _| lbn * BLOCK < size);
            if let Some(last) = inode.blocks.get_mut(&(size / BLOCK)) {
                let keep = (size % BLOCK) as usize;
                let parts = [last.slice(0, keep), Block::Zero(BLOCK as u32 - keep as u32)];
                *last = twin_disk::gather(&parts, 0, BLOCK as usize);
            }
        }
        Ok(Reply::Attr(inode.attr.clone()))
    }

    fn read_dir(&self, dir: Ino, cookie: u64, max_bytes: u32, plus: bool) -> Result<Reply> {
        let names: Vec<(Name, Ino)> = {
            let inodes = self.inodes.borrow();
            let inode = inodes.get(&dir).ok_or(FsError::Stale)?;
            inode.names.iter().map(|(name, ino)| (name.clone(), *ino)).collect()
        };
        let (mut out, mut left) = (Vec::new(), max_bytes as usize);
        // Cookies are not plain positions: they differ from volume to volume.
        let base = self.inodes.borrow().keys().nth(1).copied().unwrap_or(0) * 1000;
        let skip = if cookie == 0 { 0 } else { cookie - base };
        for (i, (name, ino)) in names.into_iter().enumerate().skip(skip as usize) {
            let cost = 24 + name.len().next_multiple_of(8) + if plus { 128 } else { 0 };
            if cost > left {
                break;
            }
            left -= cost;
            let kind = self.inodes.borrow()[&ino].attr.kind();
            let entry = plus.then(|| match self.entry(ino) {
                Reply::Entry(entry) => Box::new(entry),
                _ => unreachable!(),
            });
            out.push(DirEntry { name, ino, kind, next: base + i as u64 + 1, entry });
        }
        Ok(Reply::Dir(out))
    }

    /// The file with this name, created if there is none.
    fn create(
        &self,
        request: &Request,
        dir: Ino,
        name: &Name,
        mode: u32,
        exclusive: bool,
    ) -> Result<Ino> {
        match self.child(dir, name) {
            Ok(_) if exclusive => Err(FsError::Exists),
            Ok(ino) if self.inodes.borrow()[&ino].attr.is_dir() => Err(FsError::IsDirectory),
            Ok(ino) => Ok(ino),
            Err(_) => self.new_inode(request, dir, name, mode | mode::REGULAR),
        }
    }

    fn symlink(&self, request: &Request, dir: Ino, name: &Name, target: &[u8]) -> Result<Ino> {
        let ino = self.new_inode(request, dir, name, mode::SYMLINK | 0o777)?;
        let mut inodes = self.inodes.borrow_mut();
        let inode = inodes.get_mut(&ino).expect("just made");
        (inode.attr.size, inode.target) = (target.len() as u64, target.into());
        Ok(ino)
    }

    fn perform(&self, request: &Request) -> Result<Reply> {
        let held = |ino: &Ino, f: fn(&mut Inode)| {
            let mut inodes = self.inodes.borrow_mut();
            inodes.get_mut(ino).map(f).ok_or(FsError::Stale)
        };
        let made = |ino| Ok(self.entry(ino));
        match &request.op {
            Op::Lookup { dir, name } => self.child(*dir, name).map(|ino| self.entry(ino)),
            Op::Forget { ino, count } => {
                if let Some(inode) = self.inodes.borrow_mut().get_mut(ino) {
                    inode.refs = inode.refs.checked_sub(*count).expect("more forgotten than held");
                }
                self.reap(*ino);
                Ok(Reply::Done)
            }
            Op::GetAttr { ino } => self.set_attr(*ino, &SetAttr::default()),
            Op::SetAttr { ino, set } => self.set_attr(*ino, set),
            Op::MakeDir { dir, name, mode } => {
                made(self.new_inode(request, *dir, name, mode | mode::DIRECTORY)?)
            }
            Op::MakeNode { dir, name, mode, .. } => {
                made(self.new_inode(request, *dir, name, *mode)?)
            }
            Op::Symlink { dir, name, target } => made(self.symlink(request, *dir, name, target)?),
            Op::ReadLink { ino } => {
                let inodes = self.inodes.borrow();
                inodes.get(ino).map(|i| Reply::Bytes(i.target.clone())).ok_or(FsError::Stale)
            }
            Op::Create { dir, name, mode, exclusive } => {
                let ino = self.create(request, *dir, name, *mode, *exclusive)?;
                held(&ino, |inode| inode.opens += 1)?;
                made(ino)
            }
            Op::Unlink { dir, name } => self.unlink(*dir, name, false),
            Op::RemoveDir { dir, name } => self.unlink(*dir, name, true),
            Op::Rename { dir, name, to_dir, to_name, .. } => {
                self.rename(*dir, name, *to_dir, to_name)
            }
            Op::Link { ino, dir, name } => {
                living(&self.inodes.borrow(), *dir)?;
                if self.child(*dir, name).is_ok() {
                    return Err(FsError::Exists);
                }
                held(ino, |inode| inode.attr.nlink += 1)?;
                dir_of(&mut self.inodes.borrow_mut(), *dir)?.names.insert(name.clone(), *ino);
                made(*ino)
            }
            Op::Open { ino, truncate, .. } => {
                held(ino, |inode| inode.opens += 1)?;
                if *truncate {
                    self.set_attr(*ino, &SetAttr { size: Some(0), ..SetAttr::default() })?;
                }
                Ok(Reply::Done)
            }
            Op::Release { ino } => {
                held(ino, |i| i.opens = i.opens.checked_sub(1).expect("released but not open"))?;
                self.reap(*ino);
                Ok(Reply::Done)
            }
            Op::Read { ino, off, len } => self.read(*ino, *off, u64::from(*len)),
            Op::Write { ino, off, data } => self.write(request.id, *ino, *off, data),
            Op::ReadDir { dir, cookie, max_bytes, plus } => {
                self.read_dir(*dir, *cookie, *max_bytes, *plus)
            }
            Op::StatFs => Ok(Reply::Stat(VolumeStat::default())),
            Op::Fsync { .. } | Op::Sync | Op::Access { .. } => Ok(Reply::Done),
            _ => Err(FsError::NotSupported("not in the tests' file system")),
        }
    }
}

/// The directory, if a name may be created in it: not if it was removed.
fn living(inodes: &BTreeMap<Ino, Inode>, dir: Ino) -> Result<()> {
    match inodes.get(&dir) {
        Some(inode) if inode.attr.nlink > 0 => Ok(()),
        _ => Err(FsError::NotFound),
    }
}

fn dir_of(inodes: &mut BTreeMap<Ino, Inode>, dir: Ino) -> Result<&mut Inode> {
    inodes.get_mut(&dir).ok_or(FsError::Stale)
}

impl FileSystem for Tiny {
    async fn execute(&self, request: Request) -> Result<Reply> {
        self.seen.borrow_mut().push(request.op.clone());
        self.under_way.set(self.under_way.get() + 1);
        self.max_under_way.set(self.max_under_way.get().max(self.under_way.get()));
        let reply = self.perform(&request);
        if self.delay_ns.get() > 0 && !matches!(request.op, Op::Forget { .. }) {
            let span = self.rng.borrow_mut().below(self.delay_ns.get());
            self.rt.sleep(span).await;
        }
        self.under_way.set(self.under_way.get() - 1);
        reply
    }
}
