//! A volume in a simulated world: made, opened, asked, closed, opened again.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use twin_disk::{Block, BlockDevice, Recorded};
use twin_fs::{Ino, Op, Reply, Request, VolumeOf};
use twin_lfs::Lfs;
use twin_rt::{Driver, Nanos, Order, Rt, SECS, Time};

use super::{Scenario, Subject};
use twin_sim::faults::{FaultPlan, WriteLog};
use twin_sim::{Platter, SimDisk, queue};

/// A task that takes longer than this, in virtual time, runs in circles.
const PATIENCE_NS: Nanos = 1_000 * SECS;

/// A task that makes the clock's driver wait more often than this runs in circles, perhaps without
/// time passing.
const STEPS: u64 = 300_000;

/// A clock that stops when its steps are used up.
struct Patient {
    start: Time,
    steps: Rc<Cell<u64>>,
}

impl Driver for Patient {
    fn start(&mut self) -> Time {
        self.start
    }

    fn park(&mut self, deadline: Option<Time>) -> Option<Time> {
        self.steps.set(self.steps.get().checked_sub(1)?);
        deadline
    }
}

/// How long requests to the device take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Random times, any order of completion.
    Jitter,
    /// No time.
    Instant,
}

/// A world with a log-structured volume.
pub type World = AnyWorld<Lfs>;

/// A runtime with a disk, and perhaps a volume on it.
pub struct AnyWorld<L: Subject> {
    /// The runtime.
    pub rt: Rt,
    /// The disk.
    pub disk: SimDisk,
    /// The volume, once it is open.
    pub volume: Option<VolumeOf<L>>,
    /// Bytes used when the volume was closed.
    pub used_bytes: u64,
    scenario: Scenario,
    next_id: u64,
    steps: Rc<Cell<u64>>,
}

impl<L: Subject> AnyWorld<L> {
    /// A world around a disk that holds `platter`. It begins at time `start`.
    pub fn new(scenario: &Scenario, platter: Platter, timing: Timing, start: Time) -> AnyWorld<L> {
        AnyWorld::build(scenario, platter, timing, start, FaultPlan::none(), None)
    }

    /// The same with faults, and with a log of writes.
    pub fn build(
        scenario: &Scenario,
        platter: Platter,
        timing: Timing,
        start: Time,
        faults: FaultPlan,
        log: Option<&WriteLog>,
    ) -> AnyWorld<L> {
        let order = scenario.order;
        let steps = Rc::new(Cell::new(STEPS));
        let clock = Patient { start, steps: Rc::clone(&steps) };
        let rt = Rt::with_order(clock, scenario.seed ^ start.0, order);
        let name = if timing == Timing::Jitter { "jitter" } else { "instant" };
        let options = twin_sim::model::Options {
            size: Some(platter.size()),
            write_cache: Some(true),
            seed: scenario.seed ^ start.0,
            ..twin_sim::model::Options::default()
        };
        let model = match twin_sim::model::REGISTRY.get(name).map(|entry| entry.build(&options)) {
            Ok(Ok(model)) => model,
            _ => unreachable!("the models for tests take any size"),
        };
        let scheduler = queue::REGISTRY.default_entry().make();
        let mut builder = SimDisk::builder(&rt, model).scheduler(scheduler).platter(platter);
        builder = builder.faults(faults);
        if let Some(log) = log {
            builder = builder.log(log).crashable();
        }
        let disk = builder.start();
        let scenario = scenario.clone();
        AnyWorld { rt, disk, volume: None, used_bytes: 0, scenario, next_id: 1, steps }
    }

    /// The device as the volume sees it: with every request in the run's digest.
    pub fn device(&self) -> Rc<dyn BlockDevice> {
        Rc::new(Recorded::new(self.rt.clone(), self.disk.clone()))
    }

    /// Runs a future to its end, and everything else beside it.
    ///
    /// # Errors
    /// If it never ends: nothing can happen any more, or it takes for ever.
    pub fn wait<T>(&self, what: &str, future: impl Future<Output = T>) -> Result<T, String> {
        let end = self.rt.now() + PATIENCE_NS;
        self.steps.set(STEPS);
        let mut future = pin!(future);
        let mut alarm = pin!(self.rt.sleep_until(end));
        let either = std::future::poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
            alarm.as_mut().poll(cx).map(|()| None)
        });
        match self.rt.block_on(either) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => {
                let waiting = self.rt.waiting().join(", ");
                let (s, state) = (PATIENCE_NS / SECS, self.state());
                Err(format!("{what}: no end after {s} s; waiting: {waiting}; {state}"))
            }
            Err(_) if self.steps.get() == 0 => {
                Err(format!("{what}: no end after {STEPS} steps; {}", self.state()))
            }
            Err(stalled) => Err(format!("{what}: {stalled}; {}", self.state())),
        }
    }

    /// How the volume stands, in words.
    fn state(&self) -> String {
        let Some(volume) = &self.volume else { return "not open".into() };
        volume.layout.describe(volume.core())
    }

    /// Opens the volume.
    ///
    /// # Errors
    /// If that fails.
    pub fn open(&mut self) -> Result<L::Recovered, String> {
        self.try_open()?.map_err(|error| format!("opening: {error}"))
    }

    /// Opens the volume, or finds that it cannot be opened.
    ///
    /// # Errors
    /// In words if opening never ends; inside, why it failed.
    pub fn try_open(&mut self) -> Result<twin_fs::Result<L::Recovered>, String> {
        self.try_open_as(self.device())
    }

    /// Opens the volume on a device that stands for the disk.
    ///
    /// # Errors
    /// If that fails.
    pub fn open_as(&mut self, device: Rc<dyn BlockDevice>) -> Result<L::Recovered, String> {
        self.try_open_as(device)?.map_err(|error| format!("opening: {error}"))
    }

    fn try_open_as(
        &mut self,
        device: Rc<dyn BlockDevice>,
    ) -> Result<twin_fs::Result<L::Recovered>, String> {
        let opening = L::start(&self.rt, device, &self.scenario);
        Ok(self.wait("opening", opening)?.map(|(volume, recovered)| {
            self.volume = Some(volume);
            recovered
        }))
    }

    /// The volume, which is open.
    ///
    /// # Panics
    /// If it is not.
    pub fn volume(&self) -> &VolumeOf<L> {
        match &self.volume {
            Some(volume) => volume,
            None => panic!("the volume is not open"),
        }
    }

    /// Executes one operation as root.
    ///
    /// # Errors
    /// In words if it never ends; inside, what the operation failed with.
    pub fn ask(&mut self, op: Op) -> Result<twin_fs::Result<Reply>, String> {
        self.next_id += 1;
        let what = format!("{op:?}");
        let request = Request::root(self.next_id, op);
        let volume = self.volume().clone();
        self.wait(&what, async move { volume.execute(request).await })
    }

    /// The bytes of a file, as pieces.
    pub(crate) fn read_file(&mut self, ino: Ino, off: u64, len: u32) -> Result<Vec<Block>, String> {
        match self.ask(Op::Read { ino, off, len })? {
            Ok(Reply::Data(pieces)) => Ok(pieces),
            other => Err(format!("reading inode {ino}: {other:?}")),
        }
    }

    /// The tree.
    ///
    /// # Errors
    /// The first operation that fails.
    pub fn dump(&mut self) -> Result<twin_model::Dump, String> {
        self.walk()?.map_err(|error| format!("walking the tree: {error}"))
    }

    /// The tree, or the first error on the way.
    ///
    /// # Errors
    /// In words if walking never ends; inside, why it failed.
    pub fn try_dump(&mut self) -> Result<twin_fs::Result<twin_model::Dump>, String> {
        Ok(self.walk()?.map_err(|error| error.error))
    }

    fn walk(&mut self) -> Result<Result<twin_model::Dump, twin_model::DumpError>, String> {
        let volume = self.volume().clone();
        let mut id = 1 << 56;
        self.wait("walking", twin_model::dump(&*volume, &mut id))
    }

    /// Closes the volume and stops everything. Gives what the disk holds then.
    ///
    /// # Errors
    /// If closing fails.
    pub fn close(&mut self) -> Result<Platter, String> {
        let volume = self.volume.take();
        if let Some(volume) = volume {
            let closed = self.wait("closing", volume.close())?;
            closed.map_err(|error| format!("closing: {error}"))?;
            self.used_bytes = volume.layout.used().0;
        }
        let platter = self.disk.platter();
        self.rt.crash();
        Ok(platter)
    }

    /// Drops everything where it stands.
    pub fn crash(&mut self) {
        self.volume = None;
        self.rt.crash();
    }
}

impl<L: Subject> Drop for AnyWorld<L> {
    fn drop(&mut self) {
        // Tasks hold the runtime that holds them.
        self.crash();
    }
}

/// A new volume of the scenario, closed.
///
/// # Errors
/// If it cannot be made.
pub fn make<L: Subject>(scenario: &Scenario) -> Result<Platter, String> {
    let fifo = Scenario { order: Order::Fifo, ..scenario.clone() };
    let mut world =
        AnyWorld::<L>::new(&fifo, Platter::new(scenario.size), Timing::Instant, Time(0));
    let device = world.device();
    let rt = world.rt.clone();
    let made = world.wait("mkfs", L::make(&rt, device, &fifo))?;
    made.map_err(|error| format!("mkfs: {error}"))?;
    world.close()
}
