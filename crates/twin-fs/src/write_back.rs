//! When dirty data is written back. The flusher follows the flush policy. The committer makes
//! changes durable soon after they were made, for clients that expect this without asking.
//!
//! Contract: the two tasks end when the volume is closed or stops taking changes. They wait without
//! a time limit only while there is nothing to write, and [`WriteBack::wake`] wakes them after
//! every operation.

use std::cell::Cell;
use std::rc::Rc;

use twin_cache::flush::Survives;
use twin_cache::{FlushAdvice, FlushState, Which};
use twin_rt::{Category, Event};

use crate::Result;
use crate::core::Core;
use crate::dirty_limit;
use crate::layout::{Layout, SyncScope};

/// How long the flusher waits after a write-back that could write nothing, in nanoseconds.
const NOTHING_DONE_NS: u64 = 1_000_000;

/// The same after one that could write nothing of some files.
const NOTHING_OF_SOME_DONE_NS: u64 = 100_000_000;

/// The flusher and the committer of a volume. See the module.
pub(crate) struct WriteBack {
    core: Rc<Core>,
    layout: Rc<dyn Layout>,
    closing: Cell<bool>,
    flusher_waits: Cell<bool>,
    /// The value of [`Core::changes`] up to which all changes are durable.
    committed: Cell<u64>,
    committer_waits: Cell<bool>,
    wake_committer: Event,
}

impl WriteBack {
    /// Starts the tasks, unless the volume is read-only.
    pub(crate) fn start(core: &Rc<Core>, layout: &Rc<dyn Layout>) -> Result<Rc<WriteBack>> {
        let settings = &core.settings;
        let this = Rc::new(WriteBack {
            core: Rc::clone(core),
            layout: Rc::clone(layout),
            closing: Cell::new(false),
            flusher_waits: Cell::new(false),
            committed: Cell::new(0),
            committer_waits: Cell::new(false),
            wake_committer: Event::new(),
        });
        core.flushing().events().into_iter().for_each(|event| core.wake_on_stop(event));
        if core.flushing().learns() {
            core.cache.watch_deaths();
        }
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
        if self.flusher_waits.get() && self.layout.dirty(&self.core).wakes_flusher {
            self.core.flushing().wake_flusher().notify();
        }
        if self.committer_waits.get() && self.core.changes() != self.committed.get() {
            self.wake_committer.notify();
        }
    }

    /// Makes the tasks end, as soon as they have finished what they are writing.
    pub(crate) fn stop(&self) {
        self.closing.set(true);
        self.core.flushing().wake_flusher().notify();
        self.wake_committer.notify();
    }

    /// The input of the flush policy. As a side effect it notes since when there has been something
    /// to write, so only the flusher may call it.
    fn flush_state(&self) -> FlushState {
        let dirty = self.layout.dirty(&self.core);
        let noted = self.core.note_dirty(dirty.any);
        let oldest = match self.core.settings.durable_flush {
            true => noted.map(|noted| self.core.dirty_since().unwrap_or(noted)),
            false => noted,
        };
        self.core.flush_state(&dirty, oldest)
    }

    /// Writes back what the flush policy says when it says so, until the volume is closed.
    async fn flush_loop(self: &Rc<Self>) {
        let core = &self.core;
        while !self.closing.get() && core.poisoned().is_none() {
            let state = self.flush_state();
            match core.flush_advice(&state) {
                FlushAdvice::Write(which) => match core.flushing().survives {
                    Survives::Nvram => self.make_room(&state, &which).await,
                    Survives::Nothing | Survives::Memory => self.flush(&state, &which).await,
                },
                FlushAdvice::WaitUntil(at) => {
                    // The flusher looks again at the time that the policy named, as soon as there
                    // is enough dirty data, or when an operation needs room.
                    let start = core.flushing().start_bytes(&state);
                    let missing = start.saturating_sub(state.dirty_bytes);
                    let full = core.cache.dirty_bytes().saturating_add(missing);
                    let more = core.cache.wait_dirty_above(full);
                    let asked = core.flushing().wake_flusher().wait();
                    wait_either(core.rt.sleep_until(at), wait_either(more, asked)).await;
                }
                FlushAdvice::Wait => {
                    // No await lies between the policy's answer and this wait, so no wake is
                    // missed.
                    self.flusher_waits.set(true);
                    core.flushing().wake_flusher().wait().await;
                    self.flusher_waits.set(false);
                }
            }
        }
    }

    /// Writes what a policy named.
    async fn flush(&self, state: &FlushState, which: &Which) {
        let core = &self.core;
        let began = core.rt.now();
        core.rt.log(Category::Flush, "begins", || [("dirty_bytes", state.dirty_bytes)]);
        let written = match dirty_limit::write(core, &*self.layout, which).await {
            Ok(()) if core.settings.durable_flush => self.layout.drain(core, true).await,
            written => written,
        };
        if let Err(error) = written {
            core.poison(error);
        }
        // What is left belongs to operations that write it themselves, in their order. They need
        // the time that this task would take by trying again at once.
        let left = self.layout.dirty(core).bytes;
        let done = core.rt.now() != began || left < state.dirty_bytes;
        core.flushing().end_round(left < state.dirty_bytes);
        if !done {
            self.wait_for_others(which).await;
        }
    }

    /// Waits after a write-back that could write nothing of this.
    async fn wait_for_others(&self, which: &Which) {
        let wait_ns = match which {
            Which::All => NOTHING_DONE_NS,
            _ => NOTHING_OF_SOME_DONE_NS,
        };
        let asked = self.core.flushing().wake_flusher().wait();
        wait_either(self.core.rt.sleep(wait_ns), asked).await;
    }

    /// Makes room in memory that survives a power failure, by sending what the policy named. The next
    /// round begins while this one is on its way to the device, as long as there is not enough on its
    /// way for all that operations wait for. Flushing is asynchronous for that reason
    /// ("Cut-and-paste file systems", section 5.2).
    async fn make_room(self: &Rc<Self>, state: &FlushState, which: &Which) {
        let (core, flushing) = (&self.core, self.core.flushing());
        core.rt.log(Category::Flush, "begins", || [("dirty_bytes", state.dirty_bytes)]);
        let sent = match dirty_limit::send(core, &*self.layout, which).await {
            Ok(sent) => sent,
            Err(error) => return core.poison(error),
        };
        if sent == 0 {
            // What is on its way may be enough. Otherwise what is dirty belongs to others.
            if flushing.held_bytes() == 0 {
                flushing.end_round(false);
            }
            return self.wait_for_others(which).await;
        }
        let this = Rc::clone(self);
        core.rt.spawn("room", async move {
            let drained = dirty_limit::let_go(&this.core, &*this.layout, sent).await;
            if let Err(error) = drained {
                this.core.poison(error);
            }
            this.core.flushing().end_round(true);
        });
        let state = self.flush_state();
        if core.shortage_bytes(&state) > 0 {
            flushing.ask();
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
            let written = match self.layout.write_back(core, None).await {
                Ok(()) => self.layout.sync(core, SyncScope::Volume).await,
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
