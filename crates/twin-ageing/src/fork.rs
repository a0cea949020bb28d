//! Forks: the state of a volume at one instant, without the contents of its files.
//!
//! Contract: a fork is made of a device that holds that instant and does not change, in a simulation
//! as of a mount ([`twin_disk::Frozen::device`]). The volume on it is recovered and closed in memory
//! ([`Closed::of`]); nothing is written to the device. Of that, a fork ([`Twin::of`]) is what
//! opening and a check of the volume read, and what directories, links and lists of attributes contain; all else,
//! the contents of files, is zeros. Contents that an inode holds itself stay: they are metadata.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use twin_age::VolumeMap;
use twin_age::map::FileKind;
use twin_disk::{
    Block, BlockDevice, Class, DeviceInfo, Io, IoKind, Origin, Overlay, Pending, gather,
};
use twin_fs::{CheckRequest, Cpu, LayoutKind, Settings};
use twin_rt::Rt;

use twin_sim::Platter;

use crate::age::map_of;
use twin_lab::{SimulateError, model_error};

/// What is copied at a time, in bytes.
const CHUNK: u64 = 1 << 20;

/// A volume at one instant, as it is after it was recovered and closed, in memory.
pub struct Closed {
    rt: Rt,
    kind: &'static dyn LayoutKind,
    device: Rc<Overlay>,
}

/// A fork, ready to be copied.
pub struct Twin {
    rt: Rt,
    device: Rc<Overlay>,
    parts: Vec<Range<u64>>,
}

impl Closed {
    /// Recovers the volume on a device that holds it at one instant.
    ///
    /// # Errors
    /// If it cannot be read or opened.
    pub fn of(
        rt: &Rt,
        kind: &'static dyn LayoutKind,
        device: Rc<dyn BlockDevice>,
    ) -> Result<Closed, SimulateError> {
        let device = Rc::new(Overlay::new(rt, device));
        let above = Rc::clone(&device) as Rc<dyn BlockDevice>;
        let work = async {
            let opening = kind.config();
            let opened = opening.open(rt, above, Cpu::none(), Settings::default()).await?;
            opened.volume.close().await
        };
        rt.block_on(work).map_err(SimulateError::Stalled)??;
        Ok(Closed { rt: rt.clone(), kind, device })
    }

    /// The device with the closed volume; what is written to it stays in memory.
    pub fn device(&self) -> Rc<dyn BlockDevice> {
        Rc::clone(&self.device) as Rc<dyn BlockDevice>
    }

    /// Where everything is on it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn map(&self) -> Result<VolumeMap, SimulateError> {
        map_of(&self.rt, self.kind, self.device()).map_err(model_error)
    }
}

impl Twin {
    /// Finds what belongs to the fork of a volume. `progress` is called with the amount of work done
    /// and the total.
    ///
    /// # Errors
    /// If the volume is damaged or cannot be read.
    pub fn of(closed: &Closed, progress: &mut dyn FnMut(u64, u64)) -> Result<Twin, SimulateError> {
        let Closed { rt, kind, device } = closed;
        let marking = kind.without_contents(&**device);
        rt.block_on(marking).map_err(SimulateError::Stalled)??;
        let read = Rc::new(Noted { device: Rc::clone(device), read: RefCell::default() });
        // What opening reads beside, as the header of a journal.
        let config = kind.config();
        let settings = Settings { read_only: true, ..Settings::default() };
        let work = async {
            let opened = config.open(rt, Rc::clone(&read) as _, Cpu::none(), settings).await?;
            opened.volume.close().await
        };
        rt.block_on(work).map_err(SimulateError::Stalled)??;
        let check = kind.check(rt, Rc::clone(&read) as _, CheckRequest::default(), progress);
        let report = rt.block_on(check).map_err(SimulateError::Stalled)??;
        if let Some(finding) = report.findings.first() {
            return Err(model_error(format!("the volume is damaged: {finding}")));
        }
        let mut parts = read.read.take();
        for file in &closed.map()?.files {
            let is_file = file.kind == FileKind::File;
            let runs = file.runs.iter().filter(|run| !is_file || run.lbn < 0);
            parts.extend(runs.map(|run| run.at..run.end()));
        }
        let parts = whole_sectors(parts, &device.info());
        Ok(Twin { rt: rt.clone(), device: Rc::clone(device), parts })
    }

    /// Bytes of the device.
    pub fn size(&self) -> u64 {
        self.device.info().size
    }

    /// The fork in memory, as a simulation begins on it.
    ///
    /// # Errors
    /// If something cannot be read.
    pub fn platter(&self) -> Result<Platter, SimulateError> {
        let mut platter = Platter::new(self.size());
        self.copy(|at, block| -> Result<(), SimulateError> {
            platter.write(at, std::slice::from_ref(block));
            Ok(())
        })?;
        Ok(platter)
    }

    /// Gives `put` what the fork holds: places on the device and contents, ascending. All else is
    /// zeros. Returns the bytes.
    ///
    /// # Errors
    /// If something cannot be read, and those of `put`.
    pub fn copy<E: From<SimulateError>>(
        &self,
        mut put: impl FnMut(u64, &Block) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut bytes = 0;
        for part in &self.parts {
            let mut at = part.start;
            while at < part.end {
                let len = CHUNK.min(part.end - at);
                let io = Io::read(at, len, Class::Meta, Origin::Recovery);
                let read = self.rt.block_on(self.device.submit(io));
                let read = read.map_err(SimulateError::Stalled)?.map_err(model_error)?;
                put(at, &gather(&read, 0, len as usize))?;
                (at, bytes) = (at + len, bytes + len);
            }
        }
        Ok(bytes)
    }
}

/// The parts in whole sectors, ascending, joined where they touch.
fn whole_sectors(mut parts: Vec<Range<u64>>, info: &DeviceInfo) -> Vec<Range<u64>> {
    let sector = u64::from(info.sector);
    parts.sort_by_key(|part| part.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for part in parts {
        let start = part.start / sector * sector;
        let end = part.end.next_multiple_of(sector).min(info.size);
        match joined.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => joined.push(start..end),
        }
    }
    joined
}

/// A device that notes what is read.
struct Noted {
    device: Rc<Overlay>,
    read: RefCell<Vec<Range<u64>>>,
}

impl BlockDevice for Noted {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn submit(&self, io: Io) -> Pending {
        if io.kind == IoKind::Read {
            self.read.borrow_mut().push(io.at..io.at + io.len);
        }
        self.device.submit(io)
    }

    fn in_flight(&self) -> usize {
        self.device.in_flight()
    }
}
