//! Gets what the kernel holds of files before an answer depends on it.
//!
//! A kernel that collects writes, or that has a file mapped, holds pages that are newer than what is
//! here. Where it takes an answer about the content of a file from here nevertheless (where its data
//! lies, what it takes, a copy of the volume), the pages must come first. The one who asks may hold the
//! file's lock in the kernel, so nothing that takes that lock can be used.
//!
//! Contract: [`Fetcher::file`] and [`Fetcher::all`] end with true when everything that the kernel held
//! when they began has been executed, and with false if that cannot be had (no deputy, a mount that it
//! cannot see, a root that it may not enter). Writes must be answered meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use rustix::io::Errno;
use twin_fs::{Attr, Cred, Op};
use twin_rt::{Sender, oneshot};

use super::abi::InHeader;
use super::deputy::Deputy;
use super::errand::Errand;
use super::translate::Expect;

/// An operation that waits for pages of the kernel.
pub(super) enum Waiter {
    /// An operation that is to be executed then.
    Enter { header: InHeader, cred: Cred, op: Op, expect: Expect },
    /// Somebody who asks for nothing else.
    Pages { unique: u64 },
    /// An answer with these attributes of a file, or those that it has then.
    Attr { unique: u64, expect: Expect, attr: Attr },
}

#[derive(Default)]
pub(super) struct Fetcher {
    deputy: RefCell<Option<Deputy>>,
    /// The kernel can hold nothing.
    read_only: Cell<bool>,
    /// Files can be fetched by their numbers.
    by_number: Cell<bool>,
    next_number: Cell<u64>,
    /// Operations whose pages have come (true), or cannot come.
    ready: RefCell<VecDeque<(Waiter, bool)>>,
    /// Writes under way, by their numbers, and who waits for their ends.
    writes: RefCell<BTreeSet<u64>>,
    ends: RefCell<Vec<(BTreeSet<u64>, Sender<()>)>>,
}

impl Fetcher {
    pub(super) fn employ(&self, deputy: &Deputy, read_only: bool) {
        *self.deputy.borrow_mut() = Some(deputy.clone());
        self.read_only.set(read_only);
    }

    pub(super) fn deputy(&self) -> Option<Deputy> {
        self.deputy.borrow().clone()
    }

    /// Takes over the agreement with the kernel: whether it reports when a file's pages have been
    /// written.
    pub(super) fn begin(&self, tells: bool) {
        self.by_number.set(tells && rustix::process::geteuid().is_root());
    }

    /// True if a request of the kernel is the deputy's.
    pub(super) fn is_own(&self, pid: u32) -> bool {
        self.deputy.borrow().as_ref().is_some_and(|deputy| deputy.is_thread(pid))
    }

    /// True if the kernel holds nothing that is not here: nothing can be written, or the session has no
    /// mount (and no deputy), so that there is no kernel.
    pub(super) fn holds_nothing(&self) -> bool {
        self.read_only.get() || self.deputy.borrow().is_none()
    }

    /// Fetches a file, by its node and, if that is known, its generation.
    pub(super) async fn file(&self, node: u64, generation: Option<u32>) -> bool {
        if let (Some(generation), true, Some(deputy)) =
            (generation, self.by_number.get(), self.deputy())
        {
            match deputy.ask(&Errand::WriteOut { node, generation }).await {
                Ok(()) => return true,
                Err(Errno::PIPE) => return false,
                Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    self.by_number.set(false);
                }
                Err(_) => {}
            }
        }
        self.all().await
    }

    /// Fetches a file that is about to get the name of another one, or has the kernel begin with all
    /// files where it cannot be had alone. The client holds its directories until it is answered, so no
    /// name may be looked up for it.
    pub(super) async fn replacement(&self, file: Option<(u64, u32)>) {
        let Some(deputy) = self.deputy() else { return };
        if let (Some((node, generation)), true) = (file, self.by_number.get())
            && deputy.ask(&Errand::WriteOut { node, generation }).await.is_ok()
        {
            return;
        }
        let _ = deputy.ask(&Errand::StartWriting).await;
    }

    /// Has the kernel write out the pages of all files; false if that cannot be done.
    pub(super) async fn all(&self) -> bool {
        let Some(deputy) = self.deputy() else { return false };
        let number = self.next_number.get() + 1;
        self.next_number.set(number);
        if deputy.ask(&Errand::WriteOutAll { number }).await.is_err() {
            return false;
        }
        // All have been read; some may still wait for something.
        let under_way = self.writes.borrow().clone();
        if !under_way.is_empty() {
            let (sender, ended) = oneshot();
            self.ends.borrow_mut().push((under_way, sender));
            ended.await;
        }
        true
    }

    /// A write of the kernel has to wait.
    pub(super) fn write_waits(&self, id: u64) {
        self.writes.borrow_mut().insert(id);
    }

    /// An operation that had to wait has ended.
    pub(super) fn ended(&self, id: u64) {
        if !self.writes.borrow_mut().remove(&id) {
            return;
        }
        let mut ends = self.ends.borrow_mut();
        ends.iter_mut().for_each(|(writes, _)| _ = writes.remove(&id));
        for at in (0..ends.len()).rev() {
            if ends[at].0.is_empty() {
                ends.swap_remove(at).1.send(());
            }
        }
    }

    pub(super) fn is_ready(&self, waiter: Waiter, fetched: bool) {
        self.ready.borrow_mut().push_back((waiter, fetched));
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    pub(super) fn next_ready(&self) -> Option<(Waiter, bool)> {
        self.ready.borrow_mut().pop_front()
    }
}
