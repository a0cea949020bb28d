//! The section of the page: the population, figures 1 to 9 and tables 5, 7, 8 and 9 of TR-35-94, with the
//! paper's figures where it prints them. Of its curves no numbers are published.

use twin_age::{Score, SizeClass};

use super::population::{POPULATION, SCALE};
use super::statistics::{Row, table_5, table_7, table_8, table_9};
use super::study::{OCTOBER, Old, Snapshot, Study};
use super::{score_of, value};
use twin_report::draw::{
    BLUE, Chart, Colour, GREEN, GREY, Line, PINK, RED, SKY, lines, nth, over_time,
};
use twin_report::markup::{charts, escape};

/// The powers of two of the sizes in blocks that figures 3 to 5 have.
const POWERS: std::ops::RangeInclusive<u32> = 1..=8;

fn line(name: impl Into<String>, colour: Colour, paper: bool, points: Vec<(f64, f64)>) -> Line {
    let points = points.into_iter().filter(|point| point.1.is_finite()).collect();
    Line { name: name.into(), colour, paper, points }
}

fn chart<'a>(title: &'a str, y_label: &'a str) -> Chart<'a> {
    Chart { title, y_label, log_y: false, marks: &[] }
}

/// The section, empty if nothing was aged.
pub(crate) fn section(study: &Study) -> String {
    let old: Vec<&Old> = study.all.iter().flatten().collect();
    if old.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<h2>File layout of aged file systems</h2><p>Figures and tables of <i>File Layout and File \
         System Performance</i> (Smith and Seltzer, TR-35-94), ours: {} of its 48 file systems, each with \
         one in {SCALE} of its cylinder groups, aged by loads of their kind. Dots are the figures that the \
         paper prints; of its curves there are none. Days are counted from 26 January 1994.</p>",
        old.len()
    );
    out += &charts(&[free_by_place(&old), white(&old), by_size(&old), fragments(&old), ages(&old)]);
    out += "<h3>Figures 6 and 7: speed of the aged, of the empty file system</h3>";
    out += &charts(&of_timed(&old, relative_speeds));
    out += "<h3>Figures 8 and 9: files of 64 KB, layout scores and free space</h3>";
    out += &charts(&of_timed(&old, scores));
    out += "<h3>Correlations: tables 5, 7, 8 and 9</h3>";
    out += &table("Table 5. Age and layout score of a file system", &table_5(&old));
    out += &table("Table 7. Layout score of a test's files and its throughput", &table_7(&old));
    out += &table("Table 8. Free space and relative performance", &table_8(&old));
    out +=
        &table("Table 9. The file system's layout score and relative performance", &table_9(&old));
    out + &population(&old)
}

fn find<'a>(old: &[&'a Old], server: &str, name: &str) -> Option<&'a Old> {
    old.iter().find(|old| (old.system.server, old.system.name) == (server, name)).copied()
}

/// The cumulated percentage of free space over the percentage of the cylinder group.
fn cumulated<'a>(snapshots: impl Iterator<Item = &'a Snapshot>) -> Vec<(f64, f64)> {
    let shares = snapshots.map(|snapshot| {
        let free = snapshot.free();
        free.tenths.map(|bytes| bytes as f64 / free.bytes.max(1) as f64)
    });
    let all: Vec<_> = shares.collect();
    let mut sum = 0.0;
    let tenths = 0..all.first().map_or(0, |tenths| tenths.len());
    let points = tenths.map(|tenth| {
        sum += all.iter().map(|tenths| tenths[tenth]).sum::<f64>() / all.len() as f64 * 100.0;
        ((tenth + 1) as f64 * 10.0, sum)
    });
    std::iter::once((0.0, 0.0)).chain(points).collect()
}

const OF_GROUP: &str = "% of the cylinder group";
const OF_FREE: &str = "% of the free space";

fn free_by_place(old: &[&Old]) -> String {
    let one = |(name, server, of): (&str, &str, &str), colour| {
        let snapshot = find(old, server, of).and_then(|old| old.on(OCTOBER));
        line(name, colour, false, cumulated(snapshot.into_iter()))
    };
    let all = cumulated(old.iter().filter_map(|old| old.on(OCTOBER)));
    let curves = [
        line("all", BLUE, false, all),
        line("paper, all", BLUE, true, vec![(80.0, 50.0)]),
        one(("glan7", "virtual12", "glan7"), GREEN),
        one(("usr6", "endor", "usr6"), RED),
        one(("white", "endor", "white"), PINK),
        one(("news-usr", "das-news", "usr"), SKY),
    ];
    over_time(&chart("Figure 1. Free space within cylinder groups", OF_FREE), &curves, OF_GROUP)
}

fn white(old: &[&Old]) -> String {
    let Some(white) = find(old, "endor", "white") else { return String::new() };
    let dates =
        [(150, "before the removal", BLUE), (180, "after", RED), (OCTOBER, "October", GREEN)];
    let curve = |(day, name, colour): (u64, &str, Colour)| {
        line(name, colour, false, cumulated(white.on(day).into_iter()))
    };
    let curves = dates.map(curve);
    over_time(&chart("Figure 2. Free space of white", OF_FREE), &curves, OF_GROUP)
}

/// A score for each size in KB, in blocks of 8 KB.
fn sizes(score: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    POWERS.map(|power| (f64::from(8 << power), score(1 << power))).collect()
}

const SIZE: &str = "file size, in blocks of 8 KB";
const SCORE: &str = "layout score";

fn by_size(old: &[&Old]) -> String {
    let one = |(name, server, of): (&str, &str, &str), colour| {
        let some: Vec<&Old> = find(old, server, of).into_iter().collect();
        line(name, colour, false, sizes(|most| value(score_of(&some, most))))
    };
    let curves = [
        line("all", BLUE, false, sizes(|most| value(score_of(old, most)))),
        line("paper, all", BLUE, true, vec![(16.0, 0.327), (512.0, 0.826)]),
        one(("usr3", "speed", "usr3"), GREEN),
        one(("usr6", "endor", "usr6"), RED),
        one(("white", "endor", "white"), PINK),
        one(("news-usr", "das-news", "usr"), SKY),
        one(("newsspool", "das-news", "newsspool"), GREY),
    ];
    lines(&chart("Figure 3. Layout score by file size", SCORE), &curves, SIZE)
}

fn fragments(old: &[&Old]) -> String {
    let without = |most| score_of(old, most).without_fragments().unwrap_or(f64::NAN);
    let curves = [
        line("fragments as they lie", BLUE, false, sizes(|most| value(score_of(old, most)))),
        line("fragments counted as well placed", RED, false, sizes(without)),
        line("paper, as they lie", BLUE, true, vec![(16.0, 0.327), (512.0, 0.826)]),
    ];
    lines(&chart("Figure 4. What fragments do", SCORE), &curves, SIZE)
}

fn ages(old: &[&Old]) -> String {
    let on = |day: u64, most| {
        let class = SizeClass::of(most);
        let snapshots = old.iter().filter_map(|old| old.on(day));
        let classes = snapshots.flat_map(|snapshot| &snapshot.layout.classes);
        let scores = classes.filter(|c| c.size == class).map(|class| class.score);
        value(scores.fold(Score::default(), Score::and))
    };
    let dates = [(30, BLUE), (150, GREEN), (OCTOBER, RED)];
    let curve = |(day, colour): (u64, Colour)| {
        line(format!("day {day}"), colour, false, sizes(|most| on(day, most)))
    };
    let curves = dates.map(curve);
    lines(&chart("Figure 5. Layout score over time", SCORE), &curves, SIZE)
}

/// A chart for each file system of the benchmark.
fn of_timed(old: &[&Old], draw: fn(&Old) -> String) -> Vec<String> {
    old.iter().filter(|old| old.system.timed).map(|old| draw(old)).collect()
}

const DAYS: &str = "day of the study";

fn relative_speeds(old: &Old) -> String {
    let mut curves = Vec::new();
    for (number, size) in super::benchmark::SIZES.into_iter().enumerate() {
        let of = |rate: fn(&super::Test) -> f64| {
            let tests = old.tests.iter().filter(|test| test.size == size);
            tests.map(|test| (test.day as f64, rate(test))).collect()
        };
        let (kb, colour) = (size >> 10, nth(number));
        curves.push(line(format!("{kb} KB, read"), colour, false, of(|test| test.relative_read)));
        let writes = of(|test| test.relative_write);
        curves.push(line(format!("{kb} KB, write"), colour.dashed(), false, writes));
    }
    over_time(&chart(old.system.name, "speed, of empty"), &curves, DAYS)
}

fn scores(old: &Old) -> String {
    let of = |of: fn(&super::Test) -> f64| {
        let tests = old.tests.iter().filter(|test| test.size == super::benchmark::SIZES[1]);
        tests.map(|test| (test.day as f64, of(test))).collect()
    };
    let curves = [
        line("read speed, of empty", BLUE, false, of(|test| test.relative_read)),
        line("write speed, of empty", BLUE.dashed(), false, of(|test| test.relative_write)),
        line("score of the test", RED, false, of(|test| test.score.unwrap_or(f64::NAN))),
        line("score of all files", GREEN, false, of(|test| test.aggregate)),
        line("free space", GREY, false, of(|test| test.free)),
    ];
    let marks: &[(f64, &str)] = match old.system.name {
        "cnews" => {
            &[(0.71, "paper, January: write speed"), (0.308, "paper, January: score of all files")]
        }
        _ => &[],
    };
    let chart = Chart { marks, ..chart(old.system.name, "share") };
    over_time(&chart, &curves, DAYS)
}

fn table(title: &str, rows: &[Row]) -> String {
    let mut out = format!(
        "<table><tr class=\"group\"><th class=\"l\" colspan=\"4\">{}</th></tr><tr><th></th>\
         <th>paper</th><th>ours</th><th>pairs</th></tr>",
        escape(title)
    );
    for Row { what, paper, ours, pairs } in rows {
        let ours = if ours.is_finite() { format!("{ours:.2}") } else { "–".into() };
        out += &format!(
            "<tr><th class=\"l\">{}</th><td>{paper:.2}</td><td>{ours}</td><td>{pairs}</td></tr>",
            escape(what)
        );
    }
    out + "</table>"
}

/// Tables 1 to 4, with what became of each file system.
fn population(old: &[&Old]) -> String {
    let mut out = String::from(
        "<h3>The population, after tables 1 to 4</h3><table><tr><th class=\"l\">server</th>\
         <th class=\"l\">file system</th><th>months</th><th>groups</th><th>blocks of a group</th>\
         <th>files</th><th>full</th><th>layout score</th></tr>",
    );
    for system in POPULATION {
        let (groups, blocks) = system.groups;
        let found = find(old, system.server, system.name).and_then(|old| old.on(OCTOBER));
        let (files, full, score) = match found {
            Some(Snapshot { layout, .. }) => (
                layout.files.to_string(),
                format!("{:.2}", layout.free.as_ref().map_or(f64::NAN, |free| free.used)),
                layout.score.value().map_or("–".into(), |score| format!("{score:.2}")),
            ),
            None => ("–".into(), "–".into(), "–".into()),
        };
        out += &format!(
            "<tr><td class=\"l\">{}</td><td class=\"l\">{}</td><td>{}</td><td>{groups} / {SCALE}</td>\
             <td>{blocks}</td><td>{files}</td><td>{full}</td><td>{score}</td></tr>",
            system.server, system.name, system.months
        );
    }
    out + "</table><p><small>Files, share of the space in use and layout score: ours, in October. At least \
           two groups.</small></p>"
}
