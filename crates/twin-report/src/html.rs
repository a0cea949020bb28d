//! Reports as pages that need nothing else.

use crate::draw::swatch;
use crate::markup::{charts, escape, page_of, table_of};
use crate::report::{Part, Report, Shown};

/// The page of a report.
pub(crate) fn write(report: &Report) -> String {
    if let Some(page) = &report.page {
        return page.clone();
    }
    let verdict = report.verdict().map(|(lines, about)| {
        let lines = paragraphs("", &lines);
        format!("<div class=\"verdict\">{lines}<small>{}</small></div>", escape(about))
    });
    let body: String = verdict.into_iter().chain(report.parts(Shown::Page).map(markup)).collect();
    page_of(&report.title, &body)
}

/// The first part of the page, for documents that hold several: the verdict, and what the page has above its first
/// title of a section. Nothing in it changes how the rest of such a document looks.
pub(crate) fn first_part(report: &Report) -> String {
    let verdict = report.verdict().map(|(lines, about)| {
        format!("{}<p><small>{}</small></p>", paragraphs("", &lines), escape(about))
    });
    let above = |part: &&Part| !matches!(part, Part::Heading(..));
    let parts = report.parts(Shown::Page).take_while(above).map(markup);
    format!("<div>{}</div>", verdict.into_iter().chain(parts).collect::<String>())
}

/// A paragraph for each line.
fn paragraphs(class: &str, lines: &str) -> String {
    lines.lines().map(|line| format!("<p{class}>{}</p>", escape(line))).collect()
}

fn markup(part: &Part) -> String {
    match part {
        Part::Heading(None, text) => format!("<h2>{}</h2>", escape(text)),
        Part::Heading(Some(colour), text) => {
            format!("<h3>{}{}</h3>", swatch(*colour), escape(text))
        }
        Part::Text(lines) => paragraphs("", lines),
        Part::Failure(lines) => paragraphs(" class=\"no\"", lines),
        Part::Names(names) => {
            let one = |(colour, name, remark): &(_, String, String)| {
                let remark = match remark.as_str() {
                    "" => String::new(),
                    remark => format!(" <small>{}</small>", escape(remark)),
                };
                format!("<li>{}<code>{}</code>{remark}</li>", swatch(*colour), escape(name))
            };
            format!("<ul class=\"names\">{}</ul>", names.iter().map(one).collect::<String>())
        }
        Part::Words(words) => format!("<p><code>{}</code></p>", escape(words)),
        Part::Lines(lines) => format!("<pre>{}</pre>", escape(lines)),
        Part::Table(table) if table.is_empty() => String::new(),
        Part::Table(table) => table_of(&table.texts(), table.labels),
        Part::Charts(drawings) => charts(drawings),
        Part::Folded(title, parts) => {
            let inner: String = parts.iter().map(markup).collect();
            format!("<details><summary>{}</summary>{inner}</details>", escape(title))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::nth;
    use crate::{Table, cells};

    #[test]
    fn every_part_has_its_markup_and_texts_are_escaped() {
        let mut report = Report::new("<t>");
        report.set_verdict("a < b\nwhy", "by <x>");
        report.section("Empty", []);
        report.section("Names", [Part::Names(vec![(nth(0), "lfs".into(), "shown as l".into())])]);
        report.add(Part::Failure("3 failed".into()));
        report.add(Table::new(["a", "b"], 1).with([cells!["<1>", 2_u64]]));
        report.on_terminal("not here");
        let page = write(&report);
        for expected in [
            "<h1>&lt;t&gt;</h1>",
            "<p>a &lt; b</p><p>why</p><small>by &lt;x&gt;</small>",
            "<h2>Names</h2><ul class=\"names\"><li><svg",
            "<code>lfs</code> <small>shown as l</small>",
            "<p class=\"no\">3 failed</p>",
            "<th class=\"l\">&lt;1&gt;</th><td class=\"lines\">2</td>",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        assert!(!page.contains("Empty") && !page.contains("not here"));
        let first = first_part(&report);
        assert!(first.starts_with("<div><p>a &lt; b</p><p>why</p><p><small>by"), "{first}");
        assert!(!first.contains("<h2>") && !first.contains("failed"), "{first}");
    }
}
