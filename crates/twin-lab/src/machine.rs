//! The machine of a configuration: processor, driver, disk, and the volume on it.

use std::rc::Rc;

use twin_bucket::{Shape, pack_memory};
use twin_disk::{BlockDevice, Recorded};
use twin_fs::{Cpu, Opened, Volume};
use twin_rt::{BoxFuture, ClockOnly, Rt};
use twin_sim::{Builder, HostAdapter, SimDisk, cpu, model};

use crate::below::{self, Below};
use crate::config::Config;
use crate::costs::Costs;
use crate::error::{SimulateError, model_error};
use crate::run::{NOBODY, Run};

/// The components under a volume.
struct Machine {
    below: Below,
    device: Rc<dyn BlockDevice>,
    cpu: Cpu,
}

impl Machine {
    /// Builds the machine of a run.
    async fn build(rt: &Rt, run: &Run) -> Result<Machine, SimulateError> {
        let config = &run.config;
        let disk = disk_builder(rt, run)?;
        let cpu = Cpu::modelled(rt.clone(), Box::new(processor(config)), config.cpus);
        let disk = match config.bus.as_ref().map(|bus| bus.build()) {
            Some(own) => disk.bus(match config.bus_bytes_per_s {
                Some(rate) => own.at_rate(rate),
                None => own,
            }),
            None => disk,
        };
        let below = match config.is_billed() {
            true => Below::in_bucket(rt, run, disk.start()).await?,
            false => match journal_disk(rt, run)? {
                Some(local) => Below::journaled(rt, disk.start(), local).await?,
                None => Below::of(disk.start()),
            },
        };
        let device: Rc<dyn BlockDevice> = match config.bus.is_some() || config.machine.is_some() {
            true => {
                let adapter = HostAdapter::new(rt, below.device(), cpu.clone());
                Rc::new(Recorded::new(rt.clone(), adapter))
            }
            false => Rc::new(Recorded::new(rt.clone(), below.device())),
        };
        Ok(Machine { below, device, cpu })
    }
}

/// The disk of a run, without a bus, as it is built.
///
/// # Errors
/// If there is no such disk.
pub fn disk_builder(rt: &Rt, run: &Run) -> Result<Builder, SimulateError> {
    let config = &run.config;
    let options = model::Options {
        size: config.size,
        command_ns: config.command_ns,
        // The key's range is far below u32.
        queue_depth: config.ncq.map(|commands| commands as u32),
        read_ahead: config.drive_read_ahead,
        write_cache: config.report_early,
        skews: config.skews,
        flat: config.ssd,
        prices: config.store.prices,
        seed: run.seed,
        measured: config.machine.as_ref().map(|machine| machine.device()),
    };
    let disk_model = match config.disk.build(&options) {
        Err(model::ModelError::TooLarge { .. }) if !config.size_asked => {
            config.disk.build(&model::Options { size: None, ..options })
        }
        built => built,
    };
    let disk_model = disk_model.map_err(model_error)?;
    let disk = SimDisk::builder(rt, disk_model);
    let disk = disk.name(config.disk.name).scheduler(config.queue.make());
    let disk = disk.planted(run.planted().of_disk());
    if config.is_billed() {
        // The content is that of objects.
        return Ok(disk);
    }
    let disk = if run.crashable { disk.crashable() } else { disk };
    Ok(match &run.start {
        Some(platter) => disk.platter(platter.clone()),
        None => disk,
    })
}

/// The device with the journal of a run, if there is one.
fn journal_disk(rt: &Rt, run: &Run) -> Result<Option<SimDisk>, SimulateError> {
    let Some(known) = run.config.journal.disk else { return Ok(None) };
    let size = Some(run.config.journal.size);
    let options = model::Options { size, seed: run.seed, ..model::Options::default() };
    let disk = SimDisk::builder(rt, known.build(&options).map_err(model_error)?);
    let disk = disk.name(known.name).scheduler(run.config.queue.make());
    Ok(Some(if run.crashable { disk.crashable() } else { disk }.start()))
}

/// The configuration's processor, with the costs that the configuration sets.
fn processor(config: &Config) -> cpu::Machine {
    let mut machine = config.cpu.machine;
    let measured = config.machine.as_ref().and_then(|file| file.costs(config.layout.name()));
    if let Some(costs) = measured {
        machine = cpu::Machine { costs, slower: 1.0, ..machine };
    }
    let Costs { request_ns, block_ns, copy_ns, remove_ns } = config.costs;
    let costs = &mut machine.costs;
    costs.request_ns = request_ns.unwrap_or(costs.request_ns);
    costs.block_ns = block_ns.unwrap_or(costs.block_ns);
    costs.remove_ns = remove_ns.unwrap_or(costs.remove_ns);
    let per_byte = |ns: u64| ns * 1000 / 4096;
    costs.copy_ps_per_byte = copy_ns.map_or(costs.copy_ps_per_byte, per_byte);
    machine
}

/// Work on an open volume.
pub trait OnVolume {
    /// What comes of it.
    type Output;

    /// Does it.
    fn run(
        self,
        rt: &Rt,
        below: &Below,
        volume: &Volume,
    ) -> impl Future<Output = Result<Self::Output, SimulateError>>;
}

/// The size of a configuration's disk and of its sectors, in bytes.
///
/// # Errors
/// If there is no such machine.
pub fn disk_of(config: &Config) -> Result<(u64, u32), SimulateError> {
    if config.is_billed() {
        let Shape { size, sector, .. } = below::shape(config);
        return Ok((size, sector));
    }
    let rt = Rt::new(ClockOnly::default(), 1);
    let info = disk_builder(&rt, &Run::from(config))?.start().info();
    rt.crash();
    Ok((info.size, info.sector))
}

/// Makes a new volume for the run, or opens the one that it begins with, works on it, and closes it.
///
/// # Errors
/// If the configuration is impossible, or the work or the volume fails.
pub async fn on_volume<T: OnVolume>(
    rt: &Rt,
    run: &Run,
    what: T,
) -> Result<T::Output, SimulateError> {
    let (below, volume) = opened(rt, run).await?;
    let output = what.run(rt, &below, &volume).await?;
    closed(&below, &volume).await?;
    Ok(output)
}

/// Boxed, as [`closed`] is, because each crate that works on volumes would have its own code of all that is awaited
/// here otherwise.
fn opened<'a>(rt: &'a Rt, run: &'a Run) -> BoxFuture<'a, Result<(Below, Volume), SimulateError>> {
    Box::pin(async move {
        if let Some(log) = &run.log {
            log.begin(rt);
        }
        let Machine { below, device, cpu } = Machine::build(rt, run).await?;
        let config = &run.config;
        if !below.has_volume(run) {
            config.of_layout.mkfs(rt, Rc::clone(&device), NOBODY).await?;
        }
        let mut settings = config.settings.clone();
        if config.is_billed() {
            settings.cache_bytes -= pack_memory(settings.cache_bytes);
        }
        let Opened { volume, .. } = config.of_layout.open(rt, device, cpu, settings).await?;
        below.opened();
        Ok((below, volume))
    })
}

fn closed<'a>(below: &'a Below, volume: &'a Volume) -> BoxFuture<'a, Result<(), SimulateError>> {
    Box::pin(async move {
        volume.close().await?;
        below.close().await
    })
}
