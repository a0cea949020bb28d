//! The results of benchmarks as a self-contained page, in the style of the comparison's.

use super::report::{cell, short};
use super::run::Row;
use twin_lab::Config;
use twin_lab::labels;
use twin_lab::median;
use twin_lab::settings_section;
use twin_report::draw::{Bar, Group, Span, bars, nth, swatch};
use twin_report::markup::{charts, escape, page_of, table_of};

/// The page: which target is the fastest and how often, a chart for each benchmark with the phases
/// on scales of their own, all figures, and the settings of the simulated targets.
pub fn page(rows: &[Row], targets: &[String], simulated: &[&Config]) -> String {
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    let labels = labels(&names);
    let mut body = verdict(rows, &names).map_or_else(String::new, |lines| {
        let lines: String = lines.iter().map(|line| format!("<p>{}</p>", escape(line))).collect();
        let measure = "Measure: the amount of each phase a second; larger is better.";
        format!("<div class=\"verdict\">{lines}<small>{measure}</small></div>")
    });
    body += "<ul class=\"names\">";
    for (number, name) in names.iter().enumerate() {
        body += &format!("<li>{}<code>{}</code></li>", swatch(nth(number)), escape(name));
    }
    body += "</ul><p>Each phase has its own scale. With several runs a bar is the median, and its line \
             reaches from the slowest to the fastest run.</p>";
    body += &charts(&benchmarks(rows, &labels));
    body += "<h2>All figures</h2>";
    body += &table_of(&figures(rows, targets));
    if !simulated.is_empty() {
        body += "<h2>Simulated targets</h2>";
        body += &settings_section(simulated);
    }
    page_of("File systems side by side", &body)
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
        let range = |rates: &[f64]| {
            let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
            (low, rates.iter().copied().fold(0.0, f64::max))
        };
        let middle = median(rates);
        let range = (rates.len() > 1).then(|| range(rates));
        let bar = Bar::new(labels[number].clone(), nth(number), middle);
        Bar { range, text: short(middle), ..bar }
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

/// The geometric mean of a target's speeds as multiples of the first target's.
fn speed(rows: &[Row], target: usize) -> Option<f64> {
    let ratio = |row: &Row| median(&row.rates[target]) / median(&row.rates[0]);
    let logs: Vec<f64> = rows.iter().map(|row| ratio(row).ln()).filter(|l| l.is_finite()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// All figures in words.
fn figures(rows: &[Row], targets: &[String]) -> Vec<Vec<String>> {
    let head = ["benchmark", "phase", "in"].map(String::from);
    let mut table = vec![head.into_iter().chain(targets.iter().cloned()).collect()];
    table.extend(rows.iter().map(|row| {
        let head = [row.bench.clone(), row.phase.to_string(), row.unit.to_string()];
        head.into_iter().chain(row.rates.iter().map(|rates| cell(rates))).collect()
    }));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(phase: &'static str, rates: Vec<Vec<f64>>) -> Row {
        Row { bench: "small".into(), phase, unit: "files/s", rates }
    }

    #[test]
    fn a_page_has_a_bar_for_each_target_that_ran_and_says_who_is_the_fastest() {
        let first = row("create", vec![vec![30.0, 10.0, 20.0], vec![8.0, 10.0], Vec::new()]);
        let second = row("read", vec![vec![10.0], vec![40.0], Vec::new()]);
        let names = ["ours", "<peer>", "absent"].map(String::from);
        let page = page(&[first, second], &names, &[]);
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
    fn a_single_target_has_no_verdict_and_its_settings_are_shown() {
        let config = Config::parse("lfs:cache=8M").unwrap();
        let names = ["lfs:cache=8M".to_string()];
        let page = page(&[row("create", vec![vec![3.0]])], &names, &[&config]);
        assert!(!page.contains("class=\"verdict\"") && page.contains(" cache=8M "));
    }
}
