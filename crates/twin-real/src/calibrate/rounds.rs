//! Which rounds of a calibration saw the machine that is to be simulated.
//!
//! Contract: what disturbs a measurement makes it longer. A round is left out if its figures are clearly longer than
//! those of the quietest quarter, which is the case while another job runs; if no round is quiet, all are alike and
//! none is left out. At least half of the rounds stay.

/// A round whose figures are longer than those of the quietest quarter by more than this factor, in the geometric
/// mean over all figures, was disturbed.
const DISTURBED: f64 = 1.3;
/// With fewer rounds nothing is known of what is usual.
const FEWEST: usize = 3;

/// For each round whether it stays. `figures` are times, each in every round.
pub(super) fn undisturbed(figures: &[Vec<f64>]) -> Vec<bool> {
    let rounds = figures.first().map_or(0, Vec::len);
    if rounds < FEWEST {
        return vec![true; rounds];
    }
    let known = |times: &&Vec<f64>| times.len() == rounds && times.iter().all(|us| *us > 0.0);
    let known: Vec<&Vec<f64>> = figures.iter().filter(known).collect();
    let of_round = |round: usize| {
        let logs: f64 = known.iter().map(|times| times[round].ln()).sum();
        (logs / known.len().max(1) as f64).exp()
    };
    let indices: Vec<f64> = (0..rounds).map(of_round).collect();
    let mut sorted = indices.clone();
    sorted.sort_by(f64::total_cmp);
    let most = (sorted[(rounds - 1) / 4] * DISTURBED).max(sorted[(rounds - 1) / 2]);
    indices.iter().map(|index| *index <= most).collect()
}

/// The values of the rounds that stay.
pub(super) fn kept<T>(all: Vec<T>, stays: &[bool]) -> Vec<T> {
    if all.len() != stays.len() {
        return all;
    }
    all.into_iter().zip(stays).filter(|(_, stays)| **stays).map(|(value, _)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_beside_another_job_are_left_out() {
        let beside = [false, false, true, true, true, false, false, false];
        let times = |us: f64| -> Vec<f64> {
            let slower = |(n, busy): (usize, &bool)| {
                us * (1.0 + n as f64 / 50.0) * if *busy { 1.8 } else { 1.0 }
            };
            beside.iter().enumerate().map(slower).collect()
        };
        let stays = undisturbed(&[times(40.0), times(3.0), times(900.0)]);
        assert_eq!(stays, beside.map(|busy| !busy));
        assert_eq!(kept((0..8).collect(), &stays), [0, 1, 5, 6, 7]);
    }

    #[test]
    fn rounds_that_are_alike_all_stay_and_half_of_them_always() {
        assert_eq!(undisturbed(&[vec![10.0, 11.0, 12.0, 10.5]]), [true; 4]);
        let rising: Vec<f64> = (0..8).map(|n| 2f64.powi(n)).collect();
        assert_eq!(undisturbed(&[rising]).iter().filter(|stays| **stays).count(), 4);
        assert_eq!(undisturbed(&[vec![1.0, 50.0]]), [true; 2]);
        assert!(undisturbed(&[]).is_empty());
    }

    #[test]
    fn a_figure_that_was_not_measured_in_every_round_does_not_count() {
        assert_eq!(undisturbed(&[vec![1.0; 4], vec![9.0], vec![0.0, 1.0, 1.0, 1.0]]), [true; 4]);
        assert_eq!(kept(vec![1], &[true, false]), [1]);
    }
}
