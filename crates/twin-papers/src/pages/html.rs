//! The report as one self-contained page: figures, the table, the claims, the present.

use twin_report::draw::{
    BLUE, Bar, Chart, Colour, GREEN, GREY, Group, Line, PINK, RED, SKY, Span, YELLOW, bars, lines,
    over_time,
};
use twin_report::markup::{escape, page_of};
use twin_verdict::{LOG_EXPLAINED, log_course};

use crate::choices;
use crate::claim::{Claim, Judged};
use crate::claims::figure_needs;
use crate::claims::tpcb_cleaner;
use crate::clc::{self, System};
use crate::need::Need;
use crate::pages::aged_log;
use crate::pages::days;
use crate::pages::file_layout;
use crate::pages::present;
use crate::pages::servers;
use crate::pages::summary;
use crate::paper::Paper;
use crate::results::Results;
use crate::runs::{
    self, BANDWIDTH, BY_SIZE, SCALE, SIZES_KB, SYSTEMS, andrew, large, rate, small, tpcb,
};
use crate::tally::{Tally, tally};

/// Users of the Andrew benchmark that the page shows.
const ANDREW_USERS: [u64; 2] = [1, 4];

/// The papers whose measurements the page draws: those of the claims.
#[derive(Clone, Copy)]
struct Drawn {
    table_of_1994: bool,
    figures_of_1995: bool,
}

impl Drawn {
    fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Drawn {
        let mut drawn = Drawn { table_of_1994: false, figures_of_1995: false };
        for claim in claims {
            drawn.table_of_1994 |= claim.paper() == Paper::Clc;
            drawn.figures_of_1995 |= claim.paper() == Paper::Lvc;
        }
        drawn
    }

    /// The conclusions of both are held against the present.
    fn present(self) -> bool {
        self.table_of_1994 || self.figures_of_1995
    }
}

/// The runs that the page of these claims shows in addition to theirs, and of those whose history it
/// draws the phase.
pub(crate) fn page_needs(claims: &[&Claim]) -> (Vec<Need>, Vec<(Need, &'static str)>) {
    let drawn = Drawn::of(claims.iter().copied());
    let (mut all, mut watched) = (Vec::new(), Vec::new());
    if drawn.table_of_1994 {
        all.extend(clc::needs());
        all.extend(clc::lazy());
        all.extend(clc::sizes_kb().into_iter().map(|kb| clc::need("efs-async".into(), kb)));
        for config in ["efs", "bsd-lfs-1994"] {
            all.extend(ANDREW_USERS.map(|users| andrew(config, users)));
        }
    }
    if drawn.figures_of_1995 {
        all.extend(figure_needs());
        all.extend((tpcb_cleaner::CLAIM.needs)());
        watched.extend(cleaned().into_iter().map(|(_, need)| (need, "tx")));
    }
    if drawn.present() {
        all.extend(runs::present());
    }
    (all, watched)
}

/// The runs in which a log is cleaned, by name.
fn cleaned() -> Vec<(&'static str, Need)> {
    let without = ("TPC-B, LFS without cleaner", tpcb("bsd-lfs"));
    std::iter::once(without).chain(tpcb_cleaner::runs()).collect()
}

/// The charts of the logs of these runs, where their history is known.
fn logs(results: &Results) -> String {
    let one = |(name, need): (&str, Need)| log_course(name, results.history(&need)?);
    let charts: String = cleaned().into_iter().filter_map(one).collect();
    let mut out = String::new();
    if !charts.is_empty() {
        out += &format!("<h2>Logs under TPC-B</h2>{LOG_EXPLAINED}{charts}");
    }
    let servers = results.servers.histories();
    let charts: String =
        servers.into_iter().filter_map(|(name, history)| log_course(&name, history)).collect();
    if !charts.is_empty() {
        out +=
            &format!("<h2>File servers</h2>{SERVERS}{}{charts}", servers::charts(&results.servers));
    }
    out + &days::charts(&results.days)
}

/// An explanation of the servers.
const SERVERS: &str = "<p>The servers of <i>Heuristic Cleaning Algorithms in Log-Structured File \
    Systems</i> (Blackwell, Harris and Seltzer, USENIX 1995). Their traces are not available: the \
    requests are fitted to the published totals. At the start 3% of the segments are clean and the \
    others equally full.</p>";

/// The page. `measured`: rows of `twinfs bench --json` on real directories, if available.
pub fn html(judged: &[Judged], results: &Results, measured: Option<&serde_json::Value>) -> String {
    let drawn = Drawn::of(judged.iter().map(|judged| judged.claim));
    let mut page = summary::section(judged, results);
    page += "<p>Measurements of papers on file systems, repeated by twinfs: its file-system code under \
             virtual time on models of the papers' disks, busses and processors, with requests fitted to \
             what is published where traces are not. On the whole page blue is a log and orange a \
             clustered FFS.</p>";
    page += &tally_table(judged);
    if drawn.table_of_1994 {
        page += "<h2>The table of 1994</h2>";
        page += &clc_section(results);
        page += &format!("<div class=\"charts\">{}</div>", andrew_of_1994(results));
    }
    if drawn.figures_of_1995 {
        page += "<h2>The figures of 1995</h2><p>Ours. Sprite-LFS and Sun-FFS ran on another machine and \
                 are scaled as in the paper: processor 2.5, bandwidth 1.8, accesses 1.7. The paper's \
                 statements about the figures are listed further down, one by one.</p>\
                 <div class=\"charts\">";
        page += &figures_1995(results);
        page += "</div>";
    }
    page += &logs(results);
    page += &file_layout::section(&results.layouts);
    page += &aged_log::section(&results.aged_logs, &results.layouts);
    if drawn.present() {
        page += "<h2>The present</h2>";
        page += &present::section(results, measured);
        page += &measured.map(present::measured).unwrap_or_default();
    }
    page += "<h2>Statement by statement</h2>";
    page += &claims_table(judged);
    page += "<h2>What was chosen, and what is settled</h2>";
    page += &choices_table();
    page_of("Logging versus clustering, again", &page)
}

/// The tally of each paper.
fn tally_table(judged: &[Judged]) -> String {
    let mut out = String::from(
        "<p>Counted are published figures and directions to which no number was fitted.</p>\
         <table><tr><th class=\"l\">statements of</th><th>hold</th><th>of</th><th></th>\
         <th>free numbers</th><th class=\"l\">not counted</th></tr>",
    );
    for tally in tally(judged) {
        let Tally { paper, held, all, .. } = tally;
        let part = held as f64 / all.max(1) as f64 * 100.0;
        out += &format!(
            "<tr><td class=\"l\">{}</td><td>{held}</td><td>{all}</td>\
             <td><div class=\"part\"><i style=\"width:{part:.0}%\"></i></div></td>\
             <td>{}</td><td class=\"l\">{}</td></tr>",
            paper.title(),
            paper.free_numbers(),
            tally.apart_in_words()
        );
    }
    out + "</table>"
}

fn clc_section(r: &Results) -> String {
    let cells = clc::cells(r);
    let score = clc::score(cells.iter());
    let mut out = format!(
        "<p>MB/s by file size, 32 MB in files of one size, blocks of 8 KB, SPARCstation 2. Solid: \
         ours; dots: the paper's. Over {} cells: median error {:.1}%, {} within 10%, {} within 20%.\
         </p><div class=\"charts\">",
        score.cells,
        score.median * 100.0,
        score.within_10,
        score.within_20
    );
    let titles =
        ["Read", "Write (a): create", "Write (b): overwrite", "Write (c): overwrite, fsync"];
    for (column, title) in titles.into_iter().enumerate() {
        let mut all = Vec::new();
        for (name, colour, system) in [("EFS", RED, System::Efs), ("LFS", BLUE, System::Lfs)] {
            let of = || cells.iter().filter(|c| c.column == column && c.system == system);
            let line = |suffix: &str, paper, points| Line {
                name: format!("{name}{suffix}"),
                colour,
                paper,
                points,
            };
            all.push(line("", false, of().map(|c| (c.file_kb as f64, c.ours)).collect()));
            let scored = of().filter(|c| !c.is_suspect());
            all.push(line(", paper", true, scored.map(|c| (c.file_kb as f64, c.paper)).collect()));
        }
        let suspects = cells.iter().filter(|c| c.column == column && c.is_suspect());
        let points: Vec<_> = suspects.map(|c| (c.file_kb as f64, c.paper)).collect();
        if !points.is_empty() {
            let name = "looks like a misprint".into();
            all.push(Line { name, colour: GREY, paper: true, points });
        }
        let chart = Chart { title, y_label: "MB/s", log_y: false, marks: &[] };
        out += &lines(&chart, &all, "file size");
    }
    out += &scenario_d(r);
    out += "</div><table><tr class=\"group\"><th></th>";
    for title in titles {
        out += &format!("<th colspan=\"2\">{title}</th>");
    }
    out += "</tr><tr><th>KB</th>";
    out += &"<th>EFS</th><th>LFS</th>".repeat(titles.len());
    out += "</tr>";
    for row in cells.chunks(8) {
        out += &format!("<tr><th>{}</th>", row[0].file_kb);
        for c in row {
            let class = match c.error() {
                _ if c.is_suspect() => "out",
                e if e <= 0.10 => "near",
                e if e <= 0.20 => "mid",
                _ => "far",
            };
            out +=
                &format!("<td class=\"{class}\">{:.2} <small>{:.2}</small></td>", c.ours, c.paper);
        }
        out += "</tr>";
    }
    out += "</table><p><small>Our values, with the paper's in small print. Green: within 10%; yellow: within 20%. \
            Grey: a cell that looks like a misprint, not scored.</small></p>";
    out + &lazy_table(r)
}

/// The fourth graph of writes that the paper announces: (a) with scenario (d), for which it has no
/// figures.
fn scenario_d(r: &Results) -> String {
    let line = |name: &str, colour, config: String| Line {
        name: name.into(),
        colour,
        paper: false,
        points: clc::sizes_kb()
            .into_iter()
            .map(|kb| (kb as f64, r.rate(&clc::need(config.clone(), kb), "create")))
            .collect(),
    };
    let all = [
        line("EFS", RED, clc::config(System::Efs)),
        line("EFS, asynchronous (d)", RED.dashed(), "efs-async".into()),
        line("LFS", BLUE, clc::config(System::Lfs)),
    ];
    let title = "Write (d): create";
    lines(&Chart { title, y_label: "MB/s", log_y: true, marks: &[] }, &all, "file size")
}

fn lazy_table(r: &Results) -> String {
    let mut out = String::from(
        "<p>LFS's (c) at 4 and 8 KB makes more files durable in a second than the disk has revolutions, \
         which an fsync that waits for the medium cannot. 4.4BSD's waits, and so does ours above \
         (strict). This table compares it with one that does not wait (lazy), and (a) with scenario (d), EFS without synchronous \
         metadata.</p>\
         <table><tr class=\"group\"><th></th><th colspan=\"2\">(c) EFS</th><th colspan=\"2\">(c) LFS</th>\
         <th colspan=\"3\">create</th></tr><tr><th>KB</th><th>lazy</th><th>strict</th><th>lazy</th>\
         <th>strict</th><th>(a) EFS</th><th>(d) EFS, asynchronous</th><th>(a) LFS</th></tr>",
    );
    for kb in clc::sizes_kb() {
        let rate = |config: String, phase| r.rate(&clc::need(config, kb), phase);
        let (lfs, efs) = (clc::config(System::Lfs), clc::config(System::Efs));
        let lazy = |system| rate(clc::lazy_config(system), "overwrite_fsync");
        let cells = [
            lazy(System::Efs),
            rate(efs.clone(), "overwrite_fsync"),
            lazy(System::Lfs),
            rate(lfs.clone(), "overwrite_fsync"),
            rate(efs, "create"),
            rate("efs-async".into(), "create"),
            rate(lfs, "create"),
        ];
        out += &format!("<tr><th>{kb}</th>");
        cells.iter().for_each(|c| out += &format!("<td>{c:.2}</td>"));
        out += "</tr>";
    }
    out + "</table>"
}

fn by_size(r: &Results, chart: &Chart<'_>, phase: &str) -> String {
    let colours = [BLUE, RED, GREEN];
    let line = |(i, (name, config)): (usize, &(&str, &str))| Line {
        name: name.to_string(),
        colour: colours[i],
        paper: false,
        points: SIZES_KB.iter().map(|&kb| (kb as f64, rate(r, config, kb, phase))).collect(),
    };
    let all: Vec<Line> = BY_SIZE.iter().enumerate().map(line).collect();
    lines(chart, &all, "file size")
}

/// Figure 7: TPC-B by utilization.
fn utilization(r: &Results) -> String {
    let of = |need: fn(&tpcb_cleaner::Point) -> Need| -> Vec<(f64, f64)> {
        let points = tpcb_cleaner::CURVE.iter();
        points.map(|point| (f64::from(point.percent), r.rate(&need(point), "tx"))).collect()
    };
    let without = r.rate(&tpcb("bsd-lfs"), "tx");
    let line =
        |name: &str, colour, paper, points| Line { name: name.into(), colour, paper, points };
    let paper = tpcb_cleaner::figures(r);
    let paper = paper.iter().map(|(percent, paper, _)| (f64::from(*percent), *paper)).collect();
    let all = [
        line("LFS without cleaner", BLUE.dashed(), false, vec![(48.0, without), (90.0, without)]),
        line("LFS with cleaner", BLUE, false, of(tpcb_cleaner::Point::lfs)),
        line("the same, paper", BLUE, true, paper),
        line("FFS", RED, false, of(tpcb_cleaner::Point::ffs)),
    ];
    let marks = [(27.0, "paper: FFS")];
    let title = "Figure 7. TPC-B by utilization";
    let chart = Chart { title, y_label: "transactions/s", log_y: false, marks: &marks };
    over_time(&chart, &all, "% of the disk in use")
}

/// The factors by which the paper scales the figures of the Sprite machine to compare them with
/// BSD's: for small files (create and delete, read) and for the large file (sequential and LFS's
/// random writes, others).
fn scale(name: &str, phase: &str) -> f64 {
    let (processor, bandwidth, accesses) = SCALE;
    match (name, phase) {
        ("Sprite-LFS", "create" | "delete") => processor,
        ("Sun-FFS", "create" | "delete" | "rand_write" | "rand_read")
        | ("Sprite-LFS", "rand_read") => accesses,
        ("Sprite-LFS" | "Sun-FFS", _) => bandwidth,
        _ => 1.0,
    }
}

fn figures_1995(r: &Results) -> String {
    let colours = [SKY, BLUE, PINK, YELLOW, RED];
    let chart = |title, y_label| Chart { title, y_label, log_y: false, marks: &[] };
    // A group of bars for each phase.
    let phases = |title: &str, run: fn(&str) -> Need, phases: &[(&'static str, &str)]| {
        let group = |&(phase, words): &(&'static str, &str)| {
            let bar = |(&(name, config), colour): (&(&str, &str), Colour)| {
                Bar::new(name, colour, r.rate(&run(config), phase) * scale(name, phase))
            };
            Group { title: words.into(), bars: SYSTEMS.iter().zip(colours).map(bar).collect() }
        };
        let groups: Vec<Group> = phases.iter().map(group).collect();
        bars(title, &groups, Span::Shared)
    };
    let mut out = phases(
        "Figure 1. 10,000 files of 1 KB, files/s",
        small,
        &[("create", "create"), ("read", "read"), ("delete", "delete")],
    );
    out += &phases(
        "Figure 2. A file of 100 MB in units of 8 KB, MB/s",
        large,
        &[
            ("seq_write", "sequential write"),
            ("seq_read", "sequential read"),
            ("rand_write", "random write"),
            ("rand_read", "random read"),
            ("seq_reread", "sequential read again"),
        ],
    );
    let writes = [
        (0.67 * BANDWIDTH, "paper: LFS and FFS-m8r0 at the end, 67% of the disk"),
        (0.75 * BANDWIDTH, "paper: FFS-m8r2 at the end, 75% of the disk"),
    ];
    let create = Chart { marks: &writes, ..chart("Figure 3. Create", "MB/s") };
    out += &by_size(r, &create, "create");
    let bus = [(2.3, "paper: the bus, 2.3 MB/s")];
    let read = Chart { marks: &bus, ..chart("Figure 4. Read", "MB/s") };
    out += &by_size(r, &read, "read");
    out += &by_size(r, &chart("Figure 5. Overwrite", "MB/s"), "overwrite");
    let delete = Chart { log_y: true, ..chart("Figure 6. Delete", "files/s") };
    out += &by_size(r, &delete, "delete");
    let tx = |config: &str| r.rate(&tpcb(config), "tx");
    let ours = |title, colour, values| pair(title, [("ours", colour), ("paper", GREY)], values);
    let groups = [
        ours("LFS without cleaner", BLUE, [tx("bsd-lfs"), tpcb_cleaner::WITHOUT]),
        ours("FFS", RED, [tx("ffs-m8r2"), 27.0]),
    ];
    out += &bars("TPC-B on an empty disk, transactions/s", &groups, Span::Shared);
    out + &utilization(r)
}

/// Bars of two with a title.
fn pair(title: &str, names: [(&str, Colour); 2], values: [f64; 2]) -> Group {
    let bar = |((name, colour), value): ((&str, Colour), f64)| Bar::new(name, colour, value);
    Group { title: title.into(), bars: names.into_iter().zip(values).map(bar).collect() }
}

fn andrew_of_1994(r: &Results) -> String {
    let seconds = |config: &str, users| {
        r.phase(&andrew(config, users), "total").map_or(f64::NAN, |phase| phase.seconds)
    };
    let titles = ["one user (paper: EFS takes 10% longer)", "four users (paper: equal)"];
    let andrew = |(users, title): (u64, &str)| {
        let values = [seconds("efs", users), seconds("bsd-lfs-1994", users)];
        pair(title, [("EFS", RED), ("LFS", BLUE)], values)
    };
    let groups: Vec<Group> = ANDREW_USERS.into_iter().zip(titles).map(andrew).collect();
    bars("Andrew (1994), seconds: the shorter the better", &groups, Span::Shared)
}

fn claims_table(judged: &[Judged]) -> String {
    let mut out = String::from(
        "<table><tr><th class=\"l\">claim</th><th class=\"l\">statement</th>\
         <th class=\"l\">kind</th><th>paper</th><th>tolerance</th><th>ours</th>\
         <th>ours in the tolerance</th><th></th></tr>",
    );
    for Judged { claim, checks } in judged {
        for (i, check) in checks.iter().enumerate() {
            let (id, source) = if i == 0 { (claim.id, claim.source) } else { ("", "") };
            let mark = match check.holds() {
                true => "<td class=\"yes\">holds</td>",
                false => "<td class=\"no\">does not</td>",
            };
            let reason = match (check.holds(), check.reason) {
                (false, Some(reason)) => format!("<br><small>{}</small>", escape(reason)),
                _ => String::new(),
            };
            out += &format!(
                "<tr><td class=\"l id\">{id}<br><small>{source}</small></td>\
                 <td class=\"l\">{}{reason}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td>\
                 <td>{}</td><td>{}</td>{mark}</tr>",
                escape(&check.what),
                check.kind.name(),
                check.paper,
                check.paper.tolerance(),
                check.ours_in_words(),
                summary::band(check)
            );
        }
    }
    out + "</table>"
}

/// What was chosen, and what the source of 4.4BSD settles.
fn choices_table() -> String {
    let mut out = String::from(
        "<table><tr><th class=\"l\">what</th><th></th><th>value</th><th class=\"l\">why</th>\
         <th class=\"l\">published, or settled by</th><th class=\"l\">without it</th></tr>",
    );
    for c in choices::all() {
        out += &format!(
            "<tr><td class=\"l\">{} <small>{}</small></td><td>{}</td><td>{}</td>\
             <td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"l\">{}</td></tr>",
            escape(c.what),
            c.name,
            c.basis.name(),
            c.value,
            escape(c.reason),
            escape(c.source),
            escape(if c.has_run() { c.instead } else { "no run shows it" })
        );
    }
    out + "</table>"
}
