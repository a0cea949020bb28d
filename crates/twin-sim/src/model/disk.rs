//! A mechanical disk: the controller that connects requests, buffer and medium.
//!
//! What is modelled, after Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling" (IEEE
//! Computer 27(3), 1994): zones, track and cylinder skew, spare sectors, the seek curve, head and
//! track switches in the middle of a request, write settling, rotational position in absolute
//! time, controller overheads that differ by request, a segmented buffer with read-ahead that goes
//! on while the drive is idle and while commands are decoded, the link to the host, and writes
//! reported from the buffer.
//!
//! Reported writes ([`WriteCache`]) reach the medium in sweeps, in order of arrival or upwards as
//! the drive does it. A sweep begins when the medium is free and no read-ahead is under way, so a
//! read waits for one sweep at most; a write waits for room, a flush for all sweeps. The time of
//! sweeps is that of the medium, so writing is never faster than the medium for long.
//!
//! Not modelled: thermal recalibration, retries, slipped and remapped sectors, reading a track from
//! the position at which the head arrives; sweeps chosen by rotational position, a time limit for
//! reported writes under a steady load of reads, and the next command beginning while the data of
//! the one before are still on the link.
//!
//! One request is served at a time; a scheduler, and the drive's own queue, reorder requests.

use twin_disk::{IoKind, ServiceBounds};
use twin_rt::{Nanos, SECS, Time};

use super::buffer::TrackBuffer;
use super::media::{Media, Pass, Track};
use super::seek::ms_to_ns;
use super::write_cache::WriteCache;
use super::{
    Access, DeviceModel, Drive, ModelError, ModelSpec, Options, Service, Supply, chosen_size,
};
use crate::TimeBreakdown;

/// Bytes in a sector that hosts see, of every modelled disk. The sectors below are the drive's own.
const SECTOR: u32 = 512;
/// The largest request that a drive takes; a bus may allow less.
const MAX_IO: u32 = 1 << 20;

/// The fields of [`super::Overheads`], converted to nanoseconds.
struct Overhead {
    read_hit: Nanos,
    read_miss: Nanos,
    write_after_read: Nanos,
    write_after_write: Nanos,
    read_done: Nanos,
    write_done: Nanos,
}

/// A disk drive. Its state is the position of the head, the content of the buffer, and the writes
/// that the buffer still holds.
pub struct Disk {
    spec: ModelSpec,
    media: Media,
    overhead: Overhead,
    buffer: TrackBuffer,
    /// The track of the head, when no stream uses the head.
    track: Track,
    after_write: bool,
    /// How long the mechanics have worked.
    mechanics_ns: Nanos,
    cache: WriteCache,
    sector_bytes: u64,
    link_bytes_per_s: Option<u64>,
    link_waits_for_track: bool,
    /// When the medium is free again after the last write or sweep.
    free_at: Time,
}

impl Disk {
    /// A drive with these figures.
    pub fn new(name: &'static str, drive: &Drive, options: &Options) -> Result<Disk, ModelError> {
        let mut drive = drive.clone();
        if let Some((track, cylinder)) = options.skews {
            for zone in &mut drive.zones {
                (zone.track_skew, zone.cylinder_skew) = (track, cylinder);
            }
        }
        let media = Media::new(&drive);
        let sector_bytes = u64::from(drive.sector_bytes);
        let own = media.sectors().min(drive.blocks.unwrap_or(u64::MAX)) * sector_bytes;
        let own = own / u64::from(SECTOR) * u64::from(SECTOR);
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
        let own = u64::from(b.read_ahead_sectors);
        let most = u64::from(b.segment_sectors);
        let ahead = options.read_ahead.map_or(own, |bytes| (bytes / sector_bytes).min(most));
        let sectors = size / sector_bytes;
        Ok(Disk {
            spec: ModelSpec {
                name,
                size,
                sector: SECTOR,
                max_io: MAX_IO,
                depth: 1,
                queue_depth: options.queue_depth.unwrap_or(drive.queue_depth).max(1),
                write_cache,
            },
            track: media.locate(0).track,
            media,
            overhead,
            buffer: TrackBuffer::new(b.segments, u64::from(b.segment_sectors), ahead, sectors),
            after_write: false,
            mechanics_ns: 0,
            cache: WriteCache::new(u64::from(b.write_sectors), b.reorders),
            sector_bytes,
            link_bytes_per_s: drive.link_bytes_per_s,
            link_waits_for_track: drive.link_waits_for_track,
            free_at: Time(0),
        })
    }

    /// The head moves to sector `from`, waits until `not_before` (when the data arrives) and lets
    /// the sectors up to `to` pass.
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
        self.sweep_until(decoded);
        if self.cache.holds(decoded, from, to) || self.buffer.hit(&self.media, decoded, from, to) {
            let bus_ns = self.link_ns(to - from);
            let done = decoded + bus_ns + self.overhead.read_done;
            let buffer_ns = done - now - bus_ns;
            let parts = TimeBreakdown { buffer_ns, bus_ns, ..TimeBreakdown::default() };
            return Service { first: decoded, done, parts };
        }
        let missing = self.buffer.missing_from(from, to);
        let decoded_miss = now + self.overhead.read_miss;
        let start = decoded_miss.max(self.free_at);
        let moved = self.access(start, missing, to, false, Time(0));
        // A stream that is reading towards the data may reach it sooner than a head that
        // repositions.
        let (pass, began, streamed) = match self.streamed(decoded, from, to) {
            Some(pass) if pass.end <= moved.end => (pass, decoded, true),
            _ => (moved, start, false),
        };
        self.mechanics_ns += pass.parts.medium_ns();
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
        let sent = self.sent(decoded, (from, missing, to), &pass);
        let sent = sent.max(pass.end);
        parts.bus_ns += sent - pass.end;
        Service { first, done: sent + self.overhead.read_done, parts }
    }

    /// The read-ahead stream, continued to the end of the request; its parts count from `decoded`.
    fn streamed(&self, decoded: Time, from: u64, to: u64) -> Option<Pass> {
        let stream = self.buffer.stream_towards(from)?;
        let sectors = to.checked_sub(stream.next.lba).filter(|&n| n > 0)?;
        let mut pass = self.media.pass(stream.at, &stream.next, sectors, false);
        // The time before `decoded` was a wait or a part of the sector under the head.
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
        self.sweep_until(decoded);
        self.end_read_ahead(decoded);
        self.buffer.invalidate(from, to);
        let mut parts = TimeBreakdown { overhead_ns: overhead, ..TimeBreakdown::default() };
        if self.spec.write_cache && to - from <= self.cache.capacity() {
            return self.write_behind(now, decoded, (from, to), supply, parts);
        }
        self.cache.forget(from, to);
        let supply = self.received(decoded, to - from, supply);
        let start = decoded.max(self.free_at);
        parts.destage_ns = start - decoded;
        let pass = self.access(start, from, to, true, self.needed(from, to, supply));
        self.track = pass.after.track;
        self.free_at = pass.end;
        self.mechanics_ns += pass.parts.medium_ns();
        parts += pass.parts;
        parts.overhead_ns += self.overhead.write_done;
        Service { first: now, done: pass.end + self.overhead.write_done, parts }
    }

    /// The earliest time at which writing may begin such that the data never arrives too late.
    fn needed(&self, from: u64, to: u64, supply: Supply) -> Time {
        let span = self.media.span_ns(&self.media.locate(from), to - from);
        supply.first.max(Time(supply.last.0.saturating_sub(span)))
    }

    /// The time that `sectors` sectors take on the link to the host.
    fn link_ns(&self, sectors: u64) -> Nanos {
        let Some(rate) = self.link_bytes_per_s else { return 0 };
        let ns =
            u128::from(sectors * self.sector_bytes) * u128::from(SECS) / u128::from(rate.max(1));
        ns as Nanos
    }

    /// When the host has all data of a read that was found in the buffer up to the sector
    /// `missing`, if a pass has read the rest.
    fn sent(&self, decoded: Time, (from, missing, to): (u64, u64, u64), pass: &Pass) -> Time {
        let first = if missing > from { decoded } else { pass.first.max(decoded) };
        let (begin, last) = match self.link_waits_for_track {
            true if missing > from => (decoded, pass.after.sector.into()),
            true => (pass.first_part, u64::from(pass.after.sector)),
            false => (first, 1),
        };
        let last = last.min(to - missing);
        (begin + self.link_ns(to - from)).max(pass.end + self.link_ns(last))
    }

    /// When data that the host supplies have come over the link, which is free from `at` on.
    fn received(&self, at: Time, sectors: u64, supply: Supply) -> Supply {
        if self.link_bytes_per_s.is_none() {
            return supply;
        }
        let first = supply.first.max(at + self.link_ns(1));
        Supply { first, last: supply.last.max(at + self.link_ns(sectors)) }
    }

    /// Reports the write when the cache has room for it and holds it.
    fn write_behind(
        &mut self,
        now: Time,
        decoded: Time,
        (from, to): (u64, u64),
        supply: Supply,
        mut parts: TimeBreakdown,
    ) -> Service {
        let mut room = decoded;
        while !self.cache.fits(room, to - from) {
            // The medium is at work, or there would be room: when it has finished, there is more.
            room = room.max(self.free_at);
            self.sweep_until(room);
        }
        let has_all = self.received(room, to - from, supply).last.max(room);
        self.cache.put(from, to, has_all);
        parts.destage_ns = room - decoded;
        parts.bus_ns = has_all - room;
        parts.overhead_ns += self.overhead.write_done;
        Service { first: now, done: has_all + self.overhead.write_done, parts }
    }

    /// Starts all sweeps that begin by `until`. Read-ahead that is under way comes first.
    fn sweep_until(&mut self, until: Time) {
        if self.cache.is_empty() {
            return;
        }
        if let Some(end) = self.buffer.reads_until(&self.media) {
            if end > until {
                return;
            }
            self.end_read_ahead(end);
        }
        while self.free_at <= until
            && let Some(sweep) = self.cache.next()
        {
            let start = self.free_at.max(sweep.ready);
            let pass = self.access(start, sweep.from, sweep.to, true, Time(0));
            self.track = pass.after.track;
            self.free_at = pass.end;
            self.mechanics_ns += pass.parts.medium_ns();
            self.cache.ends(pass.end);
        }
    }

    /// The head stops reading ahead at `at`.
    fn end_read_ahead(&mut self, at: Time) {
        self.buffer.advance(&self.media, at);
        if let Some(track) = self.buffer.track() {
            self.track = track;
            self.buffer.stop();
            self.free_at = self.free_at.max(at);
        }
    }

    fn flush(&mut self, now: Time) -> Service {
        self.sweep_until(now);
        if !self.cache.is_empty() {
            self.end_read_ahead(now);
            self.sweep_until(Time(u64::MAX));
        }
        // Without a write cache there is nothing to do, and the host does not even send the flush.
        let done = if self.spec.write_cache { now.max(self.free_at) } else { now };
        Service {
            first: now,
            done,
            parts: TimeBreakdown { flush_ns: done - now, ..TimeBreakdown::default() },
        }
    }
}

impl DeviceModel for Disk {
    fn spec(&self) -> ModelSpec {
        self.spec
    }

    fn serve(&mut self, now: Time, access: &Access, supply: Supply) -> Service {
        let sector = self.sector_bytes;
        let (from, to) = (access.at / sector, (access.at + access.len) / sector);
        match access.kind {
            IoKind::Read if to > from => self.read(now, from, to),
            IoKind::Write if to > from => self.write(now, from, to, supply),
            IoKind::Flush => self.flush(now),
            // A disk ignores discards, and an empty request moves nothing.
            _ => Service { first: now, done: now, parts: TimeBreakdown::default() },
        }
    }

    /// Writes that the buffer holds go before others: their sweeps are part of it.
    fn bounds(&self) -> Option<ServiceBounds> {
        let o = &self.overhead;
        let read = o.read_miss + o.read_done;
        let write = o.write_after_read.max(o.write_after_write) + o.write_done;
        let mut bounds = self.media.bounds(self.sector_bytes);
        bounds.positioning_ns += read.max(write);
        if self.spec.write_cache {
            bounds.positioning_ns += bounds.worst_ns(1, self.cache.capacity() * self.sector_bytes);
        }
        if let Some(link) = self.link_bytes_per_s {
            bounds.bytes_per_s = bounds.bytes_per_s.min(link);
        }
        Some(bounds)
    }

    fn travel(&mut self, now: Time, at: u64) -> Nanos {
        self.sweep_until(now);
        self.end_read_ahead(now);
        let place = self.media.locate(at / self.sector_bytes);
        let (there, moved) = self.media.go(now.max(self.free_at), self.track, &place, false);
        self.mechanics_ns += moved.total_ns();
        (self.track, self.free_at) = (place.track, there);
        there - now
    }

    fn cylinder_of(&self, at: u64) -> Option<u32> {
        (at < self.spec.size).then(|| self.media.locate(at / self.sector_bytes).track.cylinder)
    }

    fn mechanics_ns(&self) -> Option<Nanos> {
        Some(self.mechanics_ns)
    }

    fn positioning_ns(&self, now: Time, access: &Access) -> Nanos {
        let sector = self.sector_bytes;
        let (from, to) = (access.at / sector, (access.at + access.len) / sector);
        let write = access.kind == IoKind::Write;
        let overhead =
            if write { self.overhead.write_after_write } else { self.overhead.read_miss };
        let decoded = now + overhead;
        let cached = match write {
            true => self.spec.write_cache && self.cache.fits(decoded, to - from),
            false => self.cache.holds(decoded, from, to) || self.buffer.holds(from, to),
        };
        if cached {
            return overhead;
        }
        let place = self.media.locate(from);
        let head = self.buffer.track().unwrap_or(self.track);
        let start = decoded.max(self.free_at);
        let (there, _) = self.media.go(start, head, &place, write);
        let moved = self.media.arrival(there, &place);
        let streamed = if write { None } else { self.streamed(decoded, from, to) };
        streamed.map_or(moved, |pass| pass.end.max(decoded).min(moved)) - now
    }
}
