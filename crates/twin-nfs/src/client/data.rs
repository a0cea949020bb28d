//! Reading, writing, writing behind, and making durable.
//!
//! Contract: what [`Inner::fsync`] and the last [`Inner::release`] of a file return for is on the
//! server's disk, or an error is kept for the next fsync. A page has one WRITE at a time.

use std::rc::Rc;

use twin_disk::{Block, Bytes};
use twin_fs::{Cred, Data, FsError, Ino, Reply, Result, SetAttr};
use twin_rt::{Nanos, SECS, join_all};

use super::nodes::Node;
use super::pages::{PAGE, Page, Pages, Run, State};
use super::rpc::garbled;
use super::settings::Writes;
use super::{Inner, bytes_of};
use crate::attrs;
use crate::lease::Kind;
use crate::proc;
use crate::xdr::Writer;

/// How WRITE makes data durable (`stable_how`).
const UNSTABLE: u32 = 0;
const FILE_SYNC: u32 = 2;
/// How often old data is looked for, at most.
const LOOK_NS: Nanos = 5 * SECS;
/// The share of the cache that may be unclean.
const UNCLEAN_SHARE: u64 = 2;

impl Inner {
    /// Opens a file: what others wrote before they closed it is seen from here on.
    pub(super) async fn open(self: &Rc<Self>, cred: &Cred, ino: Ino, truncate: bool) -> Result<()> {
        let node = self.node(ino)?;
        self.opened(&node);
        let asked = self.ask(cred, &node).await;
        let opened = match asked {
            Ok(_) if truncate => {
                let set = SetAttr { size: Some(0), ..SetAttr::default() };
                self.set(cred, ino, set).await.map(drop)
            }
            asked => asked.map(drop),
        };
        if opened.is_err() {
            self.closed(&node);
        }
        opened
    }

    /// Counts one more open of `node`.
    pub(super) fn opened(&self, node: &Node) {
        self.open_files.set(self.open_files.get() + u64::from(node.opens.get() == 0));
        node.opens.set(node.opens.get() + 1);
    }

    /// Counts one open of `node` less.
    pub(super) fn closed(&self, node: &Node) {
        let opens = node.opens.get().saturating_sub(1);
        let ended = node.opens.replace(opens) == 1;
        self.open_files.set(self.open_files.get() - u64::from(ended));
    }

    /// Closes a file: everything is written, and committed.
    pub(super) async fn release(self: &Rc<Self>, cred: &Cred, ino: Ino) -> Result<()> {
        let node = self.node(ino)?;
        self.closed(&node);
        if node.opens.get() > 0 {
            return Ok(());
        }
        // With a lease the data may stay, and that of a file without a name need never be written.
        if !self.has_leases() {
            let settled = self.write_all(&node).await;
            if let Err(error) = settled {
                // Closing reports nothing here; the next fsync does.
                *node.error.borrow_mut() = Some(error);
            }
        }
        let silly = node.silly.borrow_mut().take();
        if let Some((dir, name)) = silly {
            self.remove(cred, proc::REMOVE, dir, &name).await?;
            self.is_gone(&node);
        }
        Ok(())
    }

    /// A file is removed: nobody will read what is kept of it.
    pub(super) fn is_gone(&self, node: &Node) {
        if self.has_leases() {
            self.with_pages(node, Pages::drop_all);
            self.unclean.borrow_mut().remove(&node.ino);
        } else {
            self.with_pages(node, Pages::drop_clean);
        }
    }

    pub(super) async fn fsync(self: &Rc<Self>, ino: Ino) -> Result<()> {
        let node = self.node(ino)?;
        self.write_all(&node).await?;
        node.take_error()
    }

    /// Writes and commits everything. What another client has removed nobody can have any more.
    pub(super) async fn sync_all(self: &Rc<Self>) -> Result<()> {
        let nodes: Vec<Rc<Node>> = self.unclean.borrow().values().cloned().collect();
        let mut result = Ok(());
        for node in nodes {
            let settled = self.write_all(&node).await.and_then(|()| node.take_error());
            result = result.and(match settled {
                Err(FsError::Stale) => Ok(()),
                settled => settled,
            });
        }
        result
    }

    /// Writes data to the file on the server and in the cache.
    pub(super) async fn write(
        self: &Rc<Self>,
        cred: &Cred,
        ino: Ino,
        off: Option<u64>,
        data: Data,
    ) -> Result<u64> {
        let node = self.node(ino)?;
        let bytes = bytes_of(&data);
        loop {
            let alone = self.using(cred, &node, Kind::Write).await?;
            if !self.write_pages(cred, &node, off, &bytes).await? {
                continue;
            }
            let guard = if self.has_leases() {
                // What follows may need a new lease, for which the lock must be free.
                drop(alone);
                None
            } else {
                Some(alone)
            };
            if self.settings.writes == Writes::Sync {
                self.write_all(&node).await?;
                node.take_error()?;
            } else {
                self.start_daemon();
            }
            self.make_room(&node).await;
            drop(guard);
            return Ok(bytes.len() as u64);
        }
    }

    /// Writes data into pages. Returns false if the lease was lost before all was written.
    async fn write_pages(
        self: &Rc<Self>,
        cred: &Cred,
        node: &Rc<Node>,
        off: Option<u64>,
        bytes: &[u8],
    ) -> Result<bool> {
        let size = match node.attr() {
            Some(attr) if self.has_leases() => attr.size,
            _ => self.believed(cred, node).await?.size,
        };
        let off = off.unwrap_or(size);
        let end = off.checked_add(bytes.len() as u64).ok_or(FsError::FileTooBig)?;
        *node.writer.borrow_mut() = cred.clone();
        self.unclean.borrow_mut().insert(node.ino, Rc::clone(node));
        let mut at = off;
        while at < end {
            let (n, from) = (at / PAGE, (at % PAGE) as usize);
            let to = (PAGE as usize).min(from + (end - at) as usize);
            let piece = &bytes[(at - off) as usize..][..to - from];
            let gap = node.pages.borrow().leaves_gap(n, &(from..to));
            if gap {
                self.fetch(cred, node, n..n + 1, size).await?;
            }
            if self.has_leases() && !self.holds(node, Kind::Write) {
                return Ok(false);
            }
            let (beyond, now) = (n * PAGE >= size, self.rt.now());
            self.with_pages(node, |pages| pages.write(n, from..to, piece, beyond, now));
            self.used(node, n);
            at += (to - from) as u64;
        }
        Ok(true)
    }

    pub(super) async fn read(
        self: &Rc<Self>,
        cred: &Cred,
        ino: Ino,
        off: u64,
        len: u32,
    ) -> Result<Reply> {
        let node = self.node(ino)?;
        loop {
            let shared = self.using(cred, &node, Kind::Read).await?;
            let size = match node.attr() {
                Some(attr) if self.has_leases() => attr.size,
                _ => self.believed(cred, &node).await?.size,
            };
            let end = off.saturating_add(len.into()).min(size);
            if off >= end {
                return Ok(Reply::Data(Vec::new()));
            }
            let (first, last) = (off / PAGE, end.div_ceil(PAGE));
            self.fetch(cred, &node, first..last, size).await?;
            if self.has_leases() && !self.holds(&node, Kind::Read) {
                continue;
            }
            let out = self.copy(&node, off..end);
            drop(shared);
            let sequential = node.read_end.replace(end) == off && off > 0;
            if sequential && end < size {
                self.read_ahead(cred, &node, last, size);
            }
            self.make_room(&node).await;
            return Ok(Reply::Data(vec![Block::Bytes(Bytes::copy_of(&out))]));
        }
    }

    /// The bytes of a range whose pages are there.
    fn copy(&self, node: &Node, range: std::ops::Range<u64>) -> Vec<u8> {
        let (off, end) = (range.start, range.end);
        let mut out = vec![0; (end - off) as usize];
        for n in off / PAGE..end.div_ceil(PAGE) {
            let (from, to) = (off.max(n * PAGE), end.min((n + 1) * PAGE));
            if let Some(page) = node.pages.borrow().all.get(&n) {
                let within = (from % PAGE) as usize..(from % PAGE + to - from) as usize;
                out[(from - off) as usize..(to - off) as usize].copy_from_slice(&page.data[within]);
            }
            self.used(node, n);
        }
        out
    }

    /// Reads what is missing of these pages, in READs of `rsize` bytes side by side.
    async fn fetch(
        self: &Rc<Self>,
        cred: &Cred,
        node: &Rc<Node>,
        pages: std::ops::Range<u64>,
        size: u64,
    ) -> Result<()> {
        let each = (self.settings.rsize / PAGE).max(1);
        let missing = |n: u64| node.pages.borrow().all.get(&n).is_none_or(|page| !page.full);
        // Data may be out of date when it arrives: then it is read again.
        while pages.clone().any(missing) {
            if self.has_leases() && !self.holds(node, Kind::Read) {
                return Ok(());
            }
            let mut chunks = Vec::new();
            let mut n = pages.start;
            while n < pages.end {
                if missing(n) {
                    let chunk = n / each * each;
                    let end = (chunk + each).min(size.div_ceil(PAGE).max(n + 1));
                    chunks.push((chunk, (chunk..end).filter(|&n| missing(n)).collect()));
                    n = chunk + each;
                } else {
                    n += 1;
                }
            }
            let chunks = chunks.into_iter();
            let reads = chunks.map(|(chunk, wanted)| self.read_chunk(cred, node, chunk, wanted));
            join_all(reads).await.into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }

    /// Reads a chunk and keeps those of its pages that were missing.
    async fn read_chunk(
        self: &Rc<Self>,
        cred: &Cred,
        node: &Rc<Node>,
        chunk: u64,
        wanted: Vec<u64>,
    ) -> Result<()> {
        let _biod = self.biods.take(1).await;
        let (off, count) = (chunk * PAGE, self.settings.rsize.max(PAGE));
        let is_held = |n: u64| node.pages.borrow().all.contains_key(&n);
        let wanted: Vec<(u64, bool)> = wanted.into_iter().map(|n| (n, is_held(n))).collect();
        let number = Inner::number(node);
        let results = self.call_under(cred, number, proc::READ, |w| {
            w.opaque(&node.handle);
            w.u64(off);
            w.u32(count as u32);
        });
        let results = results.await?;
        let mut r = results.ok()?;
        let attr = r.optional(attrs::read_attributes).map_err(garbled)?;
        let (_count, _eof) = (r.u32().map_err(garbled)?, r.flag().map_err(garbled)?);
        let data = r.opaque(usize::MAX).map_err(garbled)?;
        if self.has_leases() && (Inner::number(node) != number || !self.holds(node, Kind::Read)) {
            // Others may have changed the file since.
            return Ok(());
        }
        attr.into_iter().for_each(|attr| self.learn(node, &attr));
        for (n, was_held) in wanted {
            // The page was written and dropped meanwhile, and the server may have read before that.
            if was_held && !is_held(n) {
                continue;
            }
            let mut page = vec![0; PAGE as usize];
            let from = ((n - chunk) * PAGE) as usize;
            if from < data.len() {
                let len = (data.len() - from).min(PAGE as usize);
                page[..len].copy_from_slice(&data[from..from + len]);
            }
            self.with_pages(node, |pages| pages.fill(n, page));
            self.used(node, n);
        }
        Ok(())
    }

    /// Lets biods read the chunks behind a page.
    fn read_ahead(self: &Rc<Self>, cred: &Cred, node: &Rc<Node>, from: u64, size: u64) {
        let each = (self.settings.rsize / PAGE).max(1);
        let end = (from + each * self.settings.read_ahead).min(size.div_ceil(PAGE));
        if (from..end).all(|n| node.pages.borrow().all.contains_key(&n)) {
            return;
        }
        let (this, node, cred) = (Rc::clone(self), Rc::clone(node), cred.clone());
        self.rt.spawn("biod", async move {
            let _shared = node.lock.read().await;
            // An error shows when the process reads it itself.
            let _ = this.fetch(&cred, &node, from..end, size).await;
        });
    }

    /// The file ends here now.
    pub(super) fn cut(&self, node: &Rc<Node>, size: u64) {
        self.with_pages(node, |pages| pages.cut(size));
        // A file that is shorter now may be older than what is known of it.
        node.forget_attr();
    }

    /// Writes, and commits, all that is dirty now.
    pub(super) async fn write_all(self: &Rc<Self>, node: &Rc<Node>) -> Result<()> {
        if self.has_leases() {
            self.write_under_lease(node).await;
            return Ok(());
        }
        let stable = self.settings.writes != Writes::Async;
        let version = node.pages.borrow().version();
        while node.pages.borrow().owes(version, stable) {
            let _one = node.flushing.write().await;
            self.flush(node).await;
            if stable {
                self.commit(node).await;
            }
        }
        if node.pages.borrow().oldest().is_none() && node.error.borrow().is_none() {
            self.unclean.borrow_mut().remove(&node.ino);
        }
        Ok(())
    }

    /// Writes and commits all that is dirty, under a lease. Errors are kept.
    async fn write_under_lease(self: &Rc<Self>, node: &Rc<Node>) {
        let version = node.pages.borrow().version();
        while node.pages.borrow().owes(version, true) {
            if !self.holds(node, Kind::Write) {
                let cred = node.writer.borrow().clone();
                if let Err(error) = self.acquire(&cred, node, Kind::Write).await {
                    self.with_pages(node, Pages::drop_all);
                    *node.error.borrow_mut() = Some(error);
                    return;
                }
            }
            self.write_held(node, Inner::number(node)).await;
        }
        if node.pages.borrow().oldest().is_none() && node.error.borrow().is_none() {
            self.unclean.borrow_mut().remove(&node.ino);
        }
    }

    /// Writes and commits what is unclean, under the lease that is held. Returns false if it is not held any
    /// more. The server judges that, so that what is on its way when the term ends still counts.
    pub(super) async fn write_held(self: &Rc<Self>, node: &Rc<Node>, number: u64) -> bool {
        let version = node.pages.borrow().version();
        while node.pages.borrow().owes(version, true) {
            let held = |lease: super::nodes::Lease| lease.number == number && !lease.suspect;
            if !node.lease.get().is_some_and(held) {
                return false;
            }
            let _one = node.flushing.write().await;
            self.flush(node).await;
            self.commit(node).await;
        }
        if node.pages.borrow().oldest().is_none() && node.error.borrow().is_none() {
            self.unclean.borrow_mut().remove(&node.ino);
        }
        true
    }

    /// Writes all dirty pages. Errors are kept.
    pub(super) async fn flush(self: &Rc<Self>, node: &Rc<Node>) {
        let runs = node.pages.borrow().runs(self.settings.wsize);
        // What waits here until a lease is lost must not be written under the next one.
        let number = Inner::number(node);
        let writes = runs.into_iter().map(|run| self.write_run(node, run, number));
        join_all(writes).await;
    }

    async fn write_run(self: &Rc<Self>, node: &Rc<Node>, run: Run, number: u64) {
        let _biod = self.biods.take(1).await;
        if let Err(error) = self.send_run(node, &run, number).await {
            *node.error.borrow_mut() = Some(error);
            self.with_pages(node, |pages| {
                run.pages.iter().for_each(|&(n, version)| pages.lose(n, version));
            });
        }
    }

    async fn send_run(&self, node: &Rc<Node>, run: &Run, number: u64) -> Result<()> {
        let how = if self.settings.writes == Writes::Sync { FILE_SYNC } else { UNSTABLE };
        let cred = node.writer.borrow().clone();
        let mut sent = 0;
        let mut verifiers = Vec::new();
        while sent < run.data.len() {
            let data = &run.data[sent..];
            let results = self.call_under(&cred, number, proc::WRITE, |w: &mut Writer| {
                w.opaque(&node.handle);
                w.u64(run.off + sent as u64);
                w.u32(data.len() as u32);
                w.u32(how);
                w.opaque(data);
            });
            let results = results.await?;
            if let Some(boot) = results.lost() {
                self.refused(node, number, boot);
                return Ok(());
            }
            let mut r = results.ok()?;
            let wcc = attrs::read_wcc(&mut r).map_err(garbled)?;
            let (count, committed) = (r.u32().map_err(garbled)?, r.u32().map_err(garbled)?);
            let verifier = r.u64().map_err(garbled)?;
            if count == 0 || count as usize > data.len() || committed < how {
                return Err(FsError::inconsistent("the server writes less than it says"));
            }
            self.learn_own(node, &wcc);
            verifiers.push((committed, verifier));
            sent += count as usize;
        }
        let stable = verifiers.iter().all(|&(committed, _)| committed == FILE_SYNC);
        // Pieces with different verifiers match none: they are written again.
        let one = verifiers.iter().all(|verifier| Some(verifier) == verifiers.first());
        let state = match (stable, verifiers.first()) {
            (true, _) => State::Clean,
            (false, Some(&(_, verifier))) if one => State::Unstable(verifier),
            _ => State::Dirty,
        };
        let mut pages = node.pages.borrow_mut();
        run.pages.iter().for_each(|&(n, version)| pages.set_state(n, version, state));
        if self.settings.writes == Writes::Async {
            // Nobody will commit this data, so it counts as clean.
            for (n, version, _) in pages.unstable() {
                pages.set_state(n, version, State::Clean);
            }
        }
        Ok(())
    }

    /// Commits all written and unstable data. Data that the server has lost is dirty afterwards.
    pub(super) async fn commit(self: &Rc<Self>, node: &Rc<Node>) {
        let unstable = node.pages.borrow().unstable();
        if unstable.is_empty() {
            return;
        }
        match self.send_commit(node).await {
            // The lease is lost.
            Ok(None) => {}
            Ok(Some(verifier)) => {
                let mut pages = node.pages.borrow_mut();
                for (n, version, of_write) in unstable {
                    let state = if of_write == verifier { State::Clean } else { State::Dirty };
                    pages.set_state(n, version, state);
                }
            }
            Err(error) => {
                *node.error.borrow_mut() = Some(error);
                self.with_pages(node, |pages| {
                    unstable.iter().for_each(|&(n, version, _)| pages.lose(n, version));
                });
            }
        }
    }

    async fn send_commit(&self, node: &Rc<Node>) -> Result<Option<u64>> {
        let (cred, number) = (node.writer.borrow().clone(), Inner::number(node));
        let results = self.call_under(&cred, number, proc::COMMIT, |w| {
            w.opaque(&node.handle);
            w.u64(0);
            w.u32(0);
        });
        let results = results.await?;
        if let Some(boot) = results.lost() {
            self.refused(node, number, boot);
            return Ok(None);
        }
        let mut r = results.ok()?;
        let wcc = attrs::read_wcc(&mut r).map_err(garbled)?;
        self.learn_own(node, &wcc);
        r.u64().map(Some).map_err(garbled)
    }

    /// Notes the use of a page.
    fn used(&self, node: &Node, n: u64) {
        let tick = self.clock.get() + 1;
        self.clock.set(tick);
        if let Some(page) = node.pages.borrow_mut().all.get_mut(&n) {
            page.used = tick;
            self.uses.borrow_mut().push_back((node.ino, n, tick));
        }
    }

    /// Makes room in the cache: writes if too much is unclean, then drops the pages that were used
    /// longest ago.
    async fn make_room(self: &Rc<Self>, node: &Rc<Node>) {
        let most = self.settings.cache_bytes / PAGE;
        let unclean = |node: &Node| {
            let pages = node.pages.borrow();
            pages.all.values().filter(|page| page.state != State::Clean).count() as u64
        };
        if self.pages.get() > most / UNCLEAN_SHARE && unclean(node) > most / UNCLEAN_SHARE / 2 {
            // Errors are kept for the next fsync.
            let _ = self.write_all(node).await;
        }
        let mut skipped = Vec::new();
        while self.pages.get() > most {
            let Some((ino, n, tick)) = self.uses.borrow_mut().pop_front() else { break };
            let Some(node) = self.nodes.borrow().get(&ino).cloned() else { continue };
            let mut pages = node.pages.borrow_mut();
            let last_use = |page: &Page| page.used == tick;
            match pages.all.get(&n) {
                Some(page) if last_use(page) && page.state == State::Clean => {
                    pages.all.remove(&n);
                    self.pages.set(self.pages.get() - 1);
                }
                Some(page) if last_use(page) => skipped.push((ino, n, tick)),
                _ => {}
            }
        }
        self.keep_skipped(skipped, most);
        if self.has_leases() && self.pages.get() > most {
            self.write_oldest(most / UNCLEAN_SHARE).await;
        }
    }

    /// Writes files, those first that have been dirty longest, until the wanted number of pages is clean.
    async fn write_oldest(self: &Rc<Self>, wanted: u64) {
        let since = |node: &Rc<Node>| node.pages.borrow().oldest().map(|at| (at, node.ino));
        let mut nodes: Vec<_> = self.unclean.borrow().values().cloned().collect();
        nodes.sort_by_cached_key(since);
        let mut cleaned = 0;
        for node in nodes {
            cleaned += node.pages.borrow().all.len() as u64;
            let _ = self.write_all(&node).await;
            if cleaned >= wanted {
                return;
            }
        }
    }

    /// Keeps the uses of pages that could not be dropped.
    fn keep_skipped(&self, skipped: Vec<(Ino, u64, u64)>, most: u64) {
        let mut uses = self.uses.borrow_mut();
        skipped.into_iter().rev().for_each(|use_| uses.push_front(use_));
        if uses.len() as u64 > 8 * most.max(1024) {
            let nodes = self.nodes.borrow();
            uses.retain(|(ino, n, tick)| {
                let node = nodes.get(ino);
                node.is_some_and(|node| {
                    node.pages.borrow().all.get(n).is_some_and(|page| page.used == *tick)
                })
            });
        }
    }

    /// Starts the task that writes what is old, unless it runs.
    fn start_daemon(self: &Rc<Self>) {
        if self.daemon_runs.replace(true) {
            return;
        }
        let (client, rt) = (Rc::downgrade(self), self.rt.clone());
        let delay_ns = self.settings.write_behind_ns;
        self.rt.spawn("write-behind", async move {
            loop {
                rt.sleep((delay_ns / 6).clamp(1, LOOK_NS)).await;
                let Some(client) = client.upgrade() else { return };
                let nodes: Vec<Rc<Node>> = client.unclean.borrow().values().cloned().collect();
                let mut left = false;
                for node in nodes {
                    let Some(since) = node.pages.borrow().oldest() else { continue };
                    left = true;
                    if since + delay_ns <= rt.now() {
                        let _ = client.write_all(&node).await;
                    }
                }
                if !left {
                    client.daemon_runs.set(false);
                    return;
                }
            }
        });
    }
}
