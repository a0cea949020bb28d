//! What a judgement says: to people, to programs, and to evolutionary searches.
//!
//! Contract: in JSON an answer has, beside what all answers have, `metrics`, `combined_score` and `artifacts`, as the
//! EvaluationResult of OpenEvolve: numbers by name, the number that is to grow, and texts that help whoever writes the
//! next policy. A refused policy has a score of 0 and says why.

use serde_json::{Map, Value, json};
use twin_lab::median;
use twin_report::units::list;
use twin_report::{Part, Report, Table, cells};
use twin_verdict::differ;

use crate::arena::{Evaluation, Judged, StageResult};
use crate::score::Values;

/// What mounts have shown.
#[derive(Clone, Debug)]
pub enum Mounted {
    /// Nothing: why.
    Not(String),
    /// Seconds until the workload was done, of the policy and of the best of the registry, by run.
    Seconds {
        /// Of the policy.
        own: Vec<f64>,
        /// Of the best of the registry.
        best: Vec<f64>,
        /// What was measured, in words.
        words: String,
    },
    /// They failed.
    Failed(String),
}

impl Mounted {
    /// The time of the best against that of the policy: above 1 it is faster.
    fn ratio(&self) -> Option<f64> {
        match self {
            Mounted::Seconds { own, best, .. } => Some(median(best) / median(own).max(1e-9)),
            _ => None,
        }
    }
}

impl Evaluation {
    /// The report.
    pub fn report(&self, mounted: &Mounted) -> Report {
        let title = format!("{} in the arena of {}", self.policy, self.task);
        let mut report = Report::answer("arena", title);
        report.set_verdict(self.verdict(mounted), self.judged_by());
        for stage in &self.stages {
            for (set, judged) in sets(stage) {
                report.on_page(Part::heading(format!("{}, {set}", stage.name)));
                report.add(format!(
                    "{}, {set}: {:.3} against {}. Figures are those of the policy / of {2}.",
                    stage.name, judged.score, judged.best
                ));
                report.add(table(judged));
            }
        }
        if let Mounted::Seconds { words, .. } = mounted {
            report.add(words.clone());
        }
        if !self.left_out.is_empty() {
            report.add(format!("Left out: {}.", self.left_out.join("; ")));
        }
        report.add_rows(self.rows());
        let score = self.combined_score();
        report.add_member("metrics", Value::Object(self.metrics(mounted)));
        report.add_member("combined_score", json!(score));
        report.add_member("artifacts", Value::Object(self.artifacts(mounted)));
        report
    }

    /// In one to three sentences.
    fn verdict(&self, mounted: &Mounted) -> String {
        if let Some(refusal) = &self.refused {
            return format!("{} is refused: {}.", self.policy, refusal.words);
        }
        let Some(stage) = self.stages.last() else { return "Nothing ran.".into() };
        let of_stages = |judged: &dyn Fn(&StageResult) -> Option<Judged>| {
            let all = self.stages.iter().filter_map(|stage| Some((stage.name, judged(stage)?)));
            let words = |(name, one): (&str, Judged)| {
                format!("{:.3} in the {name} against {}", one.score, one.best)
            };
            list(&all.map(words).collect::<Vec<_>>())
        };
        let mut text = format!(
            "{} has a score of {:.3}: {}.",
            self.policy,
            self.combined_score(),
            of_stages(&|stage| Some(stage.public.clone()))
        );
        match of_stages(&|stage| stage.held_out.clone()) {
            held_out if held_out.is_empty() => {
                text += "\nWhat a search must not see was not run (--held-out).";
            }
            held_out => text += &format!("\nOn what a search does not see it has {held_out}."),
        }
        match mounted {
            Mounted::Seconds { own, best, .. } => {
                text += &format!(
                    "\nOn mounts it had {} and {} {}{}.",
                    span(own),
                    stage.public.best,
                    span(best),
                    if differ(own, best) { "" } else { ", which chance explains" }
                );
            }
            _ if !stage.passed() => {
                text += &format!(
                    "\nIt did not reach the {} that the next stage is worth.",
                    stage.go_on
                );
            }
            Mounted::Not(why) => text += &format!("\nIt was not mounted: {why}."),
            Mounted::Failed(why) => {
                text += &format!("\nIt could not be measured on mounts: {why}.")
            }
        }
        text
    }

    fn judged_by(&self) -> String {
        "A score is the weighted geometric mean of device time, write cost and bytes at risk, that of the best of \
         the registry on the same inputs being 1; more is better."
            .into()
    }

    /// Numbers by name.
    fn metrics(&self, mounted: &Mounted) -> Map<String, Value> {
        let mut all = Map::new();
        all.insert("combined_score".into(), json!(self.combined_score()));
        all.insert("refused".into(), json!(f64::from(u8::from(self.refused.is_some()))));
        all.insert("stages".into(), json!(self.stages.len() as f64));
        for stage in &self.stages {
            for (set, judged) in sets(stage) {
                let set = set.replace(' ', "_");
                let mut put = |what: &str, value: f64| {
                    all.insert(format!("{}_{set}_{what}", stage.name), json!(value));
                };
                put("score", judged.score);
                put("score_of_each", judged.score_of_each);
                let means =
                    ["device_s", "write_cost", "at_risk_bytes"].into_iter().zip(means(judged));
                means
                    .filter_map(|(name, mean)| Some((name, mean?)))
                    .for_each(|(name, mean)| put(name, mean));
                put("cpu_of_default", judged.cpu);
                put("memory_bytes", judged.more_memory_bytes as f64);
            }
        }
        if let Some(us) = self.longest_call_us {
            all.insert("longest_call_us".into(), json!(us));
        }
        if let (Some(ratio), Mounted::Seconds { own, best, .. }) = (mounted.ratio(), mounted) {
            all.insert("mount_ratio".into(), json!(ratio));
            all.insert("mount_differs".into(), json!(f64::from(u8::from(differ(own, best)))));
        }
        all
    }

    /// Texts for whoever writes the next policy.
    fn artifacts(&self, mounted: &Mounted) -> Map<String, Value> {
        let mut all = Map::new();
        all.insert("policy".into(), json!(self.policy));
        all.insert("about".into(), json!(self.about));
        if let Some(refusal) = &self.refused {
            all.insert("refused".into(), json!(refusal.words));
            all.insert("check".into(), json!(refusal.check));
        }
        for stage in &self.stages {
            let best = format!("best_of_registry_{}", stage.name);
            all.insert(best, json!(stage.public.best));
            // What a search must not see is in no artifact.
            let lines = stage.public.inputs.iter().map(|(name, own, best)| {
                format!("{name}: {}; the best: {}\n", words(own), words(best))
            });
            all.insert(format!("{}_inputs", stage.name), json!(lines.collect::<String>()));
        }
        if !self.left_out.is_empty() {
            all.insert("left_out".into(), json!(self.left_out.join("\n")));
        }
        match mounted {
            Mounted::Not(why) | Mounted::Failed(why) => {
                all.insert("mount".into(), json!(why));
            }
            Mounted::Seconds { own, best, words } => {
                all.insert("mount".into(), json!(words));
                all.insert("mount_own_s".into(), json!(texts(own)));
                all.insert("mount_best_s".into(), json!(texts(best)));
            }
        }
        all
    }

    fn rows(&self) -> Vec<Value> {
        let mut rows = Vec::new();
        for stage in &self.stages {
            for (set, judged) in sets(stage) {
                for (name, own, best) in &judged.inputs {
                    rows.push(json!({
                        "stage": stage.name,
                        "set": set,
                        "input": name,
                        "policy": self.policy,
                        "device_s": own.device_s,
                        "write_cost": own.write_cost,
                        "at_risk_bytes": own.at_risk_bytes,
                        "misses": own.misses,
                        "best": judged.best,
                        "best_device_s": best.device_s,
                        "best_write_cost": best.write_cost,
                        "best_at_risk_bytes": best.at_risk_bytes,
                        "best_misses": best.misses,
                        "set_score": judged.score,
                    }));
                }
            }
        }
        rows
    }
}

fn sets(stage: &StageResult) -> impl Iterator<Item = (&'static str, &Judged)> {
    let held_out = stage.held_out.iter().map(|judged| ("held out", judged));
    std::iter::once(("public", &stage.public)).chain(held_out)
}

/// Means over the inputs of what counts.
fn means(judged: &Judged) -> [Option<f64>; 3] {
    let all: Vec<[Option<f64>; 3]> = judged.inputs.iter().map(|(_, own, _)| own.each()).collect();
    [0, 1, 2].map(|at| {
        let values: Vec<f64> = all.iter().filter_map(|each| each[at]).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    })
}

fn words(values: &Values) -> String {
    let parts = [
        values.device_s.map(|s| format!("{s:.3} s of the device")),
        values.write_cost.map(|cost| format!("write cost {cost:.3}")),
        values.at_risk_bytes.map(|bytes| format!("{bytes:.0} bytes at risk")),
        values.misses.map(|misses| format!("{misses} misses")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The median of seconds, the least and the most.
fn span(seconds: &[f64]) -> String {
    let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = seconds.iter().copied().fold(0.0, f64::max);
    format!("{:.3} s ({least:.3} s to {most:.3} s)", median(seconds))
}

fn texts(seconds: &[f64]) -> String {
    seconds.iter().map(|s| format!("{s:.3}")).collect::<Vec<_>>().join(" ")
}

fn table(judged: &Judged) -> Table {
    let figure = |value: Option<f64>, digits: usize| match value {
        Some(value) => format!("{value:.digits$}"),
        None => String::new(),
    };
    let kib = |value: Option<f64>| value.map(|bytes| bytes / 1024.0);
    let rows = judged.inputs.iter().map(|(name, own, best)| {
        let pair = |a: Option<f64>, b: Option<f64>, digits| match (a, b) {
            (None, None) => String::new(),
            (a, b) => format!("{} / {}", figure(a, digits), figure(b, digits)),
        };
        cells![
            name.clone(),
            pair(own.device_s, best.device_s, 3),
            pair(own.write_cost, best.write_cost, 3),
            pair(kib(own.at_risk_bytes), kib(best.at_risk_bytes), 0),
        ]
    });
    Table::new(["input", "device s", "write cost", "KiB at risk"], 1).with(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluation(refused: Option<crate::Refusal>) -> Evaluation {
        let judged = |score: f64| Judged {
            score,
            score_of_each: score,
            best: "usual".into(),
            inputs: vec![("a load".into(), Values::default(), Values::default())],
            cpu: 1.0,
            more_memory_bytes: 0,
        };
        let stage = |name: &'static str, score: f64, held_out: Option<f64>| StageResult {
            name,
            public: judged(score),
            held_out: held_out.map(judged),
            go_on: 0.5,
        };
        let stages = vec![stage("study", 1.21, Some(0.9)), stage("simulation", 1.0, None)];
        Evaluation { policy: "new".into(), stages, refused, ..Evaluation::default() }
    }

    fn verdict(mounted: &Mounted) -> String {
        evaluation(None).report(mounted).verdict_text().to_owned()
    }

    #[test]
    fn the_score_is_of_all_stages_and_the_verdict_has_each() {
        let text = verdict(&Mounted::Not("nobody wanted it".into()));
        assert!(
            text.starts_with(
                "new has a score of 1.100: 1.210 in the study against usual and 1.000 in the simulation against usual."
            ),
            "{text}"
        );
        assert!(text.contains("does not see it has 0.900 in the study against usual."), "{text}");
        assert!(text.ends_with("It was not mounted: nobody wanted it."), "{text}");
    }

    #[test]
    fn mounts_that_chance_explains_are_called_so() {
        let of = |own: [f64; 5], best: [f64; 5]| {
            verdict(&Mounted::Seconds { own: own.into(), best: best.into(), words: String::new() })
        };
        let near = of([2.5, 0.7, 1.1, 2.8, 1.6], [1.0, 3.5, 1.7, 2.9, 3.0]);
        assert!(near.ends_with("2.900 s (1.000 s to 3.500 s), which chance explains."), "{near}");
        let far = of([1.0, 1.1, 1.2, 1.1, 1.0], [2.0, 2.1, 2.0, 2.2, 2.0]);
        assert!(far.ends_with("and usual 2.000 s (2.000 s to 2.200 s)."), "{far}");
    }

    #[test]
    fn what_was_refused_has_nothing_but_its_reason() {
        let refusal = crate::Refusal { check: "future", words: "it reads the future".into() };
        let report = evaluation(Some(refusal)).report(&Mounted::Not("refused".into()));
        assert_eq!(report.verdict_text(), "new is refused: it reads the future.");
    }
}
