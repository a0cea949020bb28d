//! Work that is done in pieces, which are independent of each other: the longest first, on all threads.
//!
//! Contract: progress is reported in estimated time of a processor, never goes back, and ends with the last piece. The
//! estimates decide in which order the pieces begin and what is reported of progress, and no result. The results are
//! the same on any number of threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::progress::Progress;

/// Hears which share of a piece is done.
pub(crate) type Share = Arc<dyn Fn(f64) + Send + Sync>;

/// A piece of work.
pub(crate) struct Piece<'a, R> {
    /// About how many seconds of a processor it takes.
    pub(crate) seconds: f64,
    /// Does it.
    pub(crate) run: Box<dyn Fn(&Share) -> R + Send + Sync + 'a>,
}

impl<'a, R> Piece<'a, R> {
    pub(crate) fn new(seconds: f64, run: impl Fn(&Share) -> R + Send + Sync + 'a) -> Piece<'a, R> {
        Piece { seconds, run: Box::new(run) }
    }
}

/// Does all pieces, and returns their results in the order of the pieces.
pub(crate) fn carry_out<R: Send>(
    pieces: &[Piece<'_, R>],
    threads: usize,
    progress: &Progress,
) -> Vec<R> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by(|a, b| pieces[*b].seconds.total_cmp(&pieces[*a].seconds));
    let meter = Arc::new(Meter::of(pieces.iter().map(|piece| piece.seconds), progress));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = pieces.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let reported = Arc::clone(&meter);
            let share: Share = Arc::new(move |share| reported.report(at, share));
            let result = (pieces[at].run)(&share);
            share(1.0);
            *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, pieces.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let result = |slot: Mutex<Option<R>>| slot.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().filter_map(result).collect()
}

/// How much of all pieces is done, in milliseconds of their estimates.
struct Meter {
    all: Vec<u64>,
    done: Vec<AtomicU64>,
    /// The sum that was reported last.
    reported: Mutex<u64>,
    progress: Progress,
}

impl Meter {
    fn of(seconds: impl Iterator<Item = f64>, progress: &Progress) -> Meter {
        let all: Vec<u64> = seconds.map(|seconds| (seconds * 1e3) as u64 + 1).collect();
        let done = all.iter().map(|_| AtomicU64::new(0)).collect();
        Meter { all, done, reported: Mutex::new(0), progress: Arc::clone(progress) }
    }

    fn report(&self, at: usize, share: f64) {
        let part = (share.clamp(0.0, 1.0) * self.all[at] as f64) as u64;
        if self.done[at].fetch_max(part, Ordering::Relaxed) >= part {
            return;
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let sum: u64 = self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
        if sum > *reported {
            *reported = sum;
            (self.progress)(sum as usize, self.all.iter().sum::<u64>() as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_longest_begins_first() {
        let begun = Mutex::new(Vec::new());
        let piece = |at: usize, seconds| {
            let begun = &begun;
            Piece::new(seconds, move |_: &Share| {
                begun.lock().unwrap().push(at);
                at
            })
        };
        let pieces = [piece(0, 1.0), piece(1, 5.0), piece(2, 3.0)];
        assert_eq!(carry_out(&pieces, 1, &crate::silent()), [0, 1, 2]);
        assert_eq!(*begun.lock().unwrap(), [1, 2, 0]);
    }

    #[test]
    fn progress_is_that_of_the_estimates_never_goes_back_and_ends() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let progress: Progress = Arc::new({
            let reported = Arc::clone(&reported);
            move |done, all| reported.lock().unwrap().push((done, all))
        });
        let steps = |share: &Share| [0.5, 0.25, 0.75].map(|part| share(part));
        let pieces: Vec<_> = (0..8).map(|at| Piece::new(f64::from(at), steps)).collect();
        carry_out(&pieces, 2, &progress);
        let reported = reported.lock().unwrap();
        assert!(reported.windows(2).all(|pair| pair[0].0 < pair[1].0), "{reported:?}");
        assert_eq!(reported.last().unwrap().0, reported.last().unwrap().1);
        // The longest piece, 7 of 28 seconds, is among the first two, so half of it is soon reported.
        assert!(reported[0].0 >= 3000, "{reported:?}");
    }
}
