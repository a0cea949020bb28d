//! `tpcb`: a database in the manner of TPC-B: random pages are changed, and a log is made durable.
//!
//! A transaction reads an account's page unless it is cached, changes that page, a teller's and a
//! branch's, and appends a record to the log, which fsync makes durable. Each transaction writes
//! one changed account page back. A checkpoint writes the teller and branch pages, few and hot, and
//! the remaining account pages, and makes the data durable too.

use std::collections::VecDeque;

use twin_fs::{Ino, ROOT_INO};
use twin_settings::{Param, RegistryEntry, Unit, Values};
use twin_trace::{Node, Source};

use crate::Kind;
use crate::script::{Burst, FIRST_INO, Script, Scripted, node};

pub(crate) const ENTRY: RegistryEntry<Kind> = RegistryEntry::new(
    "tpcb",
    "a database: random pages overwritten, fsync after each transaction",
    Kind {
        params: &[
            Param::new(
                "transactions",
                "10000",
                Unit::number(1, u64::MAX),
                "transactions of each client",
            ),
            Param::new(
                "accounts-bytes",
                "64M",
                Unit::bytes(1 << 20, 1 << 44),
                "size of the accounts file",
            ),
            Param::new("page-bytes", "4K", Unit::bytes(512, 65_536), "bytes of a page"),
            Param::new("record-bytes", "240", Unit::bytes(16, 4096), "bytes of a log record"),
            Param::new("cached", "25%", Unit::Percent(100), "account pages that need no read"),
            Param::new(
                "checkpoint-every",
                "1000",
                Unit::number(1, u64::MAX),
                "transactions between checkpoints",
            ),
        ],
        stands_for: None,
        start,
    },
);

/// Accounts, tellers and branches, log.
const FILES: u64 = 3;
/// The number of account pages for each teller or branch page.
const PAGES_PER_BRANCH: u64 = 1000;
/// The number of changed account pages that wait to be written.
const DIRTY: usize = 64;

struct Tpcb {
    transactions: u64,
    pages: u64,
    page_bytes: u64,
    record_bytes: u64,
    cached: f64,
    checkpoint_every: u64,
    clients: Vec<Client>,
}

#[derive(Clone, Default)]
struct Client {
    done: u64,
    log_bytes: u64,
    dirty: VecDeque<u64>,
}

fn start(values: Values, seed: u64) -> Box<dyn Source> {
    let page_bytes = values.number("page-bytes");
    let script = Tpcb {
        transactions: values.number("transactions"),
        pages: values.number("accounts-bytes") / page_bytes,
        page_bytes,
        record_bytes: values.number("record-bytes"),
        cached: values.number("cached") as f64 / 100.0,
        checkpoint_every: values.number("checkpoint-every"),
        clients: vec![Client::default(); values.number("clients") as usize],
    };
    Scripted::start(ENTRY.name, script, &values, seed)
}

impl Tpcb {
    fn branch_pages(&self) -> u64 {
        self.pages.div_ceil(PAGES_PER_BRANCH)
    }

    fn inos(client: usize) -> [Ino; FILES as usize] {
        let first = FIRST_INO + client as u64 * FILES;
        [first, first + 1, first + 2]
    }

    fn name(client: u64, file: u64) -> String {
        format!("{}{client}", ["accounts", "branches", "log"][file as usize])
    }

    fn transaction(&mut self, client: usize, out: &mut Burst) {
        let [accounts, _, log] = Self::inos(client);
        let page = out.rng.below(self.pages);
        if !out.rng.chance(self.cached) {
            out.read(accounts, page * self.page_bytes, self.page_bytes);
        }
        let state = &mut self.clients[client];
        state.dirty.push_back(page);
        if state.dirty.len() > DIRTY
            && let Some(old) = state.dirty.pop_front()
        {
            out.write(accounts, old * self.page_bytes, self.page_bytes);
        }
        out.write(log, state.log_bytes, self.record_bytes);
        state.log_bytes += self.record_bytes;
        out.fsync(log, true);
    }

    fn checkpoint(&mut self, client: usize, out: &mut Burst) {
        let [accounts, branches, _] = Self::inos(client);
        for page in std::mem::take(&mut self.clients[client].dirty) {
            out.write(accounts, page * self.page_bytes, self.page_bytes);
        }
        out.fsync(accounts, true);
        for page in 0..self.branch_pages() {
            out.write(branches, page * self.page_bytes, self.page_bytes);
        }
        out.fsync(branches, true);
    }
}

impl Script for Tpcb {
    fn nodes(&self) -> u64 {
        self.clients.len() as u64 * FILES
    }

    fn node(&mut self, index: u64) -> Node {
        let file = index % FILES;
        let pages = [self.pages, self.branch_pages(), 0][file as usize];
        let name = Self::name(index / FILES, file).into_bytes();
        node(index, ROOT_INO, name, Some(pages * self.page_bytes))
    }

    fn burst(&mut self, client: usize, out: &mut Burst) -> bool {
        let done = self.clients[client].done;
        if done == self.transactions {
            return false;
        }
        let inos = Self::inos(client);
        if done == 0 {
            for (file, ino) in inos.into_iter().enumerate() {
                out.lookup(ROOT_INO, Self::name(client as u64, file as u64).as_bytes(), ino);
                out.open(ino, true);
            }
        }
        self.transaction(client, out);
        let done = done + 1;
        self.clients[client].done = done;
        if done.is_multiple_of(self.checkpoint_every) || done == self.transactions {
            self.checkpoint(client, out);
        }
        if done == self.transactions {
            inos.into_iter().for_each(|ino| out.release(ino));
        }
        true
    }
}
