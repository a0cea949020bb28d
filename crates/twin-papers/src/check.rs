//! A check: one published figure or statement held against ours, with the kind of evidence that it
//! is.

use twin_report::units::figure;

/// What a check is evidence of. Only [`Kind::Paper`] and [`Kind::Order`] count in a paper's tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A published figure, which no free number was set to.
    Paper,
    /// A published direction or bound: which of two is larger, or a limit that is not passed.
    Order,
    /// A figure of our own, which no paper has.
    Own,
    /// A free number was set with this figure in view, so that it holds shows little.
    Fitted,
    /// It follows from an assumption or from other checks, or is the same figure as that of another check.
    Forced,
}

impl Kind {
    /// All kinds, those that count first.
    pub const ALL: [Kind; 5] = [Kind::Paper, Kind::Order, Kind::Own, Kind::Fitted, Kind::Forced];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Paper => "paper",
            Kind::Order => "order",
            Kind::Own => "own",
            Kind::Fitted => "fitted",
            Kind::Forced => "forced",
        }
    }

    /// True if checks of this kind count in a paper's tally.
    pub fn counts(self) -> bool {
        matches!(self, Kind::Paper | Kind::Order)
    }
}

/// How a figure is compared with the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expect {
    /// The paper's figure: ours within 15%.
    Figure(f64),
    /// The paper's ratio: ours within 20%.
    Ratio(f64),
    /// The paper's figure, and how far from it ours may be, in the figure's own unit.
    Within(f64, f64),
    /// The paper gives a range: ours is in it, or within 15% of its ends.
    Between(f64, f64),
    /// Ours is at least this.
    AtLeast(f64),
    /// Ours is at most this.
    AtMost(f64),
}

/// Rounding errors in a difference from the paper's figure.
const ROUNDING: f64 = 1e-9;

impl Expect {
    /// Whether our figure agrees with the paper. What was not measured, not a number, does not.
    pub fn holds(self, ours: f64) -> bool {
        let within = |paper: f64, part: f64| (ours / paper - 1.0).abs() <= part + ROUNDING;
        match self {
            Expect::Figure(paper) => within(paper, 0.15),
            Expect::Ratio(paper) => within(paper, 0.20),
            Expect::Within(paper, distance) => (ours - paper).abs() <= distance + ROUNDING,
            Expect::Between(low, high) => ours >= low * 0.85 && ours <= high * 1.15,
            Expect::AtLeast(low) => ours >= low,
            Expect::AtMost(high) => ours <= high,
        }
    }

    /// The tolerance in words; nothing for a bound.
    pub fn tolerance(self) -> String {
        match self {
            Expect::Figure(_) | Expect::Between(..) => "within 15%".into(),
            Expect::Ratio(_) => "within 20%".into(),
            Expect::Within(_, distance) => format!("within {}", figure(distance)),
            Expect::AtLeast(_) | Expect::AtMost(_) => String::new(),
        }
    }
}

impl std::fmt::Display for Expect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expect::Figure(paper) | Expect::Ratio(paper) | Expect::Within(paper, _) => {
                write!(f, "{}", figure(*paper))
            }
            Expect::Between(low, high) if low == high => write!(f, "{}", figure(*low)),
            Expect::Between(low, high) => write!(f, "{} to {}", figure(*low), figure(*high)),
            Expect::AtLeast(low) => write!(f, "at least {}", figure(*low)),
            Expect::AtMost(high) => write!(f, "at most {}", figure(*high)),
        }
    }
}

/// One statement of a claim.
#[derive(Clone, Debug)]
pub struct Check {
    /// What it is evidence of.
    pub kind: Kind,
    /// The measured quantity, in words.
    pub what: String,
    /// The paper's value.
    pub paper: Expect,
    /// Our value.
    pub ours: f64,
    /// If it does not hold: the likely reason.
    pub reason: Option<&'static str>,
}

impl Check {
    fn new(kind: Kind, what: impl Into<String>, paper: Expect, ours: f64) -> Check {
        Check { kind, what: what.into(), paper, ours, reason: None }
    }

    /// A published figure.
    pub fn paper(what: impl Into<String>, paper: Expect, ours: f64) -> Check {
        Check::new(Kind::Paper, what, paper, ours)
    }

    /// A published direction or bound.
    pub fn order(what: impl Into<String>, paper: Expect, ours: f64) -> Check {
        Check::new(Kind::Order, what, paper, ours)
    }

    /// A figure of our own.
    pub fn own(what: impl Into<String>, paper: Expect, ours: f64) -> Check {
        Check::new(Kind::Own, what, paper, ours)
    }

    /// A figure to which a free number was set.
    pub fn fitted(what: impl Into<String>, paper: Expect, ours: f64) -> Check {
        Check::new(Kind::Fitted, what, paper, ours)
    }

    /// What follows from an assumption or from other checks.
    pub fn forced(what: impl Into<String>, paper: Expect, ours: f64) -> Check {
        Check::new(Kind::Forced, what, paper, ours)
    }

    /// Adds the reason why it does not hold.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Check {
        self.reason = Some(reason);
        self
    }

    /// Whether our figure agrees with the paper.
    pub fn holds(&self) -> bool {
        self.paper.holds(self.ours)
    }

    /// Our figure, with more digits where the usual number of digits would print a narrow miss like
    /// the bound.
    pub fn ours_in_words(&self) -> String {
        let short = figure(self.ours);
        match !self.holds() && self.paper.to_string().ends_with(&short) {
            true => format!("{:.4}", self.ours),
            false => short,
        }
    }

    /// Our value beside the paper's, with its tolerance or as the bound that it is.
    pub fn comparison(&self) -> String {
        let ours = self.ours_in_words();
        match self.paper {
            Expect::AtLeast(low) => {
                format!("ours {ours} where {} is the lower bound", figure(low))
            }
            Expect::AtMost(high) => {
                format!("ours {ours} where {} is the upper bound", figure(high))
            }
            other => format!("ours {ours}, paper {other} ({})", other.tolerance()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_ratios_and_ranges_are_judged_by_their_own_tolerance() {
        assert!(Expect::Figure(10.0).holds(11.4) && !Expect::Figure(10.0).holds(11.6));
        assert!(Expect::Ratio(10.0).holds(8.1) && !Expect::Ratio(10.0).holds(7.9));
        assert!(Expect::Within(1.0, 0.04).holds(1.04) && !Expect::Within(1.0, 0.04).holds(1.05));
        assert!(Expect::Between(3.0, 4.0).holds(4.5) && !Expect::Between(3.0, 4.0).holds(2.5));
        assert!(!Expect::Figure(10.0).holds(f64::NAN), "what was not run does not hold");
        assert!(!Expect::AtLeast(1.0).holds(f64::NAN));
        assert!(!Expect::AtMost(1.0).holds(f64::NAN));
    }

    #[test]
    fn what_just_misses_a_bound_does_not_look_like_it() {
        let check = |ours| Check::order("c", Expect::AtLeast(0.96), ours).ours_in_words();
        assert_eq!(
            (check(0.9583), check(0.9613), check(0.5)),
            ("0.9583".into(), "0.96".into(), "0.50".into())
        );
    }

    #[test]
    fn a_bound_is_printed_beside_the_value_and_a_figure_with_its_tolerance() {
        let bound = Check::order("c", Expect::AtMost(0.045), 0.004).comparison();
        assert_eq!(bound, "ours 0.004 where 0.045 is the upper bound");
        let figure = Check::paper("c", Expect::Ratio(10.0), 11.5).comparison();
        assert_eq!(figure, "ours 11.5, paper 10 (within 20%)");
    }
}
