//! Layout scores over time: a row for each snapshot, correlations with age, and a page (Smith and
//! Seltzer 1994, figures 3 and 5, table 5).

use serde::Serialize;
use twin_age::history::{Correlation, correlation};
use twin_age::{Layout, SizeClass, VolumeMap};

use super::score_text;
use twin_report::columns::in_width;
use twin_report::draw::{BLUE, Chart, Line, lines, nth, over_time};
use twin_report::markup::{charts, escape, page_of, table_of};

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
        None => format!("{what}: no relation can be told\n"),
        Some(Relation { coefficient, p, slope }) => {
            format!("{what}: coefficient {coefficient:.4}, p {p:.4}, score {slope:+.4} {of}\n")
        }
    }
}

fn relations(report: &HistoryReport) -> String {
    in_words("Score and age", "a year", report.age)
        + &in_words("Score and use", "from empty to full", report.use_of_space)
}

/// The history for people.
pub fn history_table(report: &HistoryReport, width: Option<u16>) -> String {
    let header = ["snapshot", "day", "files", "in use", "score", "dynamic"].map(String::from);
    in_width(&header, &rows(report), 1, width) + "\n" + &relations(report)
}

fn rows(report: &HistoryReport) -> Vec<Vec<String>> {
    let first = report.days.first().map_or(0, |day| day.taken_s);
    let row = |day: &Day| {
        vec![
            day.snapshot.clone(),
            format!("{:.1}", (day.taken_s - first) as f64 / DAY_S),
            day.files.to_string(),
            day.used.map_or("-".into(), |used| format!("{:.1}%", used * 100.0)),
            score_text(day.layout_score),
            score_text(day.dynamic_score),
        ]
    };
    report.days.iter().map(row).collect()
}

/// The history as a page: score over time, and score by size at the first, middle and last day.
pub fn history_page(report: &HistoryReport, title: &str) -> String {
    let first = report.days.first().map_or(0, |day| day.taken_s);
    let day_of = |day: &Day| (day.taken_s - first) as f64 / DAY_S;
    let points = report.days.iter().filter_map(|day| Some((day_of(day), day.layout_score?)));
    let line =
        Line { name: "layout score".into(), colour: BLUE, paper: false, points: points.collect() };
    let chart = Chart {
        title: "Layout score over time",
        y_label: "layout score",
        log_y: false,
        marks: &[],
    };
    let over = over_time(&chart, &[line], "days since the first snapshot");
    let mut chosen = vec![0, report.days.len() / 2, report.days.len().saturating_sub(1)];
    chosen.dedup();
    let of_day = |(number, day): (usize, &Day)| {
        let points = day.by_blocks.iter();
        let points = points.filter_map(|(most, score)| Some((most.parse().ok()?, *score)));
        let name = format!("day {:.0}", day_of(day));
        Line { name, colour: nth(number), paper: false, points: points.collect() }
    };
    let days = chosen.iter().filter_map(|&at| report.days.get(at)).enumerate();
    let all: Vec<Line> = days.map(of_day).collect();
    let chart =
        Chart { title: "Layout score by size", y_label: "layout score", log_y: false, marks: &[] };
    // The axis of sizes is in KB; a block stands for one here.
    let by_size = lines(&chart, &all, "blocks of a file, up to (K: 1)");
    let mut table =
        vec![["snapshot", "day", "files", "in use", "score", "dynamic"].map(String::from).to_vec()];
    table.extend(rows(report));
    let words: String =
        relations(report).lines().map(|line| format!("<p>{}</p>", escape(line))).collect();
    let body = format!(
        "<div class=\"verdict\">{words}</div>{}<h2>All snapshots</h2>{}",
        charts(&[over, by_size]),
        table_of(&table)
    );
    page_of(title, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = history_table(&report, None);
        assert!(text.contains("coefficient -1.0000") && text.contains("no relation"), "{text}");
        let page = history_page(&report, "x");
        assert_eq!(page.matches("<svg").count(), 2, "{page}");
        assert!(!page.contains("NaN"));
    }

    #[test]
    fn a_history_of_no_snapshot_can_be_shown() {
        let report = HistoryReport::of(Vec::new());
        assert!(!history_page(&report, "x").contains("NaN"));
        assert!(history_table(&report, Some(40)).contains("no relation"));
    }
}
