//! A session of two programs on a mount, with the pauses that people make.

use twin_fs::{Data, Op, ROOT_INO, Request};
use twin_rt::{MICROS, MILLIS, Time};
use twin_trace::{Header, Kind, Outcome, Traits, Writer};

/// Files that the first program writes and makes durable.
pub(crate) const FILES: u64 = 120;
/// The pause after each of them.
pub(crate) const PAUSE_NS: u64 = 300 * MILLIS;

struct Session {
    writer: Writer<Vec<u8>>,
    now: u64,
}

impl Session {
    /// A request that took so long when it was recorded.
    fn ask(&mut self, client: u32, op: Op, took_ns: u64, outcome: Outcome) {
        let request = Request { client, ..Request::root(0, op) };
        let id = self.writer.request(self.now, &request).unwrap();
        self.now += took_ns;
        self.writer.reply(self.now, id, &outcome).unwrap();
        self.now += 5 * MICROS;
    }
}

/// The recording: 120 files of 16 KiB, each with an fsync, and a second program that looks at every fifth.
pub(crate) fn recording() -> Vec<u8> {
    let traits = Traits { timed: true, mounted: true, nodes_first: true, ..Traits::default() };
    let text = "a session with pauses".to_owned();
    let header = Header { kind: Kind::Operations, start: Time(0), seed: 0, traits, text };
    let mut session = Session { writer: Writer::new(Vec::new(), &header).unwrap(), now: 0 };
    for file in 0..FILES {
        let (ino, name) = (100 + file, format!("file-{file}").into_bytes());
        let create =
            Op::Create { dir: ROOT_INO, name: name.clone().into(), mode: 0o644, exclusive: true };
        session.ask(1, create, 20 * MICROS, Outcome::Entry(ino));
        let write = Op::Write { ino, off: 0, data: Data::Synthetic(16 << 10) };
        session.ask(1, write, 10 * MICROS, Outcome::Written(16 << 10));
        session.ask(1, Op::Fsync { ino, data_only: false }, MILLIS, Outcome::Done);
        session.ask(1, Op::Release { ino }, MICROS, Outcome::Done);
        if file % 5 == 0 {
            let lookup = Op::Lookup { dir: ROOT_INO, name: name.into() };
            session.ask(2, lookup, 10 * MICROS, Outcome::Entry(ino));
            session.ask(2, Op::Read { ino, off: 0, len: 4096 }, 10 * MICROS, Outcome::Data(4096));
        }
        session.now += PAUSE_NS;
    }
    session.ask(1, Op::Fsync { ino: 100, data_only: false }, MILLIS, Outcome::Done);
    session.writer.finish().unwrap()
}
