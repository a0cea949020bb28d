//! The one search behind everything that is fitted: the constants of the machines ([`crate::fit`]) and the
//! parameters of loads ([`crate::loads`]).
//!
//! Contract: it takes the best of all combinations of the starts, changes one number at a time by shrinking steps,
//! and keeps a change that makes what is to be small smaller by a thousandth. It is deterministic: the same function
//! gives the same numbers. What it finds is the bottom of a valley, not always of the deepest one.

/// A number that is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    /// Where the search begins.
    pub(crate) starts: &'static [f64],
    /// The first step.
    pub(crate) step: f64,
    /// The smallest step.
    pub(crate) least_step: f64,
    /// The smallest value.
    pub(crate) least: f64,
}

/// All combinations of the starts.
fn starts(dimensions: &[Dimension]) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new()];
    for dimension in dimensions {
        let longer = |values: &Vec<f64>| {
            let with = |start: &f64| [values.as_slice(), &[*start]].concat();
            dimension.starts.iter().map(with).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// The numbers at which `badness` is smallest, as far as the search finds them, and how small it is there. `tried`
/// hears the number of tries so far.
///
/// # Errors
/// The first of `badness`.
pub(crate) fn search<E>(
    dimensions: &[Dimension],
    badness: &mut dyn FnMut(&[f64]) -> Result<f64, E>,
    tried: &dyn Fn(usize),
) -> Result<(Vec<f64>, f64), E> {
    let (mut count, mut best, mut values) = (0, f64::INFINITY, Vec::new());
    let mut judge = |values: &[f64]| {
        let found = badness(values);
        count += 1;
        tried(count);
        found
    };
    for start in starts(dimensions) {
        let found = judge(&start)?;
        if found < best || values.is_empty() {
            (best, values) = (found, start);
        }
    }
    let mut steps: Vec<f64> = dimensions.iter().map(|dimension| dimension.step).collect();
    loop {
        let mut better = false;
        for (i, dimension) in dimensions.iter().enumerate() {
            for direction in [1.0, -1.0] {
                let mut next = values.clone();
                next[i] = (values[i] + direction * steps[i]).max(dimension.least);
                if next[i] == values[i] {
                    continue;
                }
                let found = judge(&next)?;
                if found < best * 0.999 {
                    (best, values, better) = (found, next, true);
                    break;
                }
            }
        }
        if better {
            continue;
        }
        if steps.iter().zip(dimensions).all(|(step, of)| *step <= of.least_step) {
            return Ok((values, best));
        }
        for (step, dimension) in steps.iter_mut().zip(dimensions) {
            *step = (*step / 2.0).max(dimension.least_step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_bowl_is_found_to_the_smallest_step() {
        let dimension = |starts| Dimension { starts, step: 4.0, least_step: 0.125, least: 0.0 };
        let all = [dimension(&[0.0, 10.0]), dimension(&[1.0])];
        let mut bowl = |v: &[f64]| Ok::<f64, ()>((v[0] - 7.3).powi(2) + (v[1] - 2.6).abs());
        let (found, _) = search(&all, &mut bowl, &|_| {}).unwrap();
        assert!((found[0] - 7.3).abs() < 0.125 && (found[1] - 2.6).abs() < 0.125, "{found:?}");
    }

    #[test]
    fn no_value_is_below_the_least_and_a_failure_ends_the_search() {
        let all = [Dimension { starts: &[2.0], step: 8.0, least_step: 0.5, least: 1.0 }];
        let mut lowest = |v: &[f64]| if v[0] < 1.0 { Err(v[0]) } else { Ok(v[0]) };
        assert_eq!(search(&all, &mut lowest, &|_| {}), Ok((vec![1.0], 1.0)));
        assert_eq!(search(&all, &mut |_| Err::<f64, &str>("no run"), &|_| {}), Err("no run"));
    }
}
