//! What is below a simulated volume: a disk, a disk behind a journal, or a bucket behind the service of its store.
//!
//! Contract: a volume in a bucket has the device that a mount of such a volume has ([`twin_bucket`]), made, closed and
//! opened as by `mkfs` and `mount`. Only the store is another.

use std::cell::Cell;
use std::rc::Rc;

use twin_bucket::{
    Bucket, Cached, Counts, Identity, MemoryStore, ObjectStore, Settings, Shape, create, open,
    pack_memory,
};
use twin_disk::journaled::{JournalId, Journaled, Waiting};
use twin_disk::{BlockDevice, Class, Io, Origin};
use twin_rt::{Rng, Rt};
use twin_sim::{Outage, Platter, SimDisk, SimStore};

use crate::bill::BillFigures;
use crate::config::{Config, Store};
use crate::error::{SimulateError, model_error};
use crate::figures::JournalFigures;
use crate::run::{NOBODY, Run};

/// What is below a volume.
#[derive(Clone)]
pub struct Below {
    /// The disk, or the service of the store.
    pub disk: SimDisk,
    bucket: Option<InBucket>,
    journal: Option<BehindJournal>,
}

#[derive(Clone)]
struct BehindJournal {
    device: Journaled,
    local: SimDisk,
    /// What it had done when the load began.
    before: Rc<Cell<Waiting>>,
}

#[derive(Clone)]
struct InBucket {
    store: SimStore,
    device: Bucket,
    /// What the store was asked to open the volume.
    opening: Rc<Cell<Counts>>,
}

/// The identity of a simulated journal: nobody else has one there.
const JOURNAL: JournalId = *b"the only journal";
/// Bytes of a volume in a bucket of which nobody has said how large it shall be.
const SIZE: u64 = 1 << 40;
/// Bytes that are copied into a bucket at once.
const COPIED: u64 = 4 << 20;

/// The shape of a configuration's volume in a bucket.
pub(crate) fn shape(config: &Config) -> Shape {
    Shape::of(config.size.unwrap_or(SIZE))
}

/// A writer, with a number that depends on nothing but the order of writers.
fn writer(number: u8) -> Settings {
    Settings::new(Identity([number; 16]), "a simulated mount")
}

/// Opens the volume in a store as its writer, whoever had it before.
async fn open_in(rt: &Rt, store: Rc<dyn ObjectStore>, number: u8) -> Result<Bucket, SimulateError> {
    open(rt, store, Rc::new(|_| true), &writer(number)).await.map_err(model_error)
}

impl Below {
    /// A disk.
    pub(crate) fn of(disk: SimDisk) -> Below {
        Below { disk, bucket: None, journal: None }
    }

    /// A disk behind a journal on `local`.
    pub(crate) async fn journaled(
        rt: &Rt,
        disk: SimDisk,
        local: SimDisk,
    ) -> Result<Below, SimulateError> {
        let (main, faster) = (Rc::new(disk.clone()), Rc::new(local.clone()));
        let opened = Journaled::open(rt, main, faster, JOURNAL).await;
        let (device, _) = opened.map_err(model_error)?;
        let journal = Some(BehindJournal { device, local, before: Rc::default() });
        Ok(Below { disk, bucket: None, journal })
    }

    /// A bucket that `service` serves, with the volume with which the run begins.
    pub(crate) async fn in_bucket(
        rt: &Rt,
        run: &Run,
        service: SimDisk,
    ) -> Result<Below, SimulateError> {
        let store = SimStore::new(rt, service.clone(), run.config.store.rates.unwrap_or_default());
        let shared = || Rc::new(store.clone()) as Rc<dyn ObjectStore>;
        let (config, volume) = (&run.config, Identity(NOBODY.uuid));
        let made = create(rt, shared(), volume, shape(config), &writer(1)).await;
        let made = made.map_err(model_error)?;
        match &run.start {
            Some(platter) => copy(platter, &made).await?,
            None => {
                config.of_layout.mkfs(rt, Rc::new(made.clone()), NOBODY).await?;
            }
        }
        made.close().await.map_err(model_error)?;
        let pieces = pack_memory(config.settings.cache_bytes);
        let cached = Cached::in_memory(shared(), pieces).await.map_err(model_error)?;
        let device = open_in(rt, cached, 2).await?;
        Ok(Below {
            disk: service,
            bucket: Some(InBucket { store, device, opening: Rc::default() }),
            journal: None,
        })
    }

    /// The device on which a volume is.
    pub(crate) fn device(&self) -> Rc<dyn BlockDevice> {
        match (&self.bucket, &self.journal) {
            (Some(bucket), _) => Rc::new(bucket.device.clone()),
            (None, Some(journal)) => Rc::new(journal.device.clone()),
            (None, None) => Rc::new(self.disk.clone()),
        }
    }

    /// Whether the volume with which the run begins is there.
    pub(crate) fn has_volume(&self, run: &Run) -> bool {
        self.bucket.is_some() || run.start.is_some()
    }

    /// The volume is open.
    pub(crate) fn opened(&self) {
        if let Some(bucket) = &self.bucket {
            bucket.opening.set(bucket.device.counts());
        }
    }

    /// The load begins: what is planned for a bucket's store is counted from here.
    pub(crate) fn begin(&self, rt: &Rt, store: &Store) {
        if let Some(journal) = &self.journal {
            journal.before.set(journal.device.waiting());
        }
        if let (Some(bucket), Some(outage)) = (&self.bucket, store.outage) {
            let start_ns = rt.now().0 + outage.start_ns;
            bucket.store.plan(Outage { start_ns, ..outage });
        }
    }

    /// What a bucket's store was asked since it was opened.
    pub fn counts(&self) -> Option<Counts> {
        self.bucket.as_ref().map(|bucket| bucket.device.counts())
    }

    /// What its store has executed in all, by its own account.
    pub fn executed(&self) -> Option<Counts> {
        self.bucket.as_ref().map(|bucket| bucket.store.executed())
    }

    /// What the store was asked to open the volume.
    pub fn opening(&self) -> Counts {
        self.bucket.as_ref().map(|bucket| bucket.opening.get()).unwrap_or_default()
    }

    /// The bill of a bucket for opening the volume, and for what its store was asked since `before`.
    pub fn bill(&self, before: Option<Counts>) -> Option<BillFigures> {
        let bucket = self.bucket.as_ref()?;
        let asked = bucket.device.counts() - before.unwrap_or_default() + self.opening();
        Some(BillFigures::of(&asked, bucket.store.bytes(), &self.disk.prices()?))
    }

    /// What was written to the journal since the load began, and what it brought to the disk; `None` without a journal.
    pub(crate) fn journal(&self) -> Option<JournalFigures> {
        let journal = self.journal.as_ref()?;
        let (now, before) = (journal.device.waiting(), journal.before.get());
        Some(JournalFigures {
            written_bytes: now.written - before.written,
            moved_bytes: now.moved - before.moved,
            waiting_bytes: now.bytes,
        })
    }

    /// Ends its use, once the volume is closed.
    pub(crate) async fn close(&self) -> Result<(), SimulateError> {
        match (&self.bucket, &self.journal) {
            (Some(bucket), _) => bucket.device.close().await.map_err(model_error),
            (None, Some(journal)) => journal.device.close().await.map_err(model_error),
            (None, None) => Ok(()),
        }
    }

    /// What a power failure of the machine may leave now; `None` if the run does not keep it.
    pub fn power_failure(&self, rng: &mut Rng) -> Option<Remains> {
        match (&self.bucket, &self.journal) {
            (Some(bucket), _) => Some(Remains::Bucket(bucket.store.without_client(rng))),
            (None, Some(journal)) => {
                let disk = self.disk.power_failure(rng)?;
                Some(Remains::Journaled(disk, journal.local.power_failure(rng)?))
            }
            (None, None) => self.disk.power_failure(rng).map(Remains::Disk),
        }
    }
}

/// What a power failure leaves.
pub enum Remains {
    /// The content of the disk.
    Disk(Platter),
    /// The content of the disk, and that of the device with its journal.
    Journaled(Platter, Platter),
    /// The objects of the bucket.
    Bucket(MemoryStore),
}

impl Remains {
    /// It as a device that takes no time, given how a disk of a content is made.
    ///
    /// # Errors
    /// If a disk cannot be made, or what is left cannot be opened.
    pub async fn device(
        self,
        rt: &Rt,
        disk: impl Fn(Platter) -> Result<SimDisk, SimulateError>,
    ) -> Result<Rc<dyn BlockDevice>, SimulateError> {
        Ok(match self {
            Remains::Disk(platter) => Rc::new(disk(platter)?),
            Remains::Journaled(main, local) => {
                let (main, local) = (Rc::new(disk(main)?), Rc::new(disk(local)?));
                let opened = Journaled::open(rt, main, local, JOURNAL).await;
                Rc::new(opened.map_err(model_error)?.0)
            }
            Remains::Bucket(objects) => Rc::new(open_in(rt, Rc::new(objects), 3).await?),
        })
    }
}

/// Writes the content of a device to a bucket.
async fn copy(from: &Platter, to: &Bucket) -> Result<(), SimulateError> {
    let end = from.size().min(to.info().size);
    for at in (0..end).step_by(COPIED as usize) {
        let blocks = from.read(at, COPIED.min(end - at));
        if blocks.iter().all(|block| matches!(block, twin_disk::Block::Zero(_))) {
            continue;
        }
        let io = Io::write(at, blocks, Class::Mixed, Origin::User);
        to.submit(io).await.map_err(model_error)?;
    }
    to.submit(Io::flush(Origin::User)).await.map(drop).map_err(model_error)
}
