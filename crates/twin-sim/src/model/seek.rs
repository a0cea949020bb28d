//! How long the arm takes to move over a number of cylinders.

use twin_rt::{MILLIS, Nanos};

/// Seek time as a function of distance. All figures in milliseconds and cylinders.
#[derive(Clone, Debug, PartialEq)]
pub enum SeekCurve {
    /// Ruemmler and Wilkes 1994: `a + b * sqrt(d)` up to a distance, `c + e * d` beyond it; the
    /// shortest distances (1, 2, ...) may have times of their own.
    Pieces {
        /// Times for 1, 2, ... cylinders, as many as are known.
        first_ms: &'static [f64],
        /// The longest distance of the square-root piece.
        boundary: u32,
        /// Constant of the square-root piece.
        a_ms: f64,
        /// Factor of the square-root piece.
        b_ms: f64,
        /// Constant of the linear piece.
        c_ms: f64,
        /// Factor of the linear piece.
        e_ms: f64,
    },
    /// Measured times at some distances, ascending. Times in between are interpolated linearly;
    /// distances beyond the last take its time.
    Table(&'static [(u32, f64)]),
}

impl SeekCurve {
    /// A square-root curve through a single-cylinder time and a mean over random pairs of
    /// `cylinders`, for drives with only these two figures published. The mean of sqrt(d) is 8/15
    /// of sqrt(cylinders).
    pub fn from_mean(single_ms: f64, mean_ms: f64, cylinders: u32) -> SeekCurve {
        let mean_root = 8.0 / 15.0 * f64::from(cylinders).sqrt();
        let b_ms = (mean_ms - single_ms) / (mean_root - 1.0);
        let a_ms = single_ms - b_ms;
        SeekCurve::Pieces { first_ms: &[], boundary: u32::MAX, a_ms, b_ms, c_ms: 0.0, e_ms: 0.0 }
    }

    /// The time for a distance; zero for none.
    pub fn ns(&self, cylinders: u32) -> Nanos {
        if cylinders == 0 {
            return 0;
        }
        let ms = match self {
            SeekCurve::Pieces { first_ms, boundary, a_ms, b_ms, c_ms, e_ms } => {
                let d = f64::from(cylinders);
                match first_ms.get(cylinders as usize - 1) {
                    Some(ms) => *ms,
                    None if cylinders <= *boundary => a_ms + b_ms * d.sqrt(),
                    None => c_ms + e_ms * d,
                }
            }
            SeekCurve::Table(points) => interpolate(points, cylinders),
        };
        ms_to_ns(ms)
    }
}

fn interpolate(points: &[(u32, f64)], d: u32) -> f64 {
    let after = points.partition_point(|p| p.0 < d);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (_, Some(&(at, ms))) if at == d => ms,
        (Some((low, a)), Some(&(high, b))) => {
            a + (b - a) * f64::from(d - low) / f64::from(high - low)
        }
        (None, Some(&(_, ms))) | (Some((_, ms)), None) => ms,
        (None, None) => 0.0,
    }
}

/// Milliseconds as nanoseconds; negative ones become zero.
pub(super) fn ms_to_ns(ms: f64) -> Nanos {
    (ms * MILLIS as f64).round().max(0.0) as Nanos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_that_a_curve_was_made_from_comes_out() {
        let cylinders = 1546;
        let curve = SeekCurve::from_mean(4.0, 17.5, cylinders);
        assert_eq!(curve.ns(1), 4 * MILLIS);
        let n = f64::from(cylinders);
        let mean: f64 =
            (1..cylinders).map(|d| 2.0 * (n - f64::from(d)) / (n * n) * curve.ns(d) as f64).sum();
        assert!((mean / 17.5e6 - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn a_table_is_interpolated_and_flat_at_its_ends() {
        let curve = SeekCurve::Table(&[(1, 1.0), (3, 2.0), (13, 4.0)]);
        let ms: Vec<_> = [0, 1, 2, 3, 8, 13, 99].iter().map(|&d| curve.ns(d)).collect();
        assert_eq!(
            ms,
            [0, 1, 1, 2, 3, 4, 4]
                .iter()
                .zip([0, 0, 1, 0, 0, 0, 0])
                .map(|(ms, half)| ms * MILLIS + half * MILLIS / 2)
                .collect::<Vec<_>>()
        );
    }
}
