//! How far a model is from measurements: the demerit figure of Ruemmler and Wilkes, "An
//! Introduction to Disk Drive Modeling" (IEEE Computer 27(3), 1994).

use twin_rt::Nanos;

/// The root mean square of the horizontal distance between the distributions of measured and of
/// modelled times, as a share of the mean measured time: zero if both distributions are the same,
/// whichever request has which time.
///
/// The distance is taken at each of as many levels as there are times in the larger set, in the
/// middle of its step. `None` if one of the sets is empty or all measured times are zero.
pub fn demerit(measured: &[Nanos], modelled: &[Nanos]) -> Option<f64> {
    if measured.is_empty() || modelled.is_empty() {
        return None;
    }
    let sorted = |times: &[Nanos]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let (measured, modelled) = (sorted(measured), sorted(modelled));
    let levels = measured.len().max(modelled.len());
    let at = |times: &[Nanos], level: usize| times[(2 * level + 1) * times.len() / (2 * levels)];
    let squares = (0..levels).map(|level| {
        let apart = at(&measured, level).abs_diff(at(&modelled, level)) as f64;
        apart * apart
    });
    let root = (squares.sum::<f64>() / levels as f64).sqrt();
    let mean = measured.iter().map(|&ns| ns as f64).sum::<f64>() / measured.len() as f64;
    (mean > 0.0).then(|| root / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_distributions_have_no_demerit_in_any_order() {
        assert_eq!(demerit(&[3, 1, 2], &[2, 3, 1]), Some(0.0));
        assert_eq!(demerit(&[1, 2], &[1, 1, 2, 2]), Some(0.0));
    }

    #[test]
    fn a_shift_counts_with_its_length_and_a_factor_with_the_root_of_the_mean_square() {
        assert_eq!(demerit(&[100, 200, 300], &[120, 220, 320]), Some(0.1));
        let twice = demerit(&[100, 300], &[200, 600]).unwrap();
        assert!((twice - (f64::from(100 * 100 + 300 * 300) / 2.0).sqrt() / 200.0).abs() < 1e-12);
    }

    #[test]
    fn without_times_there_is_no_figure() {
        assert_eq!(
            (demerit(&[], &[1]), demerit(&[1], &[]), demerit(&[0], &[1])),
            (None, None, None)
        );
    }
}
