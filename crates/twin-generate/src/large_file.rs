//! `large-file`: one large file per client, written and read in order and at random.
//!
//! The five phases of the large-file benchmark of Rosenblum and Ousterhout (1992, section 5.1):
//! sequential write, sequential read, random write, random read, sequential read again. Each phase
//! can be left out; a file that is read without having been written exists at the start.

use twin_fs::{Ino, ROOT_INO};
use twin_settings::{Param, RegistryEntry, Unit, Values};
use twin_trace::{Node, Source};

use crate::Kind;
use crate::script::{Burst, FIRST_INO, Script, Scripted, node};

pub(crate) const ENTRY: RegistryEntry<Kind> = RegistryEntry::new(
    "large-file",
    "a large file: sequential and random writes and reads",
    Kind {
        params: &[
            Param::new("file-bytes", "100M", Unit::bytes(1, 1 << 46), "size of each client's file"),
            Param::new("request-bytes", "8K", Unit::bytes(512, 1 << 20), "bytes of a request"),
            Param::new("write", "yes", Unit::YesNo, "write it in order"),
            Param::new("read", "yes", Unit::YesNo, "read it in order"),
            Param::new("random-write", "yes", Unit::YesNo, "write as much at random places"),
            Param::new("random-read", "yes", Unit::YesNo, "read as much at random places"),
            Param::new("reread", "yes", Unit::YesNo, "read it in order again"),
        ],
        stands_for: None,
        start,
    },
);

const PHASES: [&str; 5] = ["write", "read", "random-write", "random-read", "reread"];

struct LargeFile {
    requests: u64,
    request_bytes: u64,
    /// Whether each of [`PHASES`] takes place.
    phases: [bool; 5],
    clients: Vec<Client>,
}

#[derive(Clone)]
struct Client {
    file: Ino,
    phase: usize,
    next: u64,
}

fn start(values: Values, seed: u64) -> Box<dyn Source> {
    let request_bytes = values.number("request-bytes");
    let script = LargeFile {
        requests: values.number("file-bytes").div_ceil(request_bytes),
        request_bytes,
        phases: PHASES.map(|name| values.yes(name)),
        clients: vec![Client { file: 0, phase: 0, next: 0 }; values.number("clients") as usize],
    };
    Scripted::start(ENTRY.name, script, &values, seed)
}

impl Script for LargeFile {
    fn nodes(&self) -> u64 {
        if self.phases[0] { 0 } else { self.clients.len() as u64 }
    }

    fn node(&mut self, index: u64) -> Node {
        let size = self.requests * self.request_bytes;
        node(index, ROOT_INO, format!("large{index}").into_bytes(), Some(size))
    }

    fn burst(&mut self, client: usize, out: &mut Burst) -> bool {
        let state = &mut self.clients[client];
        while state.phase < PHASES.len() && !self.phases[state.phase] {
            state.phase += 1;
        }
        if state.phase == PHASES.len() {
            return false;
        }
        if state.next == 0 {
            let name = format!("large{client}").into_bytes();
            if state.phase == 0 {
                state.file = out.create(ROOT_INO, &name);
            } else {
                if state.file == 0 {
                    state.file = FIRST_INO + client as u64;
                }
                out.lookup(ROOT_INO, &name, state.file);
                out.open(state.file, state.phase == 2);
            }
        }
        let random = matches!(state.phase, 2 | 3);
        let place = if random { out.rng.below(self.requests) } else { state.next };
        let off = place * self.request_bytes;
        match state.phase {
            0 | 2 => out.write(state.file, off, self.request_bytes),
            _ => out.read(state.file, off, self.request_bytes),
        }
        state.next += 1;
        if state.next == self.requests {
            if matches!(state.phase, 0 | 2) {
                out.fsync(state.file, false);
            }
            out.release(state.file);
            (state.phase, state.next) = (state.phase + 1, 0);
        }
        true
    }
}
