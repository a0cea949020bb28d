//! A mechanical disk: the controller that puts requests, buffer and medium together.
//!
//! What is modelled, after Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling" (IEEE
//! Computer 27(3), 1994): zones, track and cylinder skew, spare sectors, the seek curve, head and
//! track switches in the middle of a request, write settling, rotational position in absolute
//! time, controller overheads that differ by request, a segmented buffer with read-ahead that goes
//! on while the drive is idle and while commands are decoded, and writes reported from the
//! buffer, which then reach the medium in order and in one sweep if they are consecutive. Not
//! modelled: thermal recalibration, retries, slipped and remapped sectors, reading a track from
//! wherever the head lands.
//!
//! One request is served at a time; reordering is the business of a scheduler.

use std::collections::VecDeque;

use twin_disk::IoKind;
use twin_rt::{Nanos, Time};

use super::buffer::TrackBuffer;
use super::media::{Media, Pass, Track};
use super::seek::ms_to_ns;
use super::{
    Access, DeviceModel, Drive, ModelError, ModelSpec, Options, Service, Supply, chosen_size,
};
use crate::Parts;

/// Bytes in a sector of every modelled disk.
pub(super) const SECTOR: u32 = 512;
/// The largest request that a drive takes; a bus may allow less.
const MAX_IO: u32 = 1 << 20;

/// [`super::Overheads`] in nanoseconds.
struct Overhead {
    read_hit: Nanos,
    read_miss: Nanos,
    write_after_read: Nanos,
    write_after_write: Nanos,
    read_done: Nanos,
    write_done: Nanos,
}

/// A write that has been reported and is on its way to the medium.
struct Behind {
    from: u64,
    to: u64,
    end: Time,
}

/// A disk drive. Its state is where the head is, what the buffer holds and what the buffer still
/// has to write.
pub struct Disk {
    spec: ModelSpec,
    media: Media,
    overhead: Overhead,
    buffer: TrackBuffer,
    /// Where the head is, when no stream has it.
    track: Track,
    after_write: bool,
    behind: VecDeque<Behind>,
    behind_sectors: u64,
    behind_capacity: u64,
    /// When the medium has taken all that was reported early.
    free_at: Time,
}

impl Disk {
    /// A drive with these figures.
    ///
    /// # Errors
    /// If the drive cannot have these options.
    pub fn new(name: &'static str, drive: &Drive, options: &Options) -> Result<Disk, ModelError> {
        let mut drive = drive.clone();
        if let Some((track, cylinder)) = options.skews {
            for zone in &mut drive.zones {
                (zone.track_skew, zone.cylinder_skew) = (track, cylinder);
            }
        }
        let media = Media::new(&drive);
        let own = media.sectors().min(drive.blocks.unwrap_or(u64::MAX)) * u64::from(SECTOR);
        let size = chosen_size(name, options, own, SECTOR)?;
        if size > own {
            return Err(ModelError::TooLarge { name, asked: size, has: own });
        }
        let write_cache = options.write_cache.unwrap_or(drive.buffer.reports_early);
        if write_cache && drive.buffer.write_sectors == 0 {
            return Err(ModelError::NoWriteCache { name });
        }
        let o = &drive.overhead;
        let overhead = Overhead {
            read_hit: options.command_ns + ms_to_ns(o.read_hit_ms),
            read_miss: options.command_ns + ms_to_ns(o.read_miss_ms),
            write_after_read: options.command_ns + ms_to_ns(o.write_after_read_ms),
            write_after_write: options.command_ns + ms_to_ns(o.write_after_write_ms),
            read_done: ms_to_ns(o.read_done_ms),
            write_done: ms_to_ns(o.write_done_ms),
        };
        let b = &drive.buffer;
        let sectors = size / u64::from(SECTOR);
        Ok(Disk {
            spec: ModelSpec { name, size, sector: SECTOR, max_io: MAX_IO, depth: 1, write_cache },
            track: media.locate(0).track,
            media,
            overhead,
            buffer: TrackBuffer::new(
                b.segments,
                u64::from(b.segment_sectors),
                u64::from(b.read_ahead_sectors),
                sectors,
            ),
            after_write: false,
            behind: VecDeque::new(),
            behind_sectors: 0,
            behind_capacity: u64::from(b.write_sectors),
            free_at: Time(0),
        })
    }

    /// The head goes to sector `from`, waits until `not_before` (data is on its way) and lets
    /// sectors up to `to` pass.
    fn access(&self, at: Time, from: u64, to: u64, write: bool, not_before: Time) -> Pass {
        let place = self.media.locate(from);
        let head = self.buffer.track().unwrap_or(self.track);
        let (there, moved) = self.media.go(at, head, &place, write);
        let ready = there.max(not_before);
        let mut pass = self.media.pass(ready, &place, to - from, write);
        pass.parts += moved;
        pass.parts.bus_ns += ready - there;
        pass
    }

    fn read(&mut self, now: Time, from: u64, to: u64) -> Service {
        self.after_write = false;
        let decoded = now + self.overhead.read_hit;
        self.buffer.advance(&self.media, decoded);
        if self.behind.iter().any(|b| b.from <= from && to <= b.to && b.end > decoded)
            || self.buffer.hit(&self.media, decoded, from, to)
        {
            let done = decoded + self.overhead.read_done;
            let parts = Parts { buffer_ns: done - now, ..Parts::default() };
            return Service { first: decoded, done, parts };
        }
        let missing = self.buffer.missing_from(from, to);
        let decoded_miss = now + self.overhead.read_miss;
        let start = decoded_miss.max(self.free_at);
        let moved = self.access(start, missing, to, false, Time(0));
        // A stream that is on its way to the data may be sooner there than a head that repositions.
        let (pass, began, streamed) = match self.streamed(decoded, from, to) {
            Some(pass) if pass.end <= moved.end => (pass, decoded, true),
            _ => (moved, start, false),
        };
        let mut parts = pass.parts;
        parts.overhead_ns = if streamed { decoded - now } else { decoded_miss - now };
        parts.destage_ns = began - (now + parts.overhead_ns);
        parts.overhead_ns += self.overhead.read_done;
        let first = if missing > from { decoded } else { pass.first.max(decoded) };
        self.track = pass.after.track;
        if !streamed {
            self.buffer.stop();
        }
        self.buffer.filled(from, pass.after, pass.end, streamed);
        Service { first, done: pass.end + self.overhead.read_done, parts }
    }

    /// The read-ahead stream going on to the end of the request; its parts count from `decoded`.
    fn streamed(&self, decoded: Time, from: u64, to: u64) -> Option<Pass> {
        let stream = self.buffer.stream_towards(from)?;
        let sectors = to.checked_sub(stream.next.lba).filter(|&n| n > 0)?;
        let mut pass = self.media.pass(stream.at, &stream.next, sectors, false);
        // What passed before `decoded` was a wait or a part of the sector under the head.
        let mut early = decoded - stream.at;
        for part in [
            &mut pass.parts.seek_ns,
            &mut pass.parts.head_switch_ns,
            &mut pass.parts.rotation_ns,
            &mut pass.parts.transfer_ns,
        ] {
            let cut = early.min(*part);
            *part -= cut;
            early -= cut;
        }
        // If the stream is still switching tracks, the request waits for that first.
        pass.parts.head_switch_ns += stream.at - decoded;
        Some(pass)
    }

    fn write(&mut self, now: Time, from: u64, to: u64, supply: Supply) -> Service {
        let overhead = if self.after_write {
            self.overhead.write_after_write
        } else {
            self.overhead.write_after_read
        };
        self.after_write = true;
        let decoded = now + overhead;
        self.buffer.advance(&self.media, decoded);
        self.track = self.buffer.track().unwrap_or(self.track);
        self.buffer.stop();
        self.buffer.invalidate(from, to);
        let mut parts = Parts { overhead_ns: overhead, ..Parts::default() };
        if self.spec.write_cache && to - from <= self.behind_capacity {
            return self.write_behind(now, decoded, (from, to), supply, parts);
        }
        let start = decoded.max(self.free_at);
        parts.destage_ns = start - decoded;
        let pass = self.access(start, from, to, true, self.needed(from, to, supply));
        self.track = pass.after.track;
        self.free_at = pass.end;
        parts += pass.parts;
        parts.overhead_ns += self.overhead.write_done;
        Service { first: now, done: pass.end + self.overhead.write_done, parts }
    }

    /// The earliest time at which writing may begin so that the data never comes too late.
    fn needed(&self, from: u64, to: u64, supply: Supply) -> Time {
        let span = self.media.span_ns(&self.media.locate(from), to - from);
        supply.first.max(Time(supply.last.0.saturating_sub(span)))
    }

    /// Reports the write when the buffer has it, and lets the medium take it when it can.
    fn write_behind(
        &mut self,
        now: Time,
        decoded: Time,
        (from, to): (u64, u64),
        supply: Supply,
        mut parts: Parts,
    ) -> Service {
        let mut room = decoded;
        while let Some(oldest) = self.behind.front() {
            let fits = self.behind_sectors + (to - from) <= self.behind_capacity;
            if oldest.end > decoded && fits {
                break;
            }
            room = room.max(oldest.end);
            self.behind_sectors -= oldest.to - oldest.from;
            self.behind.pop_front();
        }
        let start = room.max(self.free_at);
        let pass = self.access(start, from, to, true, self.needed(from, to, supply));
        self.track = pass.after.track;
        self.free_at = pass.end;
        self.behind.push_back(Behind { from, to, end: pass.end });
        self.behind_sectors += to - from;
        let has_all = room.max(supply.last);
        parts.destage_ns = room - decoded;
        parts.bus_ns = has_all - room;
        parts.overhead_ns += self.overhead.write_done;
        Service { first: now, done: has_all + self.overhead.write_done, parts }
    }

    fn flush(&mut self, now: Time) -> Service {
        // Without a write cache there is nothing to do and the host does not even ask.
        let done = if self.spec.write_cache { now.max(self.free_at) } else { now };
        self.behind.clear();
        self.behind_sectors = 0;
        Service { first: now, done, parts: Parts { flush_ns: done - now, ..Parts::default() } }
    }
}

impl DeviceModel for Disk {
    fn spec(&self) -> ModelSpec {
        self.spec
    }

    fn serve(&mut self, now: Time, access: &Access, supply: Supply) -> Service {
        let sector = u64::from(SECTOR);
        let (from, to) = (access.at / sector, (access.at + access.len) / sector);
        match access.kind {
            IoKind::Read if to > from => self.read(now, from, to),
            IoKind::Write if to > from => self.write(now, from, to, supply),
            IoKind::Flush => self.flush(now),
            // A disk has no use for discards, and an empty request moves nothing.
            _ => Service { first: now, done: now, parts: Parts::default() },
        }
    }

    fn positioning_ns(&self, now: Time, access: &Access) -> Nanos {
        let write = access.kind == IoKind::Write;
        let place = self.media.locate(access.at / u64::from(SECTOR));
        let head = self.buffer.track().unwrap_or(self.track);
        let overhead =
            if write { self.overhead.write_after_write } else { self.overhead.read_miss };
        let start = (now + overhead).max(self.free_at);
        let (there, _) = self.media.go(start, head, &place, write);
        self.media.arrival(there, &place) - now
    }
}
