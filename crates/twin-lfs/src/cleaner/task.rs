//! When the cleaner works: its task.
//!
//! Contract: if somebody waits for clean segments, or few are left, the task cleans as fast as the
//! device lets it, until enough are clean. Otherwise a policy of [`twin_clean::when`] says when,
//! and the task works in small steps, with one request under way, so that a client's request waits
//! for that one at the most; it stops between two steps when somebody asks. It takes only what is
//! worth it ([`WORTH`]), and once there is nothing more to gain it does nothing at all until
//! something has changed: an idle volume stays unwritten.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use twin_clean::when::{Answer, Moment, WhenPolicy};
use twin_disk::{BlockDevice, DeviceInfo, Io, Origin, Pending};
use twin_fs::{Cleaned, Core, Result, Volume};
use twin_rt::{Event, MILLIS, Nanos, Rt, Time};

use super::quick::Quickness;
use super::{Choice, Pace};
use crate::lfs::Lfs;
use crate::sizing;

/// The share of garbage that a victim has at least while nobody waits for room.
const WORTH: f64 = 0.125;
/// Victims between checkpoints while nobody waits for room.
const VICTIMS_A_CHECKPOINT: usize = 8;
/// The first guess of how long it takes to clean a segment.
const FIRST_STEP_NS: Nanos = 100 * MILLIS;
/// Gaps between requests shorter than this are no idle times.
const LEAST_IDLE_NS: Nanos = MILLIS;

/// What the cleaner's task and those who wait for it share.
pub(crate) struct CleanerState {
    requested: Cell<bool>,
    stopped: Cell<bool>,
    /// Its task is there.
    runs: Cell<bool>,
    /// It works for those who wait, or will soon.
    at_work: Cell<bool>,
    /// It cleans while nobody waits.
    in_background: Cell<bool>,
    rounds: Cell<u64>,
    /// The last round gained nothing.
    barren: Cell<bool>,
    wake: Rc<Event>,
    ended: Event,
    when: RefCell<Box<dyn WhenPolicy>>,
    /// User writes and live bytes when it was found that nothing is worth cleaning.
    done_at: Cell<Option<(u64, u64)>>,
    /// How long it takes to clean a segment.
    step_ns: Cell<Nanos>,
    /// Whether segments may be read whole though nobody waits.
    pub(super) quick: Quickness,
    watch: RefCell<Option<Rc<Watch>>>,
}

impl CleanerState {
    pub(crate) fn new(when: Box<dyn WhenPolicy>) -> CleanerState {
        CleanerState {
            requested: Cell::new(false),
            stopped: Cell::new(false),
            runs: Cell::new(false),
            at_work: Cell::new(false),
            in_background: Cell::new(false),
            rounds: Cell::new(0),
            barren: Cell::new(false),
            wake: Rc::default(),
            ended: Event::new(),
            when: RefCell::new(when),
            done_at: Cell::new(None),
            step_ns: Cell::new(FIRST_STEP_NS),
            quick: Quickness::default(),
            watch: RefCell::default(),
        }
    }

    /// Somebody waits for clean segments.
    pub(crate) fn request(&self) {
        self.requested.set(true);
        self.wake.notify();
    }

    /// What wakes its task.
    pub(crate) fn wakes(&self) -> &Rc<Event> {
        &self.wake
    }

    /// Rounds for those who waited that ended.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.get()
    }

    /// True while it works for those who wait for room, or will soon.
    pub(crate) fn is_at_work(&self) -> bool {
        self.at_work.get()
    }

    /// True while it cleans, for whatever reason.
    pub(crate) fn is_busy(&self) -> bool {
        self.at_work.get() || self.in_background.get()
    }

    /// The cleaner's task is about to begin.
    pub(crate) fn begin(&self) {
        self.runs.set(true);
    }

    /// True if the cleaner is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// True if the last round for those who waited gained nothing.
    pub(super) fn was_barren(&self) -> bool {
        self.barren.get()
    }

    /// True if somebody waits for it to do something else.
    pub(super) fn is_wanted(&self) -> bool {
        self.stopped.get() || self.requested.get()
    }

    /// Where it learns what users ask of the device.
    pub(crate) fn watch(&self, watch: Rc<Watch>) {
        *self.watch.borrow_mut() = Some(watch);
    }

    /// Ends the cleaner's task, and waits until it writes nothing more.
    pub(crate) async fn stop(&self) {
        self.stopped.set(true);
        self.wake.notify();
        self.ended.wait_until(|| !self.runs.get()).await;
    }

    fn end(&self) {
        self.runs.set(false);
        self.ended.notify();
    }
}

/// A device that remembers when users last asked something of it.
pub(crate) struct Watch {
    device: Rc<dyn BlockDevice>,
    rt: Rt,
    last: Cell<Time>,
    /// Idle times that ended and that no policy has been told of.
    ended: RefCell<Vec<Nanos>>,
}

impl Watch {
    pub(crate) fn new(rt: Rt, device: Rc<dyn BlockDevice>) -> Watch {
        let last = Cell::new(rt.now());
        Watch { device, rt, last, ended: RefCell::default() }
    }

    /// Since when users have left the device alone; `None` while it works.
    fn idle_since(&self) -> Option<Time> {
        (self.device.in_flight() == 0).then(|| self.last.get())
    }
}

impl BlockDevice for Watch {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn submit(&self, io: Io) -> Pending {
        if !matches!(io.origin, Origin::Cleaner | Origin::Checkpoint) {
            let now = self.rt.now();
            let idle = now - self.last.replace(now);
            if idle >= LEAST_IDLE_NS && self.device.in_flight() == 0 {
                let mut ended = self.ended.borrow_mut();
                // Nobody asks while nothing is to be cleaned: the latest will do.
                if ended.len() >= 64 {
                    ended.remove(0);
                }
                ended.push(idle);
            }
        }
        self.device.submit(io)
    }

    fn in_flight(&self) -> usize {
        self.device.in_flight()
    }
}

/// The cleaner's task: runs until the volume is closed.
pub(crate) async fn run(volume: Rc<Volume<Lfs>>) {
    let (core, lfs) = (Rc::clone(&volume.core), &volume.layout);
    let state = &lfs.cleaner;
    loop {
        if state.stopped.get() || core.poisoned().is_some() {
            lfs.space.notify();
            state.end();
            return;
        }
        let worked = if state.requested.replace(false) {
            let clean = || lfs.usage.clean_count();
            let before = clean();
            state.at_work.set(true);
            let worked = lfs.clean_round(&core).await;
            state.at_work.set(false);
            state.barren.set(clean() <= before);
            state.rounds.set(state.rounds.get() + 1);
            // The round itself fills segments, and that asks for cleaning. Whoever still waits asks
            // again.
            state.requested.set(false);
            lfs.space.notify();
            worked
        } else {
            match lfs.ask_when(&core) {
                Answer::Now => {
                    state.in_background.set(true);
                    let worked = lfs.background_round(&core).await;
                    state.in_background.set(false);
                    worked
                }
                Answer::At(at_ns) => {
                    wait_until(&core.rt, Time(at_ns), &state.wake).await;
                    Ok(())
                }
                Answer::Wait => {
                    state.wake.wait().await;
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
    /// Clean segments below which the cleaner works on its own.
    pub fn low_water(&self) -> u32 {
        sizing::low_water(&self.sb, self.position.streams())
    }

    /// Asks the cleaner to work if clean segments are getting few, or to ask its policy if there
    /// may be something to clean.
    pub(crate) fn consider_cleaning(&self) {
        if !self.settings.background_cleaning {
            return;
        }
        if self.usage.clean_count() < self.low_water() {
            self.cleaner.request();
        } else if self.settings.when != twin_clean::when::OF_FILE_SYSTEMS && !self.is_done() {
            self.cleaner.wake.notify();
        }
    }

    /// Since users asked something of the device; none while it works.
    pub fn idle_ns(&self, core: &Core) -> Option<u64> {
        let watch = self.cleaner.watch.borrow();
        watch.as_ref()?.idle_since().map(|since| core.rt.now() - since)
    }

    /// True if nothing was worth cleaning when it was last looked at, and little has changed.
    fn is_done(&self) -> bool {
        let segment = u64::from(self.sb.segment_size);
        let writes = segment / u64::from(self.sb.shape.frag_size) / 4;
        self.cleaner.done_at.get().is_some_and(|(now, live)| {
            self.usage.now() - now < writes && self.usage.live_bytes().abs_diff(live) < segment / 2
        })
    }

    /// What the policy says.
    fn ask_when(&self, core: &Core) -> Answer {
        let state = &self.cleaner;
        if !self.settings.background_cleaning || self.is_done() {
            return Answer::Wait;
        }
        let mut when = state.when.borrow_mut();
        let watch = state.watch.borrow();
        let Some(watch) = watch.as_ref() else { return Answer::Wait };
        watch.ended.borrow_mut().drain(..).for_each(|idle| when.idle_ended(idle));
        let now_ns = core.rt.now().0;
        let moment = Moment {
            now_ns,
            // While the device works nobody tells when it stops: as if users had asked just now.
            idle_since_ns: Some(watch.idle_since().map_or(now_ns, |since| since.0)),
            clean_segments: self.usage.clean_count(),
            segments: self.sb.segments,
            reserve_segments: sizing::reserve_segments(&self.sb),
            step_ns: state.step_ns.get(),
        };
        when.ask(&moment)
    }

    /// Cleans what is worth it in small steps, for as long as the policy says so and nobody asks
    /// for more.
    async fn background_round(&self, core: &Rc<Core>) -> Result<()> {
        let clean = || self.usage.clean_count();
        let before = clean();
        let mut tried = BTreeSet::new();
        let mut since_checkpoint = 0;
        let pace = self.steps(true);
        let mut more = true;
        while more && !self.cleaner.stopped.get() && !self.cleaner.requested.get() {
            let victims = self.choose_victims(core, &tried, Choice::Worth(WORTH));
            more = !victims.is_empty();
            if more {
                let began = core.rt.now();
                let done = self.clean_segments(core, &victims, None, pace).await?;
                tried.extend(victims.iter().copied());
                since_checkpoint += victims.len();
                if done {
                    let took = (core.rt.now() - began) / victims.len() as u64;
                    let known = self.cleaner.step_ns.get();
                    self.cleaner.step_ns.set((3 * known + took) / 4);
                }
            }
            if since_checkpoint >= VICTIMS_A_CHECKPOINT {
                self.checkpoint(core, false).await?;
                since_checkpoint = 0;
            }
            if self.ask_when(core) != Answer::Now {
                break;
            }
        }
        if since_checkpoint > 0 || (!more && self.empty_count() > 0) {
            self.checkpoint(core, false).await?;
        }
        self.let_go(tried);
        if !more || clean() <= before {
            self.cleaner.done_at.set(Some((self.usage.now(), self.usage.live_bytes())));
        }
        Ok(())
    }

    /// Victims that could not be emptied may be chosen again.
    pub(super) fn let_go(&self, tried: impl IntoIterator<Item = u32>) {
        self.usage.release_victims(tried);
    }
}

impl Lfs {
    /// Cleans segments, at most so many, that have at least this share of garbage; can be called
    /// again to go on.
    ///
    /// # Errors
    /// If the device fails, or what it holds is damaged.
    pub async fn clean(&self, core: &Rc<Core>, budget: u64, share: f64) -> Result<Cleaned> {
        let clean = || self.usage.clean_count();
        let (before, clean_before) = (self.stats(), clean());
        let mut tried = BTreeSet::new();
        let mut gained = clean_before;
        let done = |lfs: &Lfs| lfs.stats().since(&before).cleaned_segments;
        while done(self) < budget {
            let victims = self.choose_victims(core, &tried, Choice::Worth(share));
            if victims.is_empty() {
                // A checkpoint makes room, and may make what could not be moved movable.
                self.checkpoint(core, false).await?;
                self.let_go(std::mem::take(&mut tried));
                if clean() <= gained {
                    break;
                }
                gained = clean();
                continue;
            }
            self.clean_segments(core, &victims, None, Pace::Whole).await?;
            tried.extend(victims);
        }
        self.checkpoint(core, false).await?;
        self.let_go(tried);
        let did = self.stats().since(&before);
        Ok(Cleaned {
            segments: did.cleaned_segments,
            moved_bytes: did.moved_bytes,
            clean_before,
            clean_after: clean(),
        })
    }
}
