//! Tables for the terminal that are fitted to its width by columns.

use comfy_table::{CellAlignment, Table, presets};

/// Characters of a column beside its content.
const FRAME: usize = 3;

/// The characters that each column takes, with its frame.
fn widths(header: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let most = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).chain(header.get(column));
        let lines = cells.flat_map(|cell| cell.lines());
        lines.map(|line| line.chars().count()).max().unwrap_or(0) + FRAME
    };
    (0..header.len()).map(most).collect()
}

/// The number of first columns that fit into `width` characters.
pub(crate) fn fitting(header: &[String], rows: &[Vec<String>], width: Option<u16>) -> usize {
    let room = width.map_or(usize::MAX, usize::from);
    let mut used = 1;
    let fits = |width: &&usize| {
        used += **width;
        used <= room
    };
    widths(header, rows).iter().take_while(fits).count()
}

/// A table whose first `fixed` columns are repeated: those that do not fit into `width` characters beside
/// them go to further tables below, so that no cell is broken. Cells after the fixed ones are aligned to
/// the right.
pub(crate) fn in_width(
    header: &[String],
    rows: &[Vec<String>],
    fixed: usize,
    width: Option<u16>,
) -> String {
    let widths = widths(header, rows);
    let room = width.map_or(usize::MAX, usize::from);
    let beside: usize = widths.iter().take(fixed).sum::<usize>() + 1;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for (column, own) in widths.iter().enumerate().skip(fixed) {
        if groups.is_empty() || used + own > room {
            groups.push((0..fixed).collect());
            used = beside;
        }
        used += own;
        if let Some(group) = groups.last_mut() {
            group.push(column);
        }
    }
    if groups.is_empty() {
        groups.push((0..header.len()).collect());
    }
    let one = |columns: &Vec<usize>| {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        let pick = |row: &[String]| -> Vec<String> {
            columns.iter().map(|&column| row.get(column).cloned().unwrap_or_default()).collect()
        };
        table.set_header(pick(header));
        table.add_rows(rows.iter().map(|row| pick(row)));
        for column in table.column_iter_mut().skip(fixed) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    };
    groups.iter().map(one).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn columns_without_room_go_to_a_table_below() {
        let header = ["name", "first", "second", "third"].map(String::from);
        let rows = [["a row", "12345\n9", "7", "8"].map(String::from).to_vec()];
        for width in 20..60 {
            let text = in_width(&header, &rows, 1, Some(width));
            assert!(widest(&text) <= width.into(), "{width}:\n{text}");
            assert_eq!(text.matches("12345").count(), 1, "no cell is broken:\n{text}");
            assert_eq!(text.matches("third").count(), 1);
        }
        assert_eq!(in_width(&header, &rows, 1, None).matches("a row").count(), 1);
    }
}
