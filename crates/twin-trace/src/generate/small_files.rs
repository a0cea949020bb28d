//! `small-files`: many small files made, read in the same order, and removed.
//!
//! The small-file benchmark of Rosenblum and Ousterhout ("The design and implementation of a
//! log-structured file system", 1992, section 5.1), with as many rounds, clients and directories
//! as wanted. Between the phases everything is made durable.

use twin_fs::{Ino, Op, ROOT_INO};

use super::Spec;
use super::script::{Burst, Script, Scripted};
use crate::record::{Node, Outcome};
use crate::settings::{Param, Settings};
use crate::stream::Source;

pub(super) const SPEC: Spec = Spec {
    name: "small-files",
    about: "creating, reading and deleting many small files",
    params: &[
        Param::new("files", 10_000, 1, 1 << 32, "files of each client"),
        Param::new("bytes", 1024, 0, 1 << 30, "size of a file"),
        Param::new("per_dir", 100, 1, 1 << 32, "files in a directory"),
        Param::new("fsync", 0, 0, 1, "1: each file is made durable when it is written"),
        Param::new("rounds", 1, 1, 1 << 32, "how often all of it is done"),
    ],
    start,
};

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

fn start(settings: Settings, seed: u64) -> Box<dyn Source> {
    let (dirs, inos) = (Vec::new(), Vec::new());
    let client = Client { round: 0, phase: Phase::Create, next: 0, dirs, inos };
    let script = SmallFiles {
        files: settings.get("files"),
        bytes: settings.get("bytes"),
        per_dir: settings.get("per_dir"),
        fsync: settings.get("fsync") == 1,
        rounds: settings.get("rounds"),
        clients: vec![client; settings.get("clients") as usize],
    };
    Scripted::start(SPEC.name, script, &settings, seed)
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
