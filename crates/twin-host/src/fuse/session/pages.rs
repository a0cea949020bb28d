//! The steps of a session for files of which the kernel may hold pages that are newer than the
//! core's.

use std::rc::Rc;

use rustix::io::Errno;
use twin_fs::{Attr, FileSystem, Op, Reply};

use super::super::abi;
use super::super::fetch::Waiter;
use super::super::porter::tell_stale;
use super::super::translate::{Expect, ino as core_ino};
use super::Inner;

impl<F: FileSystem> Inner<F> {
    /// True if an operation must wait until pages of the kernel have come.
    pub(super) fn must_fetch(&self, op: &Op, expect: Expect) -> bool {
        match op {
            Op::Seek { .. } => !self.fetcher.holds_nothing(),
            // Our own request for a sync; the kernel's comes after it has written out.
            Op::Sync => expect == Expect::Ioctl && !self.fetcher.holds_nothing(),
            _ => false,
        }
    }

    /// True if the kernel collects writes that may not have come yet.
    pub(super) fn collects(&self) -> bool {
        self.agreed.get().writeback && !self.fetcher.holds_nothing()
    }

    /// Gets what the kernel holds of a file, or of all. Then the waiter goes on, in an event of its own.
    pub(super) fn fetch(self: &Rc<Self>, node: Option<u64>, waiter: Waiter) {
        let inner = Rc::clone(self);
        self.host.rt().spawn("fetch", async move {
            let fetched = match node {
                Some(node) => {
                    let known = core_ino(node).ok().and_then(|ino| inner.fs.known(ino));
                    inner.fetcher.file(node, known.map(|entry| entry.generation)).await
                }
                None => inner.fetcher.all().await,
            };
            inner.fetcher.is_ready(waiter, fetched);
            inner.nudge();
        });
    }

    /// Gets what the kernel has collected of a file that is about to get the name of another one; of all
    /// files if it is not known which. Then the waiter goes on, in an event of its own.
    pub(super) fn fetch_replacement(self: &Rc<Self>, node: Option<u64>, waiter: Waiter) {
        let inner = Rc::clone(self);
        self.host.rt().spawn("fetch", async move {
            let known = node.and_then(|node| {
                let entry = inner.fs.known(core_ino(node).ok()?)?;
                Some((node, entry.generation))
            });
            inner.fetcher.replacement(known).await;
            inner.fetcher.is_ready(waiter, true);
            inner.nudge();
        });
    }

    /// Lets go on what waited for pages.
    pub(super) fn go_on(self: &Rc<Self>, waiter: Waiter, fetched: bool) {
        match waiter {
            // The kernel then takes every file for one without holes, which is right, if slower.
            Waiter::Enter { header, op: Op::Seek { .. }, .. } if !fetched => {
                self.refuse(header.unique, Errno::NOSYS);
            }
            Waiter::Pages { unique } => {
                self.reply(unique, Expect::Ioctl, Reply::Done, fetched);
            }
            Waiter::Enter { header, cred, op, expect } => self.enter(&header, cred, op, expect),
            Waiter::Attr { unique, expect, attr } => {
                let attr = self.fs.known(attr.ino).map_or(attr, |entry| entry.attr);
                self.reply(unique, expect, Reply::Attr(attr), fetched);
            }
        }
    }

    /// Notes what an operation did to the count of a file's blocks that the kernel keeps.
    pub(super) fn note_count(&self, opcode: u32, node: u64, wrote_late: bool) {
        if !self.agreed.get().writeback {
            return;
        }
        let takes = || core_ino(node).ok().and_then(|ino| self.fs.room_of(ino)).unwrap_or(0);
        if wrote_late && self.counts.arrived(node, self.host.rt().now(), takes) {
            self.keeper.tell_soon(node, &self.fd);
        }
        if opcode == abi::opcode::FSYNC && self.counts.synced(node, takes) {
            // This is done on this thread, because the next call of the client must find it done.
            // It cannot wait for us: the client holds the file open until it is answered.
            let _ = tell_stale(&self.fd, node, -1);
        }
    }

    /// True if the kernel's pages have to come before a client may get these attributes.
    pub(super) fn must_look(&self, expect: Expect, attr: &Attr) -> bool {
        matches!(expect, Expect::Attr | Expect::Statx)
            && !self.fetcher.holds_nothing()
            && self.blanks.needs_pages(attr, self.host.rt().now())
    }
}
