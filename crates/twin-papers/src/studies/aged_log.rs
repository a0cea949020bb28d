//! The log under the loads of the layout study: the six file systems of figure 8 of Logging versus Clustering, which
//! measured FFS alone, grow old as logs on the same machine, and the same benchmark is run on them.
//!
//! Contract: sizes, loads and dates are those of [`super::file_layout`]. FFS is measured on a new volume with the free
//! space of the old one; a log has no such thing, because where its free space is depends on what is alive, so the
//! benchmark is run on the old volume itself: as it is, and after everything with garbage was cleaned. Nothing of this
//! is published for a log, so nothing is judged.

use twin_age::load::{Load, SESSIONS_A_DAY};
use twin_ageing::{cleaned, new_volume};
use twin_lab::{Config, Run};

use super::benchmark::SIZES;
use super::file_layout::{Growing, TEST_DAYS, settings, speeds};
use super::population::{FileSystem, POPULATION};
use crate::work::Share;

/// Table 4 of the paper: server and name.
pub(crate) const SIX: [(&str, &str); 6] = [
    ("das-news", "cnews"),
    ("virtual12", "glan5"),
    ("das-news", "staff"),
    ("speed", "usr4"),
    ("endor", "usr6"),
    ("endor", "white"),
];
/// The log of that paper, on the machine of its table 5.
const LOG: &str = "bsd-lfs:disk=m2694exa,skews=own,cpu=sparcstation-1,copy-us=own,cache=3276K";

/// Rates in MB/s of creating and of reading.
pub(crate) type Rates = (f64, f64);

/// The benchmark with files of a size on a day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogTest {
    pub(crate) day: u64,
    pub(crate) size: u64,
    /// On the old log as it is, and after cleaning; `None` if its files did not fit.
    pub(crate) old: Option<Rates>,
    pub(crate) cleaned: Option<Rates>,
}

/// A log that grew old.
#[derive(Clone, Debug)]
pub(crate) struct OldLog {
    pub(crate) system: FileSystem,
    /// On the empty log, by size.
    pub(crate) empty: [Rates; SIZES.len()],
    pub(crate) tests: Vec<LogTest>,
    /// Of each day the share of what files may fill that is in use.
    pub(crate) full: Vec<(u64, f64)>,
    /// Requests of the load that failed.
    pub(crate) failed: u64,
}

/// All of them; one that failed is `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct OldLogs(pub(crate) Vec<Option<OldLog>>);

/// The numbers of the six in the layout study.
pub(crate) fn of_layouts() -> impl Iterator<Item = usize> {
    SIX.iter().filter_map(|&(server, name)| place(server, name))
}

fn place(server: &str, name: &str) -> Option<usize> {
    POPULATION.iter().position(|one| (one.server, one.name) == (server, name))
}

/// The number of runs.
pub(crate) fn count() -> usize {
    SIX.len()
}

/// Carries one of them out; `None` if that fails.
pub(crate) fn run(at: usize, share: &Share) -> Option<OldLog> {
    let (server, name) = *SIX.get(at)?;
    grow_old(&POPULATION[place(server, name)?], share).ok()
}

/// The log with the size of this file system.
fn config(system: &FileSystem) -> Option<Config> {
    let (size, _) = twin_lab::disk_of(&system.config()?).ok()?;
    // Whole segments.
    Config::parse(&format!("{LOG},size={}", size.next_multiple_of(1 << 20))).ok()
}

fn grow_old(system: &FileSystem, share: &Share) -> Result<OldLog, String> {
    let config = config(system).ok_or("no such configuration")?;
    let how = settings(&config)?;
    let new = new_volume(&how).map_err(|e| e.to_string())?;
    let name = format!("{}:{}", system.server, system.name);
    let load = Load::new(system.habits, new.geometry, new.capacity, system.course(), &name);
    let mut growing = Growing { load, how: how.clone(), aged: None };
    let mut empty = [(f64::NAN, f64::NAN); SIZES.len()];
    for (rates, size) in empty.iter_mut().zip(SIZES) {
        *rates = speeds(&Run::from(&config), size)?;
    }
    let mut old = OldLog { system: *system, empty, tests: Vec::new(), full: Vec::new(), failed: 0 };
    let last = TEST_DAYS[TEST_DAYS.len() - 1];
    let (mut before, days) = (0, (system.history_days() + last) as f64);
    for day in TEST_DAYS {
        let until = system.history_days() + day;
        let aged = growing.go_on((until - before) * SESSIONS_A_DAY)?;
        before = until;
        old.failed += aged.failed;
        old.full.push((day, aged.used as f64 / aged.capacity as f64));
        let clean = cleaned(&how, &aged.platter).map_err(|e| e.to_string())?;
        for size in SIZES {
            let on = |platter: &twin_sim::Platter| {
                let run = Run { start: Some(platter.clone()), ..Run::from(&config) };
                speeds(&run, size).ok()
            };
            let (raw, cleaned) = (on(&aged.platter), on(&clean));
            old.tests.push(LogTest { day, size, old: raw, cleaned });
        }
        share(until as f64 / days);
    }
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_six_are_file_systems_of_the_study_that_have_a_log_of_their_size() {
        assert_eq!(of_layouts().count(), SIX.len());
        for system in of_layouts().map(|at| &POPULATION[at]) {
            let name = system.name;
            assert!(system.timed, "{name} is measured as FFS");
            let size = |config: &Config| twin_lab::disk_of(config).unwrap().0;
            let (ffs, log) = (size(&system.config().unwrap()), size(&config(system).unwrap()));
            assert!(log >= ffs && log - ffs < 1 << 20, "{name}: {ffs} and {log} bytes");
        }
    }
}
