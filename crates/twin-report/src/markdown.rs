//! Reports in Markdown, for documents: what pages show, without charts and colours.

use crate::report::{Part, Report, Shown};

/// The report as a document.
pub(crate) fn write(report: &Report) -> String {
    let title = std::iter::once(format!("# {}", report.title));
    let verdict = report.verdict();
    let verdict = verdict.map(|(lines, about)| format!("{lines}\n\n{about}").trim().to_owned());
    let parts = report.parts(Shown::Page).filter_map(text);
    title.chain(verdict).chain(parts).collect::<Vec<_>>().join("\n\n") + "\n"
}

fn text(part: &Part) -> Option<String> {
    let text = match part {
        Part::Heading(None, title) => format!("## {title}"),
        Part::Heading(Some(_), title) => format!("### {title}"),
        Part::Text(lines) | Part::Failure(lines) | Part::Words(lines) => lines.trim().to_owned(),
        Part::Lines(lines) => format!("```\n{}\n```", lines.trim_end()),
        Part::Table(table) if !table.is_empty() => table.markdown(),
        Part::Folded(title, parts) => {
            let inner = parts.iter().filter_map(text).collect::<Vec<_>>().join("\n\n");
            format!("## {title}\n\n{inner}")
        }
        Part::Table(_) | Part::Names(_) | Part::Charts(_) => String::new(),
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Table, cells};

    #[test]
    fn a_document_has_the_parts_of_the_page_that_are_words() {
        let mut report = Report::new("Waits");
        report.on_terminal("not here");
        report.add("- one\n- two");
        report.section("All", [Table::new(["a", "b"], 1).with([cells!["x", 1_u64]]).into()]);
        report.on_page(vec!["<svg></svg>".to_owned()]);
        let expected = "# Waits\n\n- one\n- two\n\n## All\n\n| a | b |\n|---|---|\n| x | 1 |\n";
        assert_eq!(write(&report), expected);
    }
}
