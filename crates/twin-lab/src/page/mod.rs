//! A comparison as one self-contained page: the verdict first, then the configurations with their
//! settings, the measure, the disk's time, latencies, the course of the runs, and the volumes at
//! the end.
//!
//! Contract: the page needs no script and no network, and equal runs give equal bytes. A
//! configuration has one colour on the whole page.

mod charts;

pub use charts::{LOG_EXPLAINED, log_course};

use charts::Shown;

use crate::config::Config;
use crate::figures::Figures;
use crate::history::History;
use crate::observe::page_charts;
use crate::settings_table::{Settings, labels};
use crate::table::rows;
use crate::verdict::{MeasureEntry, text_of};
use twin_report::draw::{nth, swatch};
use twin_report::markup::{charts as side_by_side, escape, page_of, table_of};

/// A run to be shown.
#[derive(Clone, Debug)]
pub struct Run {
    /// The configuration.
    pub config: Config,
    /// What it measured.
    pub figures: Figures,
    /// Its course.
    pub history: History,
}

/// What runs are compared by, and the result.
pub struct Question<'a> {
    /// The name of the workload.
    pub workload: &'a str,
    /// The verdict in words, one sentence or more a line, if there is one.
    pub verdict: Option<&'a str>,
    /// What the runs are judged by.
    pub measure: &'a MeasureEntry,
}

/// The page for the runs of a workload and for the configurations that could not run, each with the
/// reason.
pub fn page(question: &Question<'_>, runs: &[Run], not_run: &[(String, String)]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.figures.config.as_str()).collect();
    let labels = labels(&names);
    let shown: Vec<Shown<'_>> = runs
        .iter()
        .zip(labels)
        .enumerate()
        .map(|(number, (run, label))| Shown { run, label, colour: nth(number) })
        .collect();
    let mut body = verdict(question, &shown);
    body += &failures(&shown, not_run);
    body += &side_by_side(&[
        charts::measure(question.measure, &shown),
        charts::disk_time(&shown),
        charts::waits(&shown),
    ]);
    let mut section = |title: &str, explained: &str, content: String| {
        if !content.is_empty() {
            body += &format!("<h2>{title}</h2>{explained}{content}");
        }
    };
    section("Configurations", "", configurations(runs, &shown));
    section("Latency", LATENCY, side_by_side(&charts::latencies(&shown)));
    section("Over time", "", side_by_side(&charts::over_time(&shown)));
    section("The volumes at the end", VOLUMES, charts::volumes(&shown));
    section("Observed", "", observed(&shown));
    let figures: Vec<&Figures> = runs.iter().map(|run| &run.figures).collect();
    section("All figures", "", table_of(&rows(&figures)));
    body += "<p><small>Simulated by twinfs: its file-system code under virtual time on models of \
             disks and processors.</small></p>";
    page_of(question.workload, &body)
}

const LATENCY: &str = "<p>The kinds of operations that take most of the time: for each latency the \
    share of operations that took no longer. Each further nine has the same height, so the slowest \
    operations are seen too. Lines that coincide lie on each other, the first one broadest.</p>";

const VOLUMES: &str = "<p>The map has a cell for each region in the order of the device; the stronger \
    its colour, the more of the region is live. For a log: how full its segments are, and its write \
    cost, the bytes to and from the disk for each byte of file contents that users wrote (Rosenblum and \
    Ousterhout 1991). The cost of intervals in which only the cleaner worked is added to the next \
    interval with new data.</p>";

fn verdict(question: &Question<'_>, shown: &[Shown<'_>]) -> String {
    let measure = question.measure;
    let about = escape(measure.about);
    let lines = match (question.verdict, shown) {
        (Some(verdict), _) => {
            verdict.lines().map(|line| format!("<p>{}</p>", escape(line))).collect()
        }
        (None, [one]) => {
            let value = escape(&text_of(measure, &one.run.figures).unwrap_or("none".into()));
            format!("<p>{}: {value}.</p>", escape(&one.run.figures.config))
        }
        (None, _) => "<p>There are not two configurations that can be compared.</p>".to_string(),
    };
    format!(
        "<div class=\"verdict\">{lines}<small>Measure: <b>{}</b>, {about}; smaller is \
         better.</small></div>",
        measure.name
    )
}

/// What went wrong, in words.
fn failures(shown: &[Shown<'_>], not_run: &[(String, String)]) -> String {
    let mut out = String::new();
    for Figures { config, failed, ops, .. } in shown.iter().map(|one| &one.run.figures) {
        if *failed > 0 {
            out += &format!(
                "<p class=\"no\">{}: {failed} of {} operations failed. Its figures are of less \
                 work; its bar is hatched and it has no rank.</p>",
                escape(config),
                ops + failed
            );
        }
    }
    for (config, why) in not_run {
        out += &format!("<p><b>{}</b> could not run: {}</p>", escape(config), escape(why));
    }
    out
}

/// What the observers of each run have seen.
fn observed(shown: &[Shown<'_>]) -> String {
    let mut out = String::new();
    for one in shown.iter().filter(|one| !one.run.figures.observed.is_empty()) {
        if shown.len() > 1 {
            out += &format!("<h3>{}{}</h3>", swatch(one.colour), escape(&one.label));
        }
        out += &page_charts(&one.run.figures.observed);
    }
    out
}

/// The configurations in full, and their settings.
fn configurations(runs: &[Run], shown: &[Shown<'_>]) -> String {
    let mut out = String::from("<ul class=\"names\">");
    for Shown { run, colour, label } in shown {
        let name = &run.figures.config;
        let short = match label == name {
            true => String::new(),
            false => format!(" <small>shown as {}</small>", escape(label)),
        };
        out += &format!("<li>{}<code>{}</code>{short}</li>", swatch(*colour), escape(name));
    }
    out += "</ul>";
    out + &settings_section(&runs.iter().map(|run| &run.config).collect::<Vec<_>>())
}

/// The settings of configurations: those that differ in a table, the others told once.
pub fn settings_section(configs: &[&Config]) -> String {
    let mut out = String::new();
    let settings = Settings::of(configs);
    if settings.differing.len() > 1 {
        out += &format!("<h3>Settings that differ</h3>{}", table_of(&settings.differing));
    }
    let title = if configs.len() > 1 { "Settings that all share" } else { "Settings" };
    out + &format!("<h3>{title}</h3><p><code>{}</code></p>", escape(&settings.common))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::LAYOUTS;
    use crate::simulate::{simulate, simulate_with_history};
    use crate::verdict::{MEASURES, rank};
    use crate::workload::Workload;
    use twin_trace::replay::Pace;

    const WORKLOAD: &str = "zipf:writes=6000,file-bytes=16777216";

    fn run(name: &str) -> Run {
        let config = Config::parse(name).unwrap();
        let workload = Workload::Generated(WORKLOAD.into(), 1);
        let (figures, history) = simulate_with_history(&config, &workload, Pace::Asap).unwrap();
        Run { config, figures, history }
    }

    fn question<'a>(workload: &'a str, verdict: Option<&'a str>) -> Question<'a> {
        Question { workload, verdict, measure: MEASURES.first() }
    }

    #[test]
    fn a_page_draws_what_the_log_did_and_the_run_is_the_same_as_without() {
        let mut runs = Vec::new();
        for name in ["lfs:size=32M,cache=1M,segment=256K", "ffs:size=64M"] {
            let config = Config::parse(name).unwrap();
            let workload = Workload::Generated(WORKLOAD.into(), 1);
            let plain = simulate(&config, &workload, Pace::Asap).unwrap();
            let run = run(name);
            assert_eq!(run.figures, plain);
            runs.push(run);
        }
        let Run { figures, history, .. } = &runs[0];
        assert!(figures.log.cleaned_segments > 0, "it is to be cleaned: {:?}", figures.log);
        let (at_s, end) = history.samples.last().unwrap();
        assert_eq!(end.log, figures.log);
        assert!(end.operations >= figures.ops, "{end:?}");
        assert!(*at_s >= figures.span_s);
        let log = history.log.as_ref().unwrap();
        assert!(log.full() > 0 && log.full() + log.clean + log.open > 50, "{log:?}");
        assert!(runs[1].history.log.is_none(), "a clustered volume has no log");
        let not_run = [("lfs:size=1M".to_string(), "too <small>".to_string())];
        let page = page(&question("<zipf>", Some("A & B\nwhy")), &runs, &not_run);
        assert!(page.contains("<b>lfs:size=1M</b> could not run: too &lt;small&gt;"));
        assert!(page.contains("<h1>&lt;zipf&gt;</h1>") && !page.contains("NaN"));
        let cost = figures.log.write_cost.unwrap();
        assert!(page.contains(&format!("Write cost: {cost:.2} over all")));
        let (verdict, bars) = (page.find("<p>A &amp; B</p><p>why</p>"), page.find("<svg"));
        assert!(verdict.unwrap() < bars.unwrap(), "the verdict comes first");
        assert!(!page.contains("<script") && !page.contains("http"), "it needs nothing else");
        let bars: f64 = log.bins.iter().map(|&count| f64::from(count.min(1))).sum();
        assert_eq!(page.matches("% to ").count() as f64, bars);
    }

    #[test]
    fn every_layout_has_a_map_that_shows_as_much_as_it_holds() {
        for layout in LAYOUTS {
            let run = run(&format!("layout={},size=64M,cache=2M", layout.name()).replacen(
                "layout=",
                &format!("{}:layout=", crate::presets().first().unwrap().name),
                1,
            ));
            let regions = &run.history.space.regions;
            assert!(regions.len() > 1, "{layout:?}: {}", regions.len());
            assert!(regions.iter().all(|r| (0.0..=1.0).contains(&r.used)), "{layout:?}");
            let used: f64 = regions.iter().map(|r| r.used).sum::<f64>() / regions.len() as f64;
            // The file has 16 of 64 MiB; the rest is metadata and the journal.
            assert!((0.24..0.55).contains(&used), "{layout:?}: {used}");
            let page = page(&question("w", None), &[run], &[]);
            assert!(page.contains("% in use"), "{layout:?}");
        }
    }

    #[test]
    fn a_run_that_failed_is_hatched_and_told() {
        let mut runs = vec![run("lfs:size=64M"), run("ffs:size=64M")];
        runs[0].figures.failed = 3;
        let trust = crate::trust::Trust::of(runs.iter().map(|run| &run.config));
        rank(
            &mut runs.iter_mut().map(|run| &mut run.figures).collect::<Vec<_>>(),
            MEASURES.first(),
            &trust,
        );
        let page = page(&question("w", None), &runs, &[]);
        assert_eq!(page.matches("url(#hatch)").count(), 1);
        assert!(page.contains("lfs:size=64M: 3 of "), "the failure is told in words");
    }
}
