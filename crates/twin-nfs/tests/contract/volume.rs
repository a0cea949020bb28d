//! A volume in memory that can lose what is not durable: the model file system, with every state
//! since the last one that was made durable.
//!
//! Contract: as the log does, it makes the whole volume durable at once, and a failure leaves any
//! state from the last durable one on. Numbers of removed inodes are given away again at once, with
//! another generation. Operations take random times, so that calls overlap. [`Bug`]s are planted
//! here and in the run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use twin_fs::{Data, FileSystem, FsError, Ino, LookupEntry, Op, ROOT_INO, Reply, Request, Result};
use twin_model::{ModelFs, NfsBug as Bug};
use twin_rt::{MICROS, Rng, Rt};

/// The volume at one moment.
#[derive(Clone)]
struct State {
    files: ModelFs,
    generations: BTreeMap<Ino, u32>,
}

/// What is on the disk: states since the last durable one, which is the first.
pub(crate) struct Disk {
    states: VecDeque<(u64, State)>,
}

pub(crate) struct Volume {
    rt: Rt,
    bug: Option<Bug>,
    rng: RefCell<Rng>,
    live: RefCell<State>,
    disk: Rc<RefCell<Disk>>,
    seq: Cell<u64>,
    /// The last operation was a write.
    wrote: Cell<bool>,
    graveyard: RefCell<BTreeMap<Ino, LookupEntry>>,
    /// Calls under way that promise durability themselves. An fsync that fails would be reported
    /// to them; this volume loses nothing then. COMMIT has the verifier.
    promising: Cell<u32>,
    pub(crate) losses: Rc<Cell<u64>>,
}

impl Disk {
    pub(crate) fn new(files: ModelFs) -> Disk {
        let generations = BTreeMap::from([(ROOT_INO, 1)]);
        Disk { states: VecDeque::from([(0, State { files, generations })]) }
    }

    /// Everything that is not durable is lost, or some of it.
    pub(crate) fn fail(&mut self, rng: &mut Rng) {
        let nth = rng.below(self.states.len() as u64) as usize;
        let mut state = self.states[nth].1.clone();
        state.files.crash();
        self.states = VecDeque::from([(0, state)]);
    }
}

impl Volume {
    /// Opens what the disk has.
    pub(crate) fn open(rt: &Rt, disk: &Rc<RefCell<Disk>>, bug: Option<Bug>, seed: u64) -> Volume {
        let live = disk.borrow().states[0].1.clone();
        let (seq, wrote, graveyard, promising, losses) = Default::default();
        let (rt, disk, rng) = (rt.clone(), Rc::clone(disk), RefCell::new(Rng::new(seed)));
        let live = RefCell::new(live);
        Volume { rt, bug, rng, live, disk, seq, wrote, graveyard, promising, losses }
    }

    /// A failed write-back: a file gets the content that is durable, and the volume goes on.
    pub(crate) fn lose(&self) {
        let durable = self.disk.borrow().states[0].1.files.clone();
        let mut live = self.live.borrow_mut();
        let files: Vec<Ino> = (3..40)
            .filter(|&ino| {
                let regular = |files: &ModelFs| {
                    files.attr(ino).is_some_and(|attr| attr.kind() == twin_fs::mode::REGULAR)
                };
                regular(&live.files) && regular(&durable) && !live.files.has_same(&durable, ino)
            })
            .collect();
        if files.is_empty() || self.promising.get() > 0 {
            return;
        }
        let ino = *self.rng.borrow_mut().pick(&files);
        let len = live.files.attr(ino).map_or(0, |attr| attr.size);
        let mut old = vec![0; len as usize];
        let read = Request::root(0, Op::Read { ino, off: 0, len: len as u32 });
        if let Ok(Reply::Data(blocks)) = durable.clone().apply(self.rt.now(), &read) {
            let mut at = 0;
            for block in blocks {
                block.copy_to(&mut old[at..at + block.len()]);
                at += block.len();
            }
        }
        let data = Data::Bytes(twin_disk::Bytes::copy_of(&old));
        let write = Request::root(0, Op::WriteBack { ino, off: 0, data });
        let _ = live.files.apply(self.rt.now(), &write);
        drop(live);
        self.keep();
        if self.bug != Some(Bug::LossNotReported) {
            self.losses.set(self.losses.get() + 1);
        }
    }

    fn chance(&self, p: f64) -> bool {
        self.rng.borrow_mut().chance(p)
    }

    async fn pause(&self, most: u64) {
        let span = self.rng.borrow_mut().below(most * MICROS);
        self.rt.sleep(span).await;
    }

    /// Notes the state, which a failure may leave.
    fn keep(&self) {
        self.seq.set(self.seq.get() + 1);
        let state = self.live.borrow().clone();
        self.disk.borrow_mut().states.push_back((self.seq.get(), state));
    }

    async fn fsync(&self, ino: Ino) -> Result<Reply> {
        let wrote = self.wrote.replace(false);
        let attr = self.live.borrow().files.attr(ino).cloned().unwrap_or_default();
        let is_dir = attr.is_dir();
        let promises = u32::from(wrote || is_dir || attr.size == 0);
        self.promising.set(self.promising.get() + promises);
        let ignored = match self.bug {
            Some(Bug::FsyncLies) => true,
            Some(Bug::NamesNotDurable) => is_dir || attr.size == 0,
            Some(Bug::FilesNotDurable) => !is_dir,
            Some(Bug::StableWriteIsNot) => wrote,
            Some(Bug::CommitDoesNothing) => !wrote && !is_dir,
            Some(Bug::FsyncSometimesLies) => self.chance(0.1),
            _ => false,
        };
        let upto = self.seq.get();
        self.pause(400).await;
        self.promising.set(self.promising.get() - promises);
        if !ignored {
            let mut disk = self.disk.borrow_mut();
            let spare = usize::from(self.bug == Some(Bug::FlushLies));
            while disk.states.len() > 1 + spare && disk.states[1].0 <= upto {
                disk.states.pop_front();
            }
        }
        Ok(Reply::Done)
    }

    fn apply(&self, request: &Request) -> Result<Reply> {
        let makes = matches!(
            request.op,
            Op::Create { .. } | Op::MakeDir { .. } | Op::MakeNode { .. } | Op::Symlink { .. }
        );
        let mut live = self.live.borrow_mut();
        let free = (3..).find(|&ino| live.files.attr(ino).is_none()).filter(|_| makes);
        let now = self.rt.now();
        let mut reply = live.files.apply_with_ino(now, request, free);
        if let (Some(ino), Ok(_)) = (free, &reply) {
            *live.generations.entry(ino).or_insert(0) += 1;
        }
        let generations = live.generations.clone();
        let generation = |ino: Ino| match self.bug {
            Some(Bug::GenerationIgnored) => 1,
            _ => generations.get(&ino).copied().unwrap_or(0),
        };
        match &mut reply {
            Ok(Reply::Entry(entry)) => entry.generation = generation(entry.attr.ino),
            Ok(Reply::Dir(entries)) => {
                for entry in entries.iter_mut().filter_map(|entry| entry.entry.as_mut()) {
                    entry.generation = generation(entry.attr.ino);
                }
            }
            _ => {}
        }
        reply
    }
}

impl FileSystem for Volume {
    async fn execute(&self, request: Request) -> Result<Reply> {
        if let Op::Fsync { ino, .. } = request.op {
            return self.fsync(ino).await;
        }
        if self.chance(0.3) {
            self.pause(300).await;
        }
        self.wrote.set(matches!(request.op, Op::Write { .. }));
        match (&request.op, self.bug) {
            (Op::Write { data, .. }, Some(Bug::WriteDropped)) if self.chance(0.05) => {
                return Ok(Reply::Written(data.len()));
            }
            (Op::SetAttr { set, .. }, Some(Bug::ExclusiveForgets)) if set.mtime.is_some() => {
                return Ok(Reply::Done);
            }
            (Op::Lookup { dir, name }, Some(Bug::RemovedStays)) if **name == *b"." => {
                let reply = self.apply(&request);
                let mut graveyard = self.graveyard.borrow_mut();
                match &reply {
                    Ok(Reply::Entry(entry)) => drop(graveyard.insert(*dir, entry.clone())),
                    Err(FsError::NotFound | FsError::Stale) => {
                        if let Some(entry) = graveyard.get(dir) {
                            return Ok(Reply::Entry(entry.clone()));
                        }
                    }
                    _ => {}
                }
                return reply;
            }
            _ => {}
        }
        let changes = !matches!(
            request.op,
            Op::Lookup { .. } | Op::GetAttr { .. } | Op::Read { .. } | Op::ReadDir { .. }
        );
        let reply = self.apply(&request);
        if changes && reply.is_ok() {
            self.keep();
        }
        reply
    }
}
