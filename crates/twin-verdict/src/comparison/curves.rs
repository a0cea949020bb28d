//! Curves over the history of a run: points of simulated seconds and a figure.

use twin_lab::{History, LogFigures, Moment};

/// The most points of a curve of rates: over shorter intervals they are noise.
const MOST_RATES: usize = 80;

/// Write cost up to each sample, as seconds and cost. Begins with the first new data.
pub(super) fn cumulative(history: &History) -> Vec<(f64, f64)> {
    let costs =
        history.samples.iter().filter_map(|(at_s, moment)| Some((*at_s, moment.log.write_cost?)));
    costs.collect()
}

/// Write cost between samples. While only metadata is written or moved, there is no new data to which
/// the cost could be attributed: such an interval is added to the next one with new data.
pub(super) fn by_interval(history: &History) -> Vec<(f64, f64)> {
    let (mut costs, mut before) = (Vec::new(), LogFigures::default());
    for (at_s, Moment { log, .. }) in &history.samples {
        let since = log.since(&before);
        if let Some(cost) = since.write_cost {
            costs.push((*at_s, cost));
            before = *log;
        }
    }
    costs
}

/// Operations a second, over intervals of equal length.
pub(super) fn throughput(history: &History) -> Vec<(f64, f64)> {
    let rate = |(from_s, from): (f64, Moment), (to_s, to): (f64, Moment)| {
        let ops = to.operations.saturating_sub(from.operations);
        (to_s > from_s).then(|| ops as f64 / (to_s - from_s))
    };
    rates(history, rate)
}

/// The share of look-ups that the cache served, in percent, over intervals of equal length.
/// Intervals without look-ups are left out.
pub(super) fn hits(history: &History) -> Vec<(f64, f64)> {
    let share = |(_, from): (f64, Moment), (_, to): (f64, Moment)| {
        let lookups = to.lookups.saturating_sub(from.lookups);
        let hits = to.hits.saturating_sub(from.hits);
        (lookups > 0).then(|| hits as f64 * 100.0 / lookups as f64)
    };
    rates(history, share)
}

/// A figure of each sample.
pub(super) fn course(history: &History, of: impl Fn(&Moment) -> f64) -> Vec<(f64, f64)> {
    history.samples.iter().map(|(at_s, moment)| (*at_s, of(moment))).collect()
}

/// The largest value of a figure in each of a few intervals of equal length.
pub(super) fn peaks(history: &History, of: impl Fn(&Moment) -> f64) -> Vec<(f64, f64)> {
    let peak = |samples: &[(f64, Moment)]| {
        let highest = samples.iter().map(|(_, moment)| of(moment)).fold(f64::MIN, f64::max);
        samples.last().map(|(at_s, _)| (*at_s, highest))
    };
    history.samples.chunks(step(history)).filter_map(peak).collect()
}

/// The number of samples of an interval of a rate.
fn step(history: &History) -> usize {
    history.samples.len().div_ceil(MOST_RATES).max(1)
}

/// A figure of each interval, at its middle.
fn rates(
    history: &History,
    of: impl Fn((f64, Moment), (f64, Moment)) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let mut before = (0.0, Moment::default());
    let mut rates = Vec::new();
    for sample in history.samples.chunks(step(history)).filter_map(|samples| samples.last()) {
        if let Some(rate) = of(before, *sample) {
            rates.push(((before.0 + sample.0) / 2.0, rate));
        }
        before = *sample;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_cleaning_alone_is_borne_by_the_next_data() {
        let log = |log_bytes, moved_bytes, cleaner_read_bytes| {
            let new_data_bytes = log_bytes - moved_bytes;
            let figures =
                LogFigures { log_bytes, new_data_bytes, cleaner_read_bytes, ..Default::default() };
            Moment { log: figures.since(&LogFigures::default()), ..Moment::default() }
        };
        // 100 new; then 50 moved, with 100 read; then 50 new.
        let samples =
            vec![(1.0, log(100, 0, 0)), (2.0, log(150, 50, 100)), (3.0, log(200, 50, 100))];
        let history = History { samples, ..History::default() };
        assert_eq!(by_interval(&history), [(1.0, 1.0), (3.0, 4.0)]);
        assert_eq!(cumulative(&history), [(1.0, 1.0), (2.0, 2.5), (3.0, 2.0)]);
    }

    #[test]
    fn rates_are_of_intervals_and_an_interval_without_lookups_has_no_share() {
        let at =
            |operations, lookups, hits| Moment { operations, lookups, hits, ..Moment::default() };
        let samples = vec![(1.0, at(10, 4, 1)), (3.0, at(10, 4, 1)), (4.0, at(40, 8, 5))];
        let history = History { samples, ..History::default() };
        assert_eq!(throughput(&history), [(0.5, 10.0), (2.0, 0.0), (3.5, 30.0)]);
        assert_eq!(hits(&history), [(0.5, 25.0), (3.5, 100.0)]);
        let long = (1..=400u32).map(|n| (f64::from(n), at(n.into(), 0, 0))).collect();
        let long = History { samples: long, ..History::default() };
        let rates = throughput(&long);
        assert_eq!(rates.len(), MOST_RATES);
        assert!(rates.iter().all(|rate| rate.1 == 1.0), "{rates:?}");
        let odd = |moment: &Moment| if moment.operations % 5 == 3 { 7.0 } else { 0.0 };
        let peaks = peaks(&long, odd);
        assert_eq!((peaks.len(), peaks[0]), (MOST_RATES, (5.0, 7.0)));
    }
}
