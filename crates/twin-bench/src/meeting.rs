//! The barrier at which the users of a benchmark wait for each other before caches are emptied.
//! While a user still works, the file system cannot be remounted, and that user's reads would be
//! partly cold.
//!
//! Contract: the action is run once, when all users that have not ended wait. There is one barrier
//! for threads and one for tasks under virtual time.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};

use twin_rt::Event;

/// A barrier for users that are threads.
#[derive(Debug)]
pub(super) struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

#[derive(Debug)]
struct MeetingState {
    /// Number of users that have not ended.
    present: usize,
    /// Number of these that wait.
    waiting: usize,
    /// How often the action was run.
    done: u64,
}

impl Meeting {
    /// A barrier for this number of users.
    pub(super) fn of(users: usize) -> Meeting {
        let state = Mutex::new(MeetingState { present: users, waiting: 0, done: 0 });
        Meeting { state, changed: Condvar::new() }
    }

    /// Waits for the others; the last one to arrive runs `act`.
    pub(super) fn once<E>(&self, act: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        let before = state.done;
        let wait = |state: &mut MeetingState| state.done == before && state.waiting < state.present;
        state = self.changed.wait_while(state, wait).unwrap_or_else(PoisonError::into_inner);
        if state.done != before {
            return Ok(());
        }
        let result = act();
        (state.waiting, state.done) = (0, before + 1);
        self.changed.notify_all();
        result
    }

    /// A guard that makes the user leave when it is dropped.
    pub(super) fn until_end(&self) -> impl Drop {
        Leaves(self)
    }

    /// A user has ended, so the others need not wait for it.
    fn leave(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).present -= 1;
        self.changed.notify_all();
    }
}

struct Leaves<'a>(&'a Meeting);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A barrier for users that are tasks.
pub(super) struct TaskMeeting {
    present: Cell<usize>,
    waiting: Cell<usize>,
    done: Cell<u64>,
    changed: Event,
}

impl TaskMeeting {
    /// A barrier for this number of users.
    pub(super) fn of(users: usize) -> TaskMeeting {
        let (waiting, done, changed) = (Cell::new(0), Cell::new(0), Event::new());
        TaskMeeting { present: Cell::new(users), waiting, done, changed }
    }

    /// Waits for the others; the last one to arrive runs `act`.
    pub(super) async fn once<E>(&self, act: impl Future<Output = Result<(), E>>) -> Result<(), E> {
        self.waiting.set(self.waiting.get() + 1);
        self.changed.notify();
        let before = self.done.get();
        let all_are_there = || self.waiting.get() >= self.present.get();
        self.changed.wait_until(|| self.done.get() != before || all_are_there()).await;
        if self.done.get() != before {
            return Ok(());
        }
        // The action is now being run, so the other users must not start it again.
        self.waiting.set(0);
        let result = act.await;
        self.done.set(before + 1);
        self.changed.notify();
        result
    }

    /// A user has ended, so the others need not wait for it.
    pub(super) fn leave(&self) {
        self.present.set(self.present.get() - 1);
        self.changed.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn it_is_done_once_and_only_while_all_wait() {
        let (meeting, at_work, done) = (Meeting::of(4), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _leaves = meeting.until_end();
                    for _ in 0..50 {
                        at_work.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        at_work.fetch_sub(1, Ordering::SeqCst);
                        let act = || {
                            assert_eq!(at_work.load(Ordering::SeqCst), 0);
                            done.fetch_add(1, Ordering::SeqCst);
                            Ok::<(), ()>(())
                        };
                        meeting.once(act).unwrap();
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 50);
    }

    #[test]
    fn nobody_waits_for_who_has_ended() {
        let meeting = Meeting::of(2);
        std::thread::scope(|scope| {
            let one = scope.spawn(|| meeting.once(|| Err("tried")));
            meeting.leave();
            assert_eq!(one.join().unwrap(), Err("tried"));
        });
    }

    #[test]
    fn tasks_meet_too() {
        let rt = twin_rt::Rt::new(twin_rt::ClockOnly::default(), 1);
        let (meeting, done) = (TaskMeeting::of(3), Cell::new(0));
        let user = async |naps: u64| {
            for round in 1..=3 {
                rt.sleep(naps * 10).await;
                let act = async {
                    rt.sleep(5).await;
                    done.set(done.get() + 1);
                    Ok::<(), ()>(())
                };
                meeting.once(act).await.unwrap();
                assert_eq!(done.get(), round);
            }
            meeting.leave();
        };
        let all = async { twin_rt::join_all([user(1), user(2), user(7)]).await };
        rt.block_on(all).unwrap();
        assert_eq!(done.get(), 3);
    }
}
