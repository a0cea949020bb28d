//! Reports for the terminal: text, and tables that are fitted to its width.

use crate::columns::{fitting, in_width};
use crate::report::{Part, Report, Shown};
use crate::table::Table;

/// The report in lines of at most `width` characters, as far as its tables can be broken.
pub(crate) fn write(report: &Report, width: Option<u16>) -> String {
    let texts = report.parts(Shown::Terminal).filter_map(|part| text(part, width));
    texts.collect::<Vec<_>>().join("\n")
}

/// A part as text; nothing for what only pages show.
fn text(part: &Part, width: Option<u16>) -> Option<String> {
    let text = match part {
        Part::Verdict(lines, _) | Part::Text(lines) | Part::Failure(lines) => lines.clone(),
        Part::Lines(lines) => lines.trim_end().to_owned(),
        Part::Words(words) => broken(words, width),
        Part::Table(table) => of_table(table, width),
        Part::Heading(..) | Part::Names(_) | Part::Charts(_) => String::new(),
    };
    (!text.is_empty()).then_some(text)
}

/// The table; nothing without rows.
fn of_table(table: &Table, width: Option<u16>) -> String {
    let texts = table.texts();
    match &texts[..] {
        [header, rows @ ..] if !rows.is_empty() => match table.staying {
            None => in_width(header, rows, table.labels, width),
            Some(staying) => {
                let shown = fitting(header, rows, width).max(staying).min(header.len());
                in_width(&header[..shown], rows, table.labels, None)
            }
        },
        _ => String::new(),
    }
}

/// Words in lines of at most `width` characters, indented.
fn broken(words: &str, width: Option<u16>) -> String {
    let room = width.map_or(usize::MAX, usize::from);
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells;

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn columns_that_give_way_are_left_out_from_the_last_one_and_some_stay() {
        let columns = ["rank", "configuration", "all on disk", "p99", "written"];
        let row = || cells![1_u64, "lfs:cache=8M", "250.0 ms", "1.2 ms", "12.0 MiB"];
        let table = Table::new(columns, 2).with([row(), row()]).giving_way(3);
        for width in 30..90 {
            let text = of_table(&table, Some(width));
            assert!(text.contains("all on disk"), "{width}:\n{text}");
            assert!(widest(&text) <= usize::from(width).max(41), "{width}:\n{text}");
        }
        assert!(of_table(&table, None).contains("written"));
    }

    #[test]
    fn what_pages_show_alone_and_tables_without_rows_leave_no_line() {
        let mut report = Report::new("t");
        report.on_page("for the page");
        report.add(vec!["<svg></svg>".to_owned()]);
        report.add(Table::new(["a"], 1));
        report.add("for both");
        report.add(Part::Words("a=1 b=2".into()));
        assert_eq!(write(&report, Some(8)), "for both\n  a=1\n  b=2");
    }
}
