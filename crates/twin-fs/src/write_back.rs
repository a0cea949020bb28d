//! When dirty data is written back: as the flush policy says, and soon after a change where clients
//! count on it without asking.
//!
//! Contract: two tasks, which end when the volume is closed or stops taking changes. They wait without
//! end only while there is nothing for them, and [`WriteBack::wake`] is called after every operation.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_cache::{FlushAdvice, FlushPolicy};
use twin_rt::{Category, Event};

use crate::core::Core;
use crate::layout::Layout;
use crate::{FsError, Result};

/// The flusher and the committer of a volume. See the module.
pub(crate) struct WriteBack<L> {
    core: Rc<Core>,
    layout: Rc<L>,
    flush: RefCell<Box<dyn FlushPolicy>>,
    closing: Cell<bool>,
    flusher_waits: Cell<bool>,
    wake_flusher: Rc<Event>,
    /// The count of changes up to which all are durable.
    committed: Cell<u64>,
    committer_waits: Cell<bool>,
    wake_committer: Event,
}

impl<L: Layout> WriteBack<L> {
    /// With its tasks running, unless the volume is read-only.
    pub(crate) fn start(core: &Rc<Core>, layout: &Rc<L>) -> Result<Rc<WriteBack<L>>> {
        let settings = &core.settings;
        let flush = twin_cache::flush::by_name(&settings.flush, settings.flush_age_ns)
            .ok_or(FsError::Invalid("no such flush policy"))?;
        let this = Rc::new(WriteBack {
            core: Rc::clone(core),
            layout: Rc::clone(layout),
            flush: RefCell::new(flush),
            closing: Cell::new(false),
            flusher_waits: Cell::new(false),
            wake_flusher: Rc::default(),
            committed: Cell::new(0),
            committer_waits: Cell::new(false),
            wake_committer: Event::new(),
        });
        core.wake_on_stop(&this.wake_flusher);
        if !settings.read_only {
            let flusher = Rc::clone(&this);
            core.rt.spawn("flusher", async move { flusher.flush_loop().await });
            if let Some(within_ns) = settings.durable_within_ns {
                let committer = Rc::clone(&this);
                core.rt.spawn("committer", async move { committer.commit_loop(within_ns).await });
            }
        }
        Ok(this)
    }

    /// An operation was done: there may be work.
    pub(crate) fn wake(&self) {
        if self.flusher_waits.get() && self.layout.has_dirty(&self.core) {
            self.wake_flusher.notify();
        }
        if self.committer_waits.get() && self.core.changes() != self.committed.get() {
            self.wake_committer.notify();
        }
    }

    /// Ends the tasks.
    pub(crate) fn stop(&self) {
        self.closing.set(true);
        self.wake_flusher.notify();
        self.wake_committer.notify();
    }

    /// Writes back when the flush policy says so, until the volume is closed.
    async fn flush_loop(&self) {
        let core = &self.core;
        while !self.closing.get() && core.poisoned().is_none() {
            let now = core.rt.now();
            let state = self.layout.flush_state(core);
            let advice = self.flush.borrow_mut().advise(now, state);
            match advice {
                FlushAdvice::Flush(until) => {
                    core.rt.log(Category::Flush, "begins", || {
                        [("dirty_bytes", state.dirty_bytes), ("until_ns", until.0)]
                    });
                    if let Err(error) = self.layout.write_back(core, until).await {
                        core.poison(error);
                    }
                }
                FlushAdvice::WaitUntil(at) => {
                    // Two reasons to look again: the time, and enough dirty data.
                    let start = self.flush.borrow().start_bytes(state);
                    let missing = start.saturating_sub(state.dirty_bytes);
                    let full = core.cache.dirty_bytes() + missing;
                    let more = core.cache.wait_dirty_above(full);
                    wait_either(core.rt.sleep_until(at), more).await;
                }
                FlushAdvice::Wait => {
                    self.flusher_waits.set(true);
                    self.wake_flusher.wait().await;
                    self.flusher_waits.set(false);
                }
            }
        }
    }

    /// Makes durable what was changed, soon after, until the volume is closed: for clients whose
    /// wish for it never comes here.
    async fn commit_loop(&self, within_ns: u64) {
        let core = &self.core;
        while !self.closing.get() && core.poisoned().is_none() {
            if core.changes() == self.committed.get() {
                self.committer_waits.set(true);
                self.wake_committer.wait().await;
                self.committer_waits.set(false);
                continue;
            }
            // One half to collect what comes with it, the other to write.
            core.rt.sleep(within_ns / 2).await;
            if self.closing.get() {
                return;
            }
            let changes = core.changes();
            let written = match self.layout.write_back(core, core.rt.now()).await {
                Ok(()) => self.layout.sync(core).await,
                failed => failed,
            };
            if let Err(error) = written {
                core.poison(error);
            }
            self.committed.set(changes);
        }
    }
}

/// Waits for one of two futures.
async fn wait_either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let mut a = std::pin::pin!(a);
    let mut b = std::pin::pin!(b);
    std::future::poll_fn(|cx| match a.as_mut().poll(cx) {
        std::task::Poll::Ready(()) => std::task::Poll::Ready(()),
        std::task::Poll::Pending => b.as_mut().poll(cx),
    })
    .await;
}
