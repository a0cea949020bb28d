//! Ages the file systems of the study and measures them: layouts every thirty days, the benchmark on
//! four dates, and the news file system on the day on which it runs out of room.

use twin_age::load::{Load, SESSIONS_A_DAY};
use twin_age::{FreeSpace, Layout};
use twin_fs::Identity;
use twin_rt::{SECS, Time};
use twin_sim::Platter;

use super::super::heuristic::in_parallel;
use super::super::variation::Variation;
use super::benchmark::{SIZES, Sequential};
use super::population::{FileSystem, LAST_DAY, POPULATION};
use twin_ageing::{AgeSettings, Aged, ageing_settings, make_old, new_volume, with_space_of};
use twin_bench::simulated;
use twin_lab::Config;
use twin_lab::disk_of;

/// Days between two snapshots.
pub(super) const STEP: u64 = 30;
/// The day of the snapshots of figures 1 to 4, nearest to 15 October.
pub(super) const OCTOBER: u64 = 270;
/// The days of the benchmark: 26 January, April, July and October.
pub(super) const TEST_DAYS: [u64; 4] = [0, 90, 180, 270];
/// The news file system that runs out of room in these days.
const FULL_NEWS: (&str, u64) = ("cnews", STEP);
const DAY: u64 = 86_400;

/// The speeds of a test on an aged and on a new volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) day: u64,
    pub(super) size: u64,
    /// Of the new volume's.
    pub(super) relative_read: f64,
    pub(super) relative_write: f64,
    /// The layout score of the test's files; `None` for files of one block.
    pub(super) score: Option<f64>,
    /// The layout score of the aged volume's own files, and the share of its space that is free.
    pub(super) aggregate: f64,
    pub(super) free: f64,
}

/// A file system on a day.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) day: u64,
    pub(super) layout: Layout,
}

/// A file system's course over the study.
#[derive(Clone, Debug)]
pub(super) struct Old {
    pub(super) system: FileSystem,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) tests: Vec<Test>,
    /// The first moment at which a file could not be created, if one is looked for.
    pub(super) full: Option<Snapshot>,
}

/// The study; a file system that failed is `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Study {
    pub(super) all: Vec<Option<Old>>,
}

impl Snapshot {
    /// The free space as it was measured; all zero if the volume says nothing of it.
    pub(super) fn free(&self) -> FreeSpace {
        self.layout.free.clone().unwrap_or_default()
    }
}

impl Old {
    /// The snapshot of a day.
    pub(super) fn on(&self, day: u64) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.day == day)
    }
}

/// A file system that grows old.
struct Growing {
    load: Load,
    how: AgeSettings,
    aged: Option<Aged>,
}

impl Growing {
    fn go_on(&mut self, sessions: u64) -> Result<&Aged, String> {
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

fn settings(config: &Config) -> Result<AgeSettings, String> {
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
fn run(system: &FileSystem) -> Result<Old, String> {
    let config = system.config().ok_or("no such configuration")?;
    let how = settings(&config)?;
    let new = new_volume(&how).map_err(|e| e.to_string())?;
    let name = format!("{}:{}", system.server, system.name);
    let load = Load::new(system.habits, new.geometry, new.capacity, system.course(), &name);
    let mut growing = Growing { load, how: how.clone(), aged: None };
    growing.go_on(system.history_days() * SESSIONS_A_DAY)?;
    let empty = match system.timed {
        true => {
            SIZES.map(|size| speeds(&config, size)).into_iter().collect::<Result<Vec<_>, _>>()?
        }
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
fn speeds(config: &Config, size: u64) -> Result<(f64, f64), String> {
    let phases = simulated::run(config, &Sequential { size }).map_err(|e| e.to_string())?;
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
    let (write, read) = speeds(&Config { start: Some(start.clone()), ..config.clone() }, size)?;
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

impl Study {
    /// Ages and measures everything, two file systems at a time.
    pub(crate) fn run(variation: &Variation) -> Study {
        let of = |system: &FileSystem| run(&system.varied(variation.ageing)).ok();
        Study { all: in_parallel(&POPULATION, of) }
    }
}
