//! The users of Sprite, by the tables of Baker and others (1991, 1992).
//!
//! Contract: the search reads the users of the server of 1996 on one day, and the table is of another day, so that
//! what the search did not see decides what is met.

use twin_generate::{REGISTRY, SPRITE_USERS};
use twin_report::units::figure as shown;
use twin_server::{Does, ServerFile, preset};
use twin_settings::SettingsError;
use twin_trace::{AccessStats, Source};

use super::nvram::Saved;
use super::{Figure, Fitted, Load, Purpose, Setting};
use crate::progress::Progress;
use crate::search::{Dimension, search};

/// The workload, whose parameters are searched.
const WORKLOAD: &str = SPRITE_USERS[1];
const SERVER: &str = "cut-and-paste";
/// The day that the search reads, and the day of the table.
const SEARCHED_DAY: u64 = 101;
const SHOWN_DAY: u64 = 102;

pub(super) const LOAD: Load = Load {
    name: WORKLOAD,
    about: "the users of the server of Cut-and-Paste, for the traces of Sprite",
    numbers: SEARCH.len(),
    figures: |_, _| all_figures(""),
    fitted: Some(&Fitted {
        search: |progress| search_parameters(progress),
        declared,
        figures: |values| all_figures(&settings(values)),
    }),
};

/// The parameters of the workload that are searched.
const SEARCH: [(&str, Dimension); 7] = [
    ("accesses", from(&[1000.0, 1400.0], 200.0, 25.0, 100.0)),
    ("burst", from(&[10.0, 30.0], 8.0, 0.5, 1.0)),
    ("again", from(&[5.0], 10.0, 1.25, 0.0)),
    ("large", from(&[0.5, 1.0], 0.5, 0.0625, 0.0)),
    ("large-new", from(&[5.0, 15.0], 4.0, 0.5, 0.0)),
    ("life", from(&[60.0, 300.0], 128.0, 8.0, 1.0)),
    ("life-spread", from(&[1.5, 3.0], 0.5, 0.125, 0.25)),
];

const fn from(starts: &'static [f64], step: f64, least_step: f64, least: f64) -> Dimension {
    Dimension { starts, step, least_step, least }
}

/// The workloads of the server's users on a day, with these settings behind the server's own.
fn users(settings: &str, day: u64) -> Result<Vec<Box<dyn Source>>, String> {
    let text = |error: SettingsError| error.to_string();
    let server = ServerFile::parse(preset(SERVER).map_err(text)?.text).map_err(text)?;
    let mut all = Vec::new();
    for (number, client) in server.clients.iter().enumerate() {
        let Does::Workload(of_client, _) = &client.does else { continue };
        let habits = of_client.split_once(':').map_or("", |(_, habits)| habits);
        let seed = day * 1000 + number as u64;
        all.push(
            twin_generate::start(&format!("{WORKLOAD}:{habits}{settings}"), seed).map_err(text)?,
        );
    }
    Ok(all)
}

/// What they do.
fn of_users(settings: &str, day: u64) -> Result<AccessStats, String> {
    let mut sum = AccessStats::default();
    for mut source in users(settings, day)? {
        sum = sum.and(&AccessStats::of(&mut *source).map_err(|error| error.to_string())?);
    }
    Ok(sum)
}

/// The published figures of the traces, and what a megabyte of NVRAM does.
fn all_figures(settings: &str) -> Result<Vec<Figure>, String> {
    let mut all = figures_of(&of_users(settings, SHOWN_DAY)?);
    let mut saved = Saved::default();
    for mut source in users(settings, SHOWN_DAY)? {
        saved = saved.and(Saved::of(&mut *source).map_err(|error| error.to_string())?);
    }
    all.push(Figure {
        what: "written bytes that 1 MB of NVRAM at a client takes away".into(),
        unit: "%",
        published: "40 to 50".into(),
        range: (40.0, 50.0),
        source: "Baker 1992, abstract".into(),
        generated: saved.percent(),
        purpose: Purpose::HeldOut,
    });
    Ok(all)
}

fn figures_of(stats: &AccessStats) -> Vec<Figure> {
    let stands_for = REGISTRY.get(WORKLOAD).ok().and_then(|kind| kind.stands_for);
    let published = stands_for.map_or(&[][..], |of| (of.published)());
    let figure = |published: &twin_generate::Published| Figure {
        what: published.what.into(),
        unit: published.unit,
        published: format!(
            "{} ({} to {})",
            published.value,
            shown(published.range.0),
            shown(published.range.1)
        ),
        range: published.range,
        source: published.place.into(),
        generated: (published.of)(stats),
        purpose: if published.given { Purpose::Given } else { Purpose::HeldOut },
    };
    published.iter().map(figure).collect()
}

/// How far the given figures are from the published values, each by at most its own size.
fn badness(stats: &AccessStats) -> f64 {
    let stands_for = REGISTRY.get(WORKLOAD).ok().and_then(|kind| kind.stands_for);
    let given = stands_for.map_or(&[][..], |of| (of.published)()).iter().filter(|of| of.given);
    given.map(|of| ((of.of)(stats) / of.value - 1.0).abs().min(1.0)).sum()
}

/// A value as a setting.
fn text(name: &str, value: f64) -> String {
    match name {
        "accesses" => format!("{value:.0}"),
        "life" => format!("{value:.0}s"),
        _ => format!("{value}"),
    }
}

fn settings(values: &[Setting]) -> String {
    values.iter().map(|(name, value)| format!(",{name}={value}")).collect()
}

fn search_parameters(progress: &Progress) -> Result<Vec<Setting>, String> {
    let named = |values: &[f64]| -> Vec<Setting> {
        let pairs = SEARCH.iter().zip(values);
        pairs.map(|((name, _), value)| (*name, text(name, *value))).collect()
    };
    let mut of = |values: &[f64]| Ok(badness(&of_users(&settings(&named(values)), SEARCHED_DAY)?));
    let dimensions = SEARCH.map(|(_, dimension)| dimension);
    let (found, _) = search(&dimensions, &mut of, &|tried| progress(tried, tried + 100))
        .map_err(|error: String| error)?;
    Ok(named(&found))
}

/// The default of the workload.
fn declared(name: &str) -> String {
    let kind = REGISTRY.get(WORKLOAD).ok();
    let param = kind.and_then(|kind| kind.params.iter().find(|param| param.name == name));
    param.map_or(String::new(), |param| param.default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_searched_parameter_is_one_of_the_workload_and_what_is_searched_parses() {
        for (name, _) in SEARCH {
            assert!(!declared(name).is_empty(), "{name}");
        }
        let values: Vec<_> =
            SEARCH.iter().map(|(name, of)| (*name, text(name, of.starts[0]))).collect();
        let quick = format!("hours=1,from=12{}", settings(&values));
        assert!(twin_generate::start(&format!("{WORKLOAD}:{quick}"), 1).is_ok(), "{quick}");
    }

    #[test]
    fn what_is_given_is_met_on_a_day_that_the_search_did_not_see_but_for_bursts() {
        let figures = figures_of(&of_users("", SHOWN_DAY).unwrap());
        let given = || figures.iter().filter(|figure| figure.purpose == Purpose::Given);
        let missed: Vec<&str> =
            given().filter(|figure| !figure.is_met()).map(|figure| figure.what.as_str()).collect();
        assert_eq!(missed, ["throughput of an active user, by 10 seconds"]);
        assert!(figures.len() > given().count(), "nothing is held out");
    }
}
