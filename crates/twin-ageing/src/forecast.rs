//! Forecasts: what the next period does to a volume, if it is in kind as the recorded one.
//!
//! Contract: the workload of the next period is made of a recording and the map of the volume
//! as the recording left it ([`twin_age::again`]), and simulated on that volume like any other. Nothing is
//! extrapolated but the kind of work. Settings are tried one at a time, each by a simulation.

use std::sync::Arc;

use serde_json::{Value, json};
use twin_age::VolumeMap;
use twin_age::again::{Told, Window, again};
use twin_cache::flush::{self, Survives};
use twin_lab::Config;
use twin_lab::{Figures, LogFigures, SpaceFigures};
use twin_lab::{Workload, WorkloadError};
use twin_report::table::{Cell, fixed, percent};
use twin_report::units::list;
use twin_report::{Part, Report, Table, cells, value};
use twin_verdict::NOISE;
use twin_verdict::Trust;
use twin_verdict::cache_changes;

/// The most other policies of one kind that are tried.
const MOST_POLICIES: usize = 2;

/// The workload of the next period, and what became of the recording.
///
/// # Errors
/// Those of the recording.
pub fn next_period(
    recording: &Workload,
    window: Window,
    map: &VolumeMap,
) -> Result<(Workload, Told), WorkloadError> {
    let next = again::<_, WorkloadError>(|| recording.start(), window, map, 1)?;
    Ok((Workload::Trace(Arc::from(next.trace)), next.told))
}

/// The settings of a volume in use that are tried, as `key=value`: the size of the cache, and other
/// policies of each kind that can be chosen when a volume is opened. What is the same already is not tried.
pub fn forecast_changes(config: &Config) -> Vec<String> {
    let mut all = cache_changes(config.settings.cache_bytes);
    for key in config.of_layout.keys() {
        let is_for_open =
            |name: &&str| config.of_layout.clone().set_for_open(key.name, name).is_ok();
        let policies: Vec<&str> = key.form.split('|').filter(is_for_open).collect();
        // Whether something is on is the user's decision, as it changes what is promised.
        if policies.len() > 1 && policies[0] != "yes" && policies[0] != "no" {
            let others = policies.into_iter().filter(|name| *name != key.value);
            let others = others.take(MOST_POLICIES);
            all.extend(others.map(|name| format!("{}={name}", key.name)));
        }
    }
    let flush = flush::REGISTRY.iter().filter(|entry| entry.survives == Survives::Nothing);
    let flush = flush.filter(|entry| entry.name != config.settings.flush).take(MOST_POLICIES);
    all.extend(flush.map(|entry| format!("flush={}", entry.name)));
    all
}

/// A run of the next period, with the setting that it has beside those of now.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The setting, as `key=value`.
    pub setting: String,
    /// Its figures, or why there are none.
    pub figures: Result<Figures, String>,
}

/// A figure by which settings are judged: its name, its value, and whether it is a time.
type Judged = (&'static str, fn(&Figures) -> Option<f64>, bool);

const JUDGED: [Judged; 3] = [
    ("write cost", |figures| figures.log.write_cost, false),
    ("data written", |figures| Some(figures.disk_use.written_bytes as f64), false),
    ("p99 latency", |figures| Some(figures.latency.p99_us), true),
];

/// How a line on settings that are better begins.
const LESS: &str = "Less ";

const JUDGED_BY: &str = "The next period is in kind as the recorded one, and simulated. A setting is better if its \
    figure is less beyond noise, and times beyond the error of simulations.";

/// Which settings would be better than those of now, in words: a line for each figure. Figures within the
/// noise are equal, and times within the error of simulations too.
fn better(now: &Figures, tried: &[Tried], trust: &Trust) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, of, is_time) in JUDGED {
        let Some(base) = of(now) else { continue };
        let error = if is_time { trust.factor } else { 1.0 };
        let mut gains: Vec<(f64, &str)> = Vec::new();
        for Tried { setting, figures } in tried {
            let value = figures.as_ref().ok().filter(|run| run.failed <= now.failed).and_then(of);
            if let Some(value) = value.filter(|value| value * error < base * (1.0 - NOISE)) {
                gains.push((value, setting));
            }
        }
        gains.sort_by(|a, b| a.0.total_cmp(&b.0));
        let gains: Vec<String> = gains
            .into_iter()
            .map(|(value, setting)| format!("{setting} ({:+.0}%)", (value / base - 1.0) * 100.0))
            .collect();
        lines.push(match gains.is_empty() {
            true => format!("Nothing that was tried has less {name}."),
            false => format!("{LESS}{name}: {}.", list(&gains)),
        });
    }
    lines
}

/// How full the volume gets, in words. `span_s` is the length of the period in seconds.
fn fullness(space: &SpaceFigures, span_s: f64) -> String {
    let SpaceFigures { capacity_bytes, used_before_bytes, used_bytes } = *space;
    let percent = |bytes: u64| bytes as f64 * 100.0 / capacity_bytes.max(1) as f64;
    let mut text = format!(
        "{:.1}% full now, {:.1}% after the next {}",
        percent(used_before_bytes),
        percent(used_bytes),
        duration(span_s)
    );
    let grown = used_bytes.saturating_sub(used_before_bytes);
    if grown > 0 {
        let periods = capacity_bytes.saturating_sub(used_before_bytes) as f64 / grown as f64;
        text += &format!("; full after {periods:.1} such periods ({})", duration(periods * span_s));
    }
    text
}

/// A time of seconds to years, in words.
fn duration(s: f64) -> String {
    match s {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// What is written, in words.
fn writing(log: &LogFigures, written_bytes: u64) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let cost = log.write_cost.map_or(String::new(), |cost| format!(", write cost {cost:.2}"));
    format!(
        "{:.1} MiB of new data, {:.1} MiB written to the disk{cost}",
        mib(log.new_data_bytes),
        mib(written_bytes)
    )
}

/// What the next period does to a volume.
pub struct Outlook<'a> {
    /// With the settings of now.
    pub now: &'a Figures,
    /// With others.
    pub tried: &'a [Tried],
    /// What became of the recording.
    pub told: &'a Told,
}

impl Outlook<'_> {
    /// The report: how full the volume gets, what is written, latencies, and what other settings change.
    /// Its rows are those of the settings of now and of each other.
    pub fn report(&self, trust: &Trust) -> Report {
        let Outlook { now, tried, told } = *self;
        let mut report = Report::answer("forecast", "What the next period does to the volume");
        let span_s = told.span_ns as f64 / 1e9;
        let better = better(now, tried, trust);
        let gain = better.iter().find(|line| line.starts_with(LESS)).or(better.first());
        let gain =
            gain.filter(|_| !tried.is_empty()).map_or(String::new(), |gain| format!("\n{gain}"));
        report.set_verdict(
            format!("The volume is {}.{gain}", fullness(&now.space, span_s)),
            JUDGED_BY,
        );
        report.add(format!("Simulated on {}.", now.disk));
        report.add(format!("{}.", writing(&now.log, now.disk_use.written_bytes)));
        let Told { requests, other_names, successors, emptied, left_out, .. } = *told;
        report.add(format!(
            "{requests} operations in kind as recorded: {other_names} names became others, {successors} \
             files that are gone have successors, {emptied} were removed with their directories, \
             {left_out} operations have nothing to fall on and are left out."
        ));
        if now.failed > 0 {
            let failed = format!("{} operations FAILED, probably for want of room.", now.failed);
            report.add(Part::Failure(failed));
        }
        report.add(by_kind(now));
        if !tried.is_empty() {
            report.add(by_setting(now, tried));
            report.add(better.join("\n"));
        }
        report.add_rows(self.objects());
        report
    }

    /// An object for the settings of now, then one for each other.
    fn objects(&self) -> Vec<Value> {
        let object = |setting: &str, figures: &Figures| {
            let mut object = value(figures);
            object["setting"] = setting.into();
            object
        };
        let mut first = object("as now", self.now);
        first["period_s"] = (self.told.span_ns as f64 / 1e9).into();
        let Told { other_names, successors, emptied, left_out, .. } = *self.told;
        first["other_names"] = other_names.into();
        first["successors"] = successors.into();
        first["emptied"] = emptied.into();
        first["left_out"] = left_out.into();
        let others = self.tried.iter().map(|one| match &one.figures {
            Ok(figures) => object(&one.setting, figures),
            Err(why) => json!({ "setting": one.setting, "error": why }),
        });
        [first].into_iter().chain(others).collect()
    }
}

/// A row for each kind of operation: how many, the median and the 99th percentile of its latency.
fn by_kind(now: &Figures) -> Table {
    let row = |name: &str, latency: &twin_lab::Latency| {
        cells![name, latency.count, fixed(latency.p50_us, 1), fixed(latency.p99_us, 1)]
    };
    let all = [row("all", &now.latency)].into_iter();
    Table::new(["operation", "count", "p50, us", "p99, us"], 1)
        .with(all.chain(now.verbs.iter().map(|verb| row(verb.verb, &verb.latency))))
}

/// A row for each setting that was tried, after the settings of now.
fn by_setting(now: &Figures, tried: &[Tried]) -> Table {
    let row = |setting: &str, run: &Figures| {
        cells![
            setting,
            Cell::or_dash(run.log.write_cost, |cost| fixed(cost, 3)),
            fixed(run.disk_use.written_bytes as f64 / f64::from(1 << 20), 1),
            percent(run.space.full()),
            fixed(run.latency.p50_us, 1),
            fixed(run.latency.p99_us, 1),
        ]
    };
    let others = tried
        .iter()
        .filter_map(|one| one.figures.as_ref().ok().map(|figures| row(&one.setting, figures)));
    Table::new(["setting", "write cost", "written, MiB", "full", "p50, us", "p99, us"], 1)
        .with([row("as now", now)].into_iter().chain(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_chosen_for_a_volume_in_use_is_tried_and_what_it_has_is_not() {
        let changes = forecast_changes(&Config::parse("lfs:cache=16M,victim=greedy").unwrap());
        let has = |text: &str| changes.iter().any(|change| change == text);
        assert!(has("cache=4M") && has("cache=64M"), "{changes:?}");
        let of = |key: &str| changes.iter().filter(|change| change.starts_with(key)).count();
        assert_eq!([of("victim="), of("placement="), of("when="), of("flush=")], [2, 2, 2, 2]);
        assert!(!has("victim=greedy") && of("block=") == 0, "{changes:?}");
        for change in &changes {
            Config::parse("lfs:cache=16M").unwrap().changed("", change).unwrap();
        }
        let ffs = forecast_changes(&Config::parse("ffs").unwrap());
        assert!(ffs.iter().any(|change| change.starts_with("alloc=")), "{ffs:?}");
        assert!(!ffs.iter().any(|change| change.starts_with("ordering=")), "{ffs:?}");
    }

    #[test]
    fn a_setting_is_better_if_it_is_so_beyond_the_error() {
        let figures = |cost: f64, p99_us: f64| Figures {
            log: LogFigures { write_cost: Some(cost), ..LogFigures::default() },
            latency: twin_lab::Latency { p99_us, ..Default::default() },
            ..Figures::default()
        };
        let tried =
            |setting: &str, figures| Tried { setting: setting.into(), figures: Ok(figures) };
        let all = [
            tried("a=1", figures(1.5, 990.0)),
            tried("b=1", figures(1.99, 400.0)),
            tried("c=1", figures(1.0, 900.0)),
        ];
        let config = Config::parse("lfs").unwrap();
        let words = better(&figures(2.0, 1000.0), &all, &Trust::of([&config]));
        assert_eq!(words[0], "Less write cost: c=1 (-50%) and a=1 (-25%).");
        assert_eq!(words[2], "Less p99 latency: b=1 (-60%).");
    }

    #[test]
    fn the_time_until_it_is_full_is_that_of_the_growth() {
        let space = SpaceFigures { capacity_bytes: 100, used_before_bytes: 40, used_bytes: 50 };
        let words =
            "40.0% full now, 50.0% after the next 60 min; full after 6.0 such periods (6.0 h)";
        assert_eq!(fullness(&space, 3600.0), words);
        let space = SpaceFigures { used_bytes: 30, ..space };
        assert_eq!(fullness(&space, 60.0), "40.0% full now, 30.0% after the next 60 s");
    }
}
