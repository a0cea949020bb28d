//! The machine of a configuration: processor, driver, disk, and the volume on it.

use std::rc::Rc;

use twin_disk::{BlockDevice, Recorded};
use twin_ffs::Ffs;
use twin_fs::{Cpu, Layout, Volume};
use twin_lfs::Lfs;
use twin_rt::{MICROS, Rt};
use twin_sim::bus::Bus;
use twin_sim::{HostAdapter, SimDisk, bus, cpu, model, queue};

use crate::config::{Config, Costs, LayoutKind};
use crate::figures::LogFigures;
use crate::simulate::{SimulateError, model_error};
use crate::status::Status;

/// The parts under a volume.
pub(crate) struct Machine {
    pub(crate) disk: SimDisk,
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) cpu: Cpu,
}

impl Machine {
    /// Builds what a configuration says.
    pub(crate) fn build(rt: &Rt, config: &Config) -> Result<Machine, SimulateError> {
        let options = model::Options {
            size: config.size,
            command_ns: config.command_us * MICROS,
            skews: config.skews,
            flat: config.ssd,
            ..model::Options::default()
        };
        let disk_model = model::by_name(&config.disk).map_err(model_error)?;
        let disk_model = match disk_model.build(&options) {
            Err(model::ModelError::TooLarge { .. }) if !config.size_asked => {
                disk_model.build(&model::Options { size: None, ..options })
            }
            built => built,
        };
        let disk_model = disk_model.map_err(model_error)?;
        let scheduler = queue::by_name(&config.queue).map_err(model_error)?.build();
        let disk = SimDisk::builder(rt, disk_model).name(&config.disk).scheduler(scheduler);
        let cpu = Cpu::modelled(rt.clone(), Box::new(processor(config)?), config.cpus);
        let Some(name) = &config.bus else {
            let disk = disk.start();
            let device = Rc::new(Recorded::new(rt.clone(), disk.clone()));
            return Ok(Machine { disk, device, cpu });
        };
        let own = bus::by_name(name).map_err(model_error)?.build();
        let bus = match config.bus_bytes_per_s {
            Some(rate) => Bus::new(rate, own.largest_transfer()),
            None => own,
        };
        let disk = disk.bus(bus).start();
        let adapter = HostAdapter::new(rt, disk.clone(), cpu.clone());
        let device = Rc::new(Recorded::new(rt.clone(), adapter));
        Ok(Machine { disk, device, cpu })
    }
}

/// The configuration's processor, with its own costs where it has them.
fn processor(config: &Config) -> Result<cpu::Machine, SimulateError> {
    let mut machine = cpu::by_name(&config.cpu).map_err(model_error)?.machine;
    let Costs { request_us, block_us, copy_us } = config.costs;
    let costs = &mut machine.costs;
    costs.request_ns = request_us.map_or(costs.request_ns, |us| us * MICROS);
    costs.block_ns = block_us.map_or(costs.block_ns, |us| us * MICROS);
    let per_byte = |us: u64| us * MICROS * 1000 / 4096;
    costs.copy_ps_per_byte = copy_us.map_or(costs.copy_ps_per_byte, per_byte);
    Ok(machine)
}

/// Something to do with a volume of whatever layout.
pub(crate) trait OnVolume {
    type Output;

    async fn run<L: Counted>(
        self,
        rt: &Rt,
        disk: &SimDisk,
        volume: &Rc<Volume<L>>,
    ) -> Result<Self::Output, SimulateError>;
}

/// Makes a new volume as the configuration says, does something with it, and closes it.
pub(crate) async fn on_volume<T: OnVolume>(
    rt: &Rt,
    config: &Config,
    what: T,
) -> Result<T::Output, SimulateError> {
    let Machine { disk, device, cpu } = Machine::build(rt, config)?;
    let settings = config.settings.clone();
    match config.layout {
        LayoutKind::Lfs => {
            Lfs::mkfs(rt, Rc::clone(&device), &config.mkfs).await?;
            let (volume, _) = Lfs::open(rt, device, cpu, settings, config.lfs.clone()).await?;
            on_open(rt, &disk, volume, what).await
        }
        LayoutKind::Ffs => {
            Ffs::mkfs(rt, Rc::clone(&device), &config.ffs_mkfs).await?;
            let (volume, _) = Ffs::open(rt, device, cpu, settings, config.ffs.clone()).await?;
            on_open(rt, &disk, volume, what).await
        }
    }
}

async fn on_open<L: Counted, T: OnVolume>(
    rt: &Rt,
    disk: &SimDisk,
    volume: Rc<Volume<L>>,
    what: T,
) -> Result<T::Output, SimulateError> {
    let output = what.run(rt, disk, &volume).await?;
    volume.close().await?;
    Ok(output)
}

/// A layout that counts what it writes.
pub(crate) trait Counted: Layout {
    fn counts(&self) -> LogFigures;

    /// What the log of a volume is doing; none if it has no log.
    fn status(_: &Volume<Self>) -> Option<Status> {
        None
    }

    /// The segment that a byte of the device lies in, and where in it.
    fn segment_at(&self, _byte: u64) -> Option<(u32, u64)> {
        None
    }
}

impl Counted for Lfs {
    fn counts(&self) -> LogFigures {
        let stats = self.stats();
        LogFigures {
            write_cost: 0.0,
            log_bytes: stats.log_bytes,
            data_bytes: stats.data_bytes,
            meta_bytes: stats.meta_bytes,
            moved_bytes: stats.moved_bytes,
            cleaned_segments: stats.cleaned_segments,
            cleaner_read_bytes: stats.cleaner_read_bytes,
            log_writes: stats.groups,
            checkpoints: stats.checkpoints,
        }
    }

    fn status(volume: &Volume<Lfs>) -> Option<Status> {
        Some(Status::of(volume))
    }

    fn segment_at(&self, byte: u64) -> Option<(u32, u64)> {
        let segment = self.superblock().segment_of(byte)?;
        Some((segment, byte - self.superblock().segment_start(segment)))
    }
}

impl Counted for Ffs {
    fn counts(&self) -> LogFigures {
        let stats = self.stats();
        LogFigures {
            log_bytes: stats.data_bytes + stats.meta_bytes + stats.journal_bytes,
            data_bytes: stats.data_bytes,
            meta_bytes: stats.meta_bytes + stats.journal_bytes,
            checkpoints: stats.checkpoints,
            log_writes: stats.commits,
            ..LogFigures::default()
        }
    }
}
