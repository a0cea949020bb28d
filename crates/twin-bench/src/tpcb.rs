//! `tpcb`: transactions in the manner of TPC-B on plain files (Seltzer et al. 1995, section 4).
//!
//! Pages of the account file are read and rewritten at random; a history file grows by 50 bytes a
//! transaction. The database's own cache holds the pages that were read last, so a page is written
//! when it leaves that cache: `cached` pages after it was read. The paper's log is on a separate
//! disk; with `log=yes` it is a file beside the others, made durable every `group` transactions, as
//! it must be in a directory on one disk.

use std::collections::VecDeque;

use twin_rt::Rng;

use super::{Act, Benchmark, Content, OpenMode, Script};

const RECORD: u64 = 100;
const HISTORY: u64 = 50;
const LOG: u64 = 120;

#[derive(Clone, Debug)]
pub(super) struct Tpcb {
    pub(super) transactions: u64,
    /// Number of account records.
    pub(super) accounts: u64,
    /// Records on a page of 4 KB; a full page has 40.
    pub(super) per_page: u64,
    /// Pages of the database's cache; 0 writes each page at once.
    pub(super) cached: u64,
    /// Transactions before the clock starts, in addition to those that fill that cache.
    pub(super) warm: u64,
    /// Whether the log is a file beside the others.
    pub(super) log: bool,
    /// Number of transactions that are made durable together.
    pub(super) group: u64,
    /// Whether it ends with a sequential scan.
    pub(super) scan: bool,
    /// Empty only the kernel's caches, before the transactions and before the scan.
    pub(super) kernel: bool,
    pub(super) seed: u64,
    pub(super) label: String,
}

const PAGE: u64 = 4096;
const ACCOUNT: usize = 0;
const HISTORY_SLOT: usize = 1;
const LOG_SLOT: usize = 2;

impl Tpcb {
    fn pages(&self) -> u64 {
        self.accounts.div_ceil(self.per_page)
    }

    fn load(&self) -> Script {
        let pages = self.pages();
        let write = |g: u64| Act::Write {
            slot: ACCOUNT,
            off: g * PAGE,
            len: PAGE,
            content: Content { file: 1, generation: 0 },
        };
        let open = |path: &str, slot| Act::Open { slot, path: path.into(), how: OpenMode::Create };
        let amount = (pages * self.per_page) as f64;
        let begin = [Act::Begin("load"), open("account", ACCOUNT)];
        let end = [
            Act::SyncAll,
            Act::End { amount, unit: "accounts/s" },
            Act::Close { slot: ACCOUNT },
            Act::cold(self.kernel),
            Act::Open { slot: ACCOUNT, path: "account".into(), how: OpenMode::Write },
            open("history", HISTORY_SLOT),
        ];
        let log = self.log.then(|| open("log", LOG_SLOT));
        Box::new(begin.into_iter().chain((0..pages).map(write)).chain(end).chain(log))
    }

    fn run(&self) -> Script {
        let mut state = DatabaseState::new(self.clone());
        // The database's cache fills before the clock starts.
        let warm = self.cached + self.warm;
        let all = (0..warm + self.transactions).flat_map(move |i| {
            let begin = (i == warm).then_some(Act::Begin("tx"));
            begin.into_iter().chain(state.transaction(i))
        });
        let end = Act::End { amount: self.transactions as f64, unit: "tx/s" };
        let mut after = vec![end, Act::Begin("checkpoint")];
        let slots = if self.log { 3 } else { 2 };
        after.extend((0..slots).map(|slot| Act::Fsync { slot, data_only: false }));
        after.push(Act::End { amount: 1.0, unit: "per s" });
        after.extend((0..slots).map(|slot| Act::Close { slot }));
        Box::new(all.chain(after))
    }

    fn scan(&self) -> Script {
        if !self.scan {
            return Box::new(std::iter::empty());
        }
        let pages = self.pages();
        let mut state = DatabaseState::new(self.clone());
        // The pages that transactions wrote have a later generation: the random draws are repeated.
        for i in 0..self.cached + self.warm + self.transactions {
            state.transaction(i);
        }
        let read = move |g: u64| Act::Read {
            slot: ACCOUNT,
            off: g * PAGE,
            len: PAGE,
            content: Content { file: 1, generation: state.written(g) },
        };
        let mib = pages as f64 * PAGE as f64 / (1 << 20) as f64;
        let open = Act::Open { slot: ACCOUNT, path: "account".into(), how: OpenMode::Read };
        let begin = [Act::cold(self.kernel), Act::Begin("scan"), open];
        let end = [Act::Close { slot: ACCOUNT }, Act::End { amount: mib, unit: "MiB/s" }];
        Box::new(begin.into_iter().chain((0..pages).map(read)).chain(end))
    }
}

/// The state of the database: the pages in its cache, and how often each page was changed.
struct DatabaseState {
    spec: Tpcb,
    rng: Rng,
    /// Pages read and not written back yet, oldest first.
    held: VecDeque<u64>,
    on_disk: Vec<u32>,
    log_bytes: u64,
}

impl DatabaseState {
    fn new(spec: Tpcb) -> DatabaseState {
        let rng = Rng::stream(spec.seed, "tpcb accounts");
        let on_disk = vec![0; spec.pages() as usize];
        DatabaseState { spec, rng, held: VecDeque::new(), on_disk, log_bytes: 0 }
    }

    fn written(&self, page: u64) -> u64 {
        u64::from(self.on_disk[page as usize])
    }

    fn io(&self, page: u64, write: bool) -> Act {
        let content = Content { file: 1, generation: self.written(page) };
        let (slot, off, len) = (ACCOUNT, page * PAGE, PAGE);
        match write {
            true => Act::Write { slot, off, len, content },
            false => Act::Read { slot, off, len, content },
        }
    }

    fn transaction(&mut self, i: u64) -> Vec<Act> {
        let page = self.rng.below(self.spec.accounts) / self.spec.per_page;
        let mut acts = Vec::new();
        if self.spec.log {
            let (off, content) = (self.log_bytes, Content { file: 3, generation: i });
            acts.push(Act::Write { slot: LOG_SLOT, off, len: LOG, content });
            self.log_bytes += LOG;
            if (i + 1).is_multiple_of(self.spec.group.max(1)) {
                acts.push(Act::Fsync { slot: LOG_SLOT, data_only: true });
            }
        }
        if !self.held.contains(&page) {
            // Makes room first, as a database does: the oldest page is written.
            if self.held.len() as u64 >= self.spec.cached.max(1) {
                acts.extend(self.write_back());
            }
            acts.push(self.io(page, false));
            self.held.push_back(page);
        }
        if self.spec.cached == 0 {
            acts.extend(self.write_back());
        }
        let content = Content { file: 2, generation: i };
        let off = i * HISTORY;
        acts.push(Act::Write { slot: HISTORY_SLOT, off, len: HISTORY, content });
        acts
    }

    fn write_back(&mut self) -> Option<Act> {
        let page = self.held.pop_front()?;
        self.on_disk[page as usize] += 1;
        Some(self.io(page, true))
    }
}

impl Benchmark for Tpcb {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn users(&self) -> Vec<Script> {
        let mut names = vec!["account", "history"];
        names.extend(self.log.then_some("log"));
        let unlink = names.into_iter().map(|n| Act::Unlink(n.into()));
        let parts: Vec<Script> = vec![self.load(), self.run(), self.scan(), Box::new(unlink)];
        vec![Box::new(parts.into_iter().flatten())]
    }

    fn bytes(&self) -> u64 {
        self.pages() * PAGE
            + (self.warm + self.transactions) * (HISTORY + LOG)
            + self.accounts * RECORD / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(cached: u64) -> Tpcb {
        Tpcb {
            transactions: 50,
            accounts: 4000,
            per_page: 40,
            cached,
            warm: 0,
            log: true,
            group: 5,
            scan: true,
            kernel: false,
            seed: 1,
            label: String::new(),
        }
    }

    fn count(spec: &Tpcb, pick: impl Fn(&Act) -> bool) -> usize {
        let acts = spec.run().skip_while(|a| !matches!(a, Act::Begin("tx")));
        acts.take_while(|a| !matches!(a, Act::End { .. })).filter(|a| pick(a)).count()
    }

    #[test]
    fn a_transaction_reads_a_page_and_writes_one() {
        let tpcb = spec(0);
        let write = |a: &Act| matches!(a, Act::Write { slot: ACCOUNT, .. });
        assert_eq!(count(&tpcb, write), 50);
        assert_eq!(count(&tpcb, |a| matches!(a, Act::Read { .. })), 50);
        assert_eq!(count(&tpcb, |a| matches!(a, Act::Fsync { .. })), 10);
    }

    #[test]
    fn a_page_in_the_databases_cache_is_written_when_it_leaves() {
        let tpcb = spec(10);
        let reads = count(&tpcb, |a| matches!(a, Act::Read { .. }));
        let writes = count(&tpcb, |a| matches!(a, Act::Write { slot: ACCOUNT, .. }));
        // The cache is nearly full when the clock starts: a page may have come twice.
        assert!(reads >= writes && reads - writes <= 2, "{reads} reads, {writes} writes");
    }

    #[test]
    fn what_warms_up_is_not_counted() {
        let tpcb = Tpcb { warm: 30, ..spec(0) };
        assert_eq!(count(&tpcb, |a| matches!(a, Act::Read { .. })), 50);
        assert_eq!(tpcb.run().filter(|a| matches!(a, Act::Read { .. })).count(), 80);
    }
}
