//! The executor: tasks on one thread, run one at a time in a fixed order.
//!
//! Contract: `now()` is constant while tasks run and changes only in [`Rt::turn`], so that a run
//! depends only on the order of outside events. Ready tasks run first in, first out, unless the run
//! has another [`Order`]: a seeded random one, so that tests explore interleavings, or one that knows
//! the deadlines of [`Rt::by`].

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::events::{Categories, Category, Event};
use crate::{Driver, EventDigest, Nanos, Order, Rng, Time};

/// No task can run and no outside event is expected: a deadlock, or a device that has lost power.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The names of the tasks that are waiting.
    pub waiting: Vec<&'static str>,
}

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no task can run; waiting: {}", self.waiting.join(", "))
    }
}

impl std::error::Error for Stalled {}

/// A boxed future of any type. The code of a function that returns one is compiled in the
/// function's own crate; the code of an `async fn` is compiled again in each crate that awaits it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A function that receives logged events.
type Listener = Rc<dyn Fn(&Event<'_>)>;

struct Task {
    name: &'static str,
    /// `None` while the future is being polled.
    future: Option<BoxFuture<'static, ()>>,
    wake: Arc<TaskWake>,
}

/// The part of a task that its wakers share. The standard library requires wakers to be `Send`,
/// therefore it uses atomics, which are cheap on one thread.
struct TaskWake {
    slot: usize,
    queued: AtomicBool,
    ready: Arc<Mutex<VecDeque<Arc<TaskWake>>>>,
    finished: AtomicBool,
    /// The deadline in nanoseconds of what waits in it; [`NOT_DUE`] without one.
    due: AtomicU64,
}

/// Stands for no deadline.
const NOT_DUE: u64 = u64::MAX;

impl TaskWake {
    fn due(&self) -> Option<Time> {
        let due = self.due.load(Ordering::Relaxed);
        (due != NOT_DUE).then_some(Time(due))
    }
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        Self::wake_by_ref(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready.push_back(Arc::clone(self));
        }
    }
}

struct Timer {
    at: Time,
    seq: u64,
    waker: Waker,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.seq) == (other.at, other.seq)
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}

struct Shared {
    now: Cell<Time>,
    civil: Cell<Time>,
    seed: u64,
    order: Order,
    chaos: RefCell<Rng>,
    /// The deadline of what runs now.
    due: Cell<Option<Time>>,
    /// The earliest deadline of what waits in the task that runs now; [`NOT_DUE`] without one.
    due_of_task: Cell<u64>,
    /// How many times in a row a task ran before the one that had been ready longest.
    passed: Cell<u32>,
    tasks: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<usize>>,
    ready: Arc<Mutex<VecDeque<Arc<TaskWake>>>>,
    timers: RefCell<BinaryHeap<Reverse<Timer>>>,
    timer_seq: Cell<u64>,
    digest: RefCell<EventDigest>,
    logged: Cell<Categories>,
    listener: RefCell<Option<Listener>>,
    driver: RefCell<Box<dyn Driver>>,
    /// The driver's [`jumps`](Driver::jumps).
    jumps: bool,
}

/// A handle to the runtime: the clock, the task queue, the seed and the digest of one run. It is
/// cheap to clone. Dropping the last handle that is outside tasks does not stop the tasks;
/// [`Rt::crash`] does.
#[derive(Clone)]
pub struct Rt(Rc<Shared>);

impl Rt {
    /// A runtime that runs tasks first in, first out.
    pub fn new(driver: impl Driver, seed: u64) -> Rt {
        Rt::with_order(driver, seed, Order::Fifo)
    }

    /// A runtime with a given task order.
    pub fn with_order(mut driver: impl Driver, seed: u64, order: Order) -> Rt {
        let now = driver.start();
        Rt(Rc::new(Shared {
            now: Cell::new(now),
            civil: Cell::new(driver.civil(now)),
            seed,
            order,
            chaos: RefCell::new(Rng::stream(seed, "executor")),
            due: Cell::new(None),
            due_of_task: Cell::new(NOT_DUE),
            passed: Cell::new(0),
            tasks: RefCell::default(),
            free: RefCell::default(),
            ready: Arc::default(),
            timers: RefCell::default(),
            timer_seq: Cell::new(0),
            digest: RefCell::default(),
            logged: Cell::default(),
            listener: RefCell::default(),
            jumps: driver.jumps(),
            driver: RefCell::new(Box::new(driver)),
        }))
    }

    /// The current time. It does not change until the running task waits.
    pub fn now(&self) -> Time {
        self.0.now.get()
    }

    /// The civil time now, for what is compared with times of elsewhere, as those of files are. In a
    /// simulation it is [`now`](Self::now); on a host it may go back, and it does not stop while the
    /// machine is suspended. Like `now` it does not change until the running task waits.
    pub fn civil(&self) -> Time {
        self.0.civil.get()
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The random stream with this name. It has the same numbers in every run with this seed.
    pub fn rng(&self, name: &str) -> Rng {
        Rng::stream(self.0.seed, name)
    }

    /// Adds an event, with the current time, to the digest of the run.
    pub fn record(&self, words: &[u64]) {
        let mut digest = self.0.digest.borrow_mut();
        digest.add(&[self.now().0]);
        digest.add(words);
    }

    /// The digest of all recorded events so far.
    pub fn digest(&self) -> EventDigest {
        *self.0.digest.borrow()
    }

    /// Sends events of these categories to `listener` from now on, in place of an earlier listener.
    /// The listener must not use this runtime.
    pub fn log_to(&self, categories: Categories, listener: Rc<dyn Fn(&Event<'_>)>) {
        self.0.logged.set(categories);
        *self.0.listener.borrow_mut() = Some(listener);
    }

    /// True if a listener wants events of this category.
    #[inline]
    pub fn logs(&self, category: Category) -> bool {
        self.0.logged.get().has(category)
    }

    /// Reports an event. Its fields are computed only if a listener wants its category.
    #[inline]
    pub fn log<const N: usize>(
        &self,
        category: Category,
        name: &'static str,
        fields: impl FnOnce() -> [(&'static str, u64); N],
    ) {
        if self.logs(category) {
            self.tell(category, name, fields);
        }
    }

    /// The rest of [`log`](Self::log). It is not inlined, so that each call of `log` adds only a
    /// branch to the code around it.
    #[cold]
    #[inline(never)]
    fn tell<const N: usize>(
        &self,
        category: Category,
        name: &'static str,
        fields: impl FnOnce() -> [(&'static str, u64); N],
    ) {
        if let Some(listener) = &*self.0.listener.borrow() {
            listener(&Event { time: self.now(), category, name, fields: &fields() });
        }
    }

    /// Starts a task. It is polled for the first time when the executor next takes a ready task.
    pub fn spawn<T: 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let (sender, receiver) = crate::oneshot();
        let future: BoxFuture<'static, ()> = Box::pin(async move { sender.send(future.await) });
        let wake = self.new_task(name, Some(future));
        wake.wake();
        JoinHandle(receiver)
    }

    /// Polls a future immediately. If it has to wait, the rest of it runs as a task.
    ///
    /// It serves front ends whose requests mostly end without waiting; these need not pass through
    /// the queue.
    pub fn run_or_spawn(&self, name: &'static str, future: impl Future<Output = ()> + 'static) {
        // The future gets its own task's waker before the first poll, because timers keep the waker
        // of the first poll.
        let mut future: BoxFuture<'static, ()> = Box::pin(future);
        let wake = self.new_task(name, None);
        match self.poll_as(&wake, future.as_mut()) {
            Poll::Ready(()) => self.end_task(&wake),
            Poll::Pending => {
                if let Some(task) = &mut self.0.tasks.borrow_mut()[wake.slot] {
                    task.future = Some(future);
                }
            }
        }
    }

    fn new_task(
        &self,
        name: &'static str,
        future: Option<BoxFuture<'static, ()>>,
    ) -> Arc<TaskWake> {
        let mut tasks = self.0.tasks.borrow_mut();
        let slot = self.0.free.borrow_mut().pop().unwrap_or_else(|| {
            tasks.push(None);
            tasks.len() - 1
        });
        let wake = Arc::new(TaskWake {
            slot,
            queued: AtomicBool::new(false),
            ready: Arc::clone(&self.0.ready),
            finished: AtomicBool::new(false),
            due: AtomicU64::new(NOT_DUE),
        });
        tasks[slot] = Some(Task { name, future, wake: Arc::clone(&wake) });
        wake
    }

    /// Runs ready tasks until none is left. The time does not change.
    pub fn run_ready(&self) {
        while let Some(wake) = self.next_ready() {
            self.poll_task(&wake);
        }
    }

    fn next_ready(&self) -> Option<Arc<TaskWake>> {
        let mut ready = self.0.ready.lock().unwrap_or_else(PoisonError::into_inner);
        match self.0.order {
            Order::Fifo => ready.pop_front(),
            _ if ready.len() < 2 => ready.pop_front(),
            Order::Shuffled | Order::Yielding => {
                let i = self.0.chaos.borrow_mut().below(ready.len() as u64) as usize;
                ready.remove(i)
            }
            Order::Chosen(policy) => {
                let mut passed = self.0.passed.get();
                let i = policy.choose(ready.iter().map(|wake| wake.due()), &mut passed);
                self.0.passed.set(passed);
                ready.remove(i)
            }
        }
    }

    fn poll_task(&self, wake: &Arc<TaskWake>) {
        // The mark is cleared before the poll, so that a wake during the poll queues the task
        // again.
        wake.queued.store(false, Ordering::Release);
        if wake.finished.load(Ordering::Acquire) {
            return;
        }
        let future = match &mut self.0.tasks.borrow_mut()[wake.slot] {
            Some(task) => task.future.take(),
            None => None,
        };
        // The root task of `block_on` has no boxed future, because `block_on` polls it itself.
        let Some(mut future) = future else { return };
        match self.poll_as(wake, future.as_mut()) {
            Poll::Ready(()) => self.end_task(wake),
            Poll::Pending => {
                if let Some(task) = &mut self.0.tasks.borrow_mut()[wake.slot] {
                    task.future = Some(future);
                }
            }
        }
    }

    /// Polls the future of a task.
    fn poll_as(&self, wake: &Arc<TaskWake>, future: Pin<&mut dyn Future<Output = ()>>) -> Poll<()> {
        let waker = Waker::from(Arc::clone(wake));
        let mut cx = Context::from_waker(&waker);
        match self.knows_deadlines() {
            false => future.poll(&mut cx),
            true => self.poll_due(wake, || future.poll(&mut cx)),
        }
    }

    /// Polls a task and notes the deadline of what waits in it.
    #[cold]
    fn poll_due<T>(&self, wake: &TaskWake, poll: impl FnOnce() -> T) -> T {
        // A task may be polled within another, whose deadlines are not its own.
        let outer = (self.0.due_of_task.replace(NOT_DUE), self.0.due.replace(None));
        let polled = poll();
        wake.due.store(self.0.due_of_task.get(), Ordering::Relaxed);
        self.0.due_of_task.set(outer.0);
        self.0.due.set(outer.1);
        polled
    }

    /// True if the order of tasks depends on deadlines. Otherwise nobody needs to say them.
    #[inline]
    pub fn knows_deadlines(&self) -> bool {
        matches!(self.0.order, Order::Chosen(_))
    }

    /// The deadline of what runs now, if it has one.
    pub fn due(&self) -> Option<Time> {
        self.0.due.get()
    }

    /// The order of tasks, for those that let work wait for a processor.
    pub(crate) fn order(&self) -> Order {
        self.0.order
    }

    /// Runs a future that has to end by `due`, or the earlier deadline of what it is part of. The order of tasks may
    /// prefer the task that it runs in, and a budget of processors the work that it waits for; nothing ends it at
    /// its deadline. Tasks that the future starts have deadlines of their own.
    pub async fn by<F: Future>(&self, due: Option<Time>, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            let outer = self.0.due.get();
            let due = [outer, due].into_iter().flatten().min();
            self.0.due.set(due);
            let polled = future.as_mut().poll(cx);
            self.0.due.set(outer);
            if let (true, Some(due)) = (polled.is_pending(), due) {
                self.0.due_of_task.set(self.0.due_of_task.get().min(due.0));
            }
            polled
        })
        .await
    }

    fn end_task(&self, wake: &TaskWake) {
        wake.finished.store(true, Ordering::Release);
        let ended = self.0.tasks.borrow_mut()[wake.slot].take();
        self.0.free.borrow_mut().push(wake.slot);
        drop(ended);
    }

    /// One turn: runs ready tasks, then waits in the driver for the next event and fires the timers
    /// that are due. Returns false if nothing can ever happen again.
    pub fn turn(&self) -> bool {
        self.run_ready();
        self.wait_for_events()
    }

    fn wait_for_events(&self) -> bool {
        let deadline = self.0.timers.borrow().peek().map(|t| t.0.at);
        let parked = self.0.driver.borrow_mut().park(deadline);
        match parked {
            Some(now) => {
                self.advance(now);
                true
            }
            None => false,
        }
    }

    fn set_time(&self, now: Time) -> Time {
        let now = now.max(self.now());
        self.0.now.set(now);
        self.0.civil.set(self.0.driver.borrow().civil(now));
        now
    }

    fn advance(&self, now: Time) {
        let now = self.set_time(now);
        loop {
            let due = {
                let mut timers = self.0.timers.borrow_mut();
                match timers.peek() {
                    Some(t) if t.0.at <= now => timers.pop(),
                    _ => None,
                }
            };
            match due {
                Some(timer) => timer.0.waker.wake(),
                None => return,
            }
        }
    }

    /// Moves time on to the next timer, if it is the only one of its time, in a simulation in which no task can
    /// run; true if that woke something that is no task of this runtime. Otherwise the caller waits as usual: its
    /// own task, or another, runs next.
    ///
    /// For a task that polls futures with wakers of its own and has just found that all of them wait: it goes on
    /// with the one that is woken, without the way through the executor. Nothing else in that task may be able
    /// to go on at the present time.
    pub fn advance_alone(&self) -> bool {
        if !self.0.jumps || self.has_ready() {
            return false;
        }
        let timer = {
            let mut timers = self.0.timers.borrow_mut();
            let Some(first) = timers.pop() else { return false };
            if timers.peek().is_some_and(|next| next.0.at == first.0.at) {
                timers.push(first);
                return false;
            }
            first.0
        };
        let parked = self.0.driver.borrow_mut().park(Some(timer.at));
        let Some(now) = parked else {
            self.0.timers.borrow_mut().push(Reverse(timer));
            return false;
        };
        self.set_time(now);
        timer.waker.wake();
        !self.has_ready()
    }

    fn has_ready(&self) -> bool {
        !self.0.ready.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Runs a future to its end, together with all other tasks.
    ///
    /// # Errors
    /// [`Stalled`] if nothing can ever happen again and the future has not ended.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T, Stalled> {
        let mut future = pin!(future);
        let wake = self.new_task("root", None);
        let waker = Waker::from(Arc::clone(&wake));
        let mut cx = Context::from_waker(&waker);
        let mut ready = true;
        loop {
            let polled = match ready {
                false => Poll::Pending,
                true if self.knows_deadlines() => {
                    self.poll_due(&wake, || future.as_mut().poll(&mut cx))
                }
                true => future.as_mut().poll(&mut cx),
            };
            if let Poll::Ready(value) = polled {
                self.end_task(&wake);
                return Ok(value);
            }
            // The root shares the queue with all other tasks, so it runs in its turn.
            ready = false;
            while let Some(next) = self.next_ready() {
                if Arc::ptr_eq(&next, &wake) {
                    wake.queued.store(false, Ordering::Release);
                    ready = true;
                    break;
                }
                self.poll_task(&next);
            }
            if !ready && !self.wait_for_events() {
                let waiting = self.waiting();
                self.end_task(&wake);
                return Err(Stalled { waiting });
            }
        }
    }

    /// The names of all tasks that have not ended.
    pub fn waiting(&self) -> Vec<&'static str> {
        self.0.tasks.borrow().iter().flatten().map(|t| t.name).collect()
    }

    /// Drops every task at its current `.await`, as a power failure does. Devices keep the data
    /// that has reached them.
    pub fn crash(&self) {
        loop {
            // Dropping a future may drop senders and guards that borrow the task table, so the task
            // is dropped after the table's borrow has ended.
            let task = {
                let mut tasks = self.0.tasks.borrow_mut();
                let Some(slot) = tasks.iter().position(Option::is_some) else { break };
                let task = tasks[slot].take();
                self.0.free.borrow_mut().push(slot);
                task
            };
            if let Some(task) = task {
                task.wake.finished.store(true, Ordering::Release);
                drop(task);
            }
        }
        self.0.timers.borrow_mut().clear();
    }

    /// Waits until the time `at`; returns at once if that has passed.
    pub fn sleep_until(&self, at: Time) -> impl Future<Output = ()> + 'static {
        let rt = self.clone();
        let mut armed = false;
        std::future::poll_fn(move |cx| {
            if rt.now() >= at {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut armed, true) {
                rt.arm(at, cx);
            }
            Poll::Pending
        })
    }

    fn arm(&self, at: Time, cx: &Context<'_>) {
        let seq = self.0.timer_seq.get();
        self.0.timer_seq.set(seq + 1);
        let timer = Timer { at, seq, waker: cx.waker().clone() };
        self.0.timers.borrow_mut().push(Reverse(timer));
    }

    /// Waits for a span of time.
    pub fn sleep(&self, span: Nanos) -> impl Future<Output = ()> + 'static {
        self.sleep_until(self.now() + span)
    }

    /// Lets every other task that is ready run first.
    pub fn yield_now(&self) -> impl Future<Output = ()> + 'static {
        let mut yielded = false;
        std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Lets every ready task run, and delivers outside events that have arrived, before the caller
    /// continues. Long work that does not wait calls this now and then, so that clients are served.
    /// It takes no time in a simulation.
    pub fn yield_to_all(&self) -> impl Future<Output = ()> + 'static {
        let rt = self.clone();
        let mut armed = false;
        std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut armed, true) {
                return Poll::Ready(());
            }
            rt.arm(rt.now(), cx);
            Poll::Pending
        })
    }

    /// Yields at random in a run with [`Order::Shuffled`] or [`Order::Yielding`]; otherwise does
    /// nothing. Code calls it where an `.await` can wait but usually does not, so that tests see
    /// both cases.
    pub async fn maybe_yield(&self) {
        let random = matches!(self.0.order, Order::Shuffled | Order::Yielding);
        if random && self.0.chaos.borrow_mut().chance(0.5) {
            self.yield_now().await;
        }
    }

    /// The runtime itself in a run with [`Order::Yielding`], otherwise `None`. Locks and devices
    /// call [`maybe_yield`](Self::maybe_yield) with it wherever a task may have to wait.
    pub fn yields(&self) -> Option<Rt> {
        (self.0.order == Order::Yielding).then(|| self.clone())
    }
}

/// A future that waits for the end of a task and returns its value. The task continues if the
/// handle is dropped.
pub struct JoinHandle<T>(crate::Receiver<T>);

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockOnly, MILLIS};

    #[test]
    fn timers_fire_in_order_of_time_then_of_arming() {
        let rt = Rt::new(ClockOnly::default(), 0);
        let log = Rc::new(RefCell::new(Vec::new()));
        for (name, span) in [(1, 20), (2, 10), (3, 20)] {
            let (rt2, log) = (rt.clone(), Rc::clone(&log));
            rt.spawn("sleeper", async move {
                rt2.sleep(span * MILLIS).await;
                log.borrow_mut().push((name, rt2.now()));
            });
        }
        let rt2 = rt.clone();
        rt.block_on(async move { rt2.sleep(30 * MILLIS).await }).unwrap();
        let at = |ms| Time(ms * MILLIS);
        assert_eq!(*log.borrow(), [(2, at(10)), (1, at(20)), (3, at(20))]);
    }

    #[test]
    fn time_moves_on_to_a_timer_that_is_alone_while_no_task_can_run() {
        let rt = Rt::new(ClockOnly::default(), 0);
        let (rt2, at) = (rt.clone(), |ms| Time(ms * MILLIS));
        rt.block_on(async move {
            let mut own = Context::from_waker(Waker::noop());
            let mut alone = pin!(rt2.sleep(MILLIS));
            assert!(alone.as_mut().poll(&mut own).is_pending());
            rt2.spawn("other", async {});
            assert!(!rt2.advance_alone(), "a task can run");
            rt2.yield_now().await;
            assert!(rt2.advance_alone() && alone.as_mut().poll(&mut own).is_ready());
            let mut both = [pin!(rt2.sleep(MILLIS)), pin!(rt2.sleep(MILLIS))];
            both.iter_mut().for_each(|sleep| assert!(sleep.as_mut().poll(&mut own).is_pending()));
            assert!(!rt2.advance_alone() && rt2.now() == at(1), "two timers at one time");
            rt2.sleep(2 * MILLIS).await;
            let rt3 = rt2.clone();
            let other = rt2.spawn("other", async move { rt3.sleep(MILLIS).await });
            rt2.yield_now().await;
            assert!(!rt2.advance_alone() && rt2.now() == at(4), "it woke a task");
            other.await;
        })
        .unwrap();
    }

    #[test]
    fn a_wait_that_nothing_can_end_is_reported() {
        let rt = Rt::new(ClockOnly::default(), 0);
        let (_sender, receiver) = crate::oneshot::<()>();
        assert_eq!(rt.block_on(receiver), Err(Stalled { waiting: vec!["root"] }));
    }

    #[test]
    fn join_gives_the_value() {
        let rt = Rt::new(ClockOnly::default(), 0);
        let handle = rt.spawn("answer", async { 42 });
        assert_eq!(rt.block_on(handle), Ok(42));
    }

    #[test]
    fn run_or_spawn_ends_in_place_what_does_not_wait() {
        let rt = Rt::new(ClockOnly::default(), 0);
        let done = Rc::new(Cell::new(false));
        let done2 = Rc::clone(&done);
        rt.run_or_spawn("quick", async move { done2.set(true) });
        assert!(done.get());
        assert!(rt.waiting().is_empty());
    }

    #[test]
    fn run_or_spawn_goes_on_as_a_task_after_its_first_wait() {
        let rt = Rt::new(ClockOnly::default(), 0);
        let log = Rc::new(RefCell::new(Vec::new()));
        let (rt2, log2) = (rt.clone(), Rc::clone(&log));
        rt.run_or_spawn("slow", async move {
            log2.borrow_mut().push("begun");
            rt2.yield_now().await;
            rt2.sleep(MILLIS).await;
            log2.borrow_mut().push("ended");
        });
        assert_eq!((rt.waiting(), log.borrow().clone()), (vec!["slow"], vec!["begun"]));
        let rt2 = rt.clone();
        rt.block_on(async move { rt2.sleep(2 * MILLIS).await }).unwrap();
        assert_eq!(*log.borrow(), ["begun", "ended"]);
    }

    #[test]
    fn crash_drops_every_task() {
        let rt = Rt::new(ClockOnly::default(), 0);
        let alive = Rc::new(());
        let held = Rc::clone(&alive);
        let rt2 = rt.clone();
        rt.spawn("holder", async move {
            let _held = held;
            rt2.sleep(MILLIS).await;
        });
        rt.run_ready();
        rt.crash();
        assert_eq!(Rc::strong_count(&alive), 1);
        assert!(rt.waiting().is_empty());
    }

    #[test]
    fn shuffled_order_is_a_function_of_the_seed() {
        let run = |seed| {
            let rt = Rt::with_order(ClockOnly::default(), seed, Order::Shuffled);
            let log = Rc::new(RefCell::new(Vec::new()));
            for i in 0..20 {
                let (rt2, log) = (rt.clone(), Rc::clone(&log));
                rt.spawn("t", async move {
                    rt2.maybe_yield().await;
                    log.borrow_mut().push(i);
                });
            }
            rt.run_ready();
            log.take()
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }
}
