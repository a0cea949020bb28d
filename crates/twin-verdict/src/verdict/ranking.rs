//! The places of runs by a measure.

use twin_lab::{Figures, Trusted};

use super::measure::{MeasureEntry, spread_of, value_of};
use crate::statistics::differ;
use crate::trust::Trust;

/// Figures whose ratio differs from 1 by less than this are equal.
pub const NOISE: f64 = 0.02;

/// The runs in the order of their places, within a place by their values; those without a place last.
pub(crate) fn by_place<'a>(runs: &[&'a Figures], measure: &MeasureEntry) -> Vec<&'a Figures> {
    let mut sorted: Vec<&Figures> = runs.to_vec();
    let value = |figures: &Figures| value_of(measure, figures).unwrap_or(f64::INFINITY);
    let place = |figures: &Figures| figures.rank.unwrap_or(usize::MAX);
    sorted.sort_by(|a, b| place(a).cmp(&place(b)).then(value(a).total_cmp(&value(b))));
    sorted
}

/// A run and its value.
pub(super) type Judged<'a> = (f64, &'a Figures);

/// How two runs compare, the second of which is no better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Within the noise, or by chance.
    Equal,
    /// Within the error of simulation.
    Close,
    /// Neither.
    Apart,
}

pub(super) fn gap(
    measure: &MeasureEntry,
    trust: &Trust,
    best: Judged<'_>,
    next: Judged<'_>,
) -> Gap {
    let values = |figures| spread_of(measure.name, figures).map(|spread| &spread.values[..]);
    let by_chance = match (values(best.1), values(next.1)) {
        (Some(first), Some(next)) => !differ(first, next),
        _ => false,
    };
    let (best, next) = (best.0, next.0);
    match next - best <= NOISE * best.abs() || by_chance {
        true => Gap::Equal,
        false if next < best * measure.error(trust) => Gap::Close,
        false => Gap::Apart,
    }
}

/// How two runs compare, in either order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    First,
    Second,
    /// Within the noise.
    Equal,
    /// Within the error of simulation.
    Close,
    /// One of them has no figure, or operations failed in it.
    None,
}

/// Compares two runs by a measure.
pub(crate) fn order(pair: [&Figures; 2], measure: &MeasureEntry, trust: &Trust) -> Order {
    let sorted = in_order(pair.into_iter().enumerate(), measure);
    let [(first, best), (_, next)] = sorted[..] else { return Order::None };
    match gap(measure, trust, best, next) {
        Gap::Equal => Order::Equal,
        Gap::Close => Order::Close,
        Gap::Apart if first == 0 => Order::First,
        Gap::Apart => Order::Second,
    }
}

/// The runs that a verdict sets against each other, by their numbers: the best, and the best of the next place; or
/// the last, if all share the first place. None if there are not two.
pub fn rivals(runs: &[Figures], measure: &MeasureEntry) -> Option<[usize; 2]> {
    let sorted = in_order(runs.iter().enumerate(), measure);
    let next = sorted.iter().find(|(_, (_, figures))| figures.rank != Some(1)).or(sorted.last())?;
    (next.0 != sorted[0].0).then_some([sorted[0].0, next.0])
}

/// Gives each run its place by a measure. Runs that are equal to the best of their place, or too
/// close to it to call, share it.
pub fn rank(runs: &mut [&mut Figures], measure: &MeasureEntry, trust: &Trust) {
    let sorted = in_order(runs.iter().map(|figures| &**figures).enumerate(), measure);
    let mut places = vec![None; runs.len()];
    let mut best = 0;
    for (nth, (at, judged)) in sorted.iter().enumerate() {
        if gap(measure, trust, sorted[best].1, *judged) == Gap::Apart {
            best = nth;
        }
        places[*at] = Some(best + 1);
    }
    for (figures, place) in runs.iter_mut().zip(places) {
        figures.rank = place;
        figures.trusted = Some(Trusted { factor: trust.factor, source: trust.source() });
    }
}

/// The runs that can be judged, by their values, each with its number.
pub(super) fn in_order<'a>(
    runs: impl Iterator<Item = (usize, &'a Figures)>,
    measure: &MeasureEntry,
) -> Vec<(usize, Judged<'a>)> {
    let sound = runs.filter(|(_, figures)| figures.failed == 0);
    let judged = |(at, figures)| Some((at, (value_of(measure, figures)?, figures)));
    let mut sorted: Vec<_> = sound.filter_map(judged).collect();
    sorted.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    sorted
}
