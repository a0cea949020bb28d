//! What became of a volume that was made old: how its files lie, and whether they are as the profile says.

use serde::Serialize;
use twin_age::{Agreement, Bucket, Layout, Plan, Planned, agreement};
use twin_report::table::{figure, fixed};
use twin_report::{Part, Report, Table};
use twin_settings::value::bytes_for_people;

use crate::age::Aged;

/// What became of a volume.
#[derive(Serialize)]
pub struct AgedReport {
    output: String,
    volume: String,
    layout_score: Option<f64>,
    layout_score_without_fragments: Option<f64>,
    dynamic_score: Option<f64>,
    files: u64,
    file_bytes: u64,
    requests: u64,
    failed: u64,
    planned_operations: u64,
    planned_written_bytes: u64,
    #[serde(rename = "used_share")]
    used: f64,
    write_cost: Option<f64>,
    /// Of a profile: the distances of sizes and ages from it.
    size_distance: Option<f64>,
    age_distance: Option<f64>,
    has_converged: Option<bool>,
    #[serde(skip)]
    agreements: Vec<Agreed>,
}

impl AgedReport {
    /// Of the volume in the file `output`, with the plan that made it, unless it was a history or a copy.
    pub fn of(output: &str, aged: &Aged, planned: &Planned, plan: Option<&Plan>) -> AgedReport {
        let agreements = plan.map_or(Vec::new(), |plan| agreements(plan, planned, aged));
        let distance = |nth: usize| agreements.get(nth).map(|(.., agreement)| agreement.distance);
        let Layout { score, dynamic, files, file_bytes, .. } = &aged.layout;
        AgedReport {
            output: output.into(),
            volume: aged.description.clone(),
            layout_score: score.value(),
            layout_score_without_fragments: score.without_fragments(),
            dynamic_score: dynamic.value(),
            files: *files,
            file_bytes: *file_bytes,
            requests: aged.requests,
            failed: aged.failed,
            planned_operations: planned.operations,
            planned_written_bytes: planned.written_bytes,
            used: aged.used as f64 / aged.capacity.max(1) as f64,
            write_cost: aged.write_cost,
            size_distance: distance(0),
            age_distance: distance(1),
            has_converged: (!agreements.is_empty())
                .then(|| agreements.iter().all(|(.., agreement)| agreement.has_converged())),
            agreements,
        }
    }

    /// Whether sizes and ages of files have converged to the profile, if there is one.
    pub fn has_converged(&self) -> Option<bool> {
        self.has_converged
    }

    /// The report, whose only row this is.
    pub fn report(&self, aged: &Aged) -> Report {
        let mut report = Report::answer("age", "An aged volume");
        report.set_verdict(self.verdict(aged), "");
        for part in self.parts() {
            report.add(part);
        }
        report.add_rows([self]);
        report
    }

    /// What became of the volume, and whether its files are as the profile says.
    fn verdict(&self, aged: &Aged) -> String {
        let score = |value: Option<f64>| value.map_or("-".into(), |v| format!("{v:.3}"));
        let mut text = format!(
            "{} is {:.1}% full of {} after {} requests: {} files of {} ({}).\nLayout score {} ({} with \
             fragments left out), dynamic score {}, write cost {}.",
            self.output,
            self.used * 100.0,
            bytes_for_people(aged.capacity),
            self.requests,
            self.files,
            bytes_for_people(self.file_bytes),
            self.volume,
            score(self.layout_score),
            score(self.layout_score_without_fragments),
            score(self.dynamic_score),
            self.write_cost.map_or("-".into(), |cost| format!("{cost:.2}")),
        );
        text += match self.has_converged {
            None => "",
            Some(true) => "\nSizes and ages of files have converged to the profile.",
            Some(false) => "\nSizes or ages of files have NOT converged to the profile.",
        };
        text
    }

    /// Sizes and ages beside those of the profile.
    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (what, unit, agreement) in &self.agreements {
            let verdict = if agreement.has_converged() { "converged" } else { "NOT converged" };
            let words = format!(
                "{what}: {verdict}, {:.4} from the profile (chance alone reaches {:.4} once in a hundred).",
                agreement.distance, agreement.by_chance
            );
            parts.push(words.into());
            let row = |bucket: &Bucket| {
                let shares = [bucket.expected, bucket.found].map(|share| fixed(share * 100.0, 2));
                [figure(bucket.bound / unit.1)].into_iter().chain(shares).collect()
            };
            let buckets = agreement.buckets.iter().filter(|b| b.expected + b.found > 0.0);
            let columns = [format!("up to, {}", unit.0), "profile, %".into(), "volume, %".into()];
            parts.push(Table::new(columns, 1).with(buckets.map(row)).into());
        }
        parts
    }
}

/// Sizes or ages: their name, the unit in which they are shown with its length in that of the profile, and how far they
/// agree.
type Agreed = (&'static str, (&'static str, f64), Agreement);

/// Sizes and ages of the files on the volume beside the profile's.
fn agreements(plan: &Plan, planned: &Planned, aged: &Aged) -> Vec<Agreed> {
    let sizes = aged.map.regular().map(|file| file.size as f64);
    let now = aged.map.now_s();
    let age = |mtime_s: i64| (now - mtime_s) as f64 * 1e9 / planned.age_unit_ns;
    let ages = aged.map.regular().map(|file| age(file.mtime_s));
    let of_sizes =
        plan.sizes().map(|expected| ("Sizes", ("bytes", 1.0), agreement(&expected, sizes)));
    let days = ("days", 86_400e9 / planned.age_unit_ns);
    let of_ages = ("Ages", days, agreement(&plan.profile.ages, ages));
    of_sizes.into_iter().chain([of_ages]).collect()
}
