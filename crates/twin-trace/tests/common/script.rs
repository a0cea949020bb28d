//! Workloads written by hand.

use twin_fs::{Data, Op, Request};
use twin_rt::MICROS;
use twin_trace::{Header, Kind, Outcome, Record, Source, TraceError, Traits};

/// A workload of given records.
pub struct Given {
    header: Header,
    records: std::vec::IntoIter<Record>,
}

impl Given {
    pub fn new(records: Vec<Record>, traits: Traits) -> Given {
        let traits = Traits { timed: true, ..traits };
        let (start, text) = (twin_rt::Time(0), String::new());
        let header = Header { kind: Kind::Operations, start, seed: 0, traits, text };
        Given { header, records: records.into_iter() }
    }

    /// Says that it was recorded on a mount.
    pub fn mounted(&mut self) {
        self.header.traits.mounted = true;
    }
}

impl Source for Given {
    fn header(&self) -> &Header {
        &self.header
    }
    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        Ok(self.records.next())
    }
}

/// Builds a workload: requests number themselves.
#[derive(Default)]
pub struct Script {
    pub records: Vec<Record>,
    pub traits: Traits,
    pub requests: u64,
}

impl Script {
    pub fn ask(&mut self, at_us: u64, client: u32, op: Op) -> u64 {
        self.requests += 1;
        let request = Request { client, ..Request::root(self.requests, op) };
        self.records.push(Record::Request { at_ns: at_us * MICROS, request });
        self.requests
    }

    pub fn answer(&mut self, at_us: u64, id: u64, outcome: Outcome) {
        self.records.push(Record::Reply { at_ns: at_us * MICROS, id, outcome });
    }

    pub fn both(&mut self, at_us: u64, client: u32, op: Op, outcome: Outcome) {
        let id = self.ask(at_us, client, op);
        self.answer(at_us, id, outcome);
    }

    pub fn source(&self) -> Given {
        Given::new(self.records.clone(), self.traits)
    }
}

pub fn name(text: &str) -> Box<[u8]> {
    text.as_bytes().into()
}

pub fn create(dir: u64, text: &str) -> Op {
    Op::Create { dir, name: name(text), mode: 0o644, exclusive: true }
}

pub fn write(ino: u64, off: u64, len: u64) -> Op {
    Op::Write { ino, off, data: Data::Synthetic(len) }
}
