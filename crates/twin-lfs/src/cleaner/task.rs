//! When the cleaner works: its task.
//!
//! Contract: if an operation waits for clean segments, or few are left, the task cleans as fast as
//! the device allows until enough are clean. Otherwise a policy of [`twin_clean::trigger`] decides
//! when to clean, and the task works in small steps with one request at a time, so that a client's
//! request waits for one of its requests at most; it stops between two steps when an operation asks
//! for room. It cleans only segments that are worth it ([`WORTH`]). Once there are none it does
//! nothing until something changes, so that an idle volume is not written to.

use std::collections::BTreeSet;
use std::rc::Rc;

use twin_clean::trigger::{TriggerDecision, TriggerInput};
use twin_fs::{Cleaned, Core, Result, VolumeOf};
use twin_rt::{Event, Rt, Time};

use super::{Choice, Pace, Reason};
use crate::lfs::Lfs;
use crate::sizing;

/// The least share of garbage of a victim while no operation waits for room.
const WORTH: f64 = 0.125;
/// Number of victims between checkpoints while no operation waits for room.
const VICTIMS_A_CHECKPOINT: usize = 8;

/// The cleaner's task: runs until the volume is closed.
pub(crate) async fn run(volume: VolumeOf<Lfs>) {
    volume.layout.cleaner.as_cleaner(work(&volume)).await;
}

async fn work(volume: &VolumeOf<Lfs>) {
    let (core, lfs) = (Rc::clone(volume.core()), &volume.layout);
    let state = &lfs.cleaner;
    loop {
        if state.is_stopped() || core.poisoned().is_some() {
            lfs.space.notify();
            state.end();
            return;
        }
        let worked = if state.take_request() {
            let clean = || lfs.usage.clean_count();
            let before = clean();
            state.begin_round();
            let worked = lfs.clean_round(&core).await;
            state.end_round(clean() <= before);
            lfs.space.notify();
            worked
        } else {
            match lfs.ask_trigger(&core) {
                TriggerDecision::Now => {
                    state.set_in_background(true);
                    let worked = lfs.background_round(&core).await;
                    state.set_in_background(false);
                    worked
                }
                TriggerDecision::At(at_ns) => {
                    wait_until(&core.rt, Time(at_ns), state.wakes()).await;
                    Ok(())
                }
                TriggerDecision::Wait => {
                    state.wakes().wait().await;
                    Ok(())
                }
            }
        };
        if let Err(error) = worked {
            core.poison(error);
        }
    }
}

/// Waits for a time or an event.
async fn wait_until(rt: &Rt, time: Time, event: &Event) {
    let mut time = std::pin::pin!(rt.sleep_until(time));
    let mut event = std::pin::pin!(event.wait());
    std::future::poll_fn(|cx| match time.as_mut().poll(cx) {
        std::task::Poll::Ready(()) => std::task::Poll::Ready(()),
        std::task::Poll::Pending => event.as_mut().poll(cx),
    })
    .await;
}

impl Lfs {
    /// Asks the policy whether to clean now.
    fn ask_trigger(&self, core: &Core) -> TriggerDecision {
        let state = &self.cleaner;
        if !self.settings.background_cleaning || self.is_done() {
            return TriggerDecision::Wait;
        }
        let now_ns = core.rt.now().0;
        let input = TriggerInput {
            now_ns,
            // While the device works it is not known when it will be idle, so the time since the
            // last request counts as 0.
            idle_since_ns: Some(state.idle_since().map_or(now_ns, |since| since.0)),
            clean_segments: self.usage.clean_count(),
            segments: self.sb.segments(),
            reserve_segments: sizing::reserve_segments(&self.sb),
            step_ns: state.step_ns(),
        };
        state.decide(&input)
    }

    /// Cleans worthwhile segments in small steps, as long as the policy says so and no operation
    /// asks for room.
    async fn background_round(&self, core: &Rc<Core>) -> Result<()> {
        let clean = || self.usage.clean_count();
        let before = clean();
        let mut tried = BTreeSet::new();
        let mut since_checkpoint = 0;
        let pace = self.steps(true);
        let mut more = true;
        while more && !self.cleaner.is_wanted() {
            let victims = self.choose_victims(core, &tried, Choice::Worth(WORTH));
            more = !victims.is_empty();
            if more {
                let began = core.rt.now();
                let done =
                    self.clean_segments(core, &victims, None, pace, Reason::Background).await?;
                tried.extend(victims.iter().copied());
                since_checkpoint += victims.len();
                if done {
                    let took = (core.rt.now() - began) / victims.len() as u64;
                    self.cleaner.note_step(took);
                }
            }
            if since_checkpoint >= VICTIMS_A_CHECKPOINT {
                self.checkpoint(core, false).await?;
                since_checkpoint = 0;
            }
            if self.ask_trigger(core) != TriggerDecision::Now {
                break;
            }
        }
        if since_checkpoint > 0 || (!more && self.empty_count() > 0) {
            self.checkpoint(core, false).await?;
        }
        self.release_victims(tried);
        if !more || clean() <= before {
            self.cleaner.set_done(self.usage.now(), self.usage.live_bytes());
        }
        Ok(())
    }

    /// Lets victims that could not be emptied be chosen again.
    pub(super) fn release_victims(&self, tried: impl IntoIterator<Item = u32>) {
        self.usage.release_victims(tried);
    }
}

impl Lfs {
    /// Cleans up to `budget` segments with at least this share of garbage. Another call continues.
    ///
    /// # Errors
    /// If the device fails, or what it holds is damaged.
    pub async fn clean(&self, core: &Rc<Core>, budget: u64, share: f64) -> Result<Cleaned> {
        let clean = || self.usage.clean_count();
        let (before, clean_before) = (self.stats().cleaner.by_hand, clean());
        let mut tried = BTreeSet::new();
        let mut gained = clean_before;
        let done = || self.stats().cleaner.by_hand.since(&before);
        while done().segments < budget {
            let victims = self.choose_victims(core, &tried, Choice::Worth(share));
            if victims.is_empty() {
                // A checkpoint makes room, and writes the dirty blocks that could not be moved.
                self.checkpoint(core, false).await?;
                self.release_victims(std::mem::take(&mut tried));
                if clean() <= gained {
                    break;
                }
                gained = clean();
                continue;
            }
            self.clean_segments(core, &victims, None, Pace::Whole, Reason::ByHand).await?;
            tried.extend(victims);
        }
        self.checkpoint(core, false).await?;
        self.release_victims(tried);
        let did = done();
        Ok(Cleaned {
            segments: did.segments,
            moved_bytes: did.moved_bytes,
            clean_before,
            clean_after: clean(),
        })
    }
}
