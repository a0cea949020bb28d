//! The layout of a volume as a page: the paper's figures 1, 3 and 4, the lengths of free runs, and a
//! map of the volume.

use twin_age::{TENTHS, VolumeMap};
use twin_fs::SpaceMap;

use super::{LayoutReport, headline, table};
use crate::draw::{BLUE, Bar, Chart, GREEN, Group, Line, RED, Span, bars, lines, map, over_time};
use crate::markup::{charts, escape, page_of};

/// Cells of the map.
const CELLS: u64 = 2000;

/// The page.
pub fn page(report: &LayoutReport, volume: &VolumeMap) -> String {
    let words = headline(report);
    let mut body = String::from("<div class=\"verdict\">");
    for line in words.lines() {
        body += &format!("<p>{}</p>", escape(line));
    }
    body += "<small>The layout score is the share of blocks that begin where the file's previous \
             block ends (Smith and Seltzer 1994). The dynamic score is that of a reader of all \
             files in the order of the directories.</small></div>";
    let mut drawings = vec![by_size(report)];
    if let Some(free) = &report.free {
        let mut sum = 0.0;
        let mut points = vec![(0.0, 0.0)];
        for (tenth, share) in free.tenths.iter().enumerate() {
            sum += share * 100.0;
            points.push(((tenth + 1) as f64 * 100.0 / TENTHS as f64, sum));
        }
        let region = if free.region.is_empty() { "volume" } else { &free.region };
        let title = format!("Free space within each {region}");
        let chart = Chart { title: &title, y_label: "% of free space", log_y: false, marks: &[] };
        let line = Line { name: report.source.clone(), colour: BLUE, paper: false, points };
        drawings.push(over_time(&chart, &[line], &format!("position in the {region}, %")));
        let bar = |run: &super::RunRow| {
            let name = match run.blocks {
                0 => "less than a block".into(),
                blocks => format!("from {blocks} blocks"),
            };
            Bar::new(name, GREEN, run.bytes as f64 / f64::from(1 << 20))
        };
        let group =
            Group { title: String::new(), bars: free.run_classes.iter().map(bar).collect() };
        drawings.push(bars("Free space by length of run, MiB", &[group], Span::Shared));
    }
    drawings.push(map(&space(volume), BLUE));
    body += &charts(&drawings);
    body += &format!("<h2>All figures</h2><pre>{}</pre>", escape(&table(report, None)));
    for problem in &report.problems {
        body += &format!("<p>Not read: {}</p>", escape(problem));
    }
    page_of(&format!("Layout of {}", report.source), &body)
}

/// Scores by size, with fragments and without.
fn by_size(report: &LayoutReport) -> String {
    let kb = |blocks: u64| blocks as f64 * f64::from(report.block_bytes) / 1024.0;
    let line = |name: &str, colour, pick: fn(&super::ClassRow) -> Option<f64>| {
        let points = report.classes.iter();
        let points = points.filter_map(|class| Some((kb(class.most_blocks), pick(class)?)));
        Line { name: name.into(), colour, paper: false, points: points.collect() }
    };
    let all = [
        line("all blocks", BLUE, |class| class.layout_score),
        line("fragments left out", RED, |class| class.layout_score_without_fragments),
    ];
    let chart = Chart {
        title: "Layout score by size of file",
        y_label: "layout score",
        log_y: false,
        marks: &[],
    };
    lines(&chart, &all, "size of file, up to")
}

/// How full each part of the volume is: from the free ranges or, where they are not known, from the
/// blocks of files.
fn space(volume: &VolumeMap) -> SpaceMap {
    let end = volume.files.iter().flat_map(|file| &file.runs).map(|run| run.end()).max();
    let size = volume.size.max(end.unwrap_or(0)).max(1);
    let cell = size.div_ceil(CELLS).max(1);
    let mut bytes = vec![0u64; size.div_ceil(cell) as usize];
    let mut add = |from: u64, to: u64| {
        let (mut at, to) = (from.min(size), to.min(size));
        while at < to {
            let next = ((at / cell + 1) * cell).min(to);
            bytes[(at / cell) as usize] += next - at;
            at = next;
        }
    };
    match &volume.free {
        Some(free) => free.iter().for_each(|range| add(range.start, range.end)),
        None => {
            let runs = volume.files.iter().flat_map(|file| &file.runs);
            runs.for_each(|run| add(run.at, run.end()));
        }
    }
    let known = volume.free.is_some();
    let share = |(nth, bytes): (usize, u64)| {
        let len = cell.min(size - nth as u64 * cell);
        let share = bytes as f64 / len as f64;
        if known { 1.0 - share } else { share.min(1.0) }
    };
    SpaceMap::of("parts of the volume", bytes.into_iter().enumerate().map(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_age::Layout;
    use twin_age::map::{FileKind, FileMap, Run};

    #[test]
    fn the_page_has_the_scores_the_charts_and_a_map_and_escapes_names() {
        let runs = vec![
            Run { lbn: 0, blocks: 2, at: 8192, bytes: 8192 },
            Run { lbn: 2, blocks: 3, at: 40_960, bytes: 12_288 },
        ];
        let file = FileMap { ino: 3, kind: FileKind::File, size: 20_000, mtime_s: 0, runs };
        let map = VolumeMap {
            system: "ffs".into(),
            block_size: 4096,
            size: 1 << 20,
            region: "group".into(),
            areas: std::iter::once(0..1 << 20).collect(),
            free: Some(vec![0..8192, 1 << 19..1 << 20]),
            files: vec![file],
            ..VolumeMap::default()
        };
        let report = LayoutReport::of("a<b>", &map, &Layout::of(&map));
        let text = page(&report, &map);
        assert!(text.contains("Layout score 0.750") && text.contains("a&lt;b&gt;"), "{text}");
        assert_eq!(text.matches("<svg").count(), 4);
        assert!(!text.contains("NaN") && !text.contains("<b>"));
        let unknown = VolumeMap { free: None, ..map };
        let report = LayoutReport::of("x", &unknown, &Layout::of(&unknown));
        assert_eq!(page(&report, &unknown).matches("<svg").count(), 2);
    }
}
