//! The answer: what to set, what it is worth, the two commands, and the finalists.
//!
//! Contract: the verdict has one to three sentences: what to set and what it is worth on what the search did not see;
//! how far that is trusted, and what mounts have shown; what is given for it. Mounts that were measured have the last
//! word: what they do not confirm is not advised.

use serde::Serialize;
use serde_json::{Value, json};
use twin_cache::flush;
use twin_lab::{Spread, median};
use twin_report::table::{Cell, bytes};
use twin_report::units::{count, list};
use twin_report::{Part, Report, Table, cells};
use twin_settings::value::bytes_text;
use twin_verdict::{MeasureEntry, NOISE, differ};

use crate::judge::{Advice, Finalist, Role};
use crate::search::Tried;
use crate::space::{DIR, IMAGE};

/// The most others of the last round in the table.
const OTHERS: usize = 5;
/// The most configurations that are named with the reason why they are out.
const NAMED: usize = 5;

/// What mounts have shown.
#[derive(Clone, Debug)]
pub enum Confirmation {
    /// The finalists ran on mounts.
    Measured {
        /// Each with its values, or why it has none, in the order of the finalists.
        mounts: Vec<Mounted>,
        /// What was measured, in sentences.
        words: String,
    },
    /// They did not, for this reason, which follows "it was not confirmed on mounts:".
    Missing(String),
}

/// What a finalist did on mounts.
#[derive(Clone, Debug)]
pub struct Mounted(
    /// The values of its runs in the unit of the measure, or why there are none.
    pub Result<Spread, String>,
);

/// What is said in the end.
enum Said<'a> {
    Set(&'a Finalist),
    Keep,
}

/// A row for programs.
#[derive(Serialize)]
struct Row<'a> {
    role: &'static str,
    config: &'a str,
    advised: bool,
    measure: &'static str,
    unit: &'static str,
    searched: Option<f64>,
    held_out: Option<f64>,
    held_out_min: Option<f64>,
    held_out_max: Option<f64>,
    default_over_this: Option<f64>,
    mounted: Option<f64>,
    mounted_min: Option<f64>,
    mounted_max: Option<f64>,
    written_bytes: u64,
    cache_bytes: u64,
    mkfs: String,
    mount: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl Advice {
    /// The report.
    pub fn report(&self, confirmation: &Confirmation) -> Report {
        let mut report = Report::answer("advise", format!("Advice for {}", self.name));
        let said = self.said(confirmation);
        let about = format!("Measure: {}, {}.", self.measure.name, self.measure.about);
        report.set_verdict(self.verdict(&said, confirmation), about);
        let shown = match &said {
            Said::Set(finalist) => Some(*finalist),
            Said::Keep => self.default(),
        };
        if let Some(finalist) = shown {
            let [mkfs, mount] = lines(finalist);
            report.add(Part::Lines(format!("{mkfs}\nmkdir -p {DIR} && {mount}")));
        }
        report.add(self.table(confirmation));
        report.add(self.search_in_words());
        if let Confirmation::Measured { words, .. } = confirmation {
            report.add(words.clone());
        }
        if let Some(failed) = self.failed() {
            report.add(Part::Failure(failed));
        }
        if !self.left_out.is_empty() {
            let all: Vec<String> =
                self.left_out.iter().map(|out| format!("{} ({})", out.what, out.why)).collect();
            report.add(format!("Not tried: {}.", list(&all)));
        }
        report.add_rows(self.rows(&said, confirmation));
        report.set_json(self.details(confirmation));
        report
    }

    /// True if every finalist could be judged.
    pub fn is_whole(&self) -> bool {
        self.finalists.iter().all(|one| one.judged.is_ok())
    }

    /// What mounts say, and where they say nothing, simulation.
    fn said(&self, confirmation: &Confirmation) -> Said<'_> {
        let Some(at) = self.challenger_at() else { return Said::Keep };
        let is_better = match self.on_mounts(at, confirmation) {
            Some((own, usual)) => {
                usual.median > own.median * (1.0 + NOISE) && differ(&own.values, &usual.values)
            }
            None => self.set == Some(at),
        };
        if is_better { Said::Set(&self.finalists[at]) } else { Said::Keep }
    }

    /// The values of a finalist and of the default on mounts.
    fn on_mounts<'a>(
        &self,
        at: usize,
        confirmation: &'a Confirmation,
    ) -> Option<(&'a Spread, &'a Spread)> {
        let Confirmation::Measured { mounts, .. } = confirmation else { return None };
        let default = self.finalists.iter().position(|one| one.role == Role::Default)?;
        let of = |at: usize| mounts.get(at)?.0.as_ref().ok();
        Some((of(at)?, of(default)?))
    }

    fn verdict(&self, said: &Said<'_>, confirmation: &Confirmation) -> String {
        let mut sentences = Vec::new();
        match said {
            Said::Set(best) => {
                sentences.push(self.worth(best));
                sentences.push(self.trusted(best, confirmation));
                sentences.extend(self.given(best));
            }
            Said::Keep => {
                sentences.push(self.kept(confirmation));
                if let Confirmation::Missing(why) = confirmation
                    && self.challenger().is_some()
                {
                    sentences.push(format!("It was not confirmed on mounts: {why}."));
                }
            }
        }
        sentences.join("\n")
    }

    fn text(&self, spread: &Spread) -> String {
        let text = |value: f64| self.measure.text(value);
        match spread.max > spread.min {
            true => {
                format!("{} ({} to {})", text(spread.median), text(spread.min), text(spread.max))
            }
            false => text(spread.median),
        }
    }

    /// What to set, and what it is worth.
    fn worth(&self, best: &Finalist) -> String {
        let (name, on) = (self.measure.name, &self.judged_on);
        let own = best.judged.as_ref().map(|spread| self.text(spread)).unwrap_or_default();
        let usual = self.default().map(|default| (default, &default.judged));
        let against = match usual {
            Some((default, Ok(spread))) => format!(
                "the default, {}, has {}, {:.2} times as much",
                default.text,
                self.text(spread),
                spread.median / best.median().unwrap_or(f64::NAN)
            ),
            Some((default, Err(why))) => {
                format!("the default, {}, cannot do this workload: {why}", default.text)
            }
            None => "there is no default".into(),
        };
        format!("Set {}: by {name} it has {own}, and {against}, on {on}.", best.text)
    }

    /// How far that is trusted, and what mounts have shown.
    fn trusted(&self, best: &Finalist, confirmation: &Confirmation) -> String {
        let factor = self.measure.error(&self.trust);
        let predicted = best.median().zip(self.default().and_then(Finalist::median));
        let predicted = predicted.map(|(own, usual)| usual / own);
        let off = || {
            let source = self.trust.source();
            format!(
                "Simulated times are off against each other by up to a factor of {factor:.2} ({source})"
            )
        };
        let simulated = match predicted {
            Some(ratio) if factor > 1.0 => {
                format!("{}, so expect {:.2} to {:.2} times", off(), ratio / factor, ratio * factor)
            }
            None if factor > 1.0 => off(),
            _ => "Counts are simulated without such an error as times have".into(),
        };
        let at = self.challenger_at().unwrap_or(0);
        let shown = match (self.on_mounts(at, confirmation), confirmation) {
            (Some((own, usual)), _) => format!(
                "on mounts it had {}, and the default {}, {:.2} times as much",
                self.text(own),
                self.text(usual),
                usual.median / own.median
            ),
            (None, Confirmation::Missing(why)) => format!("it was not confirmed on mounts: {why}"),
            (None, Confirmation::Measured { .. }) => {
                "it was not confirmed on mounts, because a mount could not do the workload".into()
            }
        };
        format!("{simulated}; {shown}.")
    }

    /// What is given for it.
    fn given(&self, best: &Finalist) -> Option<String> {
        let default = self.default()?;
        let mut given = Vec::new();
        let [own, usual] = [best, default].map(|one| one.config.settings.cache_bytes);
        if own > usual {
            given.push(format!(
                "it takes {} of memory in place of {}",
                bytes_text(own),
                bytes_text(usual)
            ));
        }
        if best.written_bytes > default.written_bytes * (1.0 + NOISE) {
            let more = best.written_bytes / default.written_bytes.max(1.0);
            given.push(format!("it writes {more:.2} times as many bytes"));
        }
        if best.config.mount_flush && !default.config.mount_flush {
            let settings = &best.config.settings;
            let entry = flush::REGISTRY.get(&settings.flush).ok();
            let age_ns = settings.flush_age_ns.or(entry.map(|entry| entry.age_ns));
            let age = age_ns.filter(|age| *age > 0).map(|ns| ns as f64 / 1e9);
            let age = age.map_or(String::new(), |age| format!(", with flush-age={age} s,"));
            given.push(format!(
                "a crash loses what the flush policy {}{age} has not written, in place of changes of the last \
                 two seconds",
                settings.flush
            ));
        }
        if let Some(risk) = best.config.of_layout.risk()
            && default.config.of_layout.risk().is_none()
        {
            given.push(format!("a crash may lose {risk}"));
        }
        (!given.is_empty()).then(|| format!("For that {}.", list(&given)))
    }

    /// Why the default is kept.
    fn kept(&self, confirmation: &Confirmation) -> String {
        let default = self.default();
        let name = default.map_or("", |default| &default.text);
        let all = self.configurations.saturating_sub(1);
        let Some(best) = self.challenger() else {
            let others = match all {
                1 => "the only other configuration was not".to_owned(),
                all => format!("none of {all} other configurations was"),
            };
            let by = self.measure.name;
            return format!("Keep the default, {name}: {others} better in the search by {by}.");
        };
        let at = self.challenger_at().unwrap_or(0);
        if let Some((own, usual)) = self.on_mounts(at, confirmation) {
            let why = match usual.median > own.median {
                true => "which chance or noise explains",
                false => "which is not more",
            };
            return format!(
                "Keep the default, {name}: {}, the best of {all} others in simulation, had {} on mounts, and the \
                 default {}, {why}.",
                best.text,
                self.text(own),
                self.text(usual)
            );
        }
        let values = default.map(|default| &default.judged);
        match (&best.judged, values) {
            (Ok(own), Some(Ok(usual))) => {
                let why = match usual.median > own.median * self.close() {
                    true => "which chance explains".to_owned(),
                    false => format!(
                        "within the factor of {:.2} below which nothing is ranked",
                        self.close()
                    ),
                };
                format!(
                    "Keep the default, {name}: by {} it has {}, and the best of {all} others, {}, has {}, {why}, on {}.",
                    self.measure.name,
                    self.text(usual),
                    best.text,
                    self.text(own),
                    self.judged_on
                )
            }
            (Err(why), _) => format!(
                "Keep the default, {name}: {}, the best of {all} others in the search, failed on {}: {why}.",
                best.text, self.judged_on
            ),
            _ => format!("Keep the default, {name}."),
        }
    }

    /// A row for each finalist, and the best others of the last round.
    fn table(&self, confirmation: &Confirmation) -> Table {
        let mounts = match confirmation {
            Confirmation::Measured { mounts, .. } => Some(mounts),
            Confirmation::Missing(_) => None,
        };
        let mut columns = vec!["configuration", "place", "searched", "held out"];
        columns.extend(mounts.map(|_| "on mounts"));
        columns.extend(["written", "cache"]);
        let usual = |value: Option<f64>| match value {
            Some(value) => Cell::new(value, self.measure.unit(), self.measure.text(value)),
            None => "-".into(),
        };
        let spread = |result: &Result<Spread, String>| match result {
            Ok(spread) => Cell::new(spread.median, self.measure.unit(), self.text(spread)),
            Err(why) => why.as_str().into(),
        };
        let finalist = |(at, one): (usize, &Finalist)| {
            let mut row =
                cells![&one.text, one.role.name(), usual(one.searched), spread(&one.judged)];
            row.extend(mounts.map(|all| all.get(at).map_or("-".into(), |one| spread(&one.0))));
            row.push(bytes(one.written_bytes as u64));
            row.push(bytes(one.config.settings.cache_bytes));
            row
        };
        let other = |(text, value): &(String, f64)| {
            let mut row = cells![text, "search", usual(Some(*value))];
            row.resize(columns.len(), Cell::from("-"));
            row
        };
        let finalists = self.finalists.iter().enumerate().map(finalist);
        let rows: Vec<Vec<Cell>> =
            finalists.chain(self.others.iter().take(OTHERS).map(other)).collect();
        Table::new(columns, 2).with(rows).giving_way(4)
    }

    /// How it was searched, and why the held-out figures count.
    fn search_in_words(&self) -> String {
        let mut words = format!(
            "{} runs of {} configurations, of {} that there are; settings of all: {}.",
            self.runs,
            self.configurations,
            rounded(self.space),
            if self.fixed.is_empty() { "none" } else { &self.fixed }
        );
        if let Some((best, searched, found)) =
            self.challenger().and_then(|one| Some((one, one.searched?, one.median()?)))
        {
            words += &format!(
                " The best of many is partly the luckiest: {} had {} in the search, and has {} on {}.",
                best.text,
                self.measure.text(searched),
                self.measure.text(found),
                self.judged_on
            );
        }
        words
    }

    /// How many configurations are out, and why.
    fn failed(&self) -> Option<String> {
        let all = self.failures.len();
        let named = self.failures.iter().take(NAMED).map(|(text, why)| format!("{text} ({why})"));
        let named: Vec<String> = named.collect();
        let more = match all.saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; {more} more are in `details` of JSON"),
        };
        (all > 0).then(|| {
            format!(
                "{all} of {} configurations failed: {}{more}.",
                self.configurations,
                list(&named)
            )
        })
    }

    fn rows<'a>(&'a self, said: &Said<'_>, confirmation: &'a Confirmation) -> Vec<Row<'a>> {
        let advised = match said {
            Said::Set(finalist) => Some(&finalist.text),
            Said::Keep => self.default().map(|one| &one.text),
        };
        let usual = self.default().and_then(Finalist::median);
        let row = |(at, one): (usize, &'a Finalist)| {
            let held = one.judged.as_ref().ok();
            let mounted = match confirmation {
                Confirmation::Measured { mounts, .. } => mounts.get(at).map(|one| one.0.as_ref()),
                Confirmation::Missing(_) => None,
            };
            let spread = mounted.and_then(Result::ok);
            let [mkfs, mount] = lines(one);
            Row {
                role: one.role.name(),
                config: &one.text,
                advised: advised == Some(&one.text),
                measure: self.measure.name,
                unit: self.measure.unit(),
                searched: one.searched,
                held_out: held.map(|spread| spread.median),
                held_out_min: held.map(|spread| spread.min),
                held_out_max: held.map(|spread| spread.max),
                default_over_this: usual.zip(one.median()).map(|(usual, own)| usual / own),
                mounted: spread.map(|spread| spread.median),
                mounted_min: spread.map(|spread| spread.min),
                mounted_max: spread.map(|spread| spread.max),
                written_bytes: one.written_bytes as u64,
                cache_bytes: one.config.settings.cache_bytes,
                mkfs,
                mount,
                error: one
                    .judged
                    .as_ref()
                    .err()
                    .or(mounted.and_then(Result::err))
                    .map(String::as_str),
            }
        };
        self.finalists.iter().enumerate().map(row).collect()
    }

    fn details(&self, confirmation: &Confirmation) -> Value {
        let reasons = |all: &mut dyn Iterator<Item = (&String, &String)>| {
            all.map(|(config, why)| json!({ "config": config, "error": why })).collect::<Vec<_>>()
        };
        let mut details = self.details.clone();
        details["runs"] = self.runs.into();
        details["configurations"] = self.configurations.into();
        details["space"] = self.space.into();
        details["fixed"] = self.fixed.as_str().into();
        details["failed"] =
            reasons(&mut self.failures.iter().map(|(config, why)| (config, why))).into();
        details["left_out"] =
            reasons(&mut self.left_out.iter().map(|out| (&out.what, &out.why))).into();
        details["not_confirmed"] = match confirmation {
            Confirmation::Measured { .. } => Value::Null,
            Confirmation::Missing(why) => why.as_str().into(),
        };
        details
    }
}

/// The two commands of a finalist.
fn lines(finalist: &Finalist) -> [String; 2] {
    let mut commands = finalist.commands.clone();
    // A new image needs a size.
    if let Some(size) = finalist.config.size
        && !commands.mkfs.iter().any(|word| word == "--size")
    {
        commands.mkfs.extend(["--size".to_string(), bytes_text(size)]);
    }
    [commands.mkfs_line(IMAGE), commands.mount_line(IMAGE, DIR)]
}

/// A number of configurations, of which nobody needs all digits.
fn rounded(number: f64) -> String {
    if number < 1e6 { count(number as u64) } else { format!("{number:.1e}") }
}

/// What runs have shown when the search was interrupted: the best of the latest round.
pub fn partial_report<'a>(
    name: &str,
    measure: &'static MeasureEntry,
    tried: impl Iterator<Item = &'a Tried>,
) -> Report {
    let mut best: Vec<(usize, &str, Vec<f64>)> = Vec::new();
    let mut ran = 0;
    for run in tried {
        ran += 1;
        let Some(value) = run.value else { continue };
        match best.iter_mut().find(|one| (one.0, one.1) == (run.round, &*run.config)) {
            Some((_, _, values)) => values.push(value),
            None => best.push((run.round, &run.config, vec![value])),
        }
    }
    let latest = best.iter().map(|one| one.0).max().unwrap_or(0);
    let mut best: Vec<(&str, f64)> = best
        .iter()
        .filter(|one| one.0 == latest)
        .map(|(_, config, values)| (*config, median(values)))
        .collect();
    best.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
    let mut report = Report::answer("advise", format!("Advice for {name}"));
    let verdict = match best.first() {
        Some((config, value)) => format!(
            "After {ran} runs the best in round {} is {config}, with {} by {}; nothing is advised before it is \
             judged on what the search did not see.",
            latest + 1,
            measure.text(*value),
            measure.name
        ),
        None => "Nothing has run to its end.".to_owned(),
    };
    report.set_verdict(verdict, format!("Measure: {}, {}.", measure.name, measure.about));
    let cell = |value: f64| Cell::new(value, measure.unit(), measure.text(value));
    let rows =
        best.iter().take(OTHERS).map(|(config, value)| cells![*config, "search", cell(*value)]);
    report.add(Table::new(["configuration", "place", "searched"], 2).with(rows));
    report.add_rows(best.iter().take(OTHERS).map(|(config, value)| {
        json!({
            "role": "search",
            "config": config,
            "advised": false,
            "measure": measure.name,
            "unit": measure.unit(),
            "searched": value,
        })
    }));
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_lab::{Commands, Config};
    use twin_report::Form;
    use twin_verdict::{MEASURES, Trust};

    fn finalist(role: Role, text: &str, values: &[f64]) -> Finalist {
        let config = Config::parse(text).unwrap();
        let settings = text.split_once(':').map_or("", |(_, settings)| settings);
        let settings = twin_settings::grammar::settings(settings).unwrap();
        Finalist {
            role,
            text: text.into(),
            commands: Commands::of(config.layout, &settings).unwrap(),
            config,
            mounted: text.into(),
            searched: Some(values[0] * 0.9),
            judged: Ok(Spread::of("finish", values.to_vec())),
            written_bytes: 1e6,
        }
    }

    const BEST: &str = "lfs:cache=64M,flush=delayed,flush-age=10s,mount-flush=yes";

    /// The best with these values, and a default with four seconds.
    fn advice(best: &[f64], is_set: bool) -> Advice {
        let finalists = vec![
            finalist(Role::Best, BEST, best),
            finalist(Role::Default, "lfs:cache=256M", &[4.0, 4.1, 4.2]),
        ];
        Advice {
            name: "a load".into(),
            measure: MEASURES.default_entry(),
            trust: Trust::of(finalists.iter().map(|one| &one.config)),
            finalists,
            set: is_set.then_some(0),
            others: vec![("ffs".into(), 5.0)],
            judged_on: "3 seeds that the search did not use".into(),
            runs: 60,
            configurations: 24,
            space: 9e7,
            fixed: String::new(),
            failures: vec![("lfs:segment=4M".into(), "too large".into())],
            left_out: Vec::new(),
            details: json!({}),
        }
    }

    fn missing() -> Confirmation {
        Confirmation::Missing("only root can".into())
    }

    fn measured(best: &[f64], usual: &[f64]) -> Confirmation {
        let of = |values: &[f64]| Mounted(Ok(Spread::of("finish", values.to_vec())));
        Confirmation::Measured { mounts: vec![of(best), of(usual)], words: "Measured.".into() }
    }

    fn verdict(advice: &Advice, confirmation: &Confirmation) -> String {
        let whole = advice.report(confirmation).write(Form::Json);
        let whole: Value = serde_json::from_str(&whole).unwrap();
        whole["verdict"].as_str().unwrap().into()
    }

    #[test]
    fn what_to_set_is_said_with_its_worth_its_error_and_its_price() {
        let verdict = verdict(&advice(&[2.0, 2.05, 2.1], true), &missing());
        let lines: Vec<&str> = verdict.lines().collect();
        assert_eq!(lines.len(), 3, "{verdict}");
        assert!(lines[0].starts_with(&format!("Set {BEST}: by finish it has 2.05 s")), "{verdict}");
        assert!(lines[0].contains("2.00 times as much, on 3 seeds"), "{verdict}");
        assert!(lines[1].contains("expect 1.54 to 2.60 times"), "{verdict}");
        assert!(lines[1].ends_with("not confirmed on mounts: only root can."), "{verdict}");
        assert!(lines[2].contains("policy delayed, with flush-age=10 s,"), "{verdict}");
        assert!(!lines[2].contains("memory"), "a smaller cache is no price: {verdict}");
    }

    #[test]
    fn within_the_error_of_simulation_the_default_is_kept() {
        let verdict = verdict(&advice(&[3.5, 3.6, 3.7], false), &missing());
        assert!(
            verdict.starts_with("Keep the default, lfs:cache=256M: by finish it has"),
            "{verdict}"
        );
        assert!(verdict.contains("within the factor of 1.30"), "{verdict}");
    }

    #[test]
    fn mounts_have_the_last_word() {
        let (slow, fast) = (advice(&[3.5, 3.6, 3.7], false), advice(&[2.0, 2.05, 2.1], true));
        let refuted = verdict(&fast, &measured(&[5.0, 5.1], &[4.0, 4.1]));
        assert!(
            refuted.starts_with("Keep the default") && refuted.contains("not more"),
            "{refuted}"
        );
        let by_chance = verdict(&fast, &measured(&[3.0, 4.0], &[3.5, 4.2]));
        assert!(by_chance.contains("which chance or noise explains"), "{by_chance}");
        let found = verdict(&slow, &measured(&[2.0, 2.1], &[4.0, 4.1]));
        assert!(found.starts_with("Set ") && found.contains("on mounts it had 2.05 s"), "{found}");
    }

    #[test]
    fn the_commands_are_whole_and_failures_are_said() {
        let report = advice(&[2.0, 2.05, 2.1], true).report(&missing());
        let text = report.write(Form::Terminal(None));
        assert!(text.contains("twinfs mkfs --layout lfs --size 4G disk.img\n"), "{text}");
        let mount =
            "mkdir -p mnt && twinfs mount --cache 64M --flush delayed:flush-age=10s disk.img mnt";
        assert!(text.contains(mount), "{text}");
        assert!(
            text.contains("1 of 24 configurations failed: lfs:segment=4M (too large)."),
            "{text}"
        );
    }

    #[test]
    fn an_interrupted_search_says_what_it_has_and_advises_nothing() {
        let run = |round, config: &str, value| Tried {
            config: config.into(),
            round,
            value: Some(value),
            written_bytes: 1,
        };
        let tried = [run(0, "a", 1.0), run(1, "b", 5.0), run(1, "c", 4.0)];
        let report = partial_report("a load", MEASURES.default_entry(), tried.iter());
        let text = report.write(Form::Terminal(None));
        assert!(
            text.starts_with("After 3 runs the best in round 2 is c, with 4.00 s by finish;"),
            "{text}"
        );
        assert!(!report.write(Form::Csv).contains("true"));
    }
}
