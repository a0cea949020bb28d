//! Runs of a study, two at a time.

/// The results of `run`, in order, computed two at a time.
pub(crate) fn in_parallel<T: Sync, R: Send>(all: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| all.iter().skip(1).step_by(2).map(&run).collect::<Vec<R>>());
        let even: Vec<R> = all.iter().step_by(2).map(&run).collect();
        (even, odd.join().unwrap_or_default())
    });
    let mut odd = odd.into_iter();
    even.into_iter().flat_map(|result| std::iter::once(result).chain(odd.next())).collect()
}
