//! The medium and the arm: the places of sectors, and when they pass under a head.
//!
//! Pure functions of time. Rotation is absolute: at time zero slot 0 of every track passes under
//! its head, and angles are whole nanoseconds of a revolution, so that the end of one sector is
//! exactly the start of the next.

use twin_disk::ServiceBounds;
use twin_rt::{MILLIS, Nanos, SECS, Time};

use super::seek::ms_to_ns;
use super::zone::{Zone, track_number};
use super::{Drive, SeekCurve};
use crate::TimeBreakdown;

/// A sector, and the track that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Logical number of the sector.
    pub(super) lba: u64,
    pub(super) track: Track,
    /// Number on the track; may be one past the last until [`Media::wrap_to_next_track`] is called.
    pub(super) sector: u32,
}

/// A track, as a position of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track {
    zone: u32,
    pub(super) cylinder: u32,
    head: u32,
}

/// Sectors passing under the head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// When the first sector has been read or written.
    pub(super) first: Time,
    /// When the last one of the first track has.
    pub(super) first_part: Time,
    /// When the last one has.
    pub(super) end: Time,
    /// The place behind the last sector.
    pub(super) after: Position,
    /// How the time is divided.
    pub(super) parts: TimeBreakdown,
}

/// Geometry and mechanics of a drive.
pub(super) struct Media {
    zones: Vec<Zone>,
    /// Logical number of each zone's first sector, followed by the number of sectors on the drive.
    zone_lba: Vec<u64>,
    heads: u32,
    revolution_ns: Nanos,
    seek: SeekCurve,
    head_switch_ns: Nanos,
    /// Added to seeks and head switches before a write; may be negative.
    write_settle_ns: i64,
}

impl Media {
    pub(super) fn new(drive: &Drive) -> Media {
        let mut zone_lba = vec![0];
        let mut end = 0;
        for zone in &drive.zones {
            end += zone.tracks(drive.heads) * u64::from(zone.sectors);
            zone_lba.push(end);
        }
        Media {
            zones: drive.zones.clone(),
            zone_lba,
            heads: drive.heads,
            revolution_ns: 60 * SECS / u64::from(drive.rpm),
            seek: drive.seek.clone(),
            head_switch_ns: ms_to_ns(drive.head_switch_ms),
            write_settle_ns: (drive.write_settle_ms * MILLIS as f64).round() as i64,
        }
    }

    /// The longest way to a sector, and the bytes a second of a long transfer in the slowest zone,
    /// head and cylinder switches included.
    pub(super) fn bounds(&self, sector_bytes: u64) -> ServiceBounds {
        let tracks = self.zones.iter().map(|zone| (zone.first.0, zone.last.0));
        let first = tracks.clone().map(|(first, _)| first).min().unwrap_or(0);
        let last = tracks.map(|(_, last)| last).max().unwrap_or(0);
        let settle = Nanos::try_from(self.write_settle_ns).unwrap_or(0);
        let move_ns = self.seek.ns(last - first).max(self.head_switch_ns);
        let rate = |zone: &Zone| {
            let heads = u64::from(self.heads);
            let skews = u64::from((self.heads - 1) * zone.track_skew + zone.cylinder_skew);
            let slots = heads * u64::from(zone.slots) + skews;
            let bytes = heads * u64::from(zone.sectors) * sector_bytes;
            bytes * SECS / (slots * self.revolution_ns / u64::from(zone.slots)).max(1)
        };
        ServiceBounds {
            positioning_ns: move_ns + settle + self.revolution_ns,
            bytes_per_s: self.zones.iter().map(rate).min().unwrap_or(1),
        }
    }

    /// Number of sectors that the geometry has room for.
    pub(super) fn sectors(&self) -> u64 {
        self.zone_lba[self.zones.len()]
    }

    pub(super) fn locate(&self, lba: u64) -> Position {
        let zone =
            (self.zone_lba.partition_point(|&first| first <= lba) - 1).min(self.zones.len() - 1);
        let z = &self.zones[zone];
        let within = lba - self.zone_lba[zone];
        let number = track_number(z.first, self.heads) + within / u64::from(z.sectors);
        let heads = u64::from(self.heads);
        let track = Track {
            zone: zone as u32,
            cylinder: (number / heads) as u32,
            head: (number % heads) as u32,
        };
        Position { lba, track, sector: (within % u64::from(z.sectors)) as u32 }
    }

    fn zone(&self, track: Track) -> &Zone {
        &self.zones[track.zone as usize]
    }

    /// How long `sectors` sectors take to pass in the zone of `place`, without switches.
    pub(super) fn span_ns(&self, place: &Position, sectors: u64) -> Nanos {
        sectors * self.revolution_ns / u64::from(self.zone(place.track).slots)
    }

    /// The slot of a sector of a track.
    fn slot(&self, place: &Position) -> u64 {
        let zone = self.zone(place.track);
        let step = (self.heads - 1) * zone.track_skew + zone.cylinder_skew;
        let cylinders = u64::from(place.track.cylinder - zone.first.0);
        let skew = cylinders * u64::from(step) + u64::from(place.track.head * zone.track_skew);
        (skew + u64::from(place.sector)) % u64::from(zone.slots)
    }

    /// Time from slot 0 to slot `slot` (which may lie in the next revolution).
    fn angle_ns(&self, zone: &Zone, slot: u64) -> Nanos {
        slot * self.revolution_ns / u64::from(zone.slots)
    }

    /// When the sector at `place` next begins to pass, from `at` on.
    pub(super) fn arrival(&self, at: Time, place: &Position) -> Time {
        let zone = self.zone(place.track);
        let target = self.angle_ns(zone, self.slot(place));
        let now = at.0 % self.revolution_ns;
        at + (target + self.revolution_ns - now) % self.revolution_ns
    }

    /// How many of the `run` sectors from `place` on, all on its track, have passed completely by
    /// `now` if the first began to pass at `start`; and when the last of those had passed.
    pub(super) fn passed(&self, start: Time, place: &Position, run: u64, now: Time) -> (u64, Time) {
        let zone = self.zone(place.track);
        let slot = self.slot(place);
        let base = self.angle_ns(zone, slot);
        let span = |n: u64| self.angle_ns(zone, slot + n) - base;
        if start + span(run) <= now {
            return (run, start + span(run));
        }
        let mut n = (now - start) * u64::from(zone.slots) / self.revolution_ns;
        n = n.min(run - 1);
        // Angles are rounded to nanoseconds, so the estimate may be off by one.
        while n > 0 && start + span(n) > now {
            n -= 1;
        }
        while n + 1 < run && start + span(n + 1) <= now {
            n += 1;
        }
        (n, start + span(n))
    }

    /// Sectors from the place to the end of its track.
    pub(super) fn left_on_track(&self, place: &Position) -> u64 {
        u64::from(self.zone(place.track).sectors - place.sector)
    }

    /// Time to move from one track to another: arm and head move together.
    fn reach(&self, from: Track, to: Track, write: bool) -> TimeBreakdown {
        let mut parts = TimeBreakdown::default();
        let distance = from.cylinder.abs_diff(to.cylinder);
        let settle = |ns: Nanos| {
            if write { ns.saturating_add_signed(self.write_settle_ns) } else { ns }
        };
        if distance > 0 {
            let seek = settle(self.seek.ns(distance));
            parts.seek_ns =
                if from.head == to.head { seek } else { seek.max(settle(self.head_switch_ns)) };
        } else if from.head != to.head {
            parts.head_switch_ns = settle(self.head_switch_ns);
        }
        parts
    }

    /// Turns a place one past the end of a track into the start of the next track; returns the time
    /// for it.
    pub(super) fn wrap_to_next_track(&self, place: &mut Position, write: bool) -> TimeBreakdown {
        if self.left_on_track(place) > 0 || place.lba >= self.sectors() {
            return TimeBreakdown::default();
        }
        let next = self.locate(place.lba);
        let parts = self.reach(place.track, next.track, write);
        *place = next;
        parts
    }

    /// Moves the head from a track to the track of a place, without waiting for the sector.
    pub(super) fn go(
        &self,
        at: Time,
        from: Track,
        to: &Position,
        write: bool,
    ) -> (Time, TimeBreakdown) {
        let parts = self.reach(from, to.track, write);
        (at + parts.total_ns(), parts)
    }

    /// Lets `sectors` (at least one) pass from `place` on, with the head on the track at `at`.
    pub(super) fn pass(&self, at: Time, place: &Position, sectors: u64, write: bool) -> Pass {
        let (mut t, mut place, mut left) = (at, *place, sectors);
        let mut parts = TimeBreakdown::default();
        let (mut first, mut first_part) = (None, None);
        loop {
            let switch = self.wrap_to_next_track(&mut place, write);
            t += switch.total_ns();
            parts += switch;
            let start = self.arrival(t, &place);
            parts.rotation_ns += start - t;
            let run = left.min(self.left_on_track(&place));
            let (_, end) = self.passed(start, &place, run, Time(u64::MAX));
            first.get_or_insert_with(|| self.passed(start, &place, 1, Time(u64::MAX)).1);
            parts.transfer_ns += end - start;
            first_part.get_or_insert(end);
            t = end;
            place.lba += run;
            place.sector += run as u32;
            left -= run;
            if left == 0 {
                let (first, first_part) = (first.unwrap_or(t), first_part.unwrap_or(t));
                return Pass { first, first_part, end: t, after: place, parts };
            }
        }
    }
}
