//! The configurations that a search may choose from.
//!
//! Contract: a space has a branch for each layout, and in each branch the knobs that the layout has and the user has
//! not fixed. The first value of a knob is that of a mount without options. Every value is one that `twinfs mkfs` and
//! `twinfs mount` can make real. What would lose synced data in a crash is left out unless the user names it; all that
//! is left out is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use twin_fs::LayoutKind;
use twin_lab::layouts::LAYOUTS;
use twin_lab::{Commands, Config, FLUSH, MOUNT_CACHE, MOUNT_FLUSH, MachineFile};
use twin_rt::Rng;
use twin_settings::{Setting, SettingsError, grammar};

use crate::knobs::{CACHE, FLUSH_AGE, KNOBS, settings};

/// The image and the directory in command lines.
pub(crate) const IMAGE: &str = "disk.img";
pub(crate) const DIR: &str = "mnt";

/// The key that chooses the layout.
const LAYOUT: &str = "layout";
/// How likely a knob of a random configuration is not at its first value.
const CHANGED: f64 = 0.35;

/// What the user wants of a space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Settings that all configurations have: they do not vary.
    pub fixed: String,
    /// Keys with the values that are tried in place of the usual ones.
    pub values: Vec<(String, Vec<String>)>,
    /// Keys that are not varied, and values that are not tried, as `key=value`.
    pub without: Vec<String>,
}

/// What is not tried, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// A layout or a setting.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// The configurations of one layout.
#[derive(Clone, Debug)]
struct Branch {
    layout: &'static dyn LayoutKind,
    /// For each knob its values, as settings; the first may be empty.
    knobs: Vec<Vec<String>>,
}

/// A configuration: a branch, and a value of each of its knobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    branch: usize,
    values: Vec<usize>,
}

impl Point {
    /// The number of knobs that are not at their first value.
    pub(crate) fn changes(&self) -> usize {
        self.values.iter().filter(|value| **value > 0).count()
    }

    fn with(&self, knob: usize, value: usize) -> Point {
        let mut point = self.clone();
        point.values[knob] = value;
        point
    }

    /// Its changes, and those of another one where it has none; `None` if they are of different layouts.
    pub(crate) fn joined(&self, other: &Point) -> Option<Point> {
        let pairs = self.values.iter().zip(&other.values);
        let values = pairs.map(|(own, others)| if *own > 0 { *own } else { *others }).collect();
        (self.branch == other.branch).then_some(Point { branch: self.branch, values })
    }

    /// The common changes of points of one layout: those that all of them have.
    pub(crate) fn common(points: &[Point]) -> Option<Point> {
        let (first, others) = points.split_first()?;
        let values = first.values.iter().enumerate();
        let values =
            values.map(|(knob, own)| match others.iter().all(|other| other.values[knob] == *own) {
                true => *own,
                false => 0,
            });
        Some(Point { branch: first.branch, values: values.collect() })
    }
}

/// All configurations.
#[derive(Clone, Debug)]
pub struct Space {
    fixed: String,
    branches: Vec<Branch>,
    left_out: Vec<LeftOut>,
}

impl Space {
    /// The space of what the user wants. `front_end` stands before all volumes unless the user has fixed another one.
    ///
    /// # Errors
    /// If a setting does not exist, or nothing is left.
    pub fn of(wanted: &Wanted, front_end: Option<&str>) -> Result<Space, SettingsError> {
        let fixed = Fixed::of(&wanted.fixed, front_end)?;
        let mut space = Space { fixed: fixed.text, branches: Vec::new(), left_out: Vec::new() };
        let named = wanted.values.iter().find(|(key, _)| key == LAYOUT).map(|(_, names)| names);
        let chosen = |name: &str| {
            let by_values = named.is_some_and(|names| names.iter().any(|one| one == name));
            by_values || fixed.layout.as_deref() == Some(name)
        };
        for name in named.into_iter().flatten().chain(&fixed.layout) {
            twin_lab::layouts::layout(name)?;
        }
        let is_restricted = named.is_some() || fixed.layout.is_some();
        for &layout in LAYOUTS {
            let name = layout.name();
            let is_out = wanted.without.iter().any(|one| *one == format!("{LAYOUT}={name}"));
            if is_out || (is_restricted && !chosen(name)) {
                continue;
            }
            match space.branch(layout, wanted, chosen(name)) {
                Ok(branch) => space.branches.push(branch),
                Err(why) => {
                    space.left_out.push(LeftOut { what: name.into(), why: why.to_string() })
                }
            }
        }
        match space.branches.is_empty() {
            false => space.all_known(wanted),
            true => Err(SettingsError::new(space.nothing_left())),
        }
    }

    /// Checks that what the user names is somewhere.
    fn all_known(self, wanted: &Wanted) -> Result<Space, SettingsError> {
        for (key, values) in
            wanted.values.iter().filter(|(key, _)| key != LAYOUT && key != FLUSH_AGE)
        {
            for value in values {
                let mut why: Option<SettingsError> = None;
                let known = self.branches.iter().any(|branch| {
                    let tried = settings(key, value, None);
                    let text = format!("{}:{}", branch.layout.name(), tried[0]);
                    let made = self.made(branch.layout, &text);
                    // A layout that has the key says which values there are.
                    let has_key = branch.layout.config().keys().iter().any(|own| own.name == key);
                    if let Err(error) = &made
                        && (has_key || why.is_none())
                    {
                        why = Some(error.clone());
                    }
                    made.is_ok()
                });
                if let (false, Some(why)) = (known, why) {
                    return Err(why);
                }
            }
        }
        for one in &wanted.without {
            let key = one.split('=').next().unwrap_or_default();
            let known = KNOBS.iter().map(|knob| knob.key).chain([LAYOUT]);
            if !known.clone().any(|own| own == key) {
                return Err(SettingsError::unknown("setting", key, known));
            }
        }
        Ok(self)
    }

    fn nothing_left(&self) -> String {
        let reasons = self.left_out.iter().map(|out| format!("{}: {}", out.what, out.why));
        let reasons: Vec<String> = reasons.collect();
        format!("no configuration is left to try: {}", reasons.join("; "))
    }

    /// The branch of a layout. `is_named`: the user has chosen it in spite of its risks.
    fn branch(
        &mut self,
        layout: &'static dyn LayoutKind,
        wanted: &Wanted,
        is_named: bool,
    ) -> Result<Branch, SettingsError> {
        let base = self.made(layout, layout.name())?;
        if let Some(risk) = base.of_layout.risk().filter(|_| !is_named) {
            return Err(SettingsError::new(format!("a crash may lose {risk}")));
        }
        let of_layout = layout.config().keys();
        let own =
            |key: &str| wanted.values.iter().find(|(own, _)| own == key).map(|(_, v)| v.clone());
        let ages = own(FLUSH_AGE);
        let known = KNOBS.iter().map(|knob| (knob.key, knob.values(&of_layout)));
        let mut all: Vec<(&str, Vec<String>)> =
            known.map(|(key, values)| (key, own(key).unwrap_or(values))).collect();
        let is_new = |key: &str| ![LAYOUT, FLUSH_AGE].contains(&key);
        for (key, values) in wanted.values.iter().filter(|(key, _)| is_new(key)) {
            if !all.iter().any(|(known, _)| known == key) {
                all.push((key, values.clone()));
            }
        }
        let fixed = grammar::settings(&self.fixed)?;
        all.retain(|(key, _)| {
            let of_flush = |own: &str| *key == FLUSH && own.starts_with(FLUSH);
            !fixed.iter().any(|setting| setting.key == *key || of_flush(setting.key))
        });
        let all: Vec<(String, Vec<String>)> =
            all.into_iter().map(|(key, values)| (key.to_string(), values)).collect();
        let mut knobs = Vec::new();
        for (key, values) in all {
            let first = if key == CACHE { format!("{CACHE}={MOUNT_CACHE}") } else { String::new() };
            let is_out = |one: &str| wanted.without.iter().any(|out| out == one);
            let mut knob = vec![first];
            if !is_out(&key) {
                let values = values.iter().filter(|value| !is_out(&format!("{key}={value}")));
                for value in values {
                    for setting in settings(&key, value, ages.as_deref()) {
                        self.add(&mut knob, (layout, &base), setting, own(&key).is_some());
                    }
                }
            }
            if knob.len() > 1 || !knob[0].is_empty() {
                knobs.push(knob);
            }
        }
        Ok(Branch { layout, knobs })
    }

    /// Adds a value to a knob, unless it is that of the base or cannot be.
    fn add(
        &mut self,
        knob: &mut Vec<String>,
        (layout, base): (&'static dyn LayoutKind, &Config),
        setting: String,
        is_named: bool,
    ) {
        let Ok(config) = self.made(layout, &format!("{}:{setting}", layout.name())) else { return };
        let is_first = knob[0].is_empty() && config.resolved() == base.resolved();
        if is_first || knob.contains(&setting) {
            return;
        }
        match config.of_layout.risk().filter(|_| base.of_layout.risk().is_none() && !is_named) {
            Some(risk) => self.left_out.push(LeftOut {
                what: format!("{}:{setting}", layout.name()),
                why: format!("a crash may lose {risk}"),
            }),
            None => knob.push(setting),
        }
    }

    /// The configuration of a text, if a mount can have it.
    fn made(&self, layout: &dyn LayoutKind, text: &str) -> Result<Config, SettingsError> {
        let config = Config::parse_with(&self.fixed, text)?;
        Commands::of(layout, &self.all_settings(text)?)?;
        Ok(config)
    }

    fn all_settings<'a>(&'a self, text: &'a str) -> Result<Vec<Setting<'a>>, SettingsError> {
        let own = text.split_once(':').map_or("", |(_, settings)| settings);
        let mut all = grammar::settings(&self.fixed)?;
        all.extend(grammar::settings(own)?);
        Ok(all)
    }

    /// What is not in it, and why.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Settings that all have.
    pub fn fixed(&self) -> &str {
        &self.fixed
    }

    /// The number of configurations.
    pub fn size(&self) -> f64 {
        let of =
            |branch: &Branch| branch.knobs.iter().map(|knob| knob.len() as f64).product::<f64>();
        self.branches.iter().map(of).sum()
    }

    /// The configuration of a mount without options.
    pub(crate) fn default_point(&self) -> Point {
        self.bare(0)
    }

    /// The same configuration with each of its changes taken back, one at a time. A cache of another size than the
    /// usual one stays.
    pub(crate) fn simpler(&self, point: &Point) -> Vec<Point> {
        let knobs = self.branches[point.branch].knobs.iter().enumerate();
        let changed =
            knobs.filter(|(knob, values)| point.values[*knob] > 0 && values[0].is_empty());
        changed.map(|(knob, _)| point.with(knob, 0)).collect()
    }

    fn bare(&self, branch: usize) -> Point {
        Point { branch, values: vec![0; self.branches[branch].knobs.len()] }
    }

    /// The text of a configuration, without what all share.
    pub(crate) fn text(&self, point: &Point) -> String {
        let branch = &self.branches[point.branch];
        let pairs = branch.knobs.iter().zip(&point.values);
        let chosen: Vec<&str> = pairs
            .map(|(knob, value)| knob[*value].as_str())
            .filter(|setting| !setting.is_empty())
            .collect();
        let joint = if chosen.is_empty() { "" } else { ":" };
        format!("{}{joint}{}", branch.layout.name(), chosen.join(","))
    }

    /// The configuration itself, on the measured machine if one is given.
    pub(crate) fn config(
        &self,
        point: &Point,
        machine: Option<&Arc<MachineFile>>,
    ) -> Result<Config, SettingsError> {
        let config = Config::parse_with(&self.fixed, &self.text(point))?;
        Ok(match machine {
            Some(machine) => config.on_machine(Arc::clone(machine)),
            None => config,
        })
    }

    /// The commands that make it real.
    pub(crate) fn commands(&self, point: &Point) -> Result<Commands, SettingsError> {
        let text = self.text(point);
        Commands::of(self.branches[point.branch].layout, &self.all_settings(&text)?)
    }

    /// The two command lines of the default of each layout and of each of its changes alone.
    pub fn all_command_lines(&self) -> Vec<[String; 2]> {
        let points = (0..self.branches.len()).flat_map(|branch| {
            let bare = self.bare(branch);
            let single = self.single(&bare);
            std::iter::once(bare).chain(single)
        });
        let lines = points.filter_map(|point| {
            let commands = self.commands(&point).ok()?;
            Some([commands.mkfs_line(IMAGE), commands.mount_line(IMAGE, DIR)])
        });
        lines.collect()
    }

    /// All configurations with one change more.
    fn single(&self, bare: &Point) -> Vec<Point> {
        let knobs = self.branches[bare.branch].knobs.iter().enumerate();
        let values = knobs.flat_map(|(knob, values)| (1..values.len()).map(move |at| (knob, at)));
        values.map(|(knob, value)| bare.with(knob, value)).collect()
    }

    /// The text of a configuration with all that a mount has, and nothing of a machine.
    pub(crate) fn mounted_text(&self, point: &Point) -> Result<String, SettingsError> {
        let text = self.text(point);
        let all = self.all_settings(&text)?;
        let of_volume =
            all.iter().filter(|one| !twin_lab::is_of_machine(one.key) && one.key != "size");
        let of_volume: Vec<String> =
            of_volume.map(|one| format!("{}={}", one.key, one.value)).collect();
        let joint = if of_volume.is_empty() { "" } else { ":" };
        let name = self.branches[point.branch].layout.name();
        Ok(format!("{name}{joint}{}", of_volume.join(",")))
    }

    /// The first field of a search: this number of different configurations. Half of them have one change, which
    /// shows what each setting does by itself; the others several.
    pub(crate) fn field(&self, count: usize, rng: &mut Rng) -> Vec<Point> {
        let bare = (0..self.branches.len()).map(|branch| self.bare(branch));
        let mut field: Vec<Point> = bare.collect();
        let mut single: Vec<Point> = field.iter().flat_map(|bare| self.single(bare)).collect();
        rng.shuffle(&mut single);
        field.extend(single.into_iter().take((count / 2).max(1)));
        let mut known: BTreeSet<Point> = field.iter().cloned().collect();
        // A small space has no more than it has.
        for _ in 0..count * 20 {
            if field.len() >= count {
                break;
            }
            let drawn = self.drawn(rng);
            if known.insert(drawn.clone()) {
                field.push(drawn);
            }
        }
        field.truncate(count.max(1));
        field
    }

    fn drawn(&self, rng: &mut Rng) -> Point {
        let branch = rng.below(self.branches.len() as u64) as usize;
        let mut point = self.bare(branch);
        for (knob, values) in self.branches[branch].knobs.iter().enumerate() {
            if values.len() > 1 && rng.chance(CHANGED) {
                point.values[knob] = rng.range(1, values.len() as u64) as usize;
            }
        }
        point
    }
}

/// The settings that all share, parted.
struct Fixed {
    layout: Option<String>,
    text: String,
}

impl Fixed {
    fn of(text: &str, front_end: Option<&str>) -> Result<Fixed, SettingsError> {
        let all = grammar::settings(text)?;
        let has = |key: &str| all.iter().any(|setting| setting.key == key);
        let layout = all.iter().rev().find(|setting| setting.key == LAYOUT);
        let layout = layout.map(|setting| setting.value.to_string());
        let kept = all.iter().filter(|setting| setting.key != LAYOUT);
        let mut kept: Vec<String> =
            kept.map(|setting| format!("{}={}", setting.key, setting.value)).collect();
        // On a mount a flush policy counts only so.
        if has(FLUSH) || has(FLUSH_AGE) || has("flush-by") {
            kept.push(format!("{MOUNT_FLUSH}=yes"));
        }
        if let Some(front_end) = front_end.filter(|_| !has("front-end")) {
            kept.push(format!("front-end={front_end}"));
        }
        Ok(Fixed { layout, text: kept.join(",") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(wanted: &Wanted) -> Result<Space, String> {
        Space::of(wanted, None).map_err(|error| error.to_string())
    }

    fn fixed(text: &str) -> Wanted {
        Wanted { fixed: text.into(), ..Wanted::default() }
    }

    fn field(space: &Space, count: usize) -> Vec<String> {
        let points = space.field(count, &mut Rng::new(1));
        points.iter().map(|point| space.text(point)).collect()
    }

    #[test]
    fn the_default_is_what_a_mount_without_options_is() {
        let space = space(&Wanted::default()).unwrap();
        assert_eq!(space.text(&space.default_point()), format!("lfs:cache={MOUNT_CACHE}"));
        assert!(space.size() > 1e6, "{}", space.size());
    }

    #[test]
    fn what_may_lose_synced_data_is_left_out_with_its_reason_unless_it_is_named() {
        let usual = space(&Wanted::default()).unwrap();
        let out: Vec<&str> = usual.left_out().iter().map(|out| out.what.as_str()).collect();
        assert_eq!(out, ["ffs:ordering=async", "vsfs"]);
        assert!(usual.left_out().iter().all(|out| out.why.starts_with("a crash may lose ")));
        let values = vec![("layout".into(), vec!["vsfs".into()])];
        let named = space(&Wanted { values, ..Wanted::default() }).unwrap();
        assert!(
            named.left_out().is_empty() && named.text(&named.default_point()).starts_with("vsfs")
        );
    }

    #[test]
    fn what_the_user_fixes_does_not_vary() {
        let space = space(&fixed("cache=8M,layout=ffs,flush=delayed,size=64M")).unwrap();
        assert_eq!(space.text(&space.default_point()), "ffs");
        let all = field(&space, 40);
        let varies = |word: &str| all.iter().any(|text| text.contains(word));
        assert!(all.iter().all(|text| text.starts_with("ffs")), "{all:?}");
        assert!(!varies("cache=") && !varies("flush") && varies("alloc="), "{all:?}");
        assert!(space.fixed().contains("mount-flush=yes"));
        let point = space.default_point();
        let commands = space.commands(&point).unwrap();
        assert_eq!(commands.mount_line("i", "m"), "twinfs mount --cache 8M --flush delayed i m");
        assert_eq!(
            space.mounted_text(&point).unwrap(),
            "ffs:cache=8M,flush=delayed,mount-flush=yes"
        );
    }

    #[test]
    fn values_can_be_named_and_keys_left_out() {
        let values = vec![
            ("segment".to_string(), vec!["2M".to_string()]),
            ("minfree".to_string(), vec!["20%".to_string()]),
            ("flush-age".to_string(), vec!["3s".to_string()]),
        ];
        let without = ["replacement", "victim", "placement", "when", "cache", "layout=ffs"];
        let without = without.map(String::from).to_vec();
        let space = space(&Wanted { values, without, ..Wanted::default() }).unwrap();
        let all = field(&space, 1000);
        let has = |word: &str| all.iter().any(|text| text.contains(word));
        assert!(has("segment=2M") && has("minfree=20%") && has("flush-age=3s"), "{all:?}");
        assert!(!has("segment=256K") && !has("flush-age=30s") && !has("ffs") && !has("victim"));
    }

    #[test]
    fn what_no_mount_can_have_and_what_does_not_exist_are_refused() {
        let values = |key: &str, value: &str| Wanted {
            values: vec![(key.into(), vec![value.into()])],
            ..Wanted::default()
        };
        for (wanted, word) in [
            (fixed("inodes=7"), "no mount can have it"),
            (fixed("cahce=8M"), "did you mean"),
            (values("victim", "best"), "greedy"),
            (values("read-ahead", "1M"), "no mount can have it"),
            (values("layout", "ext4"), "lfs"),
            (Wanted { without: vec!["colour".into()], ..Wanted::default() }, "cache"),
        ] {
            let why = space(&wanted).unwrap_err();
            assert!(why.contains(word), "{wanted:?}: {why}");
        }
    }

    #[test]
    fn a_field_has_different_configurations_and_is_that_of_its_seed() {
        let space = space(&Wanted::default()).unwrap();
        let all = field(&space, 60);
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        assert_eq!((all.len(), unique.len()), (60, 60));
        assert_eq!(field(&space, 60), all);
        let other = space.field(60, &mut Rng::new(2));
        assert!(other.iter().map(|point| space.text(point)).collect::<Vec<_>>() != all);
    }

    #[test]
    fn changes_are_joined_and_taken_back() {
        let space = space(&Wanted::default()).unwrap();
        let bare = space.default_point();
        let (a, b) = (bare.with(1, 2), bare.with(1, 3).with(3, 1));
        let joined = a.joined(&b).unwrap();
        assert_eq!(joined, bare.with(1, 2).with(3, 1), "the first has its own");
        assert_eq!(joined.changes(), 2);
        assert_eq!(space.simpler(&joined), [bare.with(3, 1), bare.with(1, 2)]);
        assert!(space.simpler(&bare.with(0, 1)).is_empty(), "the cache stays");
        assert_eq!(Point::common(&[joined.clone(), a.clone()]).unwrap(), a);
        assert!(a.joined(&space.bare(1)).is_none());
    }
}
