//! Ages the file systems of the study and measures them: layouts every thirty days, the benchmark on
//! four dates, and the news file system on the day on which it runs out of room.

use twin_age::load::{Load, SESSIONS_A_DAY};
use twin_age::{FreeSpace, Layout};
use twin_fs::Identity;
use twin_rt::{SECS, Time};
use twin_sim::Platter;

use super::benchmark::{SIZES, Sequential};
use super::population::{FileSystem, LAST_DAY, POPULATION};
use crate::variation::Variation;
use crate::work::Share;
use twin_ageing::{AgeSettings, Aged, ageing_settings, make_old, new_volume, with_space_of};
use twin_bench::simulated;
use twin_lab::disk_of;
use twin_lab::{Config, Run};

/// Days between two snapshots.
pub(crate) const STEP: u64 = 30;
/// The day of the snapshots of figures 1 to 4, nearest to 15 October.
pub(crate) const OCTOBER: u64 = 270;
/// The days of the benchmark: 26 January, April, July and October.
pub(crate) const TEST_DAYS: [u64; 4] = [0, 90, 180, 270];
/// The news file system that runs out of room in these days.
const FULL_NEWS: (&str, u64) = ("cnews", STEP);
const DAY: u64 = 86_400;

/// The speeds of a test on an aged and on a new volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    pub(crate) day: u64,
    pub(crate) size: u64,
    /// Of the new volume's.
    pub(crate) relative_read: f64,
    pub(crate) relative_write: f64,
    /// The layout score of the test's files; `None` for files of one block.
    pub(crate) score: Option<f64>,
    /// The layout score of the aged volume's own files, and the share of its space that is free.
    pub(crate) aggregate: f64,
    pub(crate) free: f64,
}

/// A file system on a day.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) day: u64,
    pub(crate) layout: Layout,
}

/// A file system's course over the study.
#[derive(Clone, Debug)]
pub(crate) struct Old {
    pub(crate) system: FileSystem,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) tests: Vec<Test>,
    /// The first moment at which a file could not be created, if one is looked for.
    pub(crate) full: Option<Snapshot>,
}

/// The study; a file system that failed is `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Study {
    pub(crate) all: Vec<Option<Old>>,
}

impl Snapshot {
    /// The free space as it was measured; all zero if the volume says nothing of it.
    pub(crate) fn free(&self) -> FreeSpace {
        self.layout.free.clone().unwrap_or_default()
    }
}

impl Old {
    /// The snapshot of a day.
    pub(crate) fn on(&self, day: u64) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.day == day)
    }
}

/// A file system that grows old.
pub(super) struct Growing {
    pub(super) load: Load,
    pub(super) how: AgeSettings,
    pub(super) aged: Option<Aged>,
}

impl Growing {
    /// Goes on for this number of sessions.
    pub(super) fn go_on(&mut self, sessions: u64) -> Result<&Aged, String> {
        let span_ns = Load::span_ns(sessions);
        let how = AgeSettings {
            span_ns,
            end: Time(self.how.end.0 + span_ns),
            start: self.aged.take().map(|aged| aged.platter),
            ..self.how.clone()
        };
        let aged = make_old(&how, Box::new(self.load.part(sessions))).map_err(|e| e.to_string())?;
        self.how.end = how.end;
        Ok(self.aged.insert(aged))
    }
}

/// How a volume of this configuration grows old, from its beginning on.
pub(super) fn settings(config: &Config) -> Result<AgeSettings, String> {
    let (size, sector) = disk_of(config).map_err(|e| e.to_string())?;
    Ok(AgeSettings {
        layout: config.layout,
        of_layout: config.of_layout.clone(),
        size,
        sector,
        settings: ageing_settings(16 << 20),
        identity: Identity { uuid: [7; 16], root: (0, 0, 0o755) },
        seed: 1,
        end: Time(760_000_000 / DAY * DAY * SECS),
        span_ns: 0,
        steps: None,
        start: None,
    })
}

/// Ages a file system, and measures.
fn grow_old(system: &FileSystem, share: &Share) -> Result<Old, String> {
    let config = system.config().ok_or("no such configuration")?;
    let how = settings(&config)?;
    let new = new_volume(&how).map_err(|e| e.to_string())?;
    let name = format!("{}:{}", system.server, system.name);
    let load = Load::new(system.habits, new.geometry, new.capacity, system.course(), &name);
    let mut growing = Growing { load, how: how.clone(), aged: None };
    let days = (system.history_days() + LAST_DAY) as f64;
    growing.go_on(system.history_days() * SESSIONS_A_DAY)?;
    share(system.history_days() as f64 / days);
    let empty = match system.timed {
        true => SIZES
            .map(|size| speeds(&Run::from(&config), size))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?,
        false => Vec::new(),
    };
    let mut old = Old { system: *system, snapshots: Vec::new(), tests: Vec::new(), full: None };
    for day in (0..=LAST_DAY).step_by(STEP as usize) {
        let looks = day == FULL_NEWS.1 && system.name == FULL_NEWS.0;
        match day {
            0 => {}
            _ if looks => old.full = fill(&mut growing)?,
            _ => drop(growing.go_on(STEP * SESSIONS_A_DAY)?),
        }
        let aged = growing.aged.as_ref().ok_or("no volume")?;
        let snapshot = Snapshot { day, layout: aged.layout.clone() };
        if TEST_DAYS.contains(&day) {
            for (size, empty) in SIZES.into_iter().zip(&empty) {
                old.tests.push(test(&config, &how, (aged, &snapshot), (size, *empty))?);
            }
        }
        old.snapshots.push(snapshot);
        share((system.history_days() + day) as f64 / days);
    }
    Ok(old)
}

/// Goes on for [`STEP`] days, session by session until a file cannot be created; returns the layout at
/// that moment.
fn fill(growing: &mut Growing) -> Result<Option<Snapshot>, String> {
    let all = STEP * SESSIONS_A_DAY;
    for session in 1..all {
        let aged = growing.go_on(1)?;
        if aged.failed > 0 {
            let full = Snapshot { day: session / SESSIONS_A_DAY, layout: aged.layout.clone() };
            growing.go_on(all - session)?;
            return Ok(Some(full));
        }
    }
    growing.go_on(1)?;
    Ok(None)
}

/// The rates of creating and reading files of a size.
pub(super) fn speeds(run: &Run, size: u64) -> Result<(f64, f64), String> {
    let phases = simulated::run(run, &Sequential { size }).map_err(|e| e.to_string())?;
    let rate = |name| phases.iter().find(|p| p.phase == name).map_or(f64::NAN, |p| p.rate());
    Ok((rate("create"), rate("read")))
}

/// The benchmark on a new volume with the free space of an aged one, as section 5.1 has it.
fn test(
    config: &Config,
    how: &AgeSettings,
    (aged, snapshot): (&Aged, &Snapshot),
    (size, (new_write, new_read)): (u64, (f64, f64)),
) -> Result<Test, String> {
    let start: Platter = with_space_of(how, &aged.platter).map_err(|e| e.to_string())?;
    let (write, read) = speeds(&Run { start: Some(start.clone()), ..Run::from(config) }, size)?;
    let how = AgeSettings { start: Some(start), ..how.clone() };
    Ok(Test {
        day: snapshot.day,
        size,
        relative_read: read / new_read,
        relative_write: write / new_write,
        score: Sequential { size }.score(&how)?,
        aggregate: snapshot.layout.score.value().unwrap_or(f64::NAN),
        free: 1.0 - snapshot.free().used,
    })
}

/// The number of file systems.
pub(crate) fn count() -> usize {
    POPULATION.len()
}

/// Ages and measures a file system with a variation; `None` if that fails. Tells which share of its days is done.
pub(crate) fn run(at: usize, variation: &Variation, share: &Share) -> Option<Old> {
    grow_old(&POPULATION.get(at)?.varied(variation.ageing), share).ok()
}
