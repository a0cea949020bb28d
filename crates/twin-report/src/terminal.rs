//! Reports for the terminal: text, and tables that are fitted to its width.

use crate::columns::{fitting, in_width};
use crate::report::{Part, Report, Shown};
use crate::table::Table;

/// The report in lines of at most `width` characters, as far as its tables can be broken.
pub(crate) fn write(report: &Report, width: Option<u16>) -> String {
    let verdict = report.verdict().map(|(lines, _)| wrapped(&lines, width));
    let texts = report.parts(Shown::Terminal).filter_map(|part| text(part, width));
    verdict.into_iter().chain(texts).collect::<Vec<_>>().join("\n")
}

/// A part as text; nothing for what only pages show.
fn text(part: &Part, width: Option<u16>) -> Option<String> {
    let text = match part {
        Part::Text(lines) | Part::Failure(lines) => wrapped(lines, width),
        Part::Lines(lines) => lines.trim_end().to_owned(),
        Part::Words(words) => broken(words, width),
        Part::Table(table) => of_table(table, width),
        Part::Heading(..) | Part::Names(_) | Part::Charts(_) | Part::Folded(..) => String::new(),
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
                let text = in_width(&header[..shown], rows, table.labels, None);
                match &header[shown..] {
                    [] => text,
                    hidden => text + "\n" + &not_shown(hidden, width),
                }
            }
        },
        _ => String::new(),
    }
}

/// The names of columns for which there is no room.
fn not_shown(hidden: &[String], width: Option<u16>) -> String {
    let words = format!("Not shown in this width: {}.", hidden.join("; "));
    let lines = broken(&words, width);
    lines.strip_prefix("  ").map_or(lines.clone(), str::to_owned)
}

/// Lines of at most `width` characters: sentences are broken between words, as a terminal would break them within.
/// Lines that begin with a space are arranged already.
fn wrapped(lines: &str, width: Option<u16>) -> String {
    let room = width.map_or(usize::MAX, usize::from);
    let line = |line: &str| match line.starts_with(' ') || line.chars().count() <= room {
        true => line.to_owned(),
        false => in_lines(line, "", room),
    };
    lines.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Words in lines of at most `width` characters, indented.
fn broken(words: &str, width: Option<u16>) -> String {
    in_lines(words, "  ", width.map_or(usize::MAX, usize::from))
}

fn in_lines(words: &str, indent: &str, room: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
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
            assert!(text.contains("written"), "a column is shown or named: {width}:\n{text}");
        }
        assert!(of_table(&table, Some(41)).ends_with("in this width: p99; written."));
        assert!(!of_table(&table, None).contains("Not shown"));
    }

    #[test]
    fn sentences_are_broken_between_words_and_arranged_lines_are_not() {
        let mut report = Report::answer("compare", "t");
        report.set_verdict("lfs wins by far.\nWhy: it does.", "");
        report.add("  arranged   as it is");
        assert_eq!(
            write(&report, Some(10)),
            "lfs wins\nby far.\nWhy: it\ndoes.\n  arranged   as it is"
        );
        assert!(write(&report, None).starts_with("lfs wins by far.\nWhy: it does.\n"));
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
