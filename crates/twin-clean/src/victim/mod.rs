//! Victim policies: which sealed segment is cleaned next.
//!
//! A policy is a file here and a line in [`registry`]. It is shown all segments and names one of
//! the [`Candidates`]: the sealed ones with enough garbage. Ties go to the lower number, so that
//! a run repeats.

mod cost_benefit;
mod cost_hotness;
mod d_choices;
mod greedy;
mod mdc;
mod oldest;
mod random_greedy;
mod twin;
mod windowed;

use crate::facts::{Needs, SegmentFacts, Setting, State, View};

/// Segments that may be cleaned.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// The log.
    pub view: View<'a>,
    /// The share of garbage that a victim has at least.
    pub min_garbage_share: f64,
}

impl<'a> Candidates<'a> {
    /// Segments that may be cleaned, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a SegmentFacts)> + use<'a> {
        let share = self.min_garbage_share;
        (0u32..).zip(self.view.segments).filter(move |(_, segment)| {
            let garbage = segment.written_blocks.saturating_sub(segment.live_blocks);
            segment.state == State::Sealed
                && garbage > 0
                && f64::from(garbage) >= share * f64::from(segment.written_blocks)
        })
    }

    /// The candidate for which `score` is highest.
    pub fn best(&self, mut score: impl FnMut(&SegmentFacts) -> f64) -> Option<u32> {
        let mut best: Option<(f64, u32)> = None;
        for (number, segment) in self.iter() {
            let score = score(segment);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, number));
            }
        }
        best.map(|(_, number)| number)
    }
}

/// Chooses segments to clean.
pub trait VictimPolicy {
    /// The segment to clean next; none if there is no candidate.
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32>;

    /// What it needs to be told.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}

/// A victim policy by name.
pub struct Entry {
    /// What settings call it.
    pub name: &'static str,
    /// Its rule in a line.
    pub rule: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
    make: fn(&Setting) -> Box<dyn VictimPolicy>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Entry {
    /// A policy of this kind.
    pub fn make(&self, setting: &Setting) -> Box<dyn VictimPolicy> {
        (self.make)(setting)
    }
}

/// What a file system has if nothing is said.
pub const OF_FILE_SYSTEMS: &str = "cost-benefit";

/// All victim policies; the first is the default.
pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "twin",
            rule: "least h*u / (g - u*ln(1/u)), h the measured death rate of its blocks",
            source: "ours; optimal stopping for memoryless blocks, see docs/cleaning.md",
            make: |_| Box::new(twin::Twin::default()),
        },
        Entry {
            name: "greedy",
            rule: "the most garbage",
            source: "Rosenblum and Ousterhout, SOSP 1991, section 3.5",
            make: |_| Box::new(greedy::Greedy),
        },
        Entry {
            name: OF_FILE_SYSTEMS,
            rule: "most (1-u) * age / (1+u), age since the youngest block was written",
            source: "Rosenblum and Ousterhout, SOSP 1991, section 3.6",
            make: |_| Box::new(cost_benefit::CostBenefit),
        },
        Entry {
            name: "cost-benefit-sqrt",
            rule: "most (1-u)/u * sqrt(age), age since the segment was sealed",
            source: "Wang et al., SepBIT, FAST 2022: as in the published code",
            make: |_| Box::new(cost_benefit::CostBenefitSqrt),
        },
        Entry {
            name: "cost-hotness",
            rule: "most (1-u) / (u * hotness), hotness = sum of write counts / sum of ages",
            source: "Min et al., SFS, FAST 2012, section 3.3",
            make: |_| Box::new(cost_hotness::CostHotness),
        },
        Entry {
            name: "d-choices",
            rule: "the most garbage among 10 drawn at random",
            source: "Van Houdt, SIGMETRICS 2013",
            make: |setting| Box::new(d_choices::DChoices::new(setting)),
        },
        Entry {
            name: "windowed-greedy",
            rule: "the most garbage among the 90% that were sealed first",
            source: "Hu et al., SYSTOR 2009; window as in SepBIT's code",
            make: |_| Box::new(windowed::Windowed::default()),
        },
        Entry {
            name: "random-greedy",
            rule: "the most garbage in a random fifth of the candidates",
            source: "Li, Lee and Lui, SIGMETRICS 2013; share as in SepBIT's code",
            make: |setting| Box::new(random_greedy::RandomGreedy::new(setting)),
        },
        Entry {
            name: "oldest-first",
            rule: "the one that was sealed first",
            source: "the circular log; FIFO in the literature on flash",
            make: |_| Box::new(oldest::Oldest),
        },
        Entry {
            name: "mdc",
            rule: "least (u/g)^2 / (u * time since the last update but one): minimum declining cost",
            source: "Lomet and Luo, ICDE 2021",
            make: |_| Box::new(mdc::Mdc),
        },
    ]
}

/// The policy called `name`.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    registry().iter().find(|entry| entry.name == name)
}
