//! Power failures at given instants of one run, each recovered from while the run stands still.
//!
//! Contract: the run is the same with and without them. At each instant the disk, or the bucket, says what is certain
//! and what is in doubt; one possible outcome is drawn, a new volume is opened on it in a world of its
//! own, and the ledger counts what is lost.

use std::ops::ControlFlow;

use twin_cache::flush::Survives;
use twin_fs::{Core, Cpu, Opened, Volume};
use twin_lab::{Below, Remains, Run, SimulateError, Watcher, World, model_error};
use twin_rt::{ClockOnly, Nanos, Rng, Rt, Time};
use twin_sim::{Platter, SimDisk, model, queue};

use super::ledger::Ledger;

/// The power failures of a run. See the module.
pub(super) struct Cuts {
    run: Run,
    /// What of the flush policy's memory a power failure leaves.
    survives: Survives,
    /// Since the run began, in ascending order.
    instants: Vec<Nanos>,
    begun: Time,
    ledger: Ledger,
    rng: Rng,
    /// Bytes lost at each instant so far.
    pub(super) lost: Vec<u64>,
    pub(super) error: Option<SimulateError>,
}

impl Cuts {
    pub(super) fn new(run: &Run, survives: Survives, instants: Vec<Nanos>) -> Cuts {
        Cuts {
            run: run.clone(),
            survives,
            instants,
            begun: Time(0),
            ledger: Ledger::default(),
            rng: Rng::stream(run.seed, "power failures"),
            lost: Vec::new(),
            error: None,
        }
    }

    /// The bytes lost if the power fails now.
    fn cut(&mut self, volume: &Volume, below: &Below) -> Result<u64, SimulateError> {
        let core = volume.core();
        self.ledger.note_changes(core);
        match self.survives {
            Survives::Nothing => {}
            // What is in memory that survives is not lost; what does not fit in it is.
            Survives::Memory => return Ok(0),
            Survives::Nvram => {
                return Ok(core.cache.dirty_bytes().saturating_sub(core.settings.nvram_bytes));
            }
        }
        let remains = below.power_failure(&mut self.rng);
        let remains = remains.ok_or_else(|| model_error("the disk cannot lose its power"))?;
        self.recover(core, remains)
    }

    /// Opens a volume on what a power failure left, and counts what is lost.
    fn recover(&mut self, core: &Core, remains: Remains) -> Result<u64, SimulateError> {
        let seed = self.run.clock_seed().wrapping_add(self.lost.len() as u64 + 1);
        let rt = Rt::new(ClockOnly::default(), seed);
        let config = &self.run.config;
        let ledger = &mut self.ledger;
        let lost = rt.block_on(async {
            let settings = config.settings.clone();
            let device = remains.device(&rt, |platter| still(&rt, platter)).await?;
            let opened = config.of_layout.open(&rt, device, Cpu::none(), settings).await?;
            let Opened { volume, .. } = opened;
            Ok(ledger.compare(core, &volume).await?)
        });
        rt.crash();
        lost.map_err(SimulateError::Stalled)?
    }
}

/// A disk with this content. Nobody looks at the times of a recovery: the last disk for tests takes none.
fn still(rt: &Rt, platter: Platter) -> Result<SimDisk, SimulateError> {
    let options = model::Options { size: Some(platter.size()), ..model::Options::default() };
    let models = model::REGISTRY.iter().filter(|entry| entry.kind == model::Kind::Test);
    let model = models.last().ok_or_else(|| model_error("there is no disk for tests"))?;
    let model = model.build(&options).map_err(model_error)?;
    let scheduler = queue::REGISTRY.default_entry().make();
    Ok(SimDisk::builder(rt, model).scheduler(scheduler).platter(platter).start())
}

impl Watcher for Cuts {
    fn begin(&mut self, world: &dyn World) {
        self.begun = world.now();
        if let Some((volume, _)) = world.inside() {
            volume.core().cache.watch_changes();
        }
    }

    fn look(&mut self, world: &dyn World, next: Time) -> ControlFlow<()> {
        let Some((volume, below)) = world.inside() else { return ControlFlow::Continue(()) };
        let due = |at: &&Nanos| self.begun + **at < next;
        let due = self.instants[self.lost.len()..].iter().take_while(due).count();
        if due == 0 {
            return ControlFlow::Continue(());
        }
        match self.cut(volume, below) {
            Ok(lost) => {
                self.lost.extend(std::iter::repeat_n(lost, due));
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}
