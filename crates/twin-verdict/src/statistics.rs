//! Whether two sets of figures differ by more than chance.

/// Whether two sets of values differ by more than chance: their ranges do not overlap, or the test of
/// Mann and Whitney (1947), two-sided and exact, rejects at 5% that both are from one distribution.
/// With fewer than two values in either nothing is known of chance, and every difference counts.
pub fn differ(a: &[f64], b: &[f64]) -> bool {
    if a.len() < 2 || b.len() < 2 {
        return true;
    }
    let range = |values: &[f64]| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((low_a, high_a), (low_b, high_b)) = (range(a), range(b));
    high_a < low_b || high_b < low_a || rank_test(a, b) <= 0.05
}

/// The two-sided probability of a U at least as far from its mean as that of these values, if both
/// are from one distribution. Ties count half, and a U between two numbers is taken as the one
/// nearer to the mean.
fn rank_test(a: &[f64], b: &[f64]) -> f64 {
    let wins = |&x: &f64| -> f64 {
        let above = |&y: &f64| if x > y { 1.0 } else { f64::from(u8::from(x == y)) / 2.0 };
        b.iter().map(above).sum()
    };
    let u: f64 = a.iter().map(wins).sum();
    let u = u.min((a.len() * b.len()) as f64 - u).ceil() as usize;
    let counts = counts_of_u(a.len(), b.len());
    let tail: f64 = counts[..=u].iter().sum();
    (2.0 * tail / counts.iter().sum::<f64>()).min(1.0)
}

/// For each U the number of orders of `n` and `m` values that have it, by the recurrence of Mann and
/// Whitney: the largest value is of the first set, and exceeds all `m` of the second, or it is not.
fn counts_of_u(n: usize, m: usize) -> Vec<f64> {
    let all = n * m + 1;
    let one = || {
        let mut only = vec![0.0; all];
        only[0] = 1.0;
        only
    };
    // For the number of values of the first set so far: the counts for each size of the second.
    let mut sizes: Vec<Vec<f64>> = (0..=m).map(|_| one()).collect();
    for _ in 0..n {
        let mut next = vec![one()];
        for (j, before) in sizes.iter().enumerate().skip(1) {
            let smaller = &next[j - 1];
            let count = |u: usize| smaller[u] + if u >= j { before[u - j] } else { 0.0 };
            let counts = (0..all).map(count).collect();
            next.push(counts);
        }
        sizes = next;
    }
    sizes.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_u_are_those_of_all_orders() {
        assert_eq!(counts_of_u(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        let counts = counts_of_u(5, 5);
        assert_eq!(counts.iter().sum::<f64>(), 252.0, "10 choose 5");
        assert_eq!(counts[..5], [1.0, 1.0, 2.0, 3.0, 5.0]);
        let large: f64 = counts_of_u(50, 50).iter().sum();
        assert!((large / 1.008_913_445_455_642e29 - 1.0).abs() < 1e-12, "100 choose 50: {large}");
    }

    /// Table of Mann and Whitney's U: with 5 and 5 values 2 is significant at 5%, 3 is not.
    #[test]
    fn five_seeds_are_judged_as_in_the_tables() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0];
        let (two, three) = ([3.5, 5.5, 6.0, 7.0, 8.0], [3.5, 4.5, 6.0, 7.0, 8.0]);
        assert!((rank_test(&a, &two) - 8.0 / 252.0).abs() < 1e-9, "{}", rank_test(&a, &two));
        assert!((rank_test(&three, &a) - 14.0 / 252.0).abs() < 1e-9, "{}", rank_test(&three, &a));
        assert!(differ(&a, &two) && !differ(&a, &three) && !differ(&three, &a));
    }

    #[test]
    fn ranges_apart_differ_and_equal_values_do_not() {
        assert!(differ(&[1.0, 2.0], &[3.0, 4.0]), "two seeds are too few for the test");
        assert!(!differ(&[1.0, 3.0], &[2.0, 4.0]));
        assert!(!differ(&[1.0; 5], &[1.0; 5]));
        assert!(differ(&[1.0], &[1.1]), "without a spread every difference counts");
    }
}
