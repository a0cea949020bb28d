//! Synchronization of tasks: events, locks and budgets. Locks and budgets are granted first come,
//! first served, but for budgets of processors, which are granted in the order of tasks.
//!
//! All of them are for one thread. Guards may be dropped in any order.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::{Order, Rt, Time};

/// An event that tasks wait for and that may happen many times. A waiter sees only notifications
/// after its wait began, so a task must check its condition, wait, and check again.
#[derive(Default)]
pub struct Event {
    round: Cell<u64>,
    waiters: RefCell<Vec<Waker>>,
}

impl Event {
    /// An event that no task waits for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes all tasks that are waiting now.
    pub fn notify(&self) {
        self.round.set(self.round.get() + 1);
        for waker in self.waiters.take() {
            waker.wake();
        }
    }

    /// Waits for the next [`notify`](Self::notify) after this call, even if that comes before the
    /// first poll.
    pub fn wait(&self) -> impl Future<Output = ()> + '_ {
        let seen = self.round.get();
        std::future::poll_fn(move |cx| {
            if self.round.get() != seen {
                return Poll::Ready(());
            }
            self.waiters.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Waits until `ready` returns true. It is checked now and after every notification.
    pub async fn wait_until(&self, mut ready: impl FnMut() -> bool) {
        while !ready() {
            self.wait().await;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Shared,
    Exclusive,
}

struct Waiter {
    mode: Mode,
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Default)]
struct LockState {
    /// The holders: -1 for an exclusive one, otherwise the number of shared ones.
    held: Cell<isize>,
    queue: RefCell<VecDeque<Rc<Waiter>>>,
    /// Set if other tasks may run before each request for the lock.
    yields: OnceCell<Rt>,
}

/// A lock that is shared or exclusive and is granted strictly in the order of the requests. It
/// contains no data; its owner defines what it protects. A clone is another handle to the same
/// lock.
#[derive(Clone, Default)]
pub struct RwLock(Rc<LockState>);

impl RwLock {
    /// A lock that no task holds.
    pub fn new() -> Self {
        Self::default()
    }

    /// In a run with [`Order::Yielding`](crate::Order), lets other tasks run before each request
    /// for this lock from now on.
    pub fn yield_in(&self, rt: &Rt) {
        if let Some(rt) = rt.yields() {
            // If it is set already, the same runtime has set it.
            let _ = self.0.yields.set(rt);
        }
    }

    /// Takes the lock shared, together with other readers.
    pub async fn read(&self) -> LockGuard {
        self.acquire(Mode::Shared).await
    }

    /// Takes the lock exclusively.
    pub async fn write(&self) -> LockGuard {
        self.acquire(Mode::Exclusive).await
    }

    /// True if a task holds the lock or waits for it.
    pub fn in_use(&self) -> bool {
        self.0.held.get() != 0 || !self.0.queue.borrow().is_empty()
    }

    fn grant(&self, mode: Mode) -> LockGuard {
        match mode {
            Mode::Shared => self.0.held.set(self.0.held.get() + 1),
            Mode::Exclusive => self.0.held.set(-1),
        }
        LockGuard(Rc::clone(&self.0))
    }

    async fn acquire(&self, mode: Mode) -> LockGuard {
        let state = &self.0;
        if let Some(rt) = state.yields.get() {
            // The future is boxed because only tests need it, and otherwise it would enlarge the
            // future of every operation.
            Box::pin(rt.maybe_yield()).await;
        }
        let grantable = match mode {
            Mode::Shared => state.held.get() >= 0,
            Mode::Exclusive => state.held.get() == 0,
        };
        // A request never overtakes the queue: otherwise readers could keep a writer waiting for
        // ever.
        if grantable && state.queue.borrow().is_empty() {
            return self.grant(mode);
        }
        let waiter = Rc::new(Waiter { mode, granted: Cell::new(false), waker: RefCell::default() });
        state.queue.borrow_mut().push_back(Rc::clone(&waiter));
        std::future::poll_fn(|cx| {
            if waiter.granted.get() {
                return Poll::Ready(());
            }
            *waiter.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        // The guard whose drop granted the lock has already counted this holder.
        LockGuard(Rc::clone(state))
    }
}

/// Holds an [`RwLock`] until it is dropped.
pub struct LockGuard(Rc<LockState>);

impl Drop for LockGuard {
    fn drop(&mut self) {
        let state = &self.0;
        let held = state.held.get();
        state.held.set(if held < 0 { 0 } else { held - 1 });
        // The lock is granted here, to the head of the queue, and not when waiters are polled: so
        // the order of the grants does not depend on the order in which the executor polls tasks.
        let mut queue = state.queue.borrow_mut();
        while let Some(first) = queue.front() {
            let held = state.held.get();
            match first.mode {
                Mode::Shared if held >= 0 => state.held.set(held + 1),
                Mode::Exclusive if held == 0 => state.held.set(-1),
                _ => return,
            }
            first.granted.set(true);
            if let Some(waker) = first.waker.borrow_mut().take() {
                waker.wake();
            }
            queue.pop_front();
        }
    }
}

/// One that waits for units of a budget.
struct Taker {
    units: u64,
    due: Option<Time>,
    waiter: Rc<Waiter>,
}

struct BudgetState {
    free: Cell<u64>,
    queue: RefCell<VecDeque<Taker>>,
    /// The runtime whose order of tasks says who is next, unless it is the first.
    ordered: Option<Rt>,
    /// How many times in a row another one was granted before the first.
    passed: Cell<u32>,
}

impl BudgetState {
    /// The place of the one that is granted next.
    fn next(&self, queue: &VecDeque<Taker>) -> usize {
        match self.ordered.as_ref().map(Rt::order) {
            Some(Order::Chosen(policy)) if queue.len() > 1 => {
                let mut passed = self.passed.get();
                let place = policy.choose(queue.iter().map(|taker| taker.due), &mut passed);
                self.passed.set(passed);
                place
            }
            _ => 0,
        }
    }
}

/// A number of units, such as bytes or requests in flight, that tasks share first come, first
/// served.
#[derive(Clone)]
pub struct Budget {
    total: u64,
    state: Rc<BudgetState>,
}

impl Budget {
    /// A budget of `total` units.
    pub fn new(total: u64) -> Self {
        Budget::with(total, None)
    }

    /// A budget of processors, `total` units, for which work waits in the order of the runtime's tasks if that
    /// depends on [deadlines](Rt::by), and otherwise first come, first served.
    pub fn of_processors(total: u64, rt: &Rt) -> Self {
        Budget::with(total, rt.knows_deadlines().then(|| rt.clone()))
    }

    fn with(total: u64, ordered: Option<Rt>) -> Self {
        let (free, passed) = (Cell::new(total), Cell::new(0));
        let state = BudgetState { free, queue: RefCell::default(), ordered, passed };
        Budget { total, state: Rc::new(state) }
    }

    /// The number of units that no task holds.
    pub fn free(&self) -> u64 {
        self.state.free.get()
    }

    /// The number of all units.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Waits until `units`, but at most the total, are free, and takes them.
    pub async fn take(&self, units: u64) -> BudgetGuard {
        let units = units.min(self.total);
        let state = &self.state;
        if state.queue.borrow().is_empty() && state.free.get() >= units {
            state.free.set(state.free.get() - units);
        } else {
            let waiter = Rc::new(Waiter {
                mode: Mode::Exclusive,
                granted: Cell::new(false),
                waker: RefCell::default(),
            });
            let due = state.ordered.as_ref().and_then(Rt::due);
            state.queue.borrow_mut().push_back(Taker { units, due, waiter: Rc::clone(&waiter) });
            std::future::poll_fn(|cx| {
                if waiter.granted.get() {
                    return Poll::Ready(());
                }
                *waiter.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
        }
        BudgetGuard { units, state: Rc::clone(state) }
    }
}

/// Holds units of a [`Budget`] until it is dropped.
pub struct BudgetGuard {
    units: u64,
    state: Rc<BudgetState>,
}

impl Drop for BudgetGuard {
    fn drop(&mut self) {
        self.state.free.set(self.state.free.get() + self.units);
        let mut queue = self.state.queue.borrow_mut();
        while !queue.is_empty() {
            let place = self.state.next(&queue);
            let free = self.state.free.get();
            let Some(taker) = queue.get(place) else { return };
            if free < taker.units {
                return;
            }
            self.state.free.set(free - taker.units);
            taker.waiter.granted.set(true);
            if let Some(waker) = taker.waiter.waker.borrow_mut().take() {
                waker.wake();
            }
            queue.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockOnly, MILLIS, Rt};

    fn rt() -> Rt {
        Rt::new(ClockOnly::default(), 0)
    }

    #[test]
    fn a_waiting_writer_holds_back_later_readers() {
        let (rt, lock) = (rt(), RwLock::new());
        let log = Rc::new(RefCell::new(Vec::new()));
        for (name, exclusive) in [("r1", false), ("w", true), ("r2", false)] {
            let (rt2, lock, log) = (rt.clone(), lock.clone(), Rc::clone(&log));
            rt.spawn(name, async move {
                let _guard = if exclusive { lock.write().await } else { lock.read().await };
                log.borrow_mut().push(name);
                rt2.sleep(MILLIS).await;
            });
        }
        let rt2 = rt.clone();
        rt.block_on(async move { rt2.sleep(10 * MILLIS).await }).unwrap();
        assert_eq!(*log.borrow(), ["r1", "w", "r2"]);
        assert!(!lock.in_use());
    }

    #[test]
    fn a_free_lock_is_waited_for_where_tests_ask_for_yields() {
        let order_of = |order| {
            let (mut orders, log) = (Vec::new(), Rc::new(RefCell::new(Vec::new())));
            for seed in 0..20 {
                let rt = Rt::with_order(ClockOnly::default(), seed, order);
                let (lock, inside, seen) = (RwLock::new(), Rc::clone(&log), Rc::clone(&log));
                lock.yield_in(&rt);
                let rt2 = rt.clone();
                rt.block_on(async move {
                    rt2.spawn("other", async move { inside.borrow_mut().push("other") });
                    let _guard = lock.write().await;
                    seen.borrow_mut().push("lock");
                    rt2.yield_now().await;
                })
                .unwrap();
                orders.push(log.take().first().copied());
            }
            orders
        };
        assert!(order_of(crate::Order::Shuffled).iter().all(|first| *first == Some("lock")));
        let yielding = order_of(crate::Order::Yielding);
        assert!(yielding.contains(&Some("lock")) && yielding.contains(&Some("other")));
    }

    #[test]
    fn readers_share() {
        let (rt, lock) = (rt(), RwLock::new());
        let both = rt.block_on(async {
            let _a = lock.read().await;
            let _b = lock.read().await;
            true
        });
        assert_eq!(both, Ok(true));
    }

    #[test]
    fn an_event_is_not_lost_between_check_and_wait() {
        let (rt, event) = (rt(), Rc::new(Event::new()));
        let flag = Rc::new(Cell::new(false));
        let (e2, f2, rt2) = (Rc::clone(&event), Rc::clone(&flag), rt.clone());
        rt.spawn("setter", async move {
            rt2.sleep(MILLIS).await;
            f2.set(true);
            e2.notify();
        });
        rt.block_on(async { event.wait_until(|| flag.get()).await }).unwrap();
    }

    /// The order in which three get the one processor while a fourth has it.
    fn order_at_the_processor(order: &str) -> Vec<u64> {
        let order = **crate::order::REGISTRY.get(order).unwrap();
        let rt = Rt::with_order(ClockOnly::default(), 0, order);
        let (processor, log) = (Budget::of_processors(1, &rt), Rc::new(RefCell::new(Vec::new())));
        for (name, due) in [(0, None), (1, None), (2, Some(9)), (3, Some(4))] {
            let (rt2, processor, log) = (rt.clone(), processor.clone(), Rc::clone(&log));
            let waits = async move {
                let _one = processor.take(1).await;
                log.borrow_mut().push(name);
                rt2.sleep(MILLIS).await;
            };
            let rt2 = rt.clone();
            rt.spawn("work", async move { rt2.by(due.map(Time), waits).await });
        }
        let rt2 = rt.clone();
        rt.block_on(async move { rt2.sleep(10 * MILLIS).await }).unwrap();
        log.take()
    }

    #[test]
    fn work_with_deadlines_waits_for_a_processor_in_the_order_of_tasks() {
        assert_eq!(order_at_the_processor("fifo"), [0, 1, 2, 3]);
        assert_eq!(order_at_the_processor("random").len(), 4);
        let taken = order_at_the_processor("deadline");
        assert!(taken[1..] == [3, 2, 1] || taken == [3, 2, 0, 1], "{taken:?}");
    }

    #[test]
    fn a_large_taker_is_not_starved_by_small_ones() {
        let (rt, budget) = (rt(), Budget::new(10));
        let log = Rc::new(RefCell::new(Vec::new()));
        for units in [6u64, 10, 1] {
            let (rt2, budget, log) = (rt.clone(), budget.clone(), Rc::clone(&log));
            rt.spawn("taker", async move {
                let _held = budget.take(units).await;
                log.borrow_mut().push(units);
                rt2.sleep(MILLIS).await;
            });
        }
        let rt2 = rt.clone();
        rt.block_on(async move { rt2.sleep(10 * MILLIS).await }).unwrap();
        assert_eq!(*log.borrow(), [6, 10, 1]);
        assert_eq!(budget.free(), 10);
    }
}
