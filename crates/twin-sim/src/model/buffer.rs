//! A drive's read buffer: a few segments, and the read-ahead stream that fills one of them after a
//! read with the sectors that pass under the head, until the drive has other work.

use twin_rt::Time;

use super::media::{Media, Position, Track};

/// A range of consecutive sectors in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    start: u64,
    end: u64,
    /// Number of the request that used it last.
    used: u64,
}

/// Reading ahead: from time `at` on the head is on the track of `next` and goes on reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    segment: usize,
    pub(super) at: Time,
    pub(super) next: Position,
    /// The sector at which it stops.
    limit: u64,
}

/// The segments and the stream.
pub(super) struct TrackBuffer {
    segments: Vec<Segment>,
    /// Sectors that a segment holds.
    capacity: u64,
    /// Sectors to read ahead of the last request.
    read_ahead: u64,
    /// Number of sectors on the drive.
    size: u64,
    stream: Option<Stream>,
    clock: u64,
}

impl TrackBuffer {
    pub(super) fn new(segments: u32, capacity: u64, read_ahead: u64, size: u64) -> TrackBuffer {
        let segments = vec![Segment::default(); segments as usize];
        TrackBuffer { segments, capacity, read_ahead, size, stream: None, clock: 0 }
    }

    /// Records the sectors that the stream has read by `now`.
    pub(super) fn advance(&mut self, media: &Media, now: Time) {
        let Some(stream) = &mut self.stream else { return };
        let segment = &mut self.segments[stream.segment];
        while stream.next.lba < stream.limit {
            let switch = media.wrap_to_next_track(&mut stream.next, false).total_ns();
            stream.at += switch;
            if stream.at > now {
                return;
            }
            let start = media.arrival(stream.at, &stream.next);
            if start > now {
                return;
            }
            let run = media.left_on_track(&stream.next).min(stream.limit - stream.next.lba);
            let (sectors, at) = media.passed(start, &stream.next, run, now);
            if sectors > 0 {
                stream.at = at;
                stream.next.lba += sectors;
                stream.next.sector += sectors as u32;
                segment.end = stream.next.lba;
                segment.start = segment.start.max(segment.end.saturating_sub(self.capacity));
            }
            if sectors < run {
                return;
            }
        }
    }

    /// When the stream reaches its end if the head is not needed elsewhere; `None` without one.
    pub(super) fn reads_until(&self, media: &Media) -> Option<Time> {
        let stream = self.stream.as_ref()?;
        let left = stream.limit.saturating_sub(stream.next.lba);
        if left == 0 {
            return Some(stream.at);
        }
        Some(media.pass(stream.at, &stream.next, left, false).end)
    }

    /// True if `from..to` has been found in the buffer when the stream was last looked at.
    pub(super) fn holds(&self, from: u64, to: u64) -> bool {
        self.segments.iter().any(|s| s.start <= from && to <= s.end)
    }

    /// True if `from..to` is in the buffer. If the stream fills that segment, it then goes on, to
    /// stay ahead of the reader.
    pub(super) fn hit(&mut self, media: &Media, now: Time, from: u64, to: u64) -> bool {
        let holds = |s: &Segment| s.start <= from && to <= s.end;
        let Some(found) = self.segments.iter().position(holds) else { return false };
        self.clock += 1;
        self.segments[found].used = self.clock;
        if let Some(stream) = &mut self.stream
            && stream.segment == found
        {
            if stream.next.lba >= stream.limit {
                // The stream had stopped and the head has been waiting on this track.
                stream.at = stream.at.max(now);
            }
            stream.limit = stream.limit.max((to + self.read_ahead).min(self.size));
            self.advance(media, now);
        }
        true
    }

    /// The first sector of `from..to` that is not in the buffer, if the buffer holds the beginning.
    pub(super) fn missing_from(&self, from: u64, to: u64) -> u64 {
        let ends = self.segments.iter().filter(|s| s.start <= from && from < s.end);
        ends.map(|s| s.end).max().unwrap_or(from).min(to)
    }

    /// The stream, if it is reading towards sector `from` and fills a segment that holds all
    /// sectors from `wanted` on, or will hold them by then.
    pub(super) fn stream_towards(&self, wanted: u64) -> Option<&Stream> {
        let stream = self.stream.as_ref()?;
        let segment = &self.segments[stream.segment];
        let near = segment.start <= wanted && wanted <= stream.next.lba + self.capacity;
        (near && stream.next.lba < stream.limit).then_some(stream)
    }

    /// The track on which the stream keeps the head.
    pub(super) fn track(&self) -> Option<Track> {
        self.stream.as_ref().map(|s| s.next.track)
    }

    /// Ends the stream, because the head is needed elsewhere.
    pub(super) fn stop(&mut self) {
        self.stream = None;
    }

    /// The medium has been read up to `after`, for a request that began at sector `from`, and the
    /// head stays: the stream goes on from there at `at`. `on` says that the stream itself did the
    /// reading.
    pub(super) fn filled(&mut self, from: u64, after: Position, at: Time, on: bool) {
        if self.segments.is_empty() {
            return;
        }
        self.clock += 1;
        let streaming = if on { self.stream.map(|s| s.segment) } else { None };
        let continued = |s: &Segment| s.start <= from && from <= s.end && s.start < s.end;
        let found = streaming.or_else(|| self.segments.iter().position(continued));
        let index = found.unwrap_or_else(|| {
            let oldest = (0..self.segments.len()).min_by_key(|&i| self.segments[i].used);
            let index = oldest.unwrap_or(0);
            self.segments[index] = Segment { start: from, end: from, used: 0 };
            index
        });
        let segment = &mut self.segments[index];
        segment.used = self.clock;
        segment.end = segment.end.max(after.lba);
        segment.start = segment.start.max(segment.end.saturating_sub(self.capacity));
        let limit = (after.lba + self.read_ahead).min(self.size);
        self.stream = Some(Stream { segment: index, at, next: after, limit });
    }

    /// Drops the sectors of `from..to`, which have been written, from the buffer.
    pub(super) fn invalidate(&mut self, from: u64, to: u64) {
        for segment in &mut self.segments {
            if segment.start < to && from < segment.end {
                // Keep the longer side.
                let (before, behind) =
                    (from.saturating_sub(segment.start), segment.end.saturating_sub(to));
                if before >= behind {
                    segment.end = segment.end.min(from).max(segment.start);
                } else {
                    segment.start = to;
                }
            }
        }
    }
}
