//! How far work is: the seam between what takes long and whoever shows it.
//!
//! Contract: work that takes long begins a [`Bar`] before its first step and counts on it from whatever thread.
//! The bar ends when its last clone is dropped, or earlier by [`Bar::finish`]: an error ends it too. What a
//! bar looks like, and whether anybody sees it, is up to the [`Progress`].

use std::sync::Arc;

/// What a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many steps in all; 0 if their number is not known.
    Steps(u64),
    /// So many bytes in all.
    Bytes(u64),
    /// Nothing: only the time that passes can be shown.
    Time,
}

/// Who shows how far work is.
pub trait Progress {
    /// Work begins whose steps are called `what`.
    fn begin(&self, what: &'static str, count: Count) -> Bar;
}

/// What a [`Progress`] has behind one of its bars.
pub trait Counter: Send + Sync {
    /// So many steps more are done.
    fn add(&self, steps: u64);
    /// So many are done.
    fn set_done(&self, done: u64);
    /// So many are done, of so many.
    fn set(&self, done: u64, all: u64);
    /// All is done, or nothing more will be.
    fn finish(&self);
}

/// How far one piece of work is. Clones are the same.
#[derive(Clone)]
pub struct Bar(Arc<Ends>);

/// Ends the bar with its last clone.
struct Ends(Box<dyn Counter>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl Bar {
    /// A bar over a counter.
    pub fn new(counter: impl Counter + 'static) -> Bar {
        Bar(Arc::new(Ends(Box::new(counter))))
    }

    /// A bar that nobody sees.
    pub fn hidden() -> Bar {
        Bar::new(Hidden)
    }

    /// So many steps more are done.
    pub fn add(&self, steps: u64) {
        self.0.0.add(steps);
    }

    /// So many are done.
    pub fn set_done(&self, done: u64) {
        self.0.0.set_done(done);
    }

    /// So many are done, of so many.
    pub fn set(&self, done: u64, all: u64) {
        self.0.0.set(done, all);
    }

    /// Ends it: nothing of it stays on a terminal.
    pub fn finish(&self) {
        self.0.0.finish();
    }

    /// A function that counts steps on it.
    pub fn counting(&self) -> Arc<dyn Fn(u64) + Send + Sync> {
        let bar = self.clone();
        Arc::new(move |steps| bar.add(steps))
    }
}

impl std::fmt::Debug for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bar")
    }
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hidden;

impl Progress for Hidden {
    fn begin(&self, _: &'static str, _: Count) -> Bar {
        Bar::hidden()
    }
}

impl Counter for Hidden {
    fn add(&self, _: u64) {}
    fn set_done(&self, _: u64) {}
    fn set(&self, _: u64, _: u64) {}
    fn finish(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_bar_ends_with_its_last_clone_and_counts_from_all_of_them() {
        #[derive(Clone, Default)]
        struct Counted(Arc<AtomicU64>, Arc<AtomicU64>);
        impl Counter for Counted {
            fn add(&self, steps: u64) {
                self.0.fetch_add(steps, Ordering::Relaxed);
            }
            fn set_done(&self, _: u64) {}
            fn set(&self, _: u64, _: u64) {}
            fn finish(&self) {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
        let counted = Counted::default();
        let bar = Bar::new(counted.clone());
        let counting = bar.counting();
        bar.add(2);
        drop(bar);
        assert_eq!(counted.1.load(Ordering::Relaxed), 0, "a clone is left");
        counting(3);
        drop(counting);
        assert_eq!((counted.0.load(Ordering::Relaxed), counted.1.load(Ordering::Relaxed)), (5, 1));
    }
}
