//! The report on benchmarks: medians, ratios, and charts in the style of the comparison's.

use serde_json::{Value, json};
use twin_lab::{Config, median};
use twin_report::draw::{Bar, Group, Span, bars, nth};
use twin_report::table::{Cell, fixed};
use twin_report::{Part, Report, Table, cells};
use twin_verdict::{labels, settings};

use super::pairs::Pairs;
use super::run::Row;

/// The report: which target is the fastest and how often, a chart for each benchmark with the phases
/// on scales of their own, all figures, and the settings of the simulated targets.
pub fn report(rows: &[Row], targets: &[String], simulated: &[&Config]) -> Report {
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    let labels = labels(&names);
    let mut report = Report::answer("bench", "File systems side by side");
    let lines = verdict(rows, &names).unwrap_or_else(|| vec![alone(rows, &names)]);
    let measure = "Measure: the amount of each phase a second; larger is better.";
    report.set_verdict(lines.join("\n"), measure);
    report.add(figures(rows, targets));
    let name = |(number, name): (usize, &String)| (nth(number), name.clone(), String::new());
    report.on_page(Part::Names(targets.iter().enumerate().map(name).collect()));
    report.on_page(
        "Each phase has its own scale. With several runs a bar is the median, and its line reaches from \
         the slowest to the fastest run.",
    );
    report.on_page(benchmarks(rows, &labels));
    if !simulated.is_empty() {
        report.section("Simulated targets", settings(simulated));
    }
    report.add_rows(flat(rows, targets));
    report
}

/// A chart for each benchmark.
fn benchmarks(rows: &[Row], labels: &[String]) -> Vec<String> {
    let chart = |rows: &[Row]| {
        let groups: Vec<Group> = rows.iter().map(|row| group(row, labels)).collect();
        bars(&rows[0].bench, &groups, Span::Each)
    };
    rows.chunk_by(|a, b| a.bench == b.bench).map(chart).collect()
}

fn group(row: &Row, labels: &[String]) -> Group {
    let bar = |(number, rates): (usize, &Vec<f64>)| {
        let middle = median(rates);
        let bar = Bar::new(labels[number].clone(), nth(number), middle).over(rates);
        Bar { text: short(middle), ..bar }
    };
    let title = format!("{}, {}", row.phase, row.unit);
    Group { title, bars: row.rates.iter().enumerate().map(bar).collect() }
}

/// How often each target is the fastest, and its speed as a multiple of the first one's; `None` if
/// there is only one.
fn verdict(rows: &[Row], names: &[&str]) -> Option<Vec<String>> {
    if names.len() < 2 {
        return None;
    }
    let mut wins = vec![0; names.len()];
    let mut compared = 0;
    for row in rows {
        let medians = row.rates.iter().map(|rates| median(rates)).enumerate();
        let measured: Vec<(usize, f64)> = medians.filter(|(_, rate)| rate.is_finite()).collect();
        let fastest = measured.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((winner, _)) = fastest.filter(|_| measured.len() > 1) {
            wins[*winner] += 1;
            compared += 1;
        }
    }
    if compared == 0 {
        return None;
    }
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(wins[i]));
    let won: Vec<String> = order
        .iter()
        .filter(|&&i| wins[i] > 0)
        .map(|&i| format!("{} is the fastest in {}", names[i], wins[i]))
        .collect();
    let mut lines = vec![format!("Of {compared} phases: {}.", won.join(", "))];
    let speeds: Vec<String> = (1..names.len())
        .filter_map(|i| Some(format!("{} {:.2}", names[i], speed(rows, i)?)))
        .collect();
    if !speeds.is_empty() {
        let first = names[0];
        lines.push(format!(
            "Speed as a multiple of that of {first}, geometric mean over the phases: {}.",
            speeds.join(", ")
        ));
    }
    Some(lines)
}

/// The most phases that are named of a target that has no other beside it.
const TOLD: usize = 3;

/// What one target alone did.
fn alone(rows: &[Row], names: &[&str]) -> String {
    let phase = |row: &Row| {
        let rate = row.rates.iter().find(|rates| !rates.is_empty())?;
        Some(format!("{} {} {}", row.phase, short(median(rate)), row.unit))
    };
    let all: Vec<String> = rows.iter().filter_map(phase).collect();
    let more = match all.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(", and {more} phases more"),
    };
    if all.is_empty() {
        return "Nothing was measured.".into();
    }
    let listed = all[..all.len().min(TOLD)].join(", ");
    format!("{}: {listed}{more}. There is no other target to compare.", names.join(", "))
}

/// The geometric mean of a target's speeds as multiples of the first target's.
fn speed(rows: &[Row], target: usize) -> Option<f64> {
    let ratio = |row: &Row| median(&row.rates[target]) / median(&row.rates[0]);
    let logs: Vec<f64> = rows.iter().map(|row| ratio(row).ln()).filter(|l| l.is_finite()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Medians with the largest deviation in percent: phases down, targets across.
fn figures(rows: &[Row], targets: &[String]) -> Table {
    let columns = ["bench", "phase", "unit"].map(String::from).into_iter();
    let of_bench = |rows: &[Row]| {
        let row = |(at, row): (usize, &Row)| {
            let bench = if at == 0 { row.bench.as_str() } else { "" };
            let cells = row.rates.iter().map(|rates| cell(rates));
            cells![bench, row.phase, row.unit].into_iter().chain(cells).collect()
        };
        rows.iter().enumerate().map(row).collect::<Vec<Vec<Cell>>>()
    };
    let rows = rows.chunk_by(|a, b| a.bench == b.bench).flat_map(of_bench);
    Table::new(columns.chain(targets.iter().cloned()), 3).with(rows)
}

/// The speed of the target at `ours` as a multiple of that of each other target, the median of the pairs of their runs
/// and in how many it is ahead: phases down, targets across.
pub fn ratios(rows: &[Row], targets: &[String], ours: usize) -> Table {
    let others = || (0..targets.len()).filter(move |&i| i != ours);
    let columns = ["bench".to_string(), format!("{} to:", targets[ours])].into_iter();
    let mut table = Table::new(columns.chain(others().map(|i| targets[i].clone())), 2);
    let mut last = "";
    for row in rows.iter().filter(|row| !row.rates[ours].is_empty()) {
        let bench = if row.bench == last { "" } else { row.bench.as_str() };
        last = &row.bench;
        let ratio = |i: usize| match Pairs::of(row, ours, i) {
            None => "-".into(),
            Some(Pairs { middle, count: 1, .. }) => fixed(middle, 2),
            Some(Pairs { middle, ahead, count, .. }) => {
                Cell::new(middle, "", format!("{middle:.2}, ahead in {ahead} of {count}"))
            }
        };
        table.push(cells![bench, row.phase].into_iter().chain(others().map(ratio)).collect());
    }
    table
}

/// What the pairs of runs show of the target at `ours` beside each other one: a line for each phase and target.
pub fn verdicts(rows: &[Row], targets: &[String], ours: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        for (place, name) in targets.iter().enumerate().filter(|(place, _)| *place != ours) {
            if let Some(pairs) = Pairs::of(row, ours, place) {
                lines.push(format!("{} {}: {}", row.bench, row.phase, pairs.verdict(name)));
            }
        }
    }
    lines
}

/// A rate with three significant digits.
fn short(rate: f64) -> String {
    match rate.abs() {
        r if r >= 100.0 => format!("{rate:.0}"),
        r if r >= 10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}

/// The median of the runs, and with several runs the largest deviation from it.
fn cell(rates: &[f64]) -> Cell {
    let middle = median(rates);
    if rates.is_empty() {
        return "-".into();
    }
    let far = rates.iter().map(|r| (r - middle).abs()).fold(0.0, f64::max);
    let text = match rates.len() {
        1 => short(middle),
        _ => format!("{} ±{:.0}%", short(middle), far * 100.0 / middle.max(1e-12)),
    };
    Cell::new(middle, "", text)
}

/// A row for each phase and target.
fn flat(rows: &[Row], targets: &[String]) -> Vec<Value> {
    let of_phase = |row: &Row| {
        let of_target = |(target, rates): (&String, &Vec<f64>)| {
            let least = rates.iter().copied().reduce(f64::min);
            let most = rates.iter().copied().reduce(f64::max);
            json!({
                "bench": row.bench, "phase": row.phase, "unit": row.unit, "target": target,
                "runs": rates.len(), "median_per_s": median(rates), "min_per_s": least,
                "max_per_s": most, "each_per_s": rates,
            })
        };
        targets.iter().zip(&row.rates).map(of_target).collect::<Vec<_>>()
    };
    rows.iter().flat_map(of_phase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_report::Form;

    fn row(phase: &'static str, rates: Vec<Vec<f64>>) -> Row {
        let rounds = rates.iter().map(|rates| (0..rates.len()).collect()).collect();
        Row { bench: "small".into(), phase, unit: "files/s", rates, rounds }
    }

    #[test]
    fn a_page_has_a_bar_for_each_target_that_ran_and_says_who_is_the_fastest() {
        let first = row("create", vec![vec![30.0, 10.0, 20.0], vec![8.0, 10.0], Vec::new()]);
        let second = row("read", vec![vec![10.0], vec![40.0], Vec::new()]);
        let names = ["ours", "<peer>", "absent"].map(String::from);
        let page = report(&[first, second], &names, &[]).write(Form::Html);
        // Four bars, and the two samples of the legend.
        assert_eq!(page.matches("<rect").count(), 6, "{page}");
        assert!(
            page.contains(
                "Of 2 phases: ours is the fastest in 1, &lt;peer&gt; is the fastest in 1"
            )
        );
        // 9 of 20 and 4: the root of 1.8.
        assert!(page.contains("mean over the phases: &lt;peer&gt; 1.34."), "{page}");
        assert_eq!(page.matches("class=\"reach\"").count(), 2);
        assert!(!page.contains("NaN") && !page.contains("<script"));
    }

    #[test]
    fn of_a_single_target_it_is_said_what_it_did_and_its_settings_are_shown() {
        let config = Config::parse("lfs:cache=8M").unwrap();
        let names = ["lfs:cache=8M".to_string()];
        let page = report(&[row("create", vec![vec![3.0]])], &names, &[&config]).write(Form::Html);
        assert!(page.contains("<p>lfs:cache=8M: create 3.00 files/s. There is no other target"));
        assert!(page.contains(" cache=8M "), "{page}");
    }

    #[test]
    fn ratios_are_of_pairs_and_what_was_not_measured_has_none() {
        let rates = vec![vec![30.0, 10.0, 20.0], vec![8.0, 10.0], Vec::new()];
        let names = ["ours", "<peer>", "absent"].map(String::from);
        let table = ratios(&[row("create", rates)], &names, 0).markdown();
        assert!(table.ends_with("| small | create | 2.38, ahead in 1 of 2 | - |"), "{table}");
    }
}
