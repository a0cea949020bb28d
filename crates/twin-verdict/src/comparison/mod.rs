//! The report on a comparison: the verdict first, then a row for each run, the measure and the disk's time, latencies,
//! the course of the runs, the volumes at the end, all figures, and last the settings.
//!
//! Contract: equal runs give equal bytes in every form. A configuration has one colour on the whole page.

mod charts;
mod curves;
mod figures;
mod settings;

pub use charts::{LOG_EXPLAINED, log_course};
pub use settings::{default_settings, settings};

use serde_json::{Value, json};
use twin_lab::{Config, Figures};
use twin_report::draw::nth;
use twin_report::{Part, Report, value};

use crate::labels::labels;
use crate::seeds::Seeded;
use crate::verdict::{MeasureEntry, text_of};
use charts::Shown;
use settings::untouched;

/// Runs of one workload side by side.
pub struct Comparison<'a> {
    /// The name of the workload.
    pub title: &'a str,
    /// Settings that were given for all configurations at once; empty for none.
    pub shared: &'a str,
    /// Why all configurations have these settings, or the default ones; empty if it needs no word.
    pub why_shared: &'a str,
    /// The verdict in words, one sentence or more a line, if there is one.
    pub verdict: Option<&'a str>,
    /// What the runs are judged by.
    pub measure: &'a MeasureEntry,
    /// The runs.
    pub runs: &'a [(Config, Seeded)],
    /// Configurations that could not run, each with the reason.
    pub not_run: &'a [(String, String)],
    /// Whether the terminal shows all figures, settings and intervals too.
    pub details: bool,
}

const LATENCY: &str = "The kinds of operations that take most of the time: for each latency the \
    share of operations that took no longer. Each further nine has the same height, so the slowest \
    operations are seen too. Lines that coincide lie on each other, the first one broadest.";

const VOLUMES: &str = "The map has a cell for each region in the order of the device; the stronger \
    its colour, the more of the region is live. For a log: how full its segments are, and its write \
    cost, the bytes to and from the disk for each byte of file contents that users wrote (Rosenblum and \
    Ousterhout 1991). The cost of intervals in which only the cleaner worked is added to the next \
    interval with new data.";

impl Comparison<'_> {
    /// The report. Its rows are those of the runs, with the figures of every seed if there are several,
    /// and of the configurations that could not run.
    pub fn report(&self) -> Report {
        let figures: Vec<&Figures> = self.runs.iter().map(|(_, run)| &run.figures).collect();
        let configs: Vec<&Config> = self.runs.iter().map(|(config, _)| config).collect();
        let names: Vec<&str> = figures.iter().map(|figures| figures.config.as_str()).collect();
        let labels = labels(&names).into_iter().enumerate();
        let shown: Vec<Shown<'_>> = labels
            .zip(self.runs)
            .map(|((number, label), (_, run))| Shown { run, label, colour: nth(number) })
            .collect();
        let mut report = Report::answer("compare", self.title);
        self.answer(&mut report, &figures);
        report.on_page(vec![
            charts::measure(self.measure, &shown),
            charts::disk_time(&shown),
            charts::waits(&shown),
        ]);
        report.on_page(Part::Names(shown.iter().map(Shown::name).collect()));
        let charts = |charts: Vec<String>| (!charts.is_empty()).then_some(Part::Charts(charts));
        let latencies = charts(charts::latencies(&shown));
        report.section("Latency", latencies.into_iter().flat_map(|all| [LATENCY.into(), all]));
        report.section("Over time", charts(charts::over_time(&shown)));
        let mut volumes = charts::volumes(&shown).into_iter().peekable();
        if volumes.peek().is_some() {
            let explained = std::iter::once(Part::from(VOLUMES));
            report.section("The volumes at the end", explained.chain(volumes));
        }
        report.section("Observed", observed(&shown));
        if !figures.is_empty() {
            report.on_page(Part::heading("All figures"));
            let table = figures::table(&figures);
            if self.details {
                report.on_terminal(table.clone());
                settings(&configs).into_iter().for_each(|part| report.on_terminal(part));
            }
            report.on_page(table);
            report.section("Settings", settings(&configs));
        }
        for figures in figures {
            let parts = twin_observe::parts(&figures.observed, &figures.config, self.details);
            parts.into_iter().for_each(|part| report.on_terminal(part));
        }
        report.on_page(
            "Simulated by twinfs: its file-system code under virtual time on models of disks and \
             processors.",
        );
        report.add_rows(self.objects());
        report
    }

    /// The verdict and a row for each run; on pages what went wrong too, which commands tell as errors.
    fn answer(&self, report: &mut Report, figures: &[&Figures]) {
        let verdict = match (self.verdict, figures) {
            (Some(verdict), _) => verdict.to_owned(),
            (None, [one]) => {
                let value = text_of(self.measure, one).unwrap_or("none".into());
                format!("{}: {value}.", one.config)
            }
            (None, _) => "There are not two configurations that can be compared.".to_owned(),
        };
        let about = self.measure.about;
        let about = format!("Measure: {}, {about}; smaller is better.", self.measure.name);
        report.set_verdict(verdict, about);
        if let Some(line) = self.all_configurations() {
            report.add(line);
        }
        report.add(figures::summary(figures, self.not_run, self.measure));
        for Figures { config, failed, ops, .. } in figures.iter().filter(|run| run.failed > 0) {
            report.on_page(Part::Failure(format!(
                "{config}: {failed} of {} operations failed. Its figures are of less work; its bar is \
                 hatched and it has no rank.",
                ops + failed
            )));
        }
        for (config, why) in self.not_run {
            report.on_page(Part::Failure(format!("{config} could not run: {why}")));
        }
    }

    /// What all configurations have, and why: what was given for all of them, or the defaults that decide
    /// most and that none of them sets.
    fn all_configurations(&self) -> Option<String> {
        let configs: Vec<&Config> = self.runs.iter().map(|(config, _)| config).collect();
        let settings = match self.shared.is_empty() {
            true => untouched(&configs),
            false => self.shared.to_owned(),
        };
        let why = match self.why_shared.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.why_shared),
        };
        (!settings.is_empty()).then(|| format!("All configurations: {settings}{why}."))
    }

    /// An object for each configuration.
    fn objects(&self) -> Vec<Value> {
        let object = |(_, run): &(Config, Seeded)| {
            let mut object = value(&run.figures);
            object["by"] = self.measure.name.into();
            if !self.shared.is_empty() {
                object["with"] = self.shared.into();
            }
            if !run.all.is_empty() {
                object["seeds"] = value(&run.all);
            }
            object
        };
        let failed =
            |(config, error): &(String, String)| json!({ "config": config, "error": error });
        self.runs.iter().map(object).chain(self.not_run.iter().map(failed)).collect()
    }
}

/// The report on figures of single runs, without their course.
pub fn figures_report(title: &str, all: &[Figures]) -> Report {
    let mut report = Report::new(title);
    report.add(figures::table(&all.iter().collect::<Vec<_>>()));
    report.add_rows(all);
    report
}

/// What the observers of each run have seen, as charts.
fn observed(shown: &[Shown<'_>]) -> Vec<Part> {
    let mut parts = Vec::new();
    for one in shown.iter().filter(|one| !one.run.figures.observed.is_empty()) {
        if shown.len() > 1 {
            parts.push(Part::Heading(Some(one.colour), one.label.clone()));
        }
        parts.push(twin_observe::charts(&one.run.figures.observed).into());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Trust;
    use crate::verdict::{MEASURES, rank};
    use twin_lab::layouts::LAYOUTS;
    use twin_lab::{Workload, simulate, simulate_with_history};
    use twin_report::Form;
    use twin_trace::replay::Pace;

    const WORKLOAD: &str = "zipf:writes=6000,file-bytes=16777216";

    fn run(name: &str) -> (Config, Seeded) {
        let config = Config::parse(name).unwrap();
        let workload = Workload::Generated(WORKLOAD.into(), 1);
        let (figures, history) = simulate_with_history(&config, &workload, Pace::Asap).unwrap();
        (config, Seeded { figures, history, all: Vec::new() })
    }

    fn page(
        verdict: Option<&str>,
        runs: &[(Config, Seeded)],
        not_run: &[(String, String)],
    ) -> String {
        let (title, measure, details) = ("<zipf>", MEASURES.default_entry(), false);
        let (shared, why_shared) = ("", "");
        Comparison { title, shared, why_shared, verdict, measure, runs, not_run, details }
            .report()
            .write(Form::Html)
    }

    #[test]
    fn a_page_draws_what_the_log_did_and_the_run_is_the_same_as_without() {
        let mut runs = Vec::new();
        for name in ["lfs:size=32M,cache=1M,segment=256K", "ffs:size=64M"] {
            let config = Config::parse(name).unwrap();
            let workload = Workload::Generated(WORKLOAD.into(), 1);
            let plain = simulate(&config, &workload, Pace::Asap).unwrap();
            let run = run(name);
            assert_eq!(run.1.figures, plain);
            runs.push(run);
        }
        let Seeded { figures, history, .. } = &runs[0].1;
        assert!(figures.log.cleaned_segments > 0, "it is to be cleaned: {:?}", figures.log);
        let (at_s, end) = history.samples.last().unwrap();
        assert_eq!(end.log, figures.log);
        assert!(end.operations >= figures.ops, "{end:?}");
        assert!(*at_s >= figures.span_s);
        let log = history.log.as_ref().unwrap();
        assert!(log.full() > 0 && log.full() + log.clean + log.open > 50, "{log:?}");
        assert!(runs[1].1.history.log.is_none(), "a clustered volume has no log");
        let not_run = [("lfs:size=1M".to_string(), "too <small>".to_string())];
        let page = page(Some("A & B\nwhy"), &runs, &not_run);
        assert!(page.contains("lfs:size=1M could not run: too &lt;small&gt;"));
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
                &format!("{}:layout=", twin_lab::presets().first().unwrap().name),
                1,
            ));
            let regions = &run.1.history.space.regions;
            assert!(regions.len() > 1, "{layout:?}: {}", regions.len());
            assert!(regions.iter().all(|r| (0.0..=1.0).contains(&r.used)), "{layout:?}");
            let used: f64 = regions.iter().map(|r| r.used).sum::<f64>() / regions.len() as f64;
            // The file has 16 of 64 MiB; the rest is metadata and the journal.
            assert!((0.24..0.55).contains(&used), "{layout:?}: {used}");
            assert!(page(None, &[run], &[]).contains("% in use"), "{layout:?}");
        }
    }

    #[test]
    fn a_run_that_failed_is_hatched_and_told() {
        let mut runs = vec![run("lfs:size=64M"), run("ffs:size=64M")];
        runs[0].1.figures.failed = 3;
        let trust = Trust::of(runs.iter().map(|(config, _)| config));
        let mut figures: Vec<_> = runs.iter_mut().map(|(_, run)| &mut run.figures).collect();
        rank(&mut figures, MEASURES.default_entry(), &trust);
        let page = page(None, &runs, &[]);
        assert_eq!(page.matches("url(#hatch)").count(), 1);
        assert!(page.contains("lfs:size=64M: 3 of "), "the failure is told in words");
    }
}
