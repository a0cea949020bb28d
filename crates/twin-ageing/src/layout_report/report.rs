//! The report on the layout of a volume: the paper's figures 1, 3 and 4, the lengths of free runs, and a
//! map of the volume.

use twin_age::{TENTHS, VolumeMap};

use super::{ClassRow, FileRow, FreeRow, LayoutReport, RunRow, score};
use twin_report::draw::{
    BLUE, Bar, Chart, GREEN, Group, Line, RED, Region, Span, bars, lines, map, over_time,
};
use twin_report::units::mib;
use twin_report::{Part, Report, Table, cells};

/// Cells of the map.
const CELLS: u64 = 2000;

impl LayoutReport {
    /// The report on the volume that it was made from. As comma-separated values it has a row for each
    /// file or directory if these were asked for, and one for each size of file otherwise.
    pub fn report(&self, volume: &VolumeMap) -> Report {
        let mut report = Report::answer("layout", format!("Layout of {}", self.source));
        report.set_verdict(headline(self), SCORES);
        let free = self.free.as_ref();
        let mut drawings = vec![by_size(self)];
        drawings.extend(free.map(|free| free_charts(&self.source, free)).into_iter().flatten());
        drawings.push(map("parts of the volume", &space(volume), BLUE));
        report.on_page(drawings);
        report.on_page(Part::heading("All figures"));
        report.add(classes(&self.classes));
        match free {
            None => report.add("Free space: not known. Of a directory --free reads it, as root, if the file system tells."),
            Some(free) => {
                report.add(free_words(free));
                report.add(runs(free));
            }
        }
        report.add(files("directory", &self.directory_scores));
        report.add(files("file", &self.file_scores));
        for problem in &self.problems {
            report.on_page(Part::Failure(format!("Not read: {problem}")));
        }
        report.set_json(self);
        match (&self.file_scores[..], &self.directory_scores[..]) {
            ([], []) => report.add_rows(self.rows()),
            ([], directories) => report.add_rows(directories),
            (files, _) => report.add_rows(files),
        }
        report
    }
}

const SCORES: &str = "The layout score is the share of blocks that begin where the file's previous block \
    ends (Smith and Seltzer 1994). The dynamic score is that of a reader of all files in the order of \
    the directories.";

/// How its files lie, and what the volume is.
fn headline(report: &LayoutReport) -> String {
    let used = report.used.map_or(String::new(), |used| format!(", {:.1}% in use", used * 100.0));
    format!(
        "Layout score {} ({} with fragments left out), dynamic score {}: {}.\n{}: {}, {} files of {} in {} \
         directories{used}.",
        score(report.layout_score).text,
        score(report.layout_score_without_fragments).text,
        score(report.dynamic_score).text,
        in_words(report.layout_score),
        report.source,
        report.system,
        report.files,
        mib(report.file_bytes),
        report.directories,
    )
}

/// What a layout score says.
fn in_words(score: Option<f64>) -> String {
    match score {
        None => "no file has more than one block".into(),
        Some(score) if score >= 1.0 => "every file lies in one piece".into(),
        Some(score) => format!(
            "of 1,000 blocks that could follow the block before in their file {:.0} do not",
            1000.0 * (1.0 - score)
        ),
    }
}

fn classes(all: &[ClassRow]) -> Table {
    let row = |class: &ClassRow| {
        let (fewest, most) = (class.fewest_blocks, class.most_blocks);
        let blocks = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
        let (all, without) = (class.layout_score, class.layout_score_without_fragments);
        cells![blocks, class.files, score(all), score(without)]
    };
    let columns = ["blocks", "files", "layout score", "layout score without fragments"];
    Table::new(columns, 1).with(all.iter().map(row))
}

/// Files or directories.
fn files(title: &str, all: &[FileRow]) -> Table {
    let row = |file: &FileRow| {
        let name = file.path.clone().unwrap_or_else(|| format!("inode {}", file.ino));
        cells![name, file.size, file.blocks, file.runs, score(file.layout_score)]
    };
    Table::new([title, "size, bytes", "blocks", "runs", "layout score"], 1)
        .with(all.iter().map(row))
}

fn free_words(free: &FreeRow) -> String {
    let mut words = format!(
        "Free: {} in {} runs, the longest {}; {} in fragments",
        mib(free.bytes),
        free.runs,
        mib(free.longest_run_bytes),
        mib(free.fragment_bytes),
    );
    if !free.region.is_empty() && free.bytes > 0 {
        let tenths: Vec<String> =
            free.tenths.iter().map(|share| format!("{:.0}%", share * 100.0)).collect();
        words += &format!("\nIn tenths of each {}: {}", free.region, tenths.join(" "));
    }
    words
}

/// Runs of free space by length.
fn runs(free: &FreeRow) -> Table {
    let name = |blocks: u64| match blocks {
        0 => "less than a block".into(),
        1 => "1 block".into(),
        blocks => format!("{} to {} blocks", blocks, blocks * 2 - 1),
    };
    let row = |run: &RunRow| cells![name(run.blocks), run.runs, run.bytes];
    Table::new(["free runs of", "runs", "size, bytes"], 1).with(free.run_classes.iter().map(row))
}

/// Where the free space is, and in runs of which lengths.
fn free_charts(source: &str, free: &FreeRow) -> [String; 2] {
    let mut sum = 0.0;
    let mut points = vec![(0.0, 0.0)];
    for (tenth, share) in free.tenths.iter().enumerate() {
        sum += share * 100.0;
        points.push(((tenth + 1) as f64 * 100.0 / TENTHS as f64, sum));
    }
    let region = if free.region.is_empty() { "volume" } else { &free.region };
    let title = format!("Free space within each {region}");
    let chart = Chart { title: &title, y_label: "% of free space", log_y: false, marks: &[] };
    let line = Line { name: source.into(), colour: BLUE, paper: false, points };
    let places = over_time(&chart, &[line], &format!("position in the {region}, %"));
    let bar = |run: &RunRow| {
        let name = match run.blocks {
            0 => "less than a block".into(),
            blocks => format!("from {blocks} blocks"),
        };
        Bar::new(name, GREEN, run.bytes as f64 / f64::from(1 << 20))
    };
    let group = Group { title: String::new(), bars: free.run_classes.iter().map(bar).collect() };
    [places, bars("Free space by length of run, MiB", &[group], Span::Shared)]
}

/// Scores by size, with fragments and without.
fn by_size(report: &LayoutReport) -> String {
    let kb = |blocks: u64| blocks as f64 * f64::from(report.block_bytes) / 1024.0;
    let line = |name: &str, colour, pick: fn(&ClassRow) -> Option<f64>| {
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
fn space(volume: &VolumeMap) -> Vec<Region> {
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
        Region { used: if known { 1.0 - share } else { share.min(1.0) }, is_open: false }
    };
    bytes.into_iter().enumerate().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_age::Layout;
    use twin_age::map::{FileKind, FileMap, Run};
    use twin_report::Form;

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
        let text = report.report(&map).write(Form::Html);
        assert!(text.contains("Layout score 0.750") && text.contains("a&lt;b&gt;"), "{text}");
        assert_eq!(text.matches("<svg").count(), 4);
        assert!(!text.contains("NaN") && !text.contains("<b>"));
        let unknown = VolumeMap { free: None, ..map };
        let report = LayoutReport::of("x", &unknown, &Layout::of(&unknown));
        assert_eq!(report.report(&unknown).write(Form::Html).matches("<svg").count(), 2);
    }
}
