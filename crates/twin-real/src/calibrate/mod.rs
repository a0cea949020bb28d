//! `twinfs calibrate`: measures this machine for simulations of it.
//!
//! Contract: everything is measured in a directory of its own below the one that is given, which is removed
//! at the end, also after an interrupt. The result is a machine file ([`MachineFile`]). Every figure is
//! measured once in each of several rounds, as many as `BUDGET_S` allows for this command; who compares
//! simulations with runs on the machine puts the rounds between his runs, so that both see the same machine.
//! Rounds that another job disturbed are left out. A figure whose other rounds differ by more than a half is named
//! in the file's warnings, because simulations with it inherit the noise. Last, a short real run is held against
//! its own simulation, and its error is in the file too.

mod bench;
mod check;
mod cold;
mod device;
mod fuse;
mod processor;
mod rounds;
mod served;
mod synced;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use serde_json::{Value, json};
use twin_host::{Bar, Count, NewFile, absolute, real_clock};
use twin_lab::{Checked, MACHINE_FORMAT, MachineFile};

use crate::runner::Runner;
use bench::Bench;
use device::Target;

/// Seconds after which no round is begun any more that could not end in time.
const BUDGET_S: f64 = 16.0;
/// The same where only the device is measured.
const DEVICE_BUDGET_S: f64 = 8.0;
/// The fewest and the most rounds, whatever they take.
const ROUNDS: [u64; 2] = [3, 8];

/// Measures the machine: the device under a directory, or a block device, whose contents are lost: if it is not
/// blank, only with `force`.
///
/// # Errors
/// If nothing can be made or measured there, or the user interrupts.
pub fn calibrate(runner: &Runner<'_>, place: &Path, force: bool) -> Result<MachineFile, String> {
    let named = std::fs::metadata(place).map_err(|e| format!("{}: {e}", place.display()))?;
    let is_device = named.file_type().is_block_device();
    if is_device {
        device::check(place, force)?;
    } else if force {
        return Err(
            "--force is for a device, whose contents are lost: a directory loses none".into()
        );
    }
    let [fewest, most] = ROUNDS;
    let bar = runner.progress.begin("steps measured", Count::Steps(most * Calibration::steps()));
    let mut calibration = match is_device {
        true => Calibration::of_device(runner, place, bar.clone())?,
        false => Calibration::begin(runner, place, bar.clone())?,
    };
    let round = |calibration: &mut Calibration<'_>| {
        calibration.round()?;
        calibration.check()
    };
    rounds_in(&mut calibration, BUDGET_S, fewest, &bar, Calibration::steps(), &round)?;
    Ok(calibration.end())
}

/// Does as many rounds as fit into `budget_s` seconds, `fewest` at least.
fn rounds_in(
    calibration: &mut Calibration<'_>,
    budget_s: f64,
    fewest: u64,
    bar: &Bar,
    steps: u64,
    round: &dyn Fn(&mut Calibration<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let clock = real_clock();
    let (begun, mut done) = (clock(), 0);
    loop {
        round(calibration)?;
        done += 1;
        let each = (clock() - begun) / done as f64;
        let in_time = ((budget_s / each) as u64).clamp(fewest, ROUNDS[1]);
        bar.set(done * steps, in_time * steps);
        if done >= in_time {
            return Ok(());
        }
    }
}

/// The machine with a loop device of one's own, whose contents are lost: all of it measured, or only the device if
/// the rest is known.
///
/// # Errors
/// As [`calibrate`].
pub fn of_loop_device(
    runner: &Runner<'_>,
    device: &Path,
    known: Option<MachineFile>,
) -> Result<MachineFile, String> {
    let Some(known) = known else { return calibrate(runner, device, true) };
    let [fewest, most] = ROUNDS;
    let bar = runner.progress.begin("steps measured", Count::Steps(most * device::STEPS));
    let mut calibration = Calibration::of_device(runner, device, bar.clone())?;
    let round = |calibration: &mut Calibration<'_>| {
        calibration.device_round()?;
        calibration.check()
    };
    rounds_in(&mut calibration, DEVICE_BUDGET_S, fewest, &bar, device::STEPS, &round)?;
    Ok(calibration.end_of_device(known))
}

/// A machine that is being measured.
pub struct Calibration<'a> {
    bench: Bench<'a>,
    about: BTreeMap<String, String>,
    processor: processor::Samples,
    device: device::Samples,
    fuse: fuse::Samples,
    synced: synced::Samples,
    cold: cold::Samples,
    checks: check::Samples,
}

impl<'a> Calibration<'a> {
    /// Steps of a round, as shown by the progress bar.
    fn steps() -> u64 {
        processor::steps() + device::STEPS + fuse::STEPS
    }

    /// Nothing is measured yet.
    ///
    /// # Errors
    /// If no directory can be made in `base`.
    pub fn begin(runner: &Runner<'a>, base: &Path, bar: Bar) -> Result<Calibration<'a>, String> {
        Ok(Calibration {
            bench: Bench::make(runner, base, bar)?,
            about: about("directory", base)?,
            processor: processor::Samples::default(),
            device: device::Samples::new(Target::Under),
            fuse: fuse::Samples::default(),
            synced: synced::Samples::default(),
            cold: cold::Samples::default(),
            checks: check::Samples::default(),
        })
    }

    /// The same of a device that no file system uses; all else is measured in the directory for temporary
    /// files.
    ///
    /// # Errors
    /// If no directory can be made there.
    fn of_device(runner: &Runner<'a>, path: &Path, bar: Bar) -> Result<Calibration<'a>, String> {
        let calibration = Calibration::begin(runner, &std::env::temp_dir(), bar)?;
        let device = device::Samples::new(Target::Whole(path.into()));
        Ok(Calibration { device, about: about("device", path)?, ..calibration })
    }

    /// Measures all once, in some two seconds.
    ///
    /// # Errors
    /// If a file cannot be made or used there, or the user interrupts.
    pub fn round(&mut self) -> Result<(), String> {
        self.processor.round(&self.bench)?;
        self.device_round()?;
        if fuse::can_mount() {
            let image = self.device.image(&self.bench)?;
            self.cold.round(&self.bench, &image)?;
        }
        self.fuse.round(&self.bench)
    }

    /// Measures once what depends on the device.
    fn device_round(&mut self) -> Result<(), String> {
        self.device.round(&self.bench)?;
        self.bench.runner.check()?;
        if fuse::can_mount() {
            let image = self.device.image(&self.bench)?;
            self.synced.round(&self.bench, &image)?;
        }
        Ok(())
    }

    /// Runs for real what the calibration is checked with, where this user may mount.
    fn check(&mut self) -> Result<(), String> {
        if !fuse::can_mount() {
            return Ok(());
        }
        let image = self.device.image(&self.bench)?;
        self.checks.round(&self.bench, &image)
    }

    /// The machine as all rounds saw it that nothing disturbed.
    pub fn end(self) -> MachineFile {
        let Calibration {
            mut bench,
            about,
            mut processor,
            mut device,
            mut fuse,
            mut synced,
            mut cold,
            checks,
        } = self;
        let stays = rounds::undisturbed(&[device.figures(), processor.figures()].concat());
        let out = stays.iter().filter(|stays| !**stays).count();
        if out > 0 {
            bench.warnings.push(format!(
                "{out} of {} rounds were disturbed by something else that ran, and are left out",
                stays.len()
            ));
            device.keep(&stays);
            processor.keep(&stays);
            fuse.keep(&stays);
            synced.keep(&stays);
            cold.keep(&stays);
        }
        let (processor, request_us) = processor::tables(&mut bench, processor);
        let device = device::device(&mut bench, device, request_us);
        let fuse = fuse::costs(&mut bench, fuse);
        let warnings = std::mem::take(&mut bench.warnings);
        let (format, validated, checked) = (MACHINE_FORMAT, None, None);
        let machine = MachineFile {
            format,
            about,
            warnings,
            validated,
            checked,
            fuse,
            cold: cold.starts(),
            processor,
            device,
        };
        with_runs(machine, synced, checks)
    }

    /// A machine that is known, with this device.
    fn end_of_device(self, known: MachineFile) -> MachineFile {
        let Calibration { mut bench, mut device, mut synced, checks, .. } = self;
        let stays = rounds::undisturbed(&device.figures());
        device.keep(&stays);
        synced.keep(&stays);
        let request_us = known.processor.values().next().map_or(0.0, |costs| costs.request_us);
        let device = device::device(&mut bench, device, request_us);
        let warnings = [known.warnings.clone(), std::mem::take(&mut bench.warnings)].concat();
        with_runs(MachineFile { warnings, device, ..known }, synced, checks)
    }
}

/// The machine with what runs on a mount say of it.
fn with_runs(
    mut machine: MachineFile,
    synced: synced::Samples,
    checks: check::Samples,
) -> MachineFile {
    machine.device.mounted_us = synced.mounted_us(&machine).unwrap_or(0.0);
    machine.checked = checks.checked(&machine, today());
    machine
}

/// Where and when; what kind of place it is.
fn about(kind: &'static str, place: &Path) -> Result<BTreeMap<String, String>, String> {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    Ok([
        ("kernel", format!("{} {}", text(uname.sysname()), text(uname.release()))),
        ("processor", format!("{cpus} of {}", model.unwrap_or("unknown"))),
        (kind, absolute(place)?.display().to_string()),
        ("date", today()),
        ("program", format!("twinfs {}", env!("CARGO_PKG_VERSION"))),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into())
}

/// The date of today, as 2026-01-31.
pub fn today() -> String {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let (year, month, day) = civil(since.tv_sec.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a day since 1970 (Howard Hinnant, "chrono-compatible low-level date
/// algorithms", civil_from_days).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

/// Writes a machine file that is new.
///
/// # Errors
/// If a figure has no place in TOML, or the host refuses.
pub fn write(new: NewFile, machine: &MachineFile, path: &Path) -> Result<(), String> {
    let text = text_of(machine)?;
    new.handle()?.write_all(text.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))?;
    new.keep();
    Ok(())
}

/// The contents of a machine file.
///
/// # Errors
/// If a figure has no place in TOML.
pub fn text_of(machine: &MachineFile) -> Result<String, String> {
    let text = machine.to_text().map_err(|e| e.to_string())?;
    Ok(format!("# Times are in microseconds; see `twinfs calibrate --help`.\n{text}"))
}

/// A row for each figure of the machine file; of distributions the median.
pub fn figures(machine: &MachineFile) -> Vec<Value> {
    let device = &machine.device;
    let mut all: Vec<Value> = Vec::new();
    let mut row = |part: &str, figure: &str, value: f64| {
        all.push(json!({ "part": part, "figure": figure, "value": value }));
    };
    let lists = [
        ("read", &device.read.alone),
        ("write", &device.write.alone),
        ("flush_after_write", &device.flush),
        ("write_sparse_and_flush", &device.write_sparse),
    ];
    for (what, list) in lists {
        for each in list {
            row("device", &format!("{what}_{}_bytes_median_us", each.bytes), each.median());
        }
    }
    for (what, transfers) in [("read", &device.read), ("write", &device.write)] {
        for (depth, rate) in &transfers.rate_4k {
            row("device", &format!("{what}_4096_bytes_depth_{depth}_per_s"), *rate);
        }
        row("device", &format!("{what}_bytes_per_s"), transfers.bytes_per_s);
    }
    for pause in &device.after_pause {
        let extras =
            [("read", pause.read_us), ("write", pause.write_us), ("flush", pause.flush_us)];
        for (what, us) in extras {
            let idle = pause.idle_us;
            row("device", &format!("{what}_after_{idle:.0}_us_idle_extra_us"), us);
        }
    }
    let stalls = [
        ("read", &device.read.stalls),
        ("write", &device.write.stalls),
        ("flush", &device.flush_stalls),
    ];
    for (what, stalls) in stalls {
        row("device", &format!("{what}_stalls"), stalls.count as f64);
        row("device", &format!("{what}_stalls_of"), stalls.of as f64);
        row("device", &format!("{what}_stalls_mean_us"), stalls.mean_us());
    }
    row("device", "mounted_extra_us", device.mounted_us);
    for start in &machine.cold {
        let kinds = [
            ("lookup", start.lookup_us),
            ("create", start.create_us),
            ("write", start.write_us),
            ("attr", start.attr_us),
        ];
        for (kind, us) in kinds {
            row("daemon", &format!("{kind}_after_{:.0}_us_idle_extra_us", start.idle_us), us);
        }
    }
    let fuse = &machine.fuse;
    row("fuse", "transit_us", fuse.transit_us);
    row("fuse", "serve_us", fuse.serve_us);
    row("fuse", "copy_4k_us", fuse.copy_4k_us);
    for (layout, costs) in &machine.processor {
        let Ok(Value::Object(costs)) = serde_json::to_value(costs) else { continue };
        for (figure, value) in &costs {
            row(layout, figure, value.as_f64().unwrap_or_default());
        }
    }
    all.extend(check_rows(machine));
    all
}

/// A row for each figure of the check.
fn check_rows(machine: &MachineFile) -> Vec<Value> {
    let row =
        |figure: String, value: f64| json!({ "part": "check", "figure": figure, "value": value });
    let Some(Checked { times, between, .. }) = &machine.checked else { return Vec::new() };
    let of_layout =
        |(layout, time): (&String, &f64)| row(format!("{layout}_simulated_over_real"), *time);
    let times = times.iter().map(of_layout);
    times.chain([row("between_factor".into(), *between)]).collect()
}

/// The main figures, in a few lines.
pub fn summary(machine: &MachineFile) -> String {
    let device = &machine.device;
    let at = |list: &[twin_lab::Distribution], bytes: u64| {
        let found = list.iter().find(|each| each.bytes == bytes);
        found.map_or(0.0, twin_lab::Distribution::median)
    };
    let coldest = machine.cold.last().copied().unwrap_or_default();
    let longest = device.after_pause.last().copied().unwrap_or_default();
    let most = |rates: &BTreeMap<String, f64>| rates.values().copied().fold(0.0, f64::max);
    let mut out = format!(
        "device:    4 KiB read {:.0} us, written {:.0} us, flush after it {:.0} us (medians)\n\
         \x20          {:.0} reads and {:.0} writes a second at depth, {:.0} and {:.0} MiB/s\n\
         \x20          a write {:.0} us more after {:.0} ms without one; any request {:.0} us more under a mount\n\
         front end: {:.1} us a request, of which {:.1} on the core's processor; after {:.0} ms without one a\n\
         \x20          file is made {:.0} us later, and written {:.0}\n",
        at(&device.read.alone, 4096),
        at(&device.write.alone, 4096),
        at(&device.flush, 4096),
        most(&device.read.rate_4k),
        most(&device.write.rate_4k),
        device.read.bytes_per_s / 1048576.0,
        device.write.bytes_per_s / 1048576.0,
        longest.write_us,
        longest.idle_us / 1e3,
        device.mounted_us,
        machine.fuse.transit_us + machine.fuse.serve_us,
        machine.fuse.serve_us,
        coldest.idle_us / 1e3,
        coldest.create_us,
        coldest.write_us,
    );
    for (layout, costs) in &machine.processor {
        let name = format!("{layout}:");
        out += &format!(
            "{name:<11}create {:.1} us, look up {:.1} us, remove {:.1} us, copy 4 KiB {:.1} us\n",
            costs.create_us, costs.lookup_us, costs.remove_us, costs.copy_4k_us
        );
    }
    if let Some(Checked { runs, times, between, .. }) = &machine.checked {
        let times: Vec<String> =
            times.iter().map(|(layout, time)| format!("{layout} {time:.2}")).collect();
        out += &format!(
            "check:     a short real run simulated: {} of its time, {between:.2} times off against each \
             other ({runs} runs each)\n",
            times.join(", ")
        );
    }
    out.trim_end().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(20_780), (2026, 11, 23));
        assert_eq!(civil(11_016), (2000, 2, 29));
    }
}
