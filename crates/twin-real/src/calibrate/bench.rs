//! What the parts of a calibration share.

use std::path::{Path, PathBuf};

use twin_host::{Bar, ScratchDir};
use twin_lab::Stalls;
use twin_lab::layouts::LAYOUTS;

use crate::runner::Runner;
use crate::systems::System;

/// Medians of rounds that differ by more than this factor are told.
const NOISY: f64 = 1.5;
/// Stalls that make the requests of a kind longer by this share are named.
const NOTABLE: f64 = 0.1;
/// Bytes of small and of large operations.
pub(super) const SMALL: usize = 4096;
pub(super) const LARGE: usize = 128 << 10;

/// What the parts of a calibration share.
pub(super) struct Bench<'a> {
    pub(super) runner: Runner<'a>,
    scratch: ScratchDir,
    bar: Bar,
    pub(super) warnings: Vec<String>,
}

impl<'a> Bench<'a> {
    /// Has work done on a mount of a new volume in `image`, whose contents are lost, and returns where the
    /// recording of it is.
    ///
    /// # Errors
    /// Those of the work, and if the volume cannot be made, mounted or unmounted.
    pub(super) fn recorded(
        &self,
        image: &Path,
        work: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        let system = System::of_layout(LAYOUTS[0]);
        self.runner.make(&system, image, &[])?;
        let (mnt, trace) = (self.dir().join("mnt"), self.dir().join("recorded.tw"));
        let options = ["--record", &trace.display().to_string()];
        let mounted = self.runner.mount(&system, image, &mnt, &options)?;
        let done = work(&mnt);
        mounted.end()?;
        done?;
        Ok(trace)
    }

    pub(super) fn make(runner: &Runner<'a>, base: &Path, bar: Bar) -> Result<Bench<'a>, String> {
        if !base.is_dir() {
            return Err(format!(
                "{} is no directory: give one on the device that is to be measured",
                base.display()
            ));
        }
        let scratch = runner.scratch(base, "calibrate")?;
        Ok(Bench { runner: runner.clone(), scratch, bar, warnings: Vec::new() })
    }

    /// The directory to work in.
    pub(super) fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// A step has been done.
    ///
    /// # Errors
    /// If the user has interrupted.
    pub(super) fn step(&self) -> Result<(), String> {
        self.bar.add(1);
        self.runner.check()
    }

    /// Notes stalls that make up more than a tenth of the time of a kind of request.
    pub(super) fn judge_stalls(&mut self, what: &str, stalls: &Stalls, usual_us: f64) {
        let Stalls { of, count, longer_us } = stalls;
        if stalls.mean_us() > usual_us * NOTABLE {
            let most = longer_us.last().copied().unwrap_or(0.0) / 1e3;
            self.warnings.push(format!(
                "{what}: {count} of {of} stalled, up to {most:.1} ms longer, {:.0} us for each on average",
                stalls.mean_us()
            ));
        }
    }

    /// Notes a figure whose rounds differ much.
    pub(super) fn judge(&mut self, what: &str, medians: &[f64]) {
        let (low, high) = medians
            .iter()
            .fold((f64::MAX, 0.0f64), |(low, high), &each| (low.min(each), high.max(each)));
        if high > low * NOISY && high - low > 1.0 {
            let rounds: Vec<String> = medians.iter().map(|us| format!("{us:.1}")).collect();
            let all = format!("{what}: {} us in {} rounds", rounds.join(", "), rounds.len());
            self.warnings.push(all);
        }
    }
}
