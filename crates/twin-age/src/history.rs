//! A history: layout scores of many snapshots of one volume over time (Smith and Seltzer 1994,
//! section 4.3, figure 5 and table 5).

/// The linear relation between two quantities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// Number of pairs of values.
    pub count: usize,
    /// Pearson's coefficient, -1 to 1.
    pub r: f64,
    /// The probability of a coefficient at least as far from 0 if there is no relation (two-sided
    /// t-test, which takes the pairs as independent; days that follow one another are not, so it is
    /// too small).
    pub p: f64,
    /// The change of the second quantity for a unit of the first (least squares).
    pub slope: f64,
}

/// The correlation of pairs; `None` with fewer than three, or if one of the quantities does not
/// change.
pub fn correlation(pairs: &[(f64, f64)]) -> Option<Correlation> {
    let n = pairs.len() as f64;
    if pairs.len() < 3 {
        return None;
    }
    let mean = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(f).sum::<f64>();
    let xx = sum(&|p| (p.0 - x).powi(2));
    let yy = sum(&|p| (p.1 - y).powi(2));
    let xy = sum(&|p| (p.0 - x) * (p.1 - y));
    // Differences that come from rounding alone are none.
    let flat = |sum: f64, mean: f64| sum <= n * (mean * 1e-12).powi(2);
    if flat(xx, x) || flat(yy, y) || !(xx * yy).is_finite() {
        return None;
    }
    let r = (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0);
    let freedom = n - 2.0;
    let p = beta_share(freedom / 2.0, 0.5, 1.0 - r * r);
    Some(Correlation { count: pairs.len(), r, p, slope: xy / xx })
}

/// The regularized incomplete beta function I_x(a, b), by its continued fraction (Abramowitz and
/// Stegun, 26.5.8), evaluated from the front after Lentz.
fn beta_share(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_share(b, a, 1.0 - x);
    }
    const TINY: f64 = 1e-300;
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for step in [even, odd] {
            d = 1.0 / away(1.0 + step * d);
            c = away(1.0 + step / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    let front = a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    (front.exp() * fraction / a).clamp(0.0, 1.0)
}

/// The logarithm of the gamma function for positive numbers, by Stirling's series after shifting.
fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 15.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b.abs().max(1e-6)
    }

    #[test]
    fn a_line_correlates_fully_and_its_slope_is_found() {
        let pairs: Vec<(f64, f64)> =
            (0..10).map(|x| (f64::from(x), 5.0 - 2.0 * f64::from(x))).collect();
        let found = correlation(&pairs).unwrap();
        assert!(close(found.r, -1.0) && close(found.slope, -2.0) && found.p < 1e-9, "{found:?}");
    }

    #[test]
    fn the_probability_is_that_of_the_t_test() {
        // r = 0.5 with 12 pairs: t = 1.8257 with 10 degrees of freedom, two-sided p = 0.09785.
        assert!((beta_share(5.0, 0.5, 0.75) - 0.0978546).abs() < 1e-6);
        // With one degree of freedom p = 1 - 2/pi atan(t): r = 0.8, t = 4/3.
        let p = 1.0 - std::f64::consts::FRAC_2_PI * (4.0f64 / 3.0).atan();
        assert!(close(beta_share(0.5, 0.5, 0.36), p));
        assert!(close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln()));
        assert!(close(ln_gamma(11.0), 3_628_800.0f64.ln()));
    }

    #[test]
    fn what_does_not_change_has_no_correlation() {
        assert_eq!(correlation(&[(1.0, 2.0), (2.0, 3.0)]), None, "two points are no evidence");
        assert_eq!(correlation(&[(1.0, 0.3), (2.0, 0.3), (3.0, 0.3)]), None);
        assert_eq!(correlation(&[(1.0, 0.1), (1.0, 0.2), (1.0, 0.3)]), None);
    }
}
