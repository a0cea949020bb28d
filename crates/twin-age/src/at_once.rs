//! A workload without its pauses: each becomes a sync.
//!
//! Contract: the operations of a source in their order, all at time 0, and a sync wherever the
//! source lets a second or more pass. A volume writes back during such a pause; so what is dirty
//! together stays together, however fast the operations are done. A volume on which nothing else is
//! written back by time or for want of memory is then the same in simulation and on a mount.

use std::collections::VecDeque;

use twin_fs::{Cred, Op, Request};
use twin_rt::{Nanos, SECS};
use twin_trace::{Header, Outcome, Reading, Record, Source, TraceError, Traits};

/// The workload. See the module.
pub struct AtOnce<S> {
    source: S,
    header: Header,
    /// The records that follow a pause: a sync, its answer, and the operation before which the
    /// pause stands.
    after_pause: VecDeque<Record>,
    /// When the operation before was in the source.
    last_ns: Nanos,
    /// The operations of the source before which a sync stands, ascending. Numbers in a workload
    /// follow each other, so each sync moves those behind it.
    synced_before: Vec<u64>,
}

impl<S: Source> AtOnce<S> {
    /// The operations of a source that is at its beginning.
    pub fn new(source: S) -> AtOnce<S> {
        let header = source.header().clone();
        let traits = Traits { timed: false, ..header.traits };
        let header = Header { traits, text: format!("{}, without pauses", header.text), ..header };
        AtOnce {
            source,
            header,
            after_pause: VecDeque::new(),
            last_ns: 0,
            synced_before: Vec::new(),
        }
    }

    /// The number that an operation of the source has here.
    fn number(&self, id: u64) -> u64 {
        id + self.synced_before.partition_point(|&before| before <= id) as u64
    }

    fn sync_before(&mut self, next: u64) {
        let id = self.number(next);
        self.synced_before.push(next);
        let request = Request { id, client: 1, cred: Cred::root(), op: Op::Sync };
        self.after_pause.push_back(Record::Request { at_ns: 0, request });
        self.after_pause.push_back(Record::Reply { at_ns: 0, id, outcome: Outcome::Done });
    }
}

impl<S: Source> Source for AtOnce<S> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if let Some(record) = self.after_pause.pop_front() {
            return Ok(Some(record));
        }
        let record = match self.source.next_record()? {
            Some(Record::Request { at_ns, request }) => {
                let paused = at_ns.saturating_sub(self.last_ns) >= SECS;
                self.last_ns = self.last_ns.max(at_ns);
                if paused {
                    self.sync_before(request.id);
                }
                let request = Request { id: self.number(request.id), ..request };
                Record::Request { at_ns: 0, request }
            }
            Some(Record::Reply { id, outcome, .. }) => {
                Record::Reply { at_ns: 0, id: self.number(id), outcome }
            }
            other => return Ok(other),
        };
        self.after_pause.push_back(record);
        Ok(self.after_pause.pop_front())
    }

    fn has_one_client(&self) -> bool {
        self.source.has_one_client()
    }

    fn reading(&self) -> Reading {
        self.source.reading()
    }
}

#[cfg(test)]
mod tests {
    use twin_fs::ROOT_INO;
    use twin_trace::Kind;

    use super::*;

    /// Operations at these times, with answers.
    struct At(Header, VecDeque<Record>);

    impl At {
        fn new(times_ns: &[Nanos]) -> At {
            let mut records = VecDeque::new();
            for (id, &at_ns) in (1..).zip(times_ns) {
                let op = Op::GetAttr { ino: ROOT_INO };
                let request = Request { id, client: 1, cred: Cred::root(), op };
                records.push_back(Record::Request { at_ns, request });
                records.push_back(Record::Reply { at_ns, id, outcome: Outcome::Done });
            }
            let traits = Traits { timed: true, ..Traits::default() };
            let (kind, start, text) = (Kind::Operations, twin_rt::Time(0), String::new());
            At(Header { kind, start, seed: 0, traits, text }, records)
        }
    }

    impl Source for At {
        fn header(&self) -> &Header {
            &self.0
        }
        fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
            Ok(self.1.pop_front())
        }
    }

    /// A letter for each record: `o` and `a` of an operation and its answer, `s` and `d` of a sync.
    fn letters(times_ns: &[Nanos]) -> String {
        let mut at_once = AtOnce::new(At::new(times_ns));
        let mut letters = String::new();
        let (mut asked, mut is_sync) = (0, false);
        while let Some(record) = at_once.next_record().unwrap() {
            let (at_ns, letter) = match record {
                Record::Request { at_ns, request } => {
                    assert_eq!(request.id, asked + 1, "numbers follow each other");
                    asked = request.id;
                    is_sync = matches!(request.op, Op::Sync);
                    (at_ns, if is_sync { 's' } else { 'o' })
                }
                Record::Reply { at_ns, id, .. } => {
                    assert_eq!(id, asked, "an answer follows its operation");
                    (at_ns, if is_sync { 'd' } else { 'a' })
                }
                Record::Node(_) => panic!("it begins empty"),
            };
            assert_eq!(at_ns, 0);
            letters.push(letter);
        }
        letters
    }

    #[test]
    fn pauses_of_a_second_become_syncs_and_shorter_ones_nothing() {
        assert_eq!(letters(&[0, SECS / 2, SECS, 2 * SECS, 9 * SECS]), "oaoaoasdoasdoa");
        assert_eq!(letters(&[3 * SECS]), "sdoa");
        assert_eq!(letters(&[]), "");
    }
}
