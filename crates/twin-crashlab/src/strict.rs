//! Volumes of our own layouts at a power failure: the history of their device, and their files after recovery.
//!
//! Contract: the content of a device is a [`Tree`] with one file, so that states share what is equal, as those of files do.
//! [`recovered`] opens the volume with the code that mounts it, and reads its tree out; it changes nothing but a copy.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use twin_disk::{Block as DeviceBlock, BlockDevice, Buf, DeviceInfo, Io, IoKind, Pending, gather};
use twin_fs::{
    Attr, Cpu, FsError, Ino, LayoutConfig, Op, ROOT_INO, Reply, Request, Settings, Volume, mode,
};
use twin_rt::{ClockOnly, Rt};

use crate::history::What;
use crate::tree::{BLOCK, Body, DEVICE, Effect, Id, Meta, Name, Node, ROOT, Tree};

/// Bytes of a read while a tree is read out.
const READ: u32 = 1 << 20;
/// Bytes of a listing.
const LISTING: u32 = 64 << 10;
/// Bytes of a sector.
const SECTOR: u32 = 512;

/// A device of zeros as a tree.
pub(crate) fn blank(size: u64) -> Tree {
    let mut tree = Tree::default();
    let meta = Meta { mode: mode::REGULAR | 0o600, uid: 0, gid: 0, rdev: 0 };
    tree.apply(&Effect::Make { id: DEVICE, meta, target: None });
    tree.apply(&Effect::Name { dir: ROOT, name: (*b"device").into(), id: Some(DEVICE) });
    tree.apply(&Effect::Size { id: DEVICE, size, grows: true });
    tree
}

/// Who hears of writes and flushes.
type Hearer = Rc<dyn Fn(What)>;

/// A device in memory that tells what is written to it. Writes are complete at once; whether they survive is another
/// matter.
pub struct TreeDevice {
    size: u64,
    blocks: RefCell<BTreeMap<u64, Arc<crate::tree::Block>>>,
    hearer: Option<Hearer>,
}

impl TreeDevice {
    /// A device of zeros.
    pub(crate) fn blank(size: u64, hearer: Option<Hearer>) -> TreeDevice {
        TreeDevice { size, blocks: RefCell::default(), hearer }
    }

    /// A device with the content of a tree.
    fn of(tree: &Tree) -> Option<TreeDevice> {
        match &tree.node(DEVICE)?.body {
            Body::File { size, blocks } => {
                Some(TreeDevice { size: *size, blocks: RefCell::new(blocks.clone()), hearer: None })
            }
            _ => None,
        }
    }

    fn read(&self, at: u64, len: u64) -> Vec<DeviceBlock> {
        let mut out = Buf::zeroed(len as usize);
        let blocks = self.blocks.borrow();
        let end = at + len;
        for (number, block) in blocks.range(at / BLOCK..end.div_ceil(BLOCK)) {
            let start = number * BLOCK;
            let (from, to) = (at.max(start), end.min(start + BLOCK));
            let part = &block.bytes[(from - start) as usize..(to - start) as usize];
            out[(from - at) as usize..(to - at) as usize].copy_from_slice(part);
        }
        vec![DeviceBlock::Bytes(out.freeze())]
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let mut blocks = self.blocks.borrow_mut();
        let mut done = 0;
        while done < bytes.len() {
            let to = at + done as u64;
            let (number, within) = (to / BLOCK, (to % BLOCK) as usize);
            let len = (BLOCK as usize - within).min(bytes.len() - done);
            let old = blocks.get(&number).map(|block| block.bytes.clone());
            let mut block = old.unwrap_or_else(|| vec![0; BLOCK as usize].into());
            block[within..within + len].copy_from_slice(&bytes[done..done + len]);
            blocks.insert(number, Arc::new(crate::tree::Block::new(block)));
            done += len;
        }
    }
}

impl BlockDevice for TreeDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { size: self.size, sector: SECTOR, max_io: 1 << 20, name: "memory".into() }
    }

    fn submit(&self, io: Io) -> Pending {
        if let Err(error) = self.info().check(&io) {
            return Pending::ready(Err(error));
        }
        match io.kind {
            IoKind::Read => return Pending::ready(Ok(self.read(io.at, io.len))),
            IoKind::Write => {
                let bytes = gather(&io.blocks, 0, io.len as usize).to_bytes();
                self.write(io.at, &bytes);
                if let Some(hearer) = &self.hearer {
                    let bytes = (*bytes).into();
                    hearer(What::Write { id: DEVICE, off: io.at, bytes, was: self.size });
                }
            }
            IoKind::Flush => {
                if let Some(hearer) = &self.hearer {
                    hearer(What::Fsync { id: DEVICE, data_only: false, since: usize::MAX });
                }
            }
            IoKind::Discard => {}
        }
        Pending::ready(Ok(Vec::new()))
    }

    fn in_flight(&self) -> usize {
        0
    }
}

/// The files of the volume on a device, as they are when the volume was recovered.
///
/// # Errors
/// If the volume cannot be opened, or something in it cannot be read.
pub fn recovered(device: &Tree, config: &dyn LayoutConfig) -> Result<Tree, String> {
    let device = TreeDevice::of(device).ok_or("there is no device")?;
    let device: Rc<dyn BlockDevice> = Rc::new(device);
    let rt = Rt::new(ClockOnly::default(), 1);
    let opening = config.open(&rt, device, Cpu::none(), Settings::default());
    let opened = rt.block_on(opening).map_err(|e| e.to_string())?;
    let volume = opened.map_err(|e| format!("the volume cannot be recovered: {e}"))?.volume;
    let reader = Reader { volume: &volume };
    let tree = rt.block_on(reader.tree()).map_err(|e| e.to_string())?;
    rt.crash();
    tree.map_err(|e| format!("the recovered volume cannot be read: {e}"))
}

struct Reader<'a> {
    volume: &'a Volume,
}

impl Reader<'_> {
    async fn ask(&self, op: Op) -> Result<Reply, FsError> {
        self.volume.execute(Request::root(0, op)).await
    }

    async fn tree(&self) -> Result<Tree, FsError> {
        let Reply::Attr(attr) = self.ask(Op::GetAttr { ino: ROOT_INO }).await? else {
            return Err(FsError::inconsistent("no attributes of the root"));
        };
        let mut tree = Tree::new(meta_of(&attr));
        let mut ids: BTreeMap<Ino, Id> = BTreeMap::from([(ROOT_INO, ROOT)]);
        let mut open = vec![ROOT_INO];
        while let Some(dir) = open.pop() {
            for (name, attr) in self.names(dir).await? {
                let known = ids.get(&attr.ino).copied();
                let id = known.unwrap_or(ids.len() as Id);
                if known.is_none() {
                    ids.insert(attr.ino, id);
                    let node = self.node(&attr).await?;
                    tree.put(id, node);
                    if attr.is_dir() {
                        open.push(attr.ino);
                    }
                }
                tree.apply(&Effect::Name { dir: ids[&dir], name, id: Some(id) });
            }
        }
        Ok(tree)
    }

    async fn names(&self, dir: Ino) -> Result<Vec<(Name, Attr)>, FsError> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let op = Op::ReadDir { dir, cookie, max_bytes: LISTING, plus: true };
            let Reply::Dir(entries) = self.ask(op).await? else { break };
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            names.extend(
                entries.into_iter().filter_map(|entry| Some((entry.name, entry.entry?.attr))),
            );
        }
        Ok(names)
    }

    async fn node(&self, attr: &Attr) -> Result<Node, FsError> {
        let ino = attr.ino;
        let body = match attr.kind() {
            mode::DIRECTORY => Body::Dir(BTreeMap::new()),
            mode::REGULAR => Tree::file(&self.content(ino, attr.size).await?),
            mode::SYMLINK => match self.ask(Op::ReadLink { ino }).await? {
                Reply::Bytes(target) => Body::Symlink(target),
                _ => Body::Special,
            },
            _ => Body::Special,
        };
        let mut xattrs = BTreeMap::new();
        if let Ok(Reply::Bytes(names)) = self.ask(Op::ListXattr { ino }).await {
            for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
                let op = Op::GetXattr { ino, name: name.into() };
                if let Reply::Bytes(value) = self.ask(op).await? {
                    xattrs.insert(name.into(), value);
                }
            }
        }
        Ok(Node { meta: meta_of(attr), body, xattrs })
    }

    async fn content(&self, ino: Ino, size: u64) -> Result<Vec<u8>, FsError> {
        let mut all = Vec::new();
        while (all.len() as u64) < size {
            let op = Op::Read { ino, off: all.len() as u64, len: READ };
            let Reply::Data(blocks) = self.ask(op).await? else { break };
            let before = all.len();
            blocks.iter().for_each(|block| all.extend_from_slice(&block.to_bytes()));
            if all.len() == before {
                break;
            }
        }
        Ok(all)
    }
}

fn meta_of(attr: &Attr) -> Meta {
    Meta { mode: attr.mode, uid: attr.uid, gid: attr.gid, rdev: attr.rdev }
}
