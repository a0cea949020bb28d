//! The tables of loads, in every form of a report.

use serde_json::{Value, json};
use twin_report::table::{Cell, Table};
use twin_report::units::figure;
use twin_report::{Part, Report, cells};

use super::{Figure, Load, Purpose, Setting};
use crate::progress::Progress;

const JUDGED_BY: &str = "What was given says how well a load was fitted; only what was held out says whether it is like its traces.";

/// The figures of loads.
///
/// # Errors
/// The first load that cannot be measured.
pub fn report(loads: &[&Load], threads: usize, progress: &Progress) -> Result<Report, String> {
    let mut report = Report::answer("reproduce", "Loads beside the published tables");
    let mut verdict = Vec::new();
    for load in loads {
        let figures = (load.figures)(threads, progress)?;
        verdict.push(verdict_of(load, &figures));
        report.add(Part::heading(format!("{}: {}", load.name, load.about)));
        report.add(table(&figures));
        report.add_rows(rows(load, &figures));
    }
    report.set_verdict(verdict.join("\n"), JUDGED_BY);
    Ok(report)
}

/// The parameters of a load that a search finds, beside those that are declared, and the figures with them.
///
/// # Errors
/// If the load has no parameters to search, or cannot be measured.
pub fn fit_report(load: &Load, progress: &Progress) -> Result<Report, String> {
    let fitted = load.fitted.ok_or_else(|| {
        format!(
            "the numbers of {} were not searched by this program: --loads {} shows them",
            load.name, load.name
        )
    })?;
    let found = (fitted.search)(progress)?;
    let figures = (fitted.figures)(&found)?;
    let mut report =
        Report::answer("reproduce", format!("The parameters of {}, searched again", load.name));
    let row = |(name, value): &Setting| cells![*name, value, (fitted.declared)(name)];
    let columns = ["parameter", "found", "declared"];
    report.add(Table::new(columns, 1).with(found.iter().map(row)));
    report.add(table(&figures));
    report.add_rows(rows(load, &figures));
    let values: Vec<Value> =
        found.iter().map(|(name, value)| json!({ "parameter": name, "found": value, "declared": (fitted.declared)(name) })).collect();
    report.add_member("parameters", values);
    report.set_verdict(verdict_of(load, &figures), JUDGED_BY);
    Ok(report)
}

fn verdict_of(load: &Load, figures: &[Figure]) -> String {
    let count = |purpose| {
        let of = || figures.iter().filter(move |figure| figure.purpose == purpose);
        (of().filter(|figure| figure.is_met()).count(), of().count())
    };
    let ((met, given), (out_met, out)) = (count(Purpose::Given), count(Purpose::HeldOut));
    format!(
        "{}: {met} of {given} given figures are met, {out_met} of {out} that were held out, with {} fitted numbers",
        load.name, load.numbers
    )
}

fn table(figures: &[Figure]) -> Table {
    let columns = ["figure", "published", "source", "generated", "use", "met"];
    let row = |of: &Figure| {
        let unit = if of.unit.is_empty() { String::new() } else { format!(" {}", of.unit) };
        cells![
            &of.what,
            format!("{}{unit}", of.published),
            &of.source,
            Cell::new(of.generated, "", format!("{}{unit}", figure(of.generated))),
            of.purpose.name(),
            if of.is_met() { "yes" } else { "no" },
        ]
    };
    Table::new(columns, 1).with(figures.iter().map(row))
}

fn rows(load: &Load, figures: &[Figure]) -> Vec<Value> {
    let bound = |bound: f64| bound.is_finite().then_some(bound);
    let row = |of: &Figure| {
        json!({
            "load": load.name,
            "figure": of.what,
            "unit": of.unit,
            "published": of.published,
            "low": bound(of.range.0),
            "high": bound(of.range.1),
            "source": of.source,
            "generated": of.generated,
            "use": of.purpose.name(),
            "met": of.is_met(),
        })
    };
    figures.iter().map(row).collect()
}
