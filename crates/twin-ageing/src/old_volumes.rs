//! The old volumes on which simulated configurations begin.
//!
//! Contract: equal settings of volume and beginning give the same content, so that configurations
//! share volumes, and a [`KeptVolumes`] may keep them for longer than a command.

use std::fmt;

use twin_age::{Ageing, Plan, Profile, Recreate, VolumeMap, profile, profiles};
use twin_settings::{Named, Param, SettingsError, Unit, Values};
use twin_sim::Platter;

use crate::age::{AgeSettings, Aged, END, NewVolume, ageing_settings, make_old, new_volume};
use crate::copy::{Places, make_copy};
use twin_lab::Config;
use twin_lab::{NOBODY, disk_of};
use twin_lab::{SimulateError, model_error};

/// How the volumes of simulated configurations are made old: a profile and settings.
#[derive(Clone, Debug)]
pub struct AgedSpec {
    text: String,
    profile: Profile,
    values: Values,
}

/// The settings of [`AgedSpec`].
const AGED: &[Param] = &[
    Param::new("full", "80%", Unit::Percent(99), "how full it gets, of what files may fill"),
    Param::new("years", "1", Unit::Decimal(0.001, 100.0), "age of the oldest file in years"),
    Param::new("turnover", "5", Unit::Decimal(0.01, 1e6), "how often it is written in a year"),
    Param::new("seed", "1", Unit::number(0, u64::MAX), "the seed"),
];

impl AgedSpec {
    /// Parses `PROFILE` or `PROFILE:years=2,full=80%`.
    ///
    /// # Errors
    /// If there is no such profile or setting, or a value is out of its range.
    pub fn parse(text: &str) -> Result<AgedSpec, SettingsError> {
        let named = Named::parse(text)?;
        let profile = profile(named.name)?;
        let mut values = Values::of(&[AGED]);
        values.apply(named.settings).map_err(|error| error.within(named.name))?;
        Ok(AgedSpec { text: text.into(), profile, values })
    }

    /// Files of the default profile, created once, until a volume is so full.
    ///
    /// # Errors
    /// If the share is out of its range.
    pub fn filled(full: &str) -> Result<AgedSpec, SettingsError> {
        // Less turnover than the files themselves: nothing is deleted.
        AgedSpec::parse(&format!("{}:full={full},turnover=0.01", profiles()[0].name))
    }

    /// The plan for a volume.
    pub fn plan(&self, new: &NewVolume) -> Plan {
        Plan {
            profile: self.profile.clone(),
            capacity: new.capacity,
            geometry: new.geometry.clone(),
            full: self.values.number("full") as f64 / 100.0,
            years: self.values.decimal("years"),
            turnover: self.values.decimal("turnover"),
            seed: self.values.number("seed"),
        }
    }
}

impl fmt::Display for AgedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What the files of a volume are when a simulation begins.
#[derive(Clone, Debug)]
pub enum Beginning {
    /// Those of a profile.
    Aged(AgedSpec),
    /// Those of a snapshot, created anew; the text is the snapshot's name.
    Files(String, VolumeMap),
    /// Those of a snapshot where they were, or files that fill what was used.
    Copy(String, VolumeMap, Places),
}

impl fmt::Display for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beginning::Aged(spec) => write!(f, "volumes aged by {spec}"),
            Beginning::Files(name, _) => write!(f, "volumes with the files of {name}"),
            Beginning::Copy(name, _, Places::Files) => write!(f, "copies of {name}"),
            Beginning::Copy(name, _, Places::Free) => {
                write!(f, "volumes with the free space of {name}")
            }
        }
    }
}

/// The content of the disk of a configuration whose volume was made old. Equal settings of volume
/// and ageing give the same content, so that several configurations can share it: see
/// [`OldVolumes`].
///
/// # Errors
/// If the volume cannot be made, or gets full before it is as full as was asked.
fn old_volume(config: &Config, beginning: &Beginning) -> Result<Aged, SimulateError> {
    let (size, sector) = disk_of(config)?;
    let how = AgeSettings {
        layout: config.layout,
        of_layout: config.of_layout.clone(),
        size,
        sector,
        settings: ageing_settings(AGEING_CACHE),
        identity: NOBODY,
        seed: 1,
        end: END,
        span_ns: 0,
        steps: None,
        start: None,
    };
    let aged = match beginning {
        Beginning::Aged(spec) => {
            let plan = spec.plan(&new_volume(&how)?);
            let source = Ageing::new(&plan).map_err(model_error)?;
            let how = AgeSettings { span_ns: source.planned().span_ns, ..how };
            make_old(&how, Box::new(source))?
        }
        Beginning::Files(_, map) => {
            let source = Recreate::new(map);
            let how = AgeSettings { span_ns: source.span_ns(), ..how };
            make_old(&how, Box::new(source))?
        }
        Beginning::Copy(_, map, places) => make_copy(&how, map, *places)?,
    };
    match aged.failed {
        0 => Ok(aged),
        failed => Err(model_error(format!(
            "{failed} operations failed while {beginning} were made, probably for want of room: ask \
             for a lower share, or a larger size"
        ))),
    }
}

/// Memory for blocks while a simulated volume grows old.
const AGEING_CACHE: u64 = 256 << 20;

/// An old volume as it is kept.
#[derive(Clone, Debug)]
pub struct OldVolume {
    /// The content of its device.
    pub platter: Platter,
    /// Its layout score.
    pub score: Option<f64>,
}

/// Where old volumes are kept for longer than a command.
pub trait KeptVolumes: fmt::Debug {
    /// The volume with these settings of volume and ageing, if it is there.
    fn find(&mut self, key: &str) -> Option<OldVolume>;

    /// Keeps a volume, if that is possible.
    fn keep(&mut self, key: &str, volume: &OldVolume);
}

/// Old volumes that were made already, by their settings.
#[derive(Debug, Default)]
pub struct OldVolumes {
    known: Vec<(String, OldVolume)>,
    kept: Option<Box<dyn KeptVolumes>>,
    requests: u64,
}

impl OldVolumes {
    /// Takes volumes that were kept, and keeps those that are made. Volumes with the files of a
    /// snapshot are not kept: their settings do not say which files those are.
    pub fn kept_in(kept: Box<dyn KeptVolumes>) -> OldVolumes {
        OldVolumes { kept: Some(kept), ..OldVolumes::default() }
    }

    /// Requests that were made for the volumes so far: none if all were there.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The configuration with an old volume as its start, and the volume's layout score.
    ///
    /// # Errors
    /// As for making one.
    pub fn start(
        &mut self,
        config: &Config,
        beginning: &Beginning,
    ) -> Result<(Config, Option<f64>), SimulateError> {
        let mut config = config.clone();
        if let (Beginning::Copy(_, map, _), false) = (beginning, config.size_asked) {
            // A copy has the size of the original.
            config.size = Some(map.size);
            config.size_asked = true;
        }
        let config = &config;
        let (size, sector) = disk_of(config)?;
        let keys = config.of_layout.keys().into_iter();
        let keys: Vec<String> = keys.map(|key| format!("{}={}", key.name, key.value)).collect();
        let name = config.layout.name();
        let key = format!("{name}:{},{size}/{sector}, {beginning}", keys.join(","));
        let known = self.known.iter().find(|(known, _)| *known == key);
        let volume = match known {
            Some((_, volume)) => volume.clone(),
            None => {
                let volume = self.find_or_make(&key, config, beginning)?;
                self.known.push((key, volume.clone()));
                volume
            }
        };
        Ok((Config { start: Some(volume.platter), ..config.clone() }, volume.score))
    }

    fn find_or_make(
        &mut self,
        key: &str,
        config: &Config,
        beginning: &Beginning,
    ) -> Result<OldVolume, SimulateError> {
        let kept = self.kept.as_mut().filter(|_| matches!(beginning, Beginning::Aged(_)));
        let mut kept = match kept {
            Some(kept) => match kept.find(key) {
                Some(volume) => return Ok(volume),
                None => Some(kept),
            },
            None => None,
        };
        let aged = old_volume(config, beginning)?;
        self.requests += aged.requests;
        let volume = OldVolume { score: aged.layout.score.value(), platter: aged.platter };
        if let Some(kept) = &mut kept {
            kept.keep(key, &volume);
        }
        Ok(volume)
    }
}
