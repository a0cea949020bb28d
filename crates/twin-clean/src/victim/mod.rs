//! Victim policies: which sealed segment is cleaned next.
//!
//! A policy is a file here and a line in [`REGISTRY`]. It sees all segments and names one of the
//! [`Candidates`]: the sealed ones with enough garbage. Ties go to the lower number, so that runs
//! are repeatable.

mod cost_benefit;
mod cost_hotness;
mod d_choices;
mod greedy;
mod mdc;
mod oldest;
mod random_greedy;
mod twin;
mod windowed;

use twin_settings::{Registry, RegistryEntry};

use crate::inputs::{LogView, Needs, SegmentInfo, SegmentState, Setting};

/// Segments that may be cleaned.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// The state of the log.
    pub view: LogView<'a>,
    /// The least share of garbage in a victim.
    pub min_garbage_share: f64,
}

impl<'a> Candidates<'a> {
    /// Segments that may be cleaned, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &'a SegmentInfo)> + use<'a> {
        let share = self.min_garbage_share;
        (0u32..).zip(self.view.segments).filter(move |(_, segment)| {
            let garbage = segment.written_blocks.saturating_sub(segment.live_blocks);
            segment.state == SegmentState::Sealed
                && garbage > 0
                && f64::from(garbage) >= share * f64::from(segment.written_blocks)
        })
    }

    /// The candidate with the highest `score`.
    pub fn best(&self, mut score: impl FnMut(&SegmentInfo) -> f64) -> Option<u32> {
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
    /// The segment to clean next; `None` if there is no candidate.
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32>;

    /// The additional inputs that it needs.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}

/// Makes a policy for a setting. It may hold what it needs for that.
pub type Maker = &'static (dyn Fn(&Setting) -> Box<dyn VictimPolicy> + Send + Sync);

/// What is known of a policy beside its name and its rule.
pub struct VictimSpec {
    /// The publication of the rule.
    pub source: &'static str,
    make: Maker,
}

impl VictimSpec {
    /// A policy from outside, to be [added](Registry::add) to the [registry](REGISTRY). It is kept until the
    /// program ends.
    pub fn from_outside(
        source: &str,
        make: impl Fn(&Setting) -> Box<dyn VictimPolicy> + Send + Sync + 'static,
    ) -> VictimSpec {
        VictimSpec { source: String::from(source).leak(), make: Box::leak(Box::new(make)) }
    }

    /// A new policy of this kind.
    pub fn make(&self, setting: &Setting) -> Box<dyn VictimPolicy> {
        (self.make)(setting)
    }
}

/// The default of a file system.
pub const OF_FILE_SYSTEMS: &str = "cost-benefit";

/// A policy in the registry.
pub type VictimEntry = RegistryEntry<VictimSpec>;

/// All policies. What is said about an entry is its rule.
pub static REGISTRY: Registry<VictimSpec> = Registry::with_default(
    "victim policy",
    "twin",
    &[
        RegistryEntry::new(
            "twin",
            "least h*u / (g - u*ln(1/u)), h the measured death rate of its blocks",
            VictimSpec {
                source: "ours; optimal stopping for memoryless blocks, see docs/cleaning.md",
                make: &|_| Box::new(twin::Twin::default()),
            },
        ),
        RegistryEntry::new(
            "greedy",
            "the most garbage",
            VictimSpec {
                source: "Rosenblum and Ousterhout, SOSP 1991, section 3.5",
                make: &|_| Box::new(greedy::Greedy),
            },
        ),
        RegistryEntry::new(
            OF_FILE_SYSTEMS,
            "most (1-u) * age / (1+u), age since the youngest block was written",
            VictimSpec {
                source: "Rosenblum and Ousterhout, SOSP 1991, section 3.6",
                make: &|_| Box::new(cost_benefit::CostBenefit),
            },
        ),
        RegistryEntry::new(
            "cost-benefit-sqrt",
            "most (1-u)/u * sqrt(age), age since the segment was sealed",
            VictimSpec {
                source: "Wang et al., SepBIT, FAST 2022: as in the published code",
                make: &|_| Box::new(cost_benefit::CostBenefitSqrt),
            },
        ),
        RegistryEntry::new(
            "cost-hotness",
            "most (1-u) / (u * hotness), hotness = sum of write counts / sum of ages",
            VictimSpec {
                source: "Min et al., SFS, FAST 2012, section 3.3",
                make: &|_| Box::new(cost_hotness::CostHotness),
            },
        ),
        RegistryEntry::new(
            "d-choices",
            "the most garbage among 10 drawn at random",
            VictimSpec {
                source: "Van Houdt, SIGMETRICS 2013",
                make: &|setting| Box::new(d_choices::DChoices::new(setting)),
            },
        ),
        RegistryEntry::new(
            "windowed-greedy",
            "the most garbage among the 90% that were sealed first",
            VictimSpec {
                source: "Hu et al., SYSTOR 2009; window as in SepBIT's code",
                make: &|_| Box::new(windowed::Windowed::default()),
            },
        ),
        RegistryEntry::new(
            "random-greedy",
            "the most garbage in a random fifth of the candidates",
            VictimSpec {
                source: "Li, Lee and Lui, SIGMETRICS 2013; share as in SepBIT's code",
                make: &|setting| Box::new(random_greedy::RandomGreedy::new(setting)),
            },
        ),
        RegistryEntry::new(
            "oldest-first",
            "the one that was sealed first",
            VictimSpec {
                source: "the circular log; FIFO in the literature on flash",
                make: &|_| Box::new(oldest::Oldest),
            },
        ),
        RegistryEntry::new(
            "mdc",
            "least (u/g)^2 / (u * time since the last update but one): minimum declining cost",
            VictimSpec { source: "Lomet and Luo, ICDE 2021", make: &|_| Box::new(mdc::Mdc) },
        ),
    ],
);
