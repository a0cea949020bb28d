//! `small-files`: many small files are created, read in the same order, and removed.
//!
//! The small-file benchmark of Rosenblum and Ousterhout ("The design and implementation of a
//! log-structured file system", 1992, section 5.1), with a chosen number of rounds, clients and
//! directories. A sync after each phase makes its changes durable.

use twin_fs::{Ino, Op, ROOT_INO};
use twin_settings::{Param, RegistryEntry, Unit, Values};
use twin_trace::{Node, Outcome, Source};

use crate::Kind;
use crate::script::{Burst, Script, Scripted};

pub(crate) const ENTRY: RegistryEntry<Kind> = RegistryEntry::new(
    "small-files",
    "creating, reading and deleting many small files",
    Kind {
        params: &[
            Param::new("files", "10000", Unit::number(1, 1 << 32), "files of each client"),
            Param::new("bytes", "1K", Unit::bytes(0, 1 << 30), "size of a file"),
            Param::new("per-dir", "100", Unit::number(1, 1 << 32), "files in a directory"),
            Param::new("fsync", "no", Unit::YesNo, "each file is made durable when it is written"),
            Param::new("rounds", "1", Unit::number(1, 1 << 32), "rounds of the whole benchmark"),
        ],
        stands_for: None,
        start,
    },
);

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Create,
    Read,
    Delete,
}

struct SmallFiles {
    files: u64,
    bytes: u64,
    per_dir: u64,
    fsync: bool,
    rounds: u64,
    clients: Vec<Client>,
}

#[derive(Clone)]
struct Client {
    round: u64,
    phase: Phase,
    next: u64,
    dirs: Vec<Ino>,
    inos: Vec<Ino>,
}

fn start(values: Values, seed: u64) -> Box<dyn Source> {
    let (dirs, inos) = (Vec::new(), Vec::new());
    let client = Client { round: 0, phase: Phase::Create, next: 0, dirs, inos };
    let script = SmallFiles {
        files: values.number("files"),
        bytes: values.number("bytes"),
        per_dir: values.number("per-dir"),
        fsync: values.yes("fsync"),
        rounds: values.number("rounds"),
        clients: vec![client; values.number("clients") as usize],
    };
    Scripted::start(ENTRY.name, script, &values, seed)
}

impl SmallFiles {
    fn file(&mut self, client: usize, out: &mut Burst) {
        let state = &mut self.clients[client];
        let name = format!("f{}", state.next).into_bytes();
        let dir = state.dirs[(state.next / self.per_dir) as usize];
        match state.phase {
            Phase::Create => {
                let ino = out.create(dir, &name);
                out.write_whole(ino, self.bytes, 64 << 10);
                if self.fsync {
                    out.fsync(ino, false);
                }
                out.release(ino);
                state.inos.push(ino);
            }
            Phase::Read => {
                let ino = state.inos[state.next as usize];
                out.lookup(dir, &name, ino);
                out.open(ino, false);
                out.read_whole(ino, self.bytes);
                out.release(ino);
            }
            Phase::Delete => {
                let ino = state.inos[state.next as usize];
                out.unlink(dir, &name);
                out.forget(ino, 2);
            }
        }
    }
}

impl Script for SmallFiles {
    fn nodes(&self) -> u64 {
        0
    }

    fn node(&mut self, _: u64) -> Node {
        unreachable!("the workload begins with an empty tree")
    }

    fn burst(&mut self, client: usize, out: &mut Burst) -> bool {
        let (files, per_dir, rounds) = (self.files, self.per_dir, self.rounds);
        let state = &mut self.clients[client];
        if state.round >= rounds {
            return false;
        }
        if state.phase == Phase::Create && state.next.is_multiple_of(per_dir) {
            let number = state.next / per_dir;
            if number == state.dirs.len() as u64 {
                let name = format!("c{client}-d{number}");
                state.dirs.push(out.make_dir(ROOT_INO, name.as_bytes()));
            }
        }
        self.file(client, out);
        let state = &mut self.clients[client];
        state.next += 1;
        if state.next == files {
            out.op(Op::Sync, Outcome::Done);
            state.next = 0;
            state.phase = match state.phase {
                Phase::Create => Phase::Read,
                Phase::Read => Phase::Delete,
                Phase::Delete => {
                    state.inos.clear();
                    state.round += 1;
                    Phase::Create
                }
            };
        }
        true
    }
}
