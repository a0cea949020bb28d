//! The tally of a paper: how many of its independent checks hold, in one line.

use super::choices::{self, Standing};
use super::{Judged, Kind, Paper};

impl Paper {
    /// The number of numbers behind its checks that were set with some result in view.
    pub fn free_numbers(self) -> usize {
        let of_paper = choices::all().filter(|c| c.papers.contains(&self));
        of_paper.map(|c| if c.standing == Standing::Fitted { c.numbers } else { 0 }).sum()
    }
}

/// The number of statements of a paper that hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The paper.
    pub paper: Paper,
    /// Number of independent checks that hold.
    pub held: usize,
    /// Number of independent checks.
    pub all: usize,
    /// The checks that are not counted: their kind, how many hold, how many there are.
    pub apart: Vec<(Kind, usize, usize)>,
}

impl Tally {
    /// The line that reports and docs/status.md have.
    pub fn line(&self) -> String {
        let free = match self.paper.free_numbers() {
            1 => "1 free number".into(),
            n => format!("{n} free numbers"),
        };
        let (title, held, all) = (self.paper.title(), self.held, self.all);
        if all == 0 {
            return format!("{title}: of what ran nothing is counted");
        }
        format!("{title}: {held} of {all} hold, with {free}")
    }

    /// The checks that are not counted, in words; empty if there are none.
    pub fn apart_in_words(&self) -> String {
        let one = |(kind, held, all): &(Kind, usize, usize)| {
            format!("{held} of {all} {} hold", kind.name())
        };
        let all: Vec<String> = self.apart.iter().map(one).collect();
        all.join(", ")
    }
}

/// The tallies by paper, in the order in which the papers occur.
pub fn tally(judged: &[Judged]) -> Vec<Tally> {
    let mut papers: Vec<Paper> = Vec::new();
    for judged in judged.iter().filter(|j| !papers.contains(&j.claim.paper())).collect::<Vec<_>>() {
        if !papers.contains(&judged.claim.paper()) {
            papers.push(judged.claim.paper());
        }
    }
    let of = |paper| {
        let checks = || judged.iter().filter(|j| j.claim.paper() == paper).flat_map(|j| &j.checks);
        let count = |wanted: &dyn Fn(Kind) -> bool| {
            let all = || checks().filter(|c| wanted(c.kind));
            (all().filter(|c| c.holds()).count(), all().count())
        };
        let (held, all) = count(&Kind::counts);
        let apart = Kind::ALL.into_iter().filter(|kind| !kind.counts());
        let apart = apart.map(|kind| (kind, count(&|k| k == kind)));
        let apart = apart.map(|(kind, (held, all))| (kind, held, all)).filter(|(.., all)| *all > 0);
        Tally { paper, held, all, apart: apart.collect() }
    };
    papers.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Check, Expect, claims};
    use super::*;

    #[test]
    fn only_independent_checks_are_counted_by_paper() {
        let claim = |id| claims().iter().find(|c| c.id == id).unwrap();
        let bound = Expect::AtLeast(1.0);
        let judged = [
            Judged {
                claim: claim("small-read"),
                checks: vec![Check::paper("a", bound, 2.0), Check::order("b", bound, 0.0)],
            },
            Judged {
                claim: claim("tpcb-cleaner"),
                checks: vec![Check::fitted("c", bound, 2.0), Check::forced("d", bound, 0.0)],
            },
            Judged { claim: claim("efs-async"), checks: vec![Check::own("e", bound, 2.0)] },
        ];
        let tallies = tally(&judged);
        let counts: Vec<_> = tallies.iter().map(|t| (t.paper, t.held, t.all)).collect();
        assert_eq!(counts, [(Paper::Lvc, 1, 2), (Paper::Clc, 0, 0)]);
        let lines: Vec<String> = tallies.iter().map(Tally::line).collect();
        assert!(lines[0].contains(": 1 of 2 hold") && lines[1].ends_with("nothing is counted"));
        assert_eq!(tallies[0].apart_in_words(), "1 of 1 fitted hold, 0 of 1 forced hold");
    }
}
