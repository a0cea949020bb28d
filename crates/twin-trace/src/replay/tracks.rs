//! The operations of a workload, tracked from their requests to their answers.

use std::ops::{Index, IndexMut};

use twin_fs::{Ino, Request};
use twin_rt::{FixedMap, Nanos, Time};

use super::oracle::Ticket;
use crate::record::{ErrorCode, Verb};

/// Requests that are still unanswered after this many later ones are dropped.
const GIVEN_UP: u64 = 500_000;

/// The parts of an operation's result that are compared with its answer in the trace.
#[derive(Default)]
pub(super) struct Got {
    pub(super) error: Option<ErrorCode>,
    /// The inode of an entry; 0 if there is none.
    pub(super) entry: Ino,
    /// Number of bytes of data that were read or written.
    pub(super) len: u64,
    /// The cookie at which a listing stopped.
    pub(super) next: u64,
    /// Inodes to which a listing returned references.
    pub(super) referenced: Vec<Ino>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TrackState {
    /// The operation is not issued to the file system yet, or it is in flight.
    Open,
    /// The operation is not issued at all.
    Skipped,
    Done,
}

/// An operation of the workload, from its request to its answer.
pub(super) struct Track {
    pub(super) number: u64,
    pub(super) verb: Verb,
    pub(super) state: TrackState,
    /// The answer was read (it may still be queued).
    pub(super) answered: bool,
    pub(super) domain: u32,
    pub(super) at_ns: Nanos,
    pub(super) issued: Time,
    /// What [`Elapsed`](super::elapsed::Elapsed) said when it was issued; `None` if nobody waits for it.
    pub(super) elapsed: Option<f64>,
    pub(super) ended: Time,
    /// The inode on the volume that it named first.
    pub(super) ino: Ino,
    pub(super) got: Got,
    /// The inode that its answer in the trace introduces; 0 if there is none or the answer was not
    /// read yet.
    pub(super) introduces: Ino,
    pub(super) ticket: Ticket,
    /// Domains that wait for its end.
    pub(super) waiters: Vec<u32>,
}

/// All operations that are tracked. Their places are reused.
#[derive(Default)]
pub(super) struct Tracks {
    all: Vec<Track>,
    free: Vec<u32>,
    /// The number and place of the last request while it waits for its answer, which most answers
    /// belong to.
    latest: Option<(u64, u32)>,
    /// The places of earlier requests, by number.
    by_number: FixedMap<u64, u32>,
    /// The number of tracked operations at which old ones are searched for and dropped.
    sweep_at: usize,
}

impl Index<u32> for Tracks {
    type Output = Track;
    #[inline]
    fn index(&self, track: u32) -> &Track {
        &self.all[track as usize]
    }
}

impl IndexMut<u32> for Tracks {
    #[inline]
    fn index_mut(&mut self, track: u32) -> &mut Track {
        &mut self.all[track as usize]
    }
}

impl Tracks {
    /// Begins to track a request; returns its place.
    pub(super) fn begin(&mut self, domain: u32, at_ns: Nanos, request: &Request) -> u32 {
        let number = request.id;
        if self.free.is_empty() && self.all.len() >= self.sweep_at.max(GIVEN_UP as usize) {
            self.give_up(number);
        }
        let fresh = |waiters| Track {
            number,
            verb: Verb::of(&request.op),
            state: TrackState::Open,
            answered: false,
            domain,
            at_ns,
            issued: Time(0),
            elapsed: None,
            ended: Time(0),
            ino: 0,
            got: Got::default(),
            introduces: 0,
            ticket: Ticket::None,
            waiters,
        };
        let track = match self.free.pop() {
            Some(track) => {
                let old = &mut self[track];
                *old = fresh(std::mem::take(&mut old.waiters));
                track
            }
            None => {
                self.all.push(fresh(Vec::new()));
                self.all.len() as u32 - 1
            }
        };
        if let Some((number, track)) = self.latest.replace((number, track)) {
            self.by_number.insert(number, track);
        }
        track
    }

    /// The place of the request with this number.
    pub(super) fn find(&self, number: u64) -> Option<u32> {
        match self.latest {
            Some((latest, track)) if latest == number => Some(track),
            _ => self.by_number.get(&number).copied(),
        }
    }

    /// Ends the tracking: the place may be reused.
    pub(super) fn retire(&mut self, track: u32) {
        let number = self[track].number;
        match self.latest {
            Some((_, latest)) if latest == track => self.latest = None,
            _ => drop(self.by_number.remove(&number)),
        }
        self.free.push(track);
    }

    /// Drops operations that ended long ago and have no answer in the workload.
    fn give_up(&mut self, number: u64) {
        let old = self.by_number.values().copied().filter(|&track| {
            let track = &self[track];
            let ended = track.state != TrackState::Open && !track.answered;
            ended && track.number + GIVEN_UP / 2 < number
        });
        let mut old: Vec<u32> = old.collect();
        old.sort_unstable();
        old.into_iter().for_each(|track| self.retire(track));
        self.sweep_at = (self.all.len() - self.free.len()) * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_fs::Op;

    fn request(id: u64) -> Request {
        Request::root(id, Op::Sync)
    }

    #[test]
    fn a_request_is_found_until_it_is_retired() {
        let mut tracks = Tracks::default();
        let places: Vec<u32> = (1..=3).map(|id| tracks.begin(0, 0, &request(id))).collect();
        assert_eq!([1, 2, 3, 4].map(|id| tracks.find(id)), [Some(0), Some(1), Some(2), None]);
        tracks.retire(places[1]);
        assert_eq!([1, 2, 3].map(|id| tracks.find(id)), [Some(0), None, Some(2)]);
        assert_eq!(tracks.begin(0, 0, &request(4)), places[1]);
        assert_eq!([3, 4].map(|id| tracks.find(id)), [Some(2), Some(1)]);
    }

    #[test]
    fn requests_that_are_never_answered_do_not_pile_up() {
        let mut tracks = Tracks::default();
        for id in 1..=3_000_000 {
            let track = tracks.begin(0, 0, &request(id));
            tracks[track].state = TrackState::Done;
        }
        assert!(tracks.all.len() < 1_100_000, "{}", tracks.all.len());
        assert_eq!(tracks.find(1), None);
        assert!(tracks.find(3_000_000).is_some());
    }
}
