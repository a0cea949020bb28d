//! Puts the parts of a server together.

use std::rc::Rc;

use twin_cache::Memory;
use twin_disk::{BlockDevice, Partition, Recorded};
use twin_fs::{Cpu, Nvram, Opened, Settings, Volume};
use twin_lab::{NOBODY, Run, SimulateError, disk_builder};
use twin_rt::Rt;
use twin_sim::bus::Bus;
use twin_sim::{HostAdapter, SimDisk};

use crate::file::{Disk, FileSystemPart, ServerFile};

/// Parts of a disk begin and end at multiples of this.
const ALIGNED: u64 = 1 << 20;

/// A server that is put together, with new volumes.
pub(crate) struct Built {
    pub(crate) hosts: Vec<(Cpu, Rc<Memory>)>,
    pub(crate) buses: Vec<Bus>,
    pub(crate) disks: Vec<SimDisk>,
    pub(crate) volumes: Vec<Volume>,
}

impl Built {
    pub(crate) async fn of(rt: &Rt, server: &ServerFile) -> Result<Built, SimulateError> {
        let host = |host: &crate::file::Host| {
            let cpu = Cpu::modelled(rt.clone(), Box::new(host.cpu.machine), host.cpus);
            (cpu, Memory::new(host.cache_bytes))
        };
        let hosts: Vec<_> = server.hosts.iter().map(host).collect();
        let bus = |part: &crate::file::BusPart| {
            let own = part.kind.build();
            match part.bytes_per_s {
                Some(rate) => own.at_rate(rate),
                None => own,
            }
        };
        let buses: Vec<Bus> = server.buses.iter().map(bus).collect();
        let (mut disks, mut devices) = (Vec::new(), Vec::new());
        for part in &server.disks {
            let (disk, device) = disk(rt, part, &buses, &hosts[part.host].0)?;
            disks.push(disk);
            devices.push(device);
        }
        let nvrams: Vec<Rc<Nvram>> =
            server.hosts.iter().map(|host| Nvram::new(host.nvram_bytes)).collect();
        let mut volumes = Vec::new();
        for (number, part) in server.file_systems.iter().enumerate() {
            let place = place(server, number, devices[part.disk].info().size)?;
            let device = Rc::clone(&devices[part.disk]);
            let (cpu, memory) = &hosts[server.host_of(number)];
            let volume = volume(rt, part, (device, place), cpu, memory).await?;
            volume.join_nvram(&nvrams[server.host_of(number)]);
            volumes.push(volume);
        }
        Ok(Built { hosts, buses, disks, volumes })
    }
}

fn disk(
    rt: &Rt,
    part: &Disk,
    buses: &[Bus],
    cpu: &Cpu,
) -> Result<(SimDisk, Rc<dyn BlockDevice>), SimulateError> {
    if part.config.is_billed() {
        let what = format!("disk.{}: a bucket is one volume, and no disk of a server", part.name);
        return Err(SimulateError::Model(what));
    }
    let builder = disk_builder(rt, &Run::from(&part.config))?.name(&part.name);
    let Some(bus) = part.bus else {
        let disk = builder.start();
        return Ok((disk.clone(), Rc::new(Recorded::new(rt.clone(), disk))));
    };
    let disk = builder.bus(buses[bus].clone()).start();
    let adapter = HostAdapter::new(rt, disk.clone(), cpu.clone());
    Ok((disk, Rc::new(Recorded::new(rt.clone(), adapter))))
}

/// First byte and size of a file system on its disk. Those without a size share equally what lies
/// behind the others.
fn place(server: &ServerFile, number: usize, disk_bytes: u64) -> Result<(u64, u64), SimulateError> {
    let part = &server.file_systems[number];
    let own = |other: &&FileSystemPart| other.disk == part.disk;
    let mut next = 0;
    let mut places = Vec::new();
    for other in server.file_systems.iter().filter(own) {
        let Some(size) = other.place.1 else { continue };
        let from = if other.place.0 == u64::MAX { next } else { other.place.0 };
        let end = from.saturating_add(size);
        for (name, start, stop) in &places {
            if from < *stop && *start < end {
                let what = format!("fs.{}: it overlaps fs.{name} on the disk", other.name);
                return Err(SimulateError::Model(what));
            }
        }
        if end > disk_bytes {
            let (name, disk) = (&other.name, &server.disks[part.disk].name);
            let what =
                format!("fs.{name}: it ends at byte {end}, and disk {disk} has {disk_bytes}");
            return Err(SimulateError::Model(what));
        }
        places.push((&other.name, from, end));
        next = next.max(end);
    }
    if part.place.1.is_some() {
        let found = places.iter().find(|(name, ..)| **name == part.name);
        return Ok(found.map_or((0, 0), |(_, from, end)| (*from, end - from)));
    }
    let sharing: Vec<&FileSystemPart> =
        server.file_systems.iter().filter(own).filter(|other| other.place.1.is_none()).collect();
    let first = next.next_multiple_of(ALIGNED);
    let each = disk_bytes.saturating_sub(first) / sharing.len().max(1) as u64 / ALIGNED * ALIGNED;
    if each == 0 {
        let what = format!("fs.{}: there is no room left for it on its disk", part.name);
        return Err(SimulateError::Model(what));
    }
    let turn = sharing.iter().position(|other| other.name == part.name).unwrap_or(0) as u64;
    Ok((first + turn * each, each))
}

/// Makes a volume, opens it, and lets it share the host's memory.
async fn volume(
    rt: &Rt,
    part: &FileSystemPart,
    (device, (from, size)): (Rc<dyn BlockDevice>, (u64, u64)),
    cpu: &Cpu,
    memory: &Rc<Memory>,
) -> Result<Volume, SimulateError> {
    let device = Partition::new(device, from, size, &part.name).map_err(SimulateError::Model)?;
    let device: Rc<dyn BlockDevice> = Rc::new(device);
    let config = &part.config;
    let in_part = |error| SimulateError::Model(format!("fs.{}: {error}", part.name));
    config.of_layout.mkfs(rt, Rc::clone(&device), NOBODY).await.map_err(in_part)?;
    let settings = Settings { cache_bytes: memory.bound_bytes(), ..config.settings.clone() };
    let opening = config.of_layout.open(rt, device, cpu.clone(), settings);
    let Opened { volume, .. } = opening.await.map_err(in_part)?;
    let core = Rc::downgrade(volume.core());
    memory.join(Box::new(move |f| {
        if let Some(core) = core.upgrade() {
            f(&core.cache);
        }
    }));
    Ok(volume)
}
