//! Two targets held against each other by pairs: their runs in one round, minutes apart.
//!
//! Contract: on a machine that others use too, one round may be twice as slow as the next for everybody. A ratio is
//! therefore formed within each round, and what is said follows from how many rounds agree: one target is ahead if as
//! many or more would be so by chance in at most one of twenty such comparisons (the sign test, one-sided). With less
//! than five pairs nothing can be.

use twin_lab::median;

use super::run::Row;

/// How likely what is said may be by chance.
const BY_CHANCE: f64 = 0.05;

/// The ratios of one target's rates to another's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pairs {
    /// The median, and the range of the middle half.
    pub(crate) middle: f64,
    /// The lower quartile.
    low: f64,
    /// The upper quartile.
    high: f64,
    /// Rounds in which the first was the faster one.
    pub(crate) ahead: usize,
    /// Rounds in which both ran.
    pub(crate) count: usize,
}

/// What the pairs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The first is faster.
    Ahead,
    /// The second is faster.
    Behind,
    /// Nothing: too few pairs, or they disagree.
    Nothing,
}

impl Pairs {
    /// The pairs of two targets in a row, by their places; `None` if they never ran in one round.
    pub(crate) fn of(row: &Row, ours: usize, theirs: usize) -> Option<Pairs> {
        let rate = |place: usize, round: usize| {
            let at = row.rounds[place].iter().position(|&each| each == round)?;
            Some(row.rates[place][at])
        };
        let pair = |&round: &usize| Some(rate(ours, round)? / rate(theirs, round)?);
        let ratios: Vec<f64> =
            row.rounds[ours].iter().filter_map(pair).filter(|r| r.is_finite()).collect();
        if ratios.is_empty() {
            return None;
        }
        let ahead = ratios.iter().filter(|&&ratio| ratio > 1.0).count();
        let (low, high) = (quantile(&ratios, 0.25), quantile(&ratios, 0.75));
        Some(Pairs { middle: median(&ratios), low, high, ahead, count: ratios.len() })
    }

    /// What they show.
    pub(crate) fn shown(&self) -> Shown {
        match (by_chance(self.ahead, self.count), by_chance(self.count - self.ahead, self.count)) {
            (chance, _) if chance <= BY_CHANCE => Shown::Ahead,
            (_, chance) if chance <= BY_CHANCE => Shown::Behind,
            _ => Shown::Nothing,
        }
    }

    /// The verdict on the first target, beside one of that name.
    pub(crate) fn verdict(&self, name: &str) -> String {
        let Pairs { low, high, ahead, count, .. } = self;
        let behind = count - ahead;
        match self.shown() {
            Shown::Ahead => format!(
                "ahead of {name}, {low:.2} to {high:.2} times as fast, in {ahead} of {count} pairs"
            ),
            Shown::Behind => format!(
                "behind {name}, {low:.2} to {high:.2} times as fast, in {behind} of {count} pairs"
            ),
            Shown::Nothing => format!(
                "no difference from {name} is shown by {count} pairs ({low:.2} to {high:.2})"
            ),
        }
    }
}

/// The value below which this share of the values lies, between two of them in proportion.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// How likely it is that at least `heads` of `count` tosses of a coin are heads.
fn by_chance(heads: usize, count: usize) -> f64 {
    let mut ways = 1.0;
    let mut sum = 0.0;
    for tails in 0..=count - heads {
        sum += ways;
        ways *= (count - tails) as f64 / (tails + 1) as f64;
    }
    sum / 2f64.powi(count as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], theirs: &[f64]) -> Row {
        let rounds = |rates: &[f64]| (0..rates.len()).collect();
        let rates = vec![ours.to_vec(), theirs.to_vec()];
        let rounds = vec![rounds(ours), rounds(theirs)];
        Row { bench: "small".into(), phase: "create", unit: "files/s", rates, rounds }
    }

    #[test]
    fn a_machine_that_is_slow_for_both_in_some_rounds_changes_no_verdict() {
        let theirs = [10.0, 5.0, 20.0, 1.0, 10.0];
        let ours = theirs.map(|rate| 2.0 * rate);
        let pairs = Pairs::of(&row(&ours, &theirs), 0, 1).unwrap();
        assert_eq!((pairs.middle, pairs.ahead, pairs.count), (2.0, 5, 5));
        assert_eq!(
            pairs.verdict("ext4"),
            "ahead of ext4, 2.00 to 2.00 times as fast, in 5 of 5 pairs"
        );
        let other = Pairs::of(&row(&ours, &theirs), 1, 0).unwrap();
        assert_eq!(other.shown(), Shown::Behind);
    }

    #[test]
    fn few_pairs_and_pairs_that_disagree_show_nothing() {
        let four = Pairs::of(&row(&[2.0; 4], &[1.0; 4]), 0, 1).unwrap();
        assert_eq!(four.shown(), Shown::Nothing);
        let torn = Pairs::of(&row(&[2.0, 1.0, 2.0, 1.0, 2.0, 2.0], &[1.5; 6]), 0, 1).unwrap();
        assert_eq!((torn.ahead, torn.shown()), (4, Shown::Nothing));
    }

    #[test]
    fn a_round_that_one_of_them_failed_is_no_pair() {
        let mut row = row(&[3.0, 9.0], &[1.0, 2.0, 3.0]);
        row.rounds[0] = vec![0, 2];
        let pairs = Pairs::of(&row, 0, 1).unwrap();
        assert_eq!((pairs.count, pairs.middle), (2, 3.0));
        row.rounds[0] = vec![7, 8];
        assert_eq!(Pairs::of(&row, 0, 1), None);
    }

    #[test]
    fn chances_are_those_of_coins() {
        assert_eq!((by_chance(5, 5), by_chance(0, 3)), (1.0 / 32.0, 1.0));
        assert_eq!(by_chance(8, 9), 10.0 / 512.0);
    }
}
