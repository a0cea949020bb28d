//! What a disk does below a cache: it reads what is missed, and writes what is dirty when it is evicted,
//! and at the end.
//!
//! Contract: requests are served one after the other, without pauses and without a queue; the times of
//! the trace do not count. Misses of neighbouring blocks that follow each other are read together. A
//! write of a whole block reads nothing; one of a part reads the block first.
//!
//! Places are those of the trace if they fit on the disk. Otherwise, and for files and objects, which have
//! none, all that is touched is laid out in order of file and place, or of the first access, from the
//! disk's beginning on.

use twin_cache::study::Observer;
use twin_disk::IoKind;
use twin_rt::Time;
use twin_sim::model::{Access, DeviceModel, Options, Supply};

use super::load::Effect;
use super::packed::CHUNK;
use super::{Accesses, DeviceRow, DiskEntry};

/// A new disk.
///
/// # Errors
/// If the model needs more than its name.
pub(super) fn model_of(disk: &DiskEntry) -> Result<Box<dyn DeviceModel>, String> {
    disk.build(&Options::default()).map_err(|error| error.to_string())
}

/// Where each block or object is on the disk, in bytes.
pub(super) struct Places {
    starts: Vec<u64>,
}

impl Places {
    /// # Errors
    /// If the disk is too small for all that the trace touches.
    pub(super) fn new(accesses: &Accesses, model: &dyn DeviceModel) -> Result<Places, String> {
        let spec = model.spec();
        let sector = u64::from(spec.sector);
        let bytes_of = |block: u32| accesses.bytes_of(block).next_multiple_of(sector);
        let fits = |block: u32| {
            let (file, start) = accesses.places[block as usize];
            file == accesses.places[0].0
                && start.is_multiple_of(sector)
                && start.checked_add(bytes_of(block)).is_some_and(|end| end <= spec.size)
        };
        if accesses.have_places && (0..accesses.blocks).all(fits) {
            let starts = accesses.places.iter().map(|(_, start)| *start).collect();
            return Ok(Places { starts });
        }
        let mut order: Vec<u32> = (0..accesses.blocks).collect();
        order.sort_by_key(|block| accesses.places[*block as usize]);
        let mut starts = vec![0; order.len()];
        let mut end = 0;
        for block in order {
            starts[block as usize] = end;
            end += bytes_of(block);
        }
        if end > spec.size {
            let (name, size) = (spec.name, spec.size);
            return Err(format!(
                "the trace touches {end} bytes, and {name} has {size}: choose a larger disk"
            ));
        }
        Ok(Places { starts })
    }
}

/// The disk below a cache.
pub(super) struct Device<'a> {
    accesses: &'a Accesses,
    model: Box<dyn DeviceModel>,
    places: Places,
    /// The effects of a chunk of accesses, and its number.
    effects: (Option<usize>, Vec<u32>),
    sector: u64,
    max_io: u64,
    now: Time,
    dirty: Vec<bool>,
    /// A read that may still grow: first byte, end, and the number of the last access.
    reading: Option<(u64, u64, u64)>,
    done: DeviceRow,
}

impl<'a> Device<'a> {
    pub(super) fn new(disk: &DiskEntry, accesses: &'a Accesses) -> Result<Device<'a>, String> {
        let model = model_of(disk)?;
        let places = Places::new(accesses, &*model)?;
        let spec = model.spec();
        Ok(Device {
            accesses,
            places,
            effects: (None, Vec::new()),
            sector: spec.sector.into(),
            max_io: u64::from(spec.max_io),
            model,
            now: Time(0),
            dirty: vec![false; accesses.blocks as usize],
            reading: None,
            done: DeviceRow::default(),
        })
    }

    /// What an access does; accesses come in order.
    fn effect(&mut self, access: u64) -> Effect {
        let chunk = access as usize / CHUNK;
        if self.effects.0 != Some(chunk) {
            self.accesses.effects.chunk(chunk, &mut self.effects.1);
            self.effects.0 = Some(chunk);
        }
        Effect::of(self.effects.1[access as usize % CHUNK])
    }

    fn extent(&self, block: u32) -> (u64, u64) {
        let start = self.places.starts[block as usize];
        (start, start + self.accesses.bytes_of(block).next_multiple_of(self.sector))
    }

    /// Serves a request, in pieces if it is larger than the disk takes. Gives milliseconds.
    fn serve(&mut self, kind: IoKind, start: u64, end: u64) -> f64 {
        let begun = self.now;
        let mut at = start;
        while at < end {
            let len = (end - at).min(self.max_io);
            let access = Access { kind, at, len };
            let service = self.model.serve(self.now, &access, Supply::at_once(self.now));
            self.now = self.now.max(service.done);
            at += len;
        }
        (self.now - begun) as f64 / 1e6
    }

    fn end_reading(&mut self) {
        if let Some((start, end, _)) = self.reading.take() {
            self.done.device_reads += 1;
            self.done.read_ms += self.serve(IoKind::Read, start, end);
        }
    }

    fn read(&mut self, access: u64, block: u32) {
        let (start, end) = self.extent(block);
        match &mut self.reading {
            Some((first, upto, last))
                if *upto == start && *last + 1 == access && end - *first <= self.max_io =>
            {
                (*upto, *last) = (end, access);
            }
            _ => {
                self.end_reading();
                self.reading = Some((start, end, access));
            }
        }
    }

    fn write(&mut self, block: u32) {
        self.end_reading();
        let (start, end) = self.extent(block);
        self.done.device_writes += 1;
        self.done.write_ms += self.serve(IoKind::Write, start, end);
    }

    /// Writes what is dirty, in the order of the disk.
    pub(super) fn finish(mut self) -> DeviceRow {
        self.end_reading();
        let mut left: Vec<u32> =
            (0..self.accesses.blocks).filter(|block| self.dirty[*block as usize]).collect();
        left.sort_by_key(|block| self.places.starts[*block as usize]);
        left.into_iter().for_each(|block| self.write(block));
        let device_ms = self.done.read_ms + self.done.write_ms;
        DeviceRow { device_ms, ..self.done }
    }
}

impl Observer for Device<'_> {
    fn hit(&mut self, access: u64, block: u32) {
        if self.effect(access) != Effect::Read {
            self.dirty[block as usize] = true;
        }
    }

    fn missed(&mut self, access: u64, block: u32) {
        match self.effect(access) {
            Effect::Read => self.read(access, block),
            Effect::WritePart => {
                self.read(access, block);
                self.dirty[block as usize] = true;
            }
            Effect::Write => self.dirty[block as usize] = true,
        }
    }

    fn evicted(&mut self, block: u32) {
        if std::mem::take(&mut self.dirty[block as usize]) {
            self.write(block);
        }
    }
}
