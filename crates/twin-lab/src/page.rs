//! A comparison as a page that needs nothing else: the figures, and of each log how full its segments
//! were at the end and what writing cost in the course of the run.

use crate::figures::Figures;
use crate::history::{History, LogAtEnd};
use crate::reproduce::html::{STYLE, escape};
use crate::reproduce::svg::{BLUE, Chart, Line, SKY, histogram, over_time};
use crate::table::rows;

/// The page of runs of a workload, each with its course, and of the configurations that could not
/// run, each with the reason.
pub fn page(workload: &str, runs: &[(Figures, History)], not_run: &[(String, String)]) -> String {
    let workload = escape(workload);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{workload}</title>\
         <style>{STYLE}td{{white-space:pre-line}}</style><main><h1>{workload}</h1>\
         <p>Simulated by twinfs: its file-system code under virtual time on models of disks and \
         processors.</p><table>"
    );
    let figures: Vec<&Figures> = runs.iter().map(|(figures, _)| figures).collect();
    for (at, row) in rows(&figures).iter().enumerate() {
        page += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let (tag, class) = match (at, column) {
                (_, 0) => ("th", " class=\"l\""),
                (0, _) => ("th", ""),
                _ => ("td", ""),
            };
            page += &format!("<{tag}{class}>{}</{tag}>", escape(cell));
        }
        page += "</tr>";
    }
    page += "</table>";
    for (config, why) in not_run {
        page += &format!("<p><b>{}</b> could not run: {}</p>", escape(config), escape(why));
    }
    let logs: String = runs.iter().filter_map(|(f, history)| course(&f.config, history)).collect();
    if !logs.is_empty() {
        page += &format!("<h2>Logs</h2>{EXPLAINED}{logs}");
    }
    page + "</main></html>\n"
}

/// What the two charts of a log show.
pub(crate) const EXPLAINED: &str = "<p>How much is live in each segment that is full when the run has \
    ended, and the write cost: bytes to and from the disk for each byte of new data and metadata \
    (Rosenblum and Ousterhout 1991). Of intervals in which the cleaner alone worked, the cost is borne \
    by the next new data.</p>";

/// The charts of a log, under its name; none if there is none.
pub(crate) fn course(name: &str, history: &History) -> Option<String> {
    let charts = utilization(history.log.as_ref()?) + &write_cost(history);
    Some(format!("<h3>{}</h3><div class=\"grid2\">{charts}</div>", escape(name)))
}

fn utilization(log: &LogAtEnd) -> String {
    let full = log.full();
    let (clean, open) = (log.clean, log.open);
    let title =
        format!("At the end: {full} full segments; {clean} more clean, {open} being filled");
    let chart = Chart { title: &title, y_label: "% of full segments", log_y: false, marks: &[] };
    let share = |&count: &u32| f64::from(count) * 100.0 / f64::from(full.max(1));
    let bins: Vec<f64> = log.bins.iter().map(share).collect();
    histogram(&chart, &bins, BLUE, "share of the segment that is live")
}

fn write_cost(history: &History) -> String {
    let line =
        |name: &str, colour, paper, points| Line { name: name.into(), colour, paper, points };
    let (each, all) = (history.by_interval(), history.cumulative());
    let highest = each.iter().map(|point| point.1).fold(1.0, f64::max);
    let overall = all.last().map_or(1.0, |point| point.1);
    let title = match all.last() {
        Some((_, cost)) => format!("Write cost: {cost:.2} over all"),
        None => "Nothing was written".into(),
    };
    // Short intervals with little new data can cost a hundred times the mean.
    let log_y = highest > 10.0 * overall;
    let chart = Chart { title: &title, y_label: "write cost", log_y, marks: &[] };
    let lines =
        [line("each interval", SKY, false, each), line("from the beginning", BLUE, false, all)];
    over_time(&chart, &lines, "simulated seconds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::simulate::{simulate, simulate_with_history};
    use crate::workload::Workload;
    use twin_trace::replay::Pace;

    #[test]
    fn a_page_draws_what_the_log_did_and_the_run_is_the_same_as_without() {
        let workload = Workload::Generated("zipf:writes=6000,file_bytes=16777216".into(), 1);
        let mut runs = Vec::new();
        for name in ["lfs:size=32M,cache=1M,segment=256K", "ffs:size=64M"] {
            let config = Config::parse(name).unwrap();
            let plain = simulate(&config, &workload, Pace::Asap).unwrap();
            let run = simulate_with_history(&config, &workload, Pace::Asap).unwrap();
            assert_eq!(run.0, plain);
            runs.push(run);
        }
        let (figures, history) = &runs[0];
        assert!(figures.log.cleaned_segments > 0, "it is to be cleaned: {:?}", figures.log);
        let (at_s, end) = history.samples.last().unwrap();
        assert_eq!(end, &figures.log);
        assert!(*at_s >= figures.span_s);
        let log = history.log.as_ref().unwrap();
        assert!(log.full() > 0 && log.full() + log.clean + log.open > 50, "{log:?}");
        assert!(runs[1].1.log.is_none(), "a clustered volume has no log");
        let not_run = [("lfs:size=1M".to_string(), "too <small>".to_string())];
        let page = page("<zipf>", &runs, &not_run);
        assert!(page.contains("<b>lfs:size=1M</b> could not run: too &lt;small&gt;"));
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains(&format!("Write cost: {:.2} over all", figures.log.write_cost)));
        assert!(page.contains("<h1>&lt;zipf&gt;</h1>") && !page.contains("NaN"));
        let bars: f64 = log.bins.iter().map(|&count| f64::from(count.min(1))).sum();
        assert_eq!(page.matches("<rect").count() as f64, bars);
    }
}
