//! A run of a server as a page of its own: the whole in words, the latencies by kind of operation, what
//! observers have seen, and the parts in tables.

use super::figures::ServerFigures;
use super::file::ServerFile;
use super::table::{Section, sections, whole};
use crate::observe::page_charts;
use twin_report::draw::{Distribution, distribution, nth};
use twin_report::markup::{charts as side_by_side, escape, page_of, table_of};

/// The page. `title` names the server.
pub fn page(title: &str, server: &ServerFile, figures: &ServerFigures) -> String {
    let mut body = format!(
        "<div class=\"verdict\"><p>{}</p><small>{}</small></div>",
        escape(&whole(figures)),
        escape(&server.about)
    );
    if let Some(fit) = figures.fits.first() {
        body += &format!(
            "<p>Generated clients stand in for {}, which are not used here.</p>",
            escape(fit.stands_for)
        );
    }
    body += &side_by_side(&latencies(figures).into_iter().collect::<Vec<_>>());
    if !figures.observed.is_empty() {
        body += "<h2>Observed</h2>";
        body += &page_charts(&figures.observed);
    }
    for Section { title, header, rows } in sections(figures) {
        if !rows.is_empty() {
            let all: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
            body += &format!("<h2>{title}</h2>{}", table_of(&all));
        }
    }
    if !server.assumed.is_empty() {
        body += &format!("<p>Assumed: {}.</p>", escape(&server.assumed.join("; ")));
    }
    page_of(title, &body)
}

/// The most kinds of operations in a chart.
const KINDS: usize = 7;

/// The distribution of latencies of the kinds of operations that take most of the time.
fn latencies(figures: &ServerFigures) -> Option<String> {
    let mut verbs: Vec<_> = figures.whole.verbs.iter().collect();
    let total = |latency: &crate::Latency| latency.count as f64 * latency.mean_us;
    verbs.sort_by(|a, b| total(&b.latency).total_cmp(&total(&a.latency)));
    verbs.truncate(KINDS);
    let count = verbs.iter().map(|verb| verb.latency.count).max()?;
    let of = |(number, verb): (usize, &&crate::VerbFigures)| {
        let (mut sum, all) = (0, verb.latency.count.max(1) as f64);
        let share = |&(us, count): &(f64, u64)| {
            sum += count;
            (us, sum as f64 / all)
        };
        let shares = verb.distribution.iter().map(share).collect();
        Distribution { name: verb.verb.into(), colour: nth(number), shares }
    };
    let all: Vec<Distribution> = verbs.iter().enumerate().map(of).collect();
    Some(distribution("Latency by kind of operation", &all, count))
}
