//! The volume that rots: something of every kind, made and then changed once more, so that most places have
//! an older content.

use twin_disk::Bytes;
use twin_fs::{Data, Ino, Op, ROOT_INO, Reply, Request, SetAttr, Volume, XattrMode, mode};
use twin_rt::Rt;

/// Names in the directory that gets an index.
const NAMES: usize = 180;
const BLOCK: usize = 4096;

/// One who works on a volume.
pub(super) struct Worker<'a> {
    pub(super) rt: &'a Rt,
    pub(super) volume: &'a Volume,
    pub(super) next_id: u64,
}

/// The first letters of every sector of file data.
pub(super) const MARK: &str = "data of ";

/// The content of a block of a file, which says in every sector where it belongs.
fn block(path: &str, nth: usize, version: u32) -> Vec<u8> {
    let mut content = vec![0; BLOCK];
    for (sector, part) in content.chunks_mut(512).enumerate() {
        let text = format!("{MARK}{path} block {nth} sector {sector} version {version};");
        part[..text.len()].copy_from_slice(text.as_bytes());
        let seed = nth * 8 + sector + version as usize * 1000;
        for (i, byte) in part[text.len()..].iter_mut().enumerate() {
            *byte = (seed * 31 + i * 7) as u8;
        }
    }
    content
}

impl Worker<'_> {
    fn ask(&mut self, op: Op) -> Result<Reply, String> {
        let request = Request::root(self.next_id, op.clone());
        self.next_id += 1;
        let answer = self.rt.block_on(self.volume.execute(request));
        answer.map_err(|e| e.to_string())?.map_err(|error| format!("{op:?}: {error}"))
    }

    fn entry(&mut self, op: Op) -> Result<Ino, String> {
        match self.ask(op)? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            other => Err(format!("{other:?}")),
        }
    }

    fn find(&mut self, path: &str) -> Result<Ino, String> {
        let mut dir = ROOT_INO;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            dir = self.entry(Op::Lookup { dir, name: name.as_bytes().into() })?;
        }
        Ok(dir)
    }

    fn parent<'p>(&mut self, path: &'p str) -> Result<(Ino, &'p str), String> {
        let (dir, name) = path.rsplit_once('/').ok_or("a path begins with a slash")?;
        Ok((self.find(dir)?, name))
    }

    fn make_dir(&mut self, path: &str) -> Result<Ino, String> {
        let (dir, name) = self.parent(path)?;
        self.entry(Op::MakeDir { dir, name: name.as_bytes().into(), mode: 0o755 })
    }

    fn create(&mut self, path: &str) -> Result<Ino, String> {
        let (dir, name) = self.parent(path)?;
        let name = name.as_bytes().into();
        self.entry(Op::Create { dir, name, mode: 0o644, exclusive: true })
    }

    fn write(
        &mut self,
        path: &str,
        first: usize,
        count: usize,
        version: u32,
    ) -> Result<(), String> {
        let ino = self.find(path)?;
        for nth in first..first + count {
            let data = Data::Bytes(Bytes::copy_of(&block(path, nth, version)));
            self.ask(Op::Write { ino, off: (nth * BLOCK) as u64, data })?;
        }
        Ok(())
    }

    fn attributes(&mut self, path: &str, len: usize, byte: u8) -> Result<(), String> {
        let ino = self.find(path)?;
        let (name, value) = (b"user.x".as_slice().into(), vec![byte; len].into());
        self.ask(Op::SetXattr { ino, name, value, mode: XattrMode::Any }).map(drop)
    }

    fn sync(&mut self) -> Result<(), String> {
        self.ask(Op::Fsync { ino: ROOT_INO, data_only: false }).map(drop)
    }

    /// Makes the tree.
    pub(super) fn make(&mut self) -> Result<(), String> {
        for dir in ["/dir", "/dir/inner", "/dir/inner/innermost", "/other"] {
            self.make_dir(dir)?;
        }
        for (path, blocks) in [("/small", 1), ("/middle", 5), ("/dir/big", 20), ("/dir/inner/f", 3)]
        {
            self.create(path)?;
            self.write(path, 0, blocks, 1)?;
        }
        self.create("/sparse")?;
        self.write("/sparse", 0, 2, 1)?;
        self.write("/sparse", 1500, 2, 1)?;
        let tiny = self.create("/dir/inner/tiny")?;
        let data = Data::Bytes(Bytes::copy_of(b"twenty bytes of data"));
        self.ask(Op::Write { ino: tiny, off: 0, data })?;
        let (inner, target) = (self.find("/dir/inner")?, self.find("/dir/big")?);
        self.ask(Op::Symlink { dir: inner, name: (*b"short").into(), target: (*b"tiny").into() })?;
        let long = [b'x'; 700].into();
        self.ask(Op::Symlink { dir: inner, name: (*b"long").into(), target: long })?;
        let name = (*b"fifo").into();
        self.ask(Op::MakeNode { dir: inner, name, mode: mode::FIFO | 0o600, rdev: 0 })?;
        self.ask(Op::Link { ino: target, dir: inner, name: (*b"again").into() })?;
        self.sync()?;
        self.make_dir("/many")?;
        let many = self.find("/many")?;
        for nth in 0..NAMES {
            self.ask(Op::Link { ino: target, dir: many, name: many_name(nth) })?;
        }
        self.attributes("/small", 40, 7)?;
        self.attributes("/middle", 6000, 7)?;
        self.sync()
    }

    /// Changes much of it, so that places have older content.
    pub(super) fn change(&mut self) -> Result<(), String> {
        self.write("/small", 0, 1, 2)?;
        self.write("/middle", 1, 3, 2)?;
        self.write("/dir/big", 2, 17, 2)?;
        self.sync()?;
        self.write("/sparse", 1501, 1, 2)?;
        let many = self.find("/many")?;
        for nth in (0..NAMES).step_by(7) {
            self.ask(Op::Unlink { dir: many, name: many_name(nth) })?;
        }
        self.attributes("/middle", 6000, 9)?;
        self.sync()?;
        let inner = self.find("/dir/inner")?;
        let (name, to_name) = ((*b"f").into(), (*b"g").into());
        let other = self.find("/other")?;
        let mode = twin_fs::RenameMode::Replace;
        self.ask(Op::Rename { dir: inner, name, to_dir: other, to_name, mode })?;
        for path in ["/small", "/dir", "/dir/big"] {
            let ino = self.find(path)?;
            let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
            self.ask(Op::SetAttr { ino, set })?;
        }
        for path in ["/new", "/other/new"] {
            self.create(path)?;
            self.write(path, 0, 4, 2)?;
        }
        self.sync()
    }
}

fn many_name(nth: usize) -> Box<[u8]> {
    format!("a name that is long enough to fill whole blocks soon {nth}").into_bytes().into()
}
