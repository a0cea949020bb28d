//! When dirty data is written back. The flusher follows the flush policy. The committer makes
//! changes durable soon after they were made, for clients that expect this without asking.
//!
//! Contract: the two tasks end when the volume is closed or stops taking changes. They wait without
//! a time limit only while there is nothing to write, and [`WriteBack::wake`] wakes them after
//! every operation.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_cache::{FlushAdvice, FlushPolicy, FlushState};
use twin_rt::{Category, Event};

use crate::core::Core;
use crate::layout::{Dirty, Layout};
use crate::{FsError, Result};

/// How long the flusher waits after a write-back that could write nothing, in nanoseconds.
const NOTHING_DONE_NS: u64 = 1_000_000;

/// The flusher and the committer of a volume. See the module.
pub(crate) struct WriteBack<L> {
    core: Rc<Core>,
    layout: Rc<L>,
    flush: RefCell<Box<dyn FlushPolicy>>,
    closing: Cell<bool>,
    flusher_waits: Cell<bool>,
    wake_flusher: Rc<Event>,
    /// The value of [`Core::changes`] up to which all changes are durable.
    committed: Cell<u64>,
    committer_waits: Cell<bool>,
    wake_committer: Event,
}

impl<L: Layout> WriteBack<L> {
    /// Starts the tasks, unless the volume is read-only.
    pub(crate) fn start(core: &Rc<Core>, layout: &Rc<L>) -> Result<Rc<WriteBack<L>>> {
        let settings = &core.settings;
        let flush = twin_cache::flush::REGISTRY
            .get(&settings.flush)
            .map_err(|_| FsError::Invalid("no such flush policy"))?
            .make(settings.flush_age_ns);
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

    /// Called after every operation: wakes the tasks that wait if the operation left work for them.
    pub(crate) fn wake(&self) {
        if self.flusher_waits.get() && self.layout.has_dirty(&self.core) {
            self.wake_flusher.notify();
        }
        if self.committer_waits.get() && self.core.changes() != self.committed.get() {
            self.wake_committer.notify();
        }
    }

    /// Makes the tasks end, as soon as they have finished what they are writing.
    pub(crate) fn stop(&self) {
        self.closing.set(true);
        self.wake_flusher.notify();
        self.wake_committer.notify();
    }

    /// The input of the flush policy. As a side effect it notes since when there has been something
    /// to write, so only the flusher may call it.
    fn flush_state(&self) -> FlushState {
        let Dirty { bytes, any, unit_bytes } = self.layout.dirty(&self.core);
        FlushState {
            dirty_bytes: bytes,
            data_bytes: self.core.cache.dirty_data_bytes(),
            frame_bytes: self.core.cache.frame_bytes(),
            oldest: self.core.note_dirty(any),
            capacity_bytes: self.core.cache.capacity_bytes(),
            unit_bytes,
        }
    }

    /// Writes back when the flush policy says so, until the volume is closed.
    async fn flush_loop(&self) {
        let core = &self.core;
        while !self.closing.get() && core.poisoned().is_none() {
            let now = core.rt.now();
            let state = self.flush_state();
            let advice = self.flush.borrow_mut().advise(now, state);
            match advice {
                FlushAdvice::Flush => {
                    core.rt.log(Category::Flush, "begins", || [("dirty_bytes", state.dirty_bytes)]);
                    if let Err(error) = self.layout.write_back(core).await {
                        core.poison(error);
                    }
                    // What is left belongs to operations that write it themselves, in their order.
                    // They need the time that this task would take by trying again at once.
                    let left = self.layout.dirty(core).bytes;
                    if core.rt.now() == now && left >= state.dirty_bytes {
                        core.rt.sleep(NOTHING_DONE_NS).await;
                    }
                }
                FlushAdvice::WaitUntil(at) => {
                    // The flusher looks again at the time that the policy named, or as soon as
                    // there is enough dirty data.
                    let start = self.flush.borrow().start_bytes(state);
                    let missing = start.saturating_sub(state.dirty_bytes);
                    let full = core.cache.dirty_bytes() + missing;
                    let more = core.cache.wait_dirty_above(full);
                    wait_either(core.rt.sleep_until(at), more).await;
                }
                FlushAdvice::Wait => {
                    // No await lies between the policy's answer and this wait, so no wake is
                    // missed.
                    self.flusher_waits.set(true);
                    self.wake_flusher.wait().await;
                    self.flusher_waits.set(false);
                }
            }
        }
    }

    /// Makes changes durable within `within_ns`, until the volume is closed. Clients need it whose
    /// requests for durability never reach the volume.
    async fn commit_loop(&self, within_ns: u64) {
        let core = &self.core;
        while !self.closing.get() && core.poisoned().is_none() {
            if core.changes() == self.committed.get() {
                self.committer_waits.set(true);
                self.wake_committer.wait().await;
                self.committer_waits.set(false);
                continue;
            }
            // Half of the time is for collecting further changes, the other half for writing.
            core.rt.sleep(within_ns / 2).await;
            if self.closing.get() {
                return;
            }
            // Changes made during the write may miss it, so only those counted before it are
            // durable afterwards.
            let changes = core.changes();
            let written = match self.layout.write_back(core).await {
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

/// Waits until one of two futures is ready and drops the other.
async fn wait_either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let mut a = std::pin::pin!(a);
    let mut b = std::pin::pin!(b);
    std::future::poll_fn(|cx| match a.as_mut().poll(cx) {
        std::task::Poll::Ready(()) => std::task::Poll::Ready(()),
        std::task::Poll::Pending => b.as_mut().poll(cx),
    })
    .await;
}
