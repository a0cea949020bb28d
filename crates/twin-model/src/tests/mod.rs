//! Tests of the model: each says one thing that the oracle holds to be true.

mod data;
mod differential;
mod holders;
mod names;
mod trees;

use twin_disk::{Block, Bytes};
use twin_rt::{SECS, Time};

use super::*;
use twin_fs::{Cred, Data, RenameMode, SetAttr};

/// A model with a clock that moves a second with every request.
pub(super) struct Bench {
    pub(super) model: ModelFs,
    pub(super) cred: Cred,
    now: Time,
    id: u64,
}

impl Bench {
    pub(super) fn new(settings: Settings) -> Bench {
        let model = ModelFs::new(settings, Time(0));
        Bench { model, cred: Cred::root(), now: Time(0), id: 0 }
    }

    pub(super) fn bytes() -> Bench {
        Bench::new(Settings::default())
    }

    pub(super) fn stamps() -> Bench {
        Bench::new(Settings { data: DataMode::Stamps, ..Settings::default() })
    }

    pub(super) fn ask(&mut self, op: Op) -> Result<Reply> {
        self.now += SECS;
        self.id += 1;
        let request = Request { id: self.id, client: 0, cred: self.cred.clone(), op };
        self.model.apply(self.now, &request)
    }

    /// The time of the last request.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from(self.now)
    }

    /// The number of the last request.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn done(&mut self, op: Op) {
        assert_eq!(self.ask(op.clone()), Ok(Reply::Done), "{op:?}");
    }

    pub(super) fn fails(&mut self, op: Op, error: FsError) {
        let before = self.model.dump();
        assert_eq!(self.ask(op.clone()), Err(error), "{op:?}");
        assert_eq!(self.model.dump(), before, "{op:?} failed and changed something");
    }

    pub(super) fn invalid(&mut self, op: Op) {
        let before = self.model.dump();
        let reply = self.ask(op.clone());
        assert!(matches!(reply, Err(FsError::Invalid(_))), "{op:?}: {reply:?}");
        assert_eq!(self.model.dump(), before, "{op:?} failed and changed something");
    }

    fn entry(&mut self, op: Op) -> Ino {
        match self.ask(op.clone()) {
            Ok(Reply::Entry(entry)) => entry.attr.ino,
            other => panic!("{op:?}: {other:?}"),
        }
    }

    /// Makes a file; it is held by a reference, and not open.
    pub(super) fn file(&mut self, dir: Ino, name: &str) -> Ino {
        self.entry(Op::MakeNode { dir, name: n(name), mode: mode::REGULAR | 0o666, rdev: 0 })
    }

    pub(super) fn dir(&mut self, dir: Ino, name: &str) -> Ino {
        self.entry(Op::MakeDir { dir, name: n(name), mode: 0o777 })
    }

    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: &str) {
        self.entry(Op::Link { ino, dir, name: n(name) });
    }

    pub(super) fn lookup(&mut self, dir: Ino, name: &str) -> Result<Ino> {
        match self.ask(Op::Lookup { dir, name: n(name) })? {
            Reply::Entry(entry) => Ok(entry.attr.ino),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn attr(&mut self, ino: Ino) -> Attr {
        match self.ask(Op::GetAttr { ino }) {
            Ok(Reply::Attr(attr)) => attr,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn write(&mut self, ino: Ino, off: u64, bytes: &[u8]) {
        let data = Data::Bytes(Bytes::copy_of(bytes));
        let written = Reply::Written(bytes.len() as u64);
        assert_eq!(self.ask(Op::Write { ino, off, data }), Ok(written));
    }

    pub(super) fn resize(&mut self, ino: Ino, size: u64) {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        assert!(self.ask(Op::SetAttr { ino, set }).is_ok());
    }

    /// The pieces of a read.
    pub(super) fn pieces(&mut self, ino: Ino, off: u64, len: u32) -> Vec<Block> {
        match self.ask(Op::Read { ino, off, len }) {
            Ok(Reply::Data(pieces)) => pieces,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn read(&mut self, ino: Ino, off: u64, len: u32) -> Vec<u8> {
        self.pieces(ino, off, len).iter().flat_map(|piece| piece.to_bytes().to_vec()).collect()
    }

    pub(super) fn rename(&mut self, from: (Ino, &str), to: (Ino, &str)) -> Result<Reply> {
        self.rename_as(from, to, RenameMode::Replace)
    }

    pub(super) fn rename_as(
        &mut self,
        (dir, name): (Ino, &str),
        (to_dir, to_name): (Ino, &str),
        mode: RenameMode,
    ) -> Result<Reply> {
        self.ask(Op::Rename { dir, name: n(name), to_dir, to_name: n(to_name), mode })
    }
}

pub(super) fn n(name: &str) -> Name {
    name.as_bytes().into()
}

pub(super) const ROOT: Ino = ROOT_INO;
