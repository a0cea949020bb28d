//! The state that the cleaner's task shares with the rest of the layout: requests for its work, how
//! far it is, and when users last used the device.
//!
//! Contract: this file only keeps state. It neither cleans nor knows the layout.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use twin_clean::trigger::{TriggerDecision, TriggerInput, TriggerPolicy};
use twin_disk::{BlockDevice, DeviceInfo, Io, IoErrorKind, Origin, Pending, ServiceBounds};
use twin_fs::IdleCounts;
use twin_rt::{BoxFuture, Event, MILLIS, Nanos, Rt, Time};

use super::quick::DeviceSpeed;

/// The first guess of how long it takes to clean a segment.
const FIRST_STEP_NS: Nanos = 100 * MILLIS;
/// Shorter gaps between requests than this do not count as idle times.
const LEAST_IDLE_NS: Nanos = MILLIS;

/// The state of the cleaner. See the module.
pub(crate) struct CleanerState {
    requested: Cell<bool>,
    stopped: Cell<bool>,
    /// True while its task exists.
    runs: Cell<bool>,
    /// True while it works for operations that wait for room, or will soon.
    at_work: Cell<bool>,
    /// True while it cleans although no operation waits.
    in_background: Cell<bool>,
    rounds: Cell<u64>,
    /// True if the last round gained nothing.
    fruitless: Cell<bool>,
    wake: Rc<Event>,
    ended: Event,
    trigger: RefCell<Box<dyn TriggerPolicy>>,
    /// User writes and live bytes at the time when nothing was worth cleaning.
    done_at: Cell<Option<(u64, u64)>>,
    /// How long it takes to clean a segment.
    step_ns: Cell<Nanos>,
    /// Whether segments may be read whole although no operation waits.
    pub(super) quick: DeviceSpeed,
    watch: RefCell<Option<Rc<Watch>>>,
}

impl CleanerState {
    pub(crate) fn new(trigger: Box<dyn TriggerPolicy>) -> CleanerState {
        CleanerState {
            requested: Cell::new(false),
            stopped: Cell::new(false),
            runs: Cell::new(false),
            at_work: Cell::new(false),
            in_background: Cell::new(false),
            rounds: Cell::new(0),
            fruitless: Cell::new(false),
            wake: Rc::default(),
            ended: Event::new(),
            trigger: RefCell::new(trigger),
            done_at: Cell::new(None),
            step_ns: Cell::new(FIRST_STEP_NS),
            quick: DeviceSpeed::default(),
            watch: RefCell::default(),
        }
    }

    /// Asks for clean segments, for which an operation waits.
    pub(crate) fn request(&self) {
        self.requested.set(true);
        self.wake.notify();
    }

    /// The event that wakes its task.
    pub(crate) fn wakes(&self) -> &Rc<Event> {
        &self.wake
    }

    /// Number of ended rounds for waiting operations.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.get()
    }

    /// True while it works for operations that wait for room, or will soon.
    pub(crate) fn is_at_work(&self) -> bool {
        self.at_work.get()
    }

    /// True while it cleans, for whatever reason.
    pub(crate) fn is_busy(&self) -> bool {
        self.at_work.get() || self.in_background.get()
    }

    /// Notes that the cleaner's task is about to begin.
    pub(crate) fn begin(&self) {
        self.runs.set(true);
    }

    /// True if the cleaner must end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// True if the last round for waiting operations gained nothing.
    pub(super) fn was_fruitless(&self) -> bool {
        self.fruitless.get()
    }

    /// Takes the request for clean segments: true if there was one since the last call.
    pub(super) fn take_request(&self) -> bool {
        self.requested.replace(false)
    }

    /// Begins a round for waiting operations.
    pub(super) fn begin_round(&self) {
        self.at_work.set(true);
    }

    /// Ends a round for waiting operations. Requests that came during it are dropped, because the
    /// round itself fills segments and so asks for cleaning; operations that still wait ask again.
    pub(super) fn end_round(&self, fruitless: bool) {
        self.at_work.set(false);
        self.fruitless.set(fruitless);
        self.rounds.set(self.rounds.get() + 1);
        self.requested.set(false);
    }

    /// Notes that cleaning in the background begins or ends.
    pub(super) fn set_in_background(&self, cleans: bool) {
        self.in_background.set(cleans);
        if let Some(watch) = self.watch.borrow().as_ref() {
            watch.cleaner_works.set(cleans);
        }
    }

    /// Runs the cleaner's task. Requests that it makes are its own whatever they are for: what it reads of maps
    /// and inodes, by functions that operations use too, is no use of the device by users.
    pub(super) async fn as_cleaner(&self, task: impl Future<Output = ()>) {
        let watch = self.watch.borrow().clone();
        let mut task = std::pin::pin!(task);
        std::future::poll_fn(|cx| {
            let note = |runs| watch.iter().for_each(|watch| watch.cleaner_runs.set(runs));
            note(true);
            let polled = task.as_mut().poll(cx);
            note(false);
            polled
        })
        .await;
    }

    /// The idle times that have ended.
    pub(crate) fn idle_counts(&self) -> IdleCounts {
        self.watch.borrow().as_ref().map(|watch| watch.idle.get()).unwrap_or_default()
    }

    /// User writes and live bytes at the time when nothing more was worth cleaning.
    pub(super) fn done_at(&self) -> Option<(u64, u64)> {
        self.done_at.get()
    }

    /// Notes that nothing more is worth cleaning, with the user writes and the live bytes of this moment.
    pub(super) fn set_done(&self, writes: u64, live: u64) {
        self.done_at.set(Some((writes, live)));
    }

    /// How long it takes to clean a segment.
    pub(super) fn step_ns(&self) -> Nanos {
        self.step_ns.get()
    }

    /// Notes the time that a segment took to clean.
    pub(super) fn note_step(&self, took: Nanos) {
        self.step_ns.set((3 * self.step_ns.get() + took) / 4);
    }

    /// The time since which users have not used the device; `None` while it works.
    pub(super) fn idle_since(&self) -> Option<Time> {
        self.watch.borrow().as_ref()?.idle_since()
    }

    /// The policy's decision, after it was told the idle times that ended. Without a watch of the
    /// device the decision is to wait.
    pub(super) fn decide(&self, input: &TriggerInput) -> TriggerDecision {
        let watch = self.watch.borrow();
        let Some(watch) = watch.as_ref() else { return TriggerDecision::Wait };
        let mut trigger = self.trigger.borrow_mut();
        watch.ended.borrow_mut().drain(..).for_each(|idle| trigger.idle_ended(idle));
        trigger.decide(input)
    }

    /// True if an operation waits for clean segments.
    pub(super) fn is_wanted(&self) -> bool {
        self.stopped.get() || self.requested.get()
    }

    /// Sets the watch from which it learns when users use the device.
    pub(crate) fn watch(&self, watch: Rc<Watch>) {
        *self.watch.borrow_mut() = Some(watch);
    }

    /// Ends the cleaner's task, and waits until it writes nothing more.
    pub(crate) async fn stop(&self) {
        self.stopped.set(true);
        self.wake.notify();
        self.ended.wait_until(|| !self.runs.get()).await;
    }

    /// Notes that its task has ended.
    pub(super) fn end(&self) {
        self.runs.set(false);
        self.ended.notify();
    }
}

/// A device that remembers when users last used it.
pub(crate) struct Watch {
    device: Rc<dyn BlockDevice>,
    rt: Rt,
    last: Cell<Time>,
    /// Idle times that have ended and of which the policy does not know yet.
    ended: RefCell<Vec<Nanos>>,
    /// The idle times that have ended, counted.
    idle: Cell<IdleCounts>,
    /// True while the cleaner works in the background: a request under way is then its own.
    cleaner_works: Cell<bool>,
    /// True while the cleaner's task runs, from one wait to the next: a request that comes is its own.
    cleaner_runs: Cell<bool>,
}

impl Watch {
    pub(crate) fn new(rt: Rt, device: Rc<dyn BlockDevice>) -> Watch {
        let last = Cell::new(rt.now());
        let (ended, idle, cleaner_works, cleaner_runs) = Default::default();
        Watch { device, rt, last, ended, idle, cleaner_works, cleaner_runs }
    }

    /// The time since which users have not used the device; `None` while it works.
    fn idle_since(&self) -> Option<Time> {
        (self.device.in_flight() == 0).then(|| self.last.get())
    }
}

impl BlockDevice for Watch {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn submit(&self, io: Io) -> Pending {
        let of_cleaner = matches!(io.origin, Origin::Cleaner | Origin::Checkpoint);
        if !of_cleaner && !self.cleaner_runs.get() {
            let now = self.rt.now();
            let idle = now - self.last.replace(now);
            let unused = self.device.in_flight() == 0 || self.cleaner_works.get();
            if idle >= LEAST_IDLE_NS && unused {
                let mut counts = self.idle.get();
                counts.add(idle);
                self.idle.set(counts);
                let mut ended = self.ended.borrow_mut();
                // The policy is not asked while nothing is worth cleaning; the latest idle times
                // suffice.
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

    fn bounds(&self) -> Option<ServiceBounds> {
        self.device.bounds()
    }

    fn drops_dead(&self) -> bool {
        self.device.drops_dead()
    }

    fn drop_dead(&self, at: u64, len: u64) {
        self.device.drop_dead(at, len);
    }

    fn grow(&self, to: Option<u64>) -> BoxFuture<'_, Result<u64, IoErrorKind>> {
        self.device.grow(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_disk::{Class, MemDisk};
    use twin_rt::{ClockOnly, SECS};

    /// A device on which requests of the cleaner never end.
    struct Slow(MemDisk, Cell<usize>);

    impl BlockDevice for Slow {
        fn info(&self) -> DeviceInfo {
            self.0.info()
        }

        fn submit(&self, io: Io) -> Pending {
            if io.origin == Origin::Cleaner {
                self.1.set(self.1.get() + 1);
            }
            self.0.submit(io)
        }

        fn in_flight(&self) -> usize {
            self.1.get()
        }
    }

    /// What is counted of an idle time of three seconds, in the middle of which the cleaner makes a request that is
    /// under way when a user comes.
    fn counted(in_background: bool) -> (IdleCounts, usize) {
        let rt = Rt::new(ClockOnly::default(), 1);
        let device = Rc::new(Slow(MemDisk::new(1 << 20), Cell::new(0)));
        let watch = Rc::new(Watch::new(rt.clone(), Rc::clone(&device) as _));
        let trigger = twin_clean::trigger::REGISTRY.get("idle").unwrap().make();
        let state = CleanerState::new(trigger);
        state.watch(Rc::clone(&watch));
        let read = |origin| drop(watch.submit(Io::read(0, 4096, Class::Data, origin)));
        let pass = |seconds: u64| {
            let its = rt.clone();
            rt.block_on(async move { its.sleep(seconds * SECS).await }).unwrap();
        };
        read(Origin::User);
        pass(2);
        state.set_in_background(in_background);
        read(Origin::Cleaner);
        pass(1);
        read(Origin::User);
        (state.idle_counts(), watch.ended.borrow().len())
    }

    #[test]
    fn an_idle_time_that_ends_while_the_cleaner_works_counts_and_the_policy_learns_of_it() {
        let (idle, told) = counted(true);
        assert_eq!((idle.all.count, idle.all.total_ns, idle.of_two_s, told), (1, 3 * SECS, 1, 1));
    }

    #[test]
    fn a_request_that_may_be_a_users_is_no_idle_time() {
        assert_eq!(counted(false), (IdleCounts::default(), 0));
    }
}
