//! What applications did and saw, and whether it is what one copy of each file would have shown.
//!
//! Contract: each piece of a file is a register whose written values are all different. A history of a register is
//! right (linearizable, Herlihy and Wing 1990) if every operation can be put at an instant between its begin and
//! its end so that each read has the value of the last write. For registers with different values that is
//! decided by zones (Gibbons and Korach, "Testing Shared Memories", SIAM J. Computing 26(4), 1997, section 4): the zone of a value reaches
//! from the first end to the last begin of its operations, and is forward if these are in this order; no two
//! forward zones may overlap, and no other zone may lie in a forward one.
//!
//! A write is in doubt if its client crashed, or got a report of a loss, before an fsync covered it. It may be lost, or
//! take effect later. Its own client may read it only until somebody else has seen that it is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use twin_rt::Time;

/// Where an operation is: the number of a file and of a piece of it.
pub(super) type Place = (usize, u64);

#[derive(Clone)]
struct Deed {
    /// The client.
    who: u64,
    place: Place,
    writes: bool,
    value: u64,
    begin: Time,
    end: Option<Time>,
    /// An fsync covers the write.
    synced: bool,
    in_doubt: bool,
}

impl fmt::Debug for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Deed { who, value, begin, end, .. } = self;
        let what = match (self.writes, self.synced, self.in_doubt) {
            (false, ..) => "reads",
            (true, _, true) => "writes in doubt",
            (true, true, _) => "writes and syncs",
            _ => "writes",
        };
        write!(f, "client {who} {what} {value:#x}, {begin:?} to {end:?}")
    }
}

/// The history of a run.
#[derive(Debug, Default)]
pub(super) struct History {
    deeds: Vec<Deed>,
    /// Writes that no fsync covers, by client.
    unsynced: BTreeMap<u64, BTreeSet<usize>>,
}

/// From the first end to the last begin of the operations with a value.
struct Zone {
    value: u64,
    first_end: Time,
    last_begin: Time,
}

const NEVER: Time = Time(u64::MAX);

impl History {
    /// A client begins to write. Returns the number of the write.
    pub(super) fn writes(&mut self, who: u64, place: Place, value: u64, begin: Time) -> usize {
        let (end, synced, in_doubt) = (None, false, false);
        let deed = Deed { who, place, writes: true, value, begin, end, synced, in_doubt };
        self.deeds.push(deed);
        self.unsynced.entry(who).or_default().insert(self.deeds.len() - 1);
        self.deeds.len() - 1
    }

    /// A write has ended.
    pub(super) fn wrote(&mut self, nth: usize, now: Time) {
        self.deeds[nth].end = Some(now);
    }

    /// A client has read.
    pub(super) fn read(&mut self, who: u64, place: Place, value: u64, begin: Time, now: Time) {
        let (end, synced, in_doubt) = (Some(now), false, false);
        self.deeds.push(Deed { who, place, writes: false, value, begin, end, synced, in_doubt });
    }

    /// The writes of a client to a file that an fsync which begins now covers.
    pub(super) fn owed(&self, who: u64, file: usize) -> Vec<usize> {
        let own = self.unsynced.get(&who).into_iter().flatten().copied();
        own.filter(|&nth| self.deeds[nth].place.0 == file && self.deeds[nth].end.is_some())
            .collect()
    }

    /// An fsync has made these durable.
    pub(super) fn synced(&mut self, who: u64, owed: &[usize]) {
        for &nth in owed {
            self.deeds[nth].synced |= !self.deeds[nth].in_doubt;
            if let Some(unsynced) = self.unsynced.get_mut(&who) {
                unsynced.remove(&nth);
            }
        }
    }

    /// A client has crashed, or got a report that data of a file is lost.
    pub(super) fn doubts(&mut self, who: u64, file: Option<usize>) {
        let Some(unsynced) = self.unsynced.get_mut(&who) else { return };
        let deeds = &mut self.deeds;
        unsynced.retain(|&nth| {
            let concerned = file.is_none_or(|file| deeds[nth].place.0 == file);
            deeds[nth].in_doubt |= concerned;
            !concerned
        });
    }

    /// The number of operations.
    pub(super) fn len(&self) -> u64 {
        self.deeds.len() as u64
    }

    /// Judges everything.
    ///
    /// # Errors
    /// The first place whose history no single copy could have shown.
    pub(super) fn judge(&self) -> Result<(), String> {
        let mut places: BTreeMap<Place, Vec<&Deed>> = BTreeMap::new();
        self.deeds.iter().for_each(|deed| places.entry(deed.place).or_default().push(deed));
        for (place, deeds) in places {
            judge(&deeds).map_err(|what| format!("file {}, piece {}: {what}", place.0, place.1))?;
        }
        Ok(())
    }
}

fn judge(deeds: &[&Deed]) -> Result<(), String> {
    let writes: BTreeMap<u64, &Deed> =
        deeds.iter().filter(|d| d.writes).map(|d| (d.value, *d)).collect();
    let mut zones: BTreeMap<u64, Zone> = BTreeMap::new();
    // All files began with zeros.
    let whole = Zone { value: 0, first_end: Time(0), last_begin: Time(0) };
    zones.insert(0, whole);
    for (&value, write) in &writes {
        let first_end = if write.in_doubt { NEVER } else { write.end.unwrap_or(NEVER) };
        zones.insert(value, Zone { value, first_end, last_begin: write.begin });
    }
    for read in deeds.iter().filter(|deed| !deed.writes) {
        let end = read.end.unwrap_or(NEVER);
        let write = writes.get(&read.value);
        if let Some(write) = write {
            if end < write.begin {
                return Err(format!("{:#x} was read before it was written: {read:?}", read.value));
            }
            if write.in_doubt && write.who == read.who {
                own_read((deeds, &writes), write, read)?;
                continue;
            }
        }
        let Some(zone) = zones.get_mut(&read.value) else {
            return Err(format!("{:#x} was read and never written: {read:?}", read.value));
        };
        zone.first_end = zone.first_end.min(end);
        zone.last_begin = zone.last_begin.max(read.begin);
    }
    let is_forward = |zone: &Zone| zone.first_end < zone.last_begin;
    for forward in zones.values().filter(|zone| is_forward(zone)) {
        for other in zones.values().filter(|zone| zone.value != forward.value) {
            // Two forward zones overlap, or one that is not lies within a forward one.
            let bad = forward.first_end < other.last_begin && other.first_end < forward.last_begin;
            if bad {
                let of = |value: u64| deeds.iter().filter(move |deed| deed.value == value);
                let mut all: Vec<_> = of(forward.value).chain(of(other.value)).collect();
                all.sort_by_key(|deed| deed.begin);
                return Err(format!(
                    "{:#x} was seen from {:?} to {:?}, but {:#x} was there in between: {all:#?}",
                    forward.value, forward.first_end, forward.last_begin, other.value
                ));
            }
        }
    }
    Ok(())
}

/// A client reads what it wrote and may have lost: nobody else may have seen that it is not there.
fn own_read(
    (deeds, writes): (&[&Deed], &BTreeMap<u64, &Deed>),
    write: &Deed,
    read: &Deed,
) -> Result<(), String> {
    let Some(wrote) = write.end else { return Ok(()) };
    // What others read of their own, and may have lost, says nothing.
    let own =
        |deed: &Deed| writes.get(&deed.value).is_some_and(|w| w.in_doubt && w.who == deed.who);
    let missed = deeds.iter().find(|deed| {
        let done = deed.end.is_some_and(|end| end < read.begin) && !own(deed);
        deed.who != write.who && deed.value != write.value && deed.begin > wrote && done
    });
    match missed {
        Some(missed) => Err(format!("{read:?} is older than {missed:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Place = (0, 0);

    /// Writes and reads of two clients: who, value (written if the flag is set), begin, end.
    fn history(deeds: &[(u64, bool, u64, u64, u64)]) -> History {
        let mut history = History::default();
        for &(who, writes, value, begin, end) in deeds {
            if writes {
                let nth = history.writes(who, AT, value, Time(begin));
                history.wrote(nth, Time(end));
            } else {
                history.read(who, AT, value, Time(begin), Time(end));
            }
        }
        history
    }

    #[test]
    fn what_one_copy_would_show_is_right() {
        for right in [
            &[(1, true, 5, 10, 20), (2, false, 5, 21, 22)][..],
            &[(1, true, 5, 10, 20), (2, false, 0, 11, 12), (2, false, 5, 13, 14)],
            &[(1, true, 5, 10, 20), (2, true, 6, 10, 20), (3, false, 5, 30, 31)],
            &[(1, true, 5, 10, 20), (2, true, 6, 10, 20), (3, false, 6, 30, 31)],
            &[
                (1, true, 5, 10, 20),
                (2, true, 6, 15, 40),
                (3, false, 6, 16, 17),
                (3, false, 6, 50, 51),
            ],
        ] {
            assert_eq!(history(right).judge(), Ok(()), "{right:?}");
        }
    }

    #[test]
    fn what_no_single_copy_shows_is_wrong() {
        for wrong in [
            // An old value after the write has ended.
            &[(1, true, 5, 10, 20), (2, false, 0, 21, 22)][..],
            // New, then old.
            &[(1, true, 5, 10, 40), (2, false, 5, 11, 12), (3, false, 0, 13, 14)],
            // The first of two writes after the second.
            &[(1, true, 5, 10, 20), (2, true, 6, 21, 30), (3, false, 5, 31, 32)],
            // Two readers disagree about the order of two writes.
            &[
                (1, true, 5, 10, 20),
                (2, true, 6, 10, 20),
                (3, false, 5, 30, 31),
                (3, false, 6, 32, 33),
                (3, false, 5, 34, 35),
            ],
            &[(2, false, 5, 1, 2), (1, true, 5, 10, 20)],
            &[(2, false, 9, 1, 2)],
        ] {
            assert!(history(wrong).judge().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_client_lost_may_be_gone_and_what_it_synced_may_not() {
        let mut lost = history(&[(1, true, 5, 10, 20), (1, false, 5, 21, 22)]);
        lost.doubts(1, None);
        lost.read(2, AT, 0, Time(30), Time(31));
        assert_eq!(lost.judge(), Ok(()));
        lost.read(1, AT, 5, Time(32), Time(33));
        assert!(lost.judge().is_err(), "its own data is older than what others saw");
        let mut synced = history(&[(1, true, 5, 10, 20)]);
        let owed = synced.owed(1, 0);
        synced.synced(1, &owed);
        synced.doubts(1, None);
        synced.read(2, AT, 0, Time(30), Time(31));
        assert!(synced.judge().is_err());
    }
}
