//! Layout scores over time: a row for each snapshot, correlations with age, and a page (Smith and
//! Seltzer 1994, figures 3 and 5, table 5).

use serde::Serialize;
use serde_json::json;
use twin_age::history::{Correlation, correlation};
use twin_age::{Layout, SizeClass, VolumeMap};

use super::score;
use twin_report::draw::{BLUE, Chart, Line, lines, nth, over_time};
use twin_report::table::{Cell, fixed, percent};
use twin_report::{Part, Report, Table, cells};

const DAY_S: f64 = 86_400.0;

/// One snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct Day {
    /// The file.
    pub snapshot: String,
    /// The kind of file system.
    pub system: String,
    /// When it was made, in seconds since 1970.
    pub taken_s: i64,
    /// The layout score.
    pub layout_score: Option<f64>,
    /// The dynamic score.
    pub dynamic_score: Option<f64>,
    /// Regular files.
    pub files: u64,
    /// The share of space in use, where it is known.
    #[serde(rename = "used_share")]
    pub used: Option<f64>,
    /// The score of each size: the most blocks, and the score.
    pub by_blocks: Vec<(String, f64)>,
}

/// All snapshots of a history.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryReport {
    /// The score of the last snapshot.
    pub layout_score: Option<f64>,
    /// The snapshots, the oldest first.
    pub days: Vec<Day>,
    /// How score and age are related; none with fewer than three snapshots or without change.
    pub age: Option<Relation>,
    /// How score and the share in use are related.
    pub use_of_space: Option<Relation>,
}

/// A linear relation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Relation {
    /// The coefficient of correlation.
    pub coefficient: f64,
    /// The probability that there is no relation.
    pub p: f64,
    /// The change of the score in a year, or from empty to full.
    pub slope: f64,
}

impl Day {
    /// The row of a snapshot.
    pub fn of(snapshot: &str, map: &VolumeMap) -> Day {
        let layout = Layout::of(map);
        let class = |size: SizeClass, score: Option<f64>| Some((size.most().to_string(), score?));
        Day {
            snapshot: snapshot.into(),
            system: map.system.clone(),
            taken_s: map.now_s(),
            layout_score: layout.score.value(),
            dynamic_score: layout.dynamic.value(),
            files: layout.files,
            used: layout.free.as_ref().map(|free| free.used),
            by_blocks: layout
                .classes
                .iter()
                .filter_map(|c| class(c.size, c.score.value()))
                .collect(),
        }
    }
}

impl HistoryReport {
    /// The report on these snapshots.
    pub fn of(mut days: Vec<Day>) -> HistoryReport {
        days.sort_by(|a, b| (a.taken_s, &a.snapshot).cmp(&(b.taken_s, &b.snapshot)));
        let first = days.first().map_or(0, |day| day.taken_s);
        let years = |day: &Day| (day.taken_s - first) as f64 / (365.25 * DAY_S);
        let related = |pairs: Vec<(f64, f64)>| correlation(&pairs).map(relation);
        let age = days.iter().filter_map(|day| Some((years(day), day.layout_score?)));
        let used = days.iter().filter_map(|day| Some((day.used?, day.layout_score?)));
        HistoryReport {
            layout_score: days.last().and_then(|day| day.layout_score),
            age: related(age.collect()),
            use_of_space: related(used.collect()),
            days,
        }
    }
}

fn relation(found: Correlation) -> Relation {
    Relation { coefficient: found.r, p: found.p, slope: found.slope }
}

fn in_words(what: &str, of: &str, relation: Option<Relation>) -> String {
    match relation {
        None => format!("{what}: no relation can be told"),
        Some(Relation { coefficient, p, slope }) => {
            format!("{what}: coefficient {coefficient:.4}, p {p:.4}, score {slope:+.4} {of}")
        }
    }
}

fn relations(report: &HistoryReport) -> String {
    let age = in_words("Score and age", "a year", report.age);
    age + "\n" + &in_words("Score and use", "from empty to full", report.use_of_space)
}

impl HistoryReport {
    /// The report: score over time, score by size at the first, middle and last day, and all snapshots.
    pub fn report(&self, title: &str) -> Report {
        let mut report = Report::answer("layout", title);
        report.set_verdict(
            self.verdict(),
            "Linear relations of the layout score with age and with use.",
        );
        report.on_page(vec![self.over_time(), self.by_size()]);
        report.on_page(Part::heading("All snapshots"));
        report.add(self.table());
        report.add(relations(self));
        report.set_json(json!({
            "layout_score": self.layout_score,
            "age": self.age,
            "use_of_space": self.use_of_space,
        }));
        report.add_rows(&self.days);
        report
    }

    /// What became of the score.
    fn verdict(&self) -> String {
        let known = || self.days.iter().filter_map(|day| Some((self.age(day), day.layout_score?)));
        match (known().next(), known().next_back()) {
            (Some((from, before)), Some((to, after))) if from < to => format!(
                "The layout score went from {before:.3} to {after:.3} in {:.0} days, over {} snapshots.",
                to - from,
                self.days.len()
            ),
            (Some((_, score)), _) => format!("The layout score is {score:.3}, at one moment."),
            (None, _) => "No snapshot has a layout score.".into(),
        }
    }

    /// Days from the first snapshot to this.
    fn age(&self, day: &Day) -> f64 {
        let first = self.days.first().map_or(0, |day| day.taken_s);
        (day.taken_s - first) as f64 / DAY_S
    }

    fn table(&self) -> Table {
        let row = |day: &Day| {
            cells![
                &day.snapshot,
                fixed(self.age(day), 1),
                day.files,
                Cell::or_dash(day.used, percent),
                score(day.layout_score),
                score(day.dynamic_score),
            ]
        };
        let columns = ["snapshot", "day", "files", "used", "layout score", "dynamic score"];
        Table::new(columns, 1).with(self.days.iter().map(row))
    }

    fn over_time(&self) -> String {
        let points = self.days.iter().filter_map(|day| Some((self.age(day), day.layout_score?)));
        let (name, points) = ("layout score".into(), points.collect());
        let line = Line { name, colour: BLUE, paper: false, points };
        let title = "Layout score over time";
        let chart = Chart { title, y_label: "layout score", log_y: false, marks: &[] };
        over_time(&chart, &[line], "days since the first snapshot")
    }

    fn by_size(&self) -> String {
        let mut chosen = vec![0, self.days.len() / 2, self.days.len().saturating_sub(1)];
        chosen.dedup();
        let of_day = |(number, day): (usize, &Day)| {
            let points = day.by_blocks.iter();
            let points = points.filter_map(|(most, score)| Some((most.parse().ok()?, *score)));
            let name = format!("day {:.0}", self.age(day));
            Line { name, colour: nth(number), paper: false, points: points.collect() }
        };
        let days = chosen.iter().filter_map(|&at| self.days.get(at)).enumerate();
        let all: Vec<Line> = days.map(of_day).collect();
        let title = "Layout score by size";
        let chart = Chart { title, y_label: "layout score", log_y: false, marks: &[] };
        // The axis of sizes is in KB; a block stands for one here.
        lines(&chart, &all, "blocks of a file, up to (K: 1)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_report::Form;

    fn day(taken_s: i64, score: f64) -> Day {
        Day {
            snapshot: format!("{taken_s}.snap"),
            system: "ffs".into(),
            taken_s,
            layout_score: Some(score),
            dynamic_score: None,
            files: 7,
            used: None,
            by_blocks: vec![("2".into(), score), ("4".into(), 1.0)],
        }
    }

    #[test]
    fn a_score_that_falls_with_age_is_told_with_its_slope() {
        let days = [3, 1, 2, 0].map(|n| day(n * 31_557_600, 0.9 - 0.1 * n as f64)).to_vec();
        let report = HistoryReport::of(days);
        let age = report.age.unwrap();
        assert!((age.coefficient + 1.0).abs() < 1e-9 && (age.slope + 0.1).abs() < 1e-9);
        assert_eq!(report.layout_score, Some(0.9 - 0.1 * 3.0), "that of the last day");
        let text = report.report("x").write(Form::Terminal(None));
        assert!(text.contains("coefficient -1.0000") && text.contains("no relation"), "{text}");
        let page = report.report("x").write(Form::Html);
        assert_eq!(page.matches("<svg").count(), 2, "{page}");
        assert!(!page.contains("NaN"));
    }

    #[test]
    fn a_history_of_no_snapshot_can_be_shown() {
        let report = HistoryReport::of(Vec::new());
        assert!(!report.report("x").write(Form::Html).contains("NaN"));
        assert!(report.report("x").write(Form::Terminal(Some(40))).contains("no relation"));
    }
}
