//! The machine file: what `twinfs calibrate` measured of a machine, for simulations of that machine.
//!
//! Contract: a TOML text that people can read and compare. All times are in microseconds. Device times are
//! distributions and stalls ([`Distribution`], [`Stalls`]). Files of the first format have no stalls: theirs are in
//! the distributions, as draws of that time had them.
//! Costs of the processor are medians, by layout, since layouts compute differently. [`MachineFile::parse`]
//! refuses what a simulation could not use, and names the field.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use twin_settings::SettingsError;
use twin_sim::cpu::CostTable;
use twin_sim::daemon::{Cold, DaemonCosts};
use twin_sim::fuse::FuseCosts;
use twin_sim::model::{MeasuredFigures, Pause as IdlePause, Spacing, Times};

use crate::machine_times::{Distribution, Stalls, ns, samples};

/// The version of the format.
pub const FORMAT: u32 = 2;
/// The oldest version that is read.
const OLDEST: u32 = 1;
/// The largest time in a machine file, in microseconds: a quarter of an hour.
const MOST_US: f64 = 9e8;

/// The largest error of simulations, as a factor: what is further off is no simulation.
const MOST_ERROR: f64 = 1000.0;

/// What was measured of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// The version of the format: [`FORMAT`].
    pub format: u32,
    /// Where and when it was measured, in words.
    pub about: BTreeMap<String, String>,
    /// Why the figures may be wrong: measurements whose repetitions differ much.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// How far simulations of this machine were from it, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validated: Option<Validated>,
    /// How far a simulation of a short real run was from it, right after the machine was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<Checked>,
    /// The cost of passing a request through the kernel to a mount.
    pub fuse: Fuse,
    /// What requests of a daemon take longer when none of their kind was served for a while. None in files of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cold: Vec<ColdStart>,
    /// The processor's costs, by layout.
    pub processor: BTreeMap<String, Processor>,
    /// The device.
    pub device: Device,
}

/// What a validation on a machine found; `twinfs validate` writes it into the machine file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validated {
    /// When it was done.
    pub date: String,
    /// Pairs of configurations that were compared, over all workloads.
    pub pairs: usize,
    /// The factor that 19 of 20 of them do not exceed; see `error_of` of twin-verdict.
    pub error: f64,
}

/// What a short real run found that `twinfs calibrate` does when it has measured everything: small files made
/// and synced on mounts of two layouts, and the same simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// When it was done.
    pub date: String,
    /// Real runs on each layout.
    pub runs: usize,
    /// Simulated over real time of each layout: medians.
    pub times: BTreeMap<String, f64>,
    /// The factor between the real and the simulated ratio of the layouts' times, at least 1.
    pub between: f64,
}

impl Checked {
    /// The time that is further off: simulated over real, above or below 1.
    pub fn worst(&self) -> f64 {
        let off = |time: &f64| time.max(1.0 / time);
        self.times.values().copied().max_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(1.0)
    }
}

/// What a request to a mount costs beside the work of the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fuse {
    /// Between the client and the core, both ways, while the core's processor is free.
    pub transit_us: f64,
    /// Of the core's processor, to read and parse the request and to answer it.
    pub serve_us: f64,
    /// Of the core's processor, to copy 4 KiB through the kernel.
    pub copy_4k_us: f64,
    /// The spread of the round trip: its 5th and 95th percentile.
    pub round_trip_us: [f64; 2],
}

/// What the daemon takes longer for a request when none of its kind was served for so long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdStart {
    /// How long.
    pub idle_us: f64,
    /// Looking up a name.
    pub lookup_us: f64,
    /// Making, removing or renaming a name.
    pub create_us: f64,
    /// A write.
    pub write_us: f64,
    /// Reading, and reading or setting attributes.
    pub attr_us: f64,
}

impl ColdStart {
    fn all(&self) -> [f64; 5] {
        [self.idle_us, self.lookup_us, self.create_us, self.write_us, self.attr_us]
    }
}

/// Costs of one layout's work on the core's processor. Medians.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Looking up a name.
    pub lookup_us: f64,
    /// Creating a file.
    pub create_us: f64,
    /// Removing a name.
    pub remove_us: f64,
    /// Renaming or linking.
    pub rename_us: f64,
    /// Opening or closing.
    pub open_us: f64,
    /// A read from the cache, without its bytes.
    pub read_us: f64,
    /// A write into the cache, without its bytes.
    pub write_us: f64,
    /// Reading or setting attributes.
    pub attr_us: f64,
    /// Listing a directory.
    pub read_dir_us: f64,
    /// fsync of a clean file.
    pub sync_us: f64,
    /// Copying 4 KiB between client and cache, with all that is done for a block.
    pub copy_4k_us: f64,
    /// Preparing a device request.
    pub request_us: f64,
    /// Building and checking 4 KiB of a device request.
    pub send_4k_us: f64,
    /// What a write takes longer that leaves a block filled in part: memory for it. None in files of earlier
    /// versions.
    #[serde(default)]
    pub part_us: f64,
}

/// Times of the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The largest request, in bytes.
    pub max_request: u32,
    /// Reads of a file that is written in full.
    pub read: Transfers,
    /// Overwrites of such a file.
    pub write: Transfers,
    /// Flushes, by the bytes written before.
    pub flush: Vec<Distribution>,
    /// Flushes that took far longer than others after as many bytes.
    #[serde(default, skip_serializing_if = "Stalls::is_none")]
    pub flush_stalls: Stalls,
    /// Writes into a file that has no blocks there yet, each size with a flush behind it. Not used
    /// by simulations, which assume a written image.
    #[serde(default)]
    pub write_sparse: Vec<Distribution>,
    /// What requests take longer after a pause, by its length. None in files of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_pause: Vec<Pause>,
    /// What each request of a mount takes longer than one of a process that does nothing else: the client
    /// has used the processors meanwhile. None in files of earlier versions.
    #[serde(default)]
    pub mounted_us: f64,
}

/// What requests of 4 KiB take longer when nothing was in flight for so long, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// How long nothing was in flight.
    pub idle_us: f64,
    /// What a read takes longer.
    pub read_us: f64,
    /// What a write takes longer.
    pub write_us: f64,
    /// What a flush takes longer.
    pub flush_us: f64,
}

/// Times of requests that transfer data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfers {
    /// One at a time, by size.
    pub alone: Vec<Distribution>,
    /// Requests of 4 KiB a second, by the number in flight.
    pub rate_4k: BTreeMap<String, f64>,
    /// Bytes a second of the largest requests, several in flight.
    pub bytes_per_s: f64,
    /// Requests that took far longer than others of their size.
    #[serde(default, skip_serializing_if = "Stalls::is_none")]
    pub stalls: Stalls,
}

impl MachineFile {
    /// Reads a machine file.
    ///
    /// # Errors
    /// If the text is no machine file; the message names the line or the field.
    pub fn parse(text: &str) -> Result<MachineFile, SettingsError> {
        let file: MachineFile =
            toml::from_str(text).map_err(|e| SettingsError::new(e.to_string().trim_end()))?;
        file.check().map_err(SettingsError::new)?;
        Ok(file)
    }

    /// As a text.
    ///
    /// # Errors
    /// None for values that [`parse`](Self::parse) accepts.
    pub fn to_text(&self) -> Result<String, SettingsError> {
        toml::to_string(self).map_err(|e| SettingsError::new(e.to_string()))
    }

    fn check(&self) -> Result<(), String> {
        if !(OLDEST..=FORMAT).contains(&self.format) {
            let format = self.format;
            return Err(format!(
                "format {format} of machine files is not known: use {OLDEST} to {FORMAT}"
            ));
        }
        let device = &self.device;
        if !(4096..=1 << 30).contains(&device.max_request) {
            return Err("device.max_request: from 4096 bytes to 1 GiB".into());
        }
        let lists = [
            ("device.read.alone", &device.read.alone),
            ("device.write.alone", &device.write.alone),
            ("device.flush", &device.flush),
        ];
        for (name, list) in lists {
            let ascending = list.windows(2).all(|pair| pair[0].bytes < pair[1].bytes);
            if list.is_empty() || !ascending || list.iter().any(|each| each.us.is_empty()) {
                return Err(format!("{name}: needs sizes in ascending order, each with times"));
            }
            if !list.iter().flat_map(|each| &each.us).all(|us| (0.0..=MOST_US).contains(us)) {
                return Err(format!("{name}: times are from 0 to {MOST_US} microseconds"));
            }
        }
        let stalls = [
            ("device.read.stalls", &device.read.stalls),
            ("device.write.stalls", &device.write.stalls),
            ("device.flush_stalls", &device.flush_stalls),
        ];
        for (name, stalls) in stalls {
            stalls.check(MOST_US).map_err(|why| format!("{name}: {why}"))?;
        }
        let pauses = &device.after_pause;
        if !pauses.windows(2).all(|pair| pair[0].idle_us < pair[1].idle_us) {
            return Err("device.after_pause: needs pauses in ascending order".into());
        }
        let extras = pauses.iter().flat_map(|p| [p.idle_us, p.read_us, p.write_us, p.flush_us]);
        if !extras.chain([device.mounted_us]).all(|us| (0.0..=MOST_US).contains(&us)) {
            return Err(format!(
                "device.after_pause, mounted_us: times are from 0 to {MOST_US} microseconds"
            ));
        }
        let of_layouts = self.processor.values().flat_map(Processor::all);
        let fuse = &self.fuse;
        let times = of_layouts.chain([fuse.transit_us, fuse.serve_us, fuse.copy_4k_us]);
        if !times.into_iter().all(|us| (0.0..=MOST_US).contains(&us)) {
            return Err(format!("processor, fuse: times are from 0 to {MOST_US} microseconds"));
        }
        if !self.cold.windows(2).all(|pair| pair[0].idle_us < pair[1].idle_us)
            || !self.cold.iter().flat_map(ColdStart::all).all(|us| (0.0..=MOST_US).contains(&us))
        {
            return Err(format!(
                "cold: needs idle times in ascending order, from 0 to {MOST_US} microseconds"
            ));
        }
        if self.validated.as_ref().is_some_and(|found| !(1.0..=MOST_ERROR).contains(&found.error)) {
            return Err(format!("validated.error: a factor from 1 to {MOST_ERROR}"));
        }
        let possible = |factor: &f64| (1.0 / MOST_ERROR..=MOST_ERROR).contains(factor);
        if let Some(Checked { times, between, .. }) = &self.checked
            && !(times.values().all(possible) && (1.0..=MOST_ERROR).contains(between))
        {
            return Err(format!("checked: factors from 1/{MOST_ERROR} to {MOST_ERROR}"));
        }
        Ok(())
    }

    /// The device for simulations.
    pub(crate) fn device(&self) -> Rc<MeasuredFigures> {
        let Device {
            max_request, read, write, flush, flush_stalls, after_pause, mounted_us, ..
        } = &self.device;
        let pause = |pause: &Pause| IdlePause {
            idle_ns: ns(pause.idle_us),
            read_ns: ns(pause.read_us),
            write_ns: ns(pause.write_us),
            flush_ns: ns(pause.flush_us),
        };
        let (samples, spacing) = (samples(flush), Spacing::default());
        let flushes = Times { samples, spacing, stalls: flush_stalls.simulated() };
        Rc::new(MeasuredFigures {
            max_io: *max_request,
            reads: read.times(),
            writes: write.times(),
            flushes,
            pauses: after_pause.iter().map(pause).collect(),
            mounted_ns: ns(*mounted_us),
        })
    }

    /// The costs of a layout on the core's processor; those of another layout if it was not measured.
    pub(crate) fn costs(&self, layout: &str) -> Option<CostTable> {
        let own = self.processor.get(layout).or_else(|| self.processor.values().next());
        own.map(Processor::table)
    }

    /// What a daemon that serves a volume of a layout takes besides.
    pub(crate) fn daemon(&self, layout: &str, block: u64) -> DaemonCosts {
        let cold = |start: &ColdStart| Cold {
            idle_ns: ns(start.idle_us),
            lookup_ns: ns(start.lookup_us),
            create_ns: ns(start.create_us),
            write_ns: ns(start.write_us),
            attr_ns: ns(start.attr_us),
        };
        let own = self.processor.get(layout).or_else(|| self.processor.values().next());
        let part_ns = own.map_or(0, |costs| ns(costs.part_us));
        DaemonCosts { cold: self.cold.iter().map(cold).collect(), part_ns, block }
    }

    /// The cost of passing requests to a mount.
    pub(crate) fn fuse(&self) -> FuseCosts {
        let Fuse { transit_us, serve_us, copy_4k_us, .. } = self.fuse;
        FuseCosts {
            transit_ns: ns(transit_us),
            serve_ns: ns(serve_us),
            copy_ps_per_byte: ps_per_byte(copy_4k_us),
        }
    }
}

fn ps_per_byte(us_for_4k: f64) -> u64 {
    (us_for_4k * 1e6 / 4096.0).round() as u64
}

impl Transfers {
    fn times(&self) -> Times {
        let rate = self.rate_4k.values().copied().fold(0.0, f64::max);
        let byte_ps = if self.bytes_per_s > 0.0 { 1e12 / self.bytes_per_s } else { 0.0 };
        let request_ns = if rate > 0.0 { 1e9 / rate - 4096.0 * byte_ps / 1e3 } else { 0.0 };
        let spacing = Spacing { request_ns: request_ns.max(0.0) as u64, byte_ps: byte_ps as u64 };
        Times { samples: samples(&self.alone), spacing, stalls: self.stalls.simulated() }
    }
}

impl Processor {
    fn all(&self) -> [f64; 14] {
        let p = self;
        [
            p.lookup_us,
            p.create_us,
            p.remove_us,
            p.rename_us,
            p.open_us,
            p.read_us,
            p.write_us,
            p.attr_us,
            p.read_dir_us,
            p.sync_us,
            p.copy_4k_us,
            p.request_us,
            p.send_4k_us,
            p.part_us,
        ]
    }

    fn table(&self) -> CostTable {
        CostTable {
            lookup_ns: ns(self.lookup_us),
            create_ns: ns(self.create_us),
            remove_ns: ns(self.remove_us),
            rename_ns: ns(self.rename_us),
            open_ns: ns(self.open_us),
            read_ns: ns(self.read_us),
            write_ns: ns(self.write_us),
            attr_ns: ns(self.attr_us),
            read_dir_ns: ns(self.read_dir_us),
            sync_ns: ns(self.sync_us),
            other_ns: ns(self.attr_us),
            copy_ps_per_byte: ps_per_byte(self.copy_4k_us),
            // Part of the copy, as it was measured.
            block_ns: 0,
            request_ns: ns(self.request_us),
            send_ps_per_byte: ps_per_byte(self.send_4k_us),
        }
    }
}

/// A machine for tests.
#[cfg(test)]
pub(crate) fn for_tests() -> MachineFile {
    let alone = vec![Distribution::of(4096, (1..=40).map(f64::from).collect(), 20)];
    let transfers = Transfers {
        alone: alone.clone(),
        rate_4k: [("1".into(), 10_000.0), ("32".into(), 50_000.0)].into(),
        bytes_per_s: 1e9,
        stalls: Stalls { of: 2000, count: 1, longer_us: vec![1e5] },
    };
    MachineFile {
        format: FORMAT,
        about: [("device".into(), "a test".into())].into(),
        warnings: Vec::new(),
        validated: None,
        checked: None,
        fuse: Fuse { transit_us: 9.0, serve_us: 5.0, ..Fuse::default() },
        cold: vec![ColdStart { idle_us: 1000.0, create_us: 20.0, ..ColdStart::default() }],
        processor: [("lfs".into(), Processor { create_us: 7.5, ..Processor::default() })].into(),
        device: Device {
            max_request: 1 << 20,
            read: transfers.clone(),
            write: transfers,
            flush: alone,
            flush_stalls: Stalls::default(),
            write_sparse: Vec::new(),
            after_pause: vec![Pause { idle_us: 1000.0, write_us: 20.0, ..Pause::default() }],
            mounted_us: 0.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::for_tests as file;
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let text = file().to_text().unwrap();
        assert_eq!(MachineFile::parse(&text).unwrap(), file());
    }

    /// A file that a program of the first format has written.
    #[test]
    fn a_file_of_the_first_format_is_read_and_has_no_stalls() {
        let mut file = file();
        (file.format, file.device.read.stalls) = (1, Stalls::default());
        file.device.write.stalls = Stalls::default();
        file.cold.clear();
        let text = file.to_text().unwrap().replace("part_us = 0.0\n", "");
        for added in ["stalls", "checked", "cold", "part_us"] {
            assert!(!text.contains(added), "{added}: {text}");
        }
        assert_eq!(MachineFile::parse(&text).unwrap(), file);
    }

    #[test]
    fn the_check_is_as_far_off_as_the_time_that_is_further_off() {
        let times = |lfs: f64, ffs: f64| Checked {
            date: "2026-01-02".into(),
            runs: 5,
            times: [("lfs".into(), lfs), ("ffs".into(), ffs)].into(),
            between: 1.0,
        };
        assert_eq!(times(1.2, 0.9).worst(), 1.2);
        assert_eq!(times(1.2, 0.5).worst(), 0.5);
    }

    #[test]
    fn mistakes_are_told_by_field() {
        let broken = |change: &dyn Fn(&mut MachineFile)| {
            let mut file = file();
            change(&mut file);
            MachineFile::parse(&file.to_text().unwrap()).unwrap_err().to_string()
        };
        assert!(broken(&|f| f.format = 9).contains("format 9"));
        assert!(broken(&|f| f.device.flush.clear()).contains("device.flush"));
        assert!(broken(&|f| f.device.read.alone[0].us[0] = -1.0).contains("device.read.alone"));
        assert!(broken(&|f| f.device.mounted_us = -1.0).contains("mounted_us"));
        let none = |f: &mut MachineFile| f.device.after_pause.push(Pause::default());
        assert!(broken(&none).contains("after_pause: needs pauses in ascending order"));
        assert!(broken(&|f| f.cold.push(ColdStart::default())).contains("cold: "));
        assert!(broken(&|f| f.cold[0].write_us = -1.0).contains("cold: "));
        assert!(broken(&|f| f.fuse.serve_us = f64::NAN).contains("fuse"));
        let validated = |error| Some(Validated { date: "today".into(), pairs: 66, error });
        assert!(broken(&|f| f.validated = validated(0.9)).contains("validated.error"));
        assert!(broken(&|f| f.device.read.stalls.count = 3000).contains("device.read.stalls"));
        let more_than_all = |f: &mut MachineFile| {
            f.device.flush_stalls = Stalls { of: 1, count: 2, longer_us: vec![9.0] };
        };
        assert!(broken(&more_than_all).contains("device.flush_stalls"));
        let text = file().to_text().unwrap().replace("create_us", "creat_us");
        assert!(MachineFile::parse(&text).unwrap_err().to_string().contains("creat_us"));
        assert!(MachineFile::parse("disk=ssd").is_err());
    }

    #[test]
    fn requests_are_spaced_as_the_throughput_at_depth_demands() {
        let times = file().device.read.times();
        // 20 us a request of 4 KiB, of which 4.096 us are its bytes at 1 GB/s.
        assert_eq!(times.spacing, Spacing { request_ns: 15_904, byte_ps: 1000 });
    }
}
