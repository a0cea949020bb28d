//! The server file: a TOML text that names the parts of a server and how they are connected.
//!
//! Contract: [`ServerFile::parse`] refuses what a simulation could not use, and names the place: an
//! unknown name with the nearest one, a setting that belongs elsewhere, a disk without room. The
//! document `docs/servers.md` explains the form.

use std::collections::BTreeMap;

use serde::Deserialize;
use twin_lab::Config;
use twin_lab::layouts::LAYOUTS;
use twin_rt::{Order, order};
use twin_settings::value::bytes;
use twin_settings::{Choice, Choose, SettingsError, grammar};
use twin_sim::{bus, cpu, queue};

/// A server: hosts, busses, disks, file systems and their clients, by name.
#[derive(Clone, Debug)]
pub struct ServerFile {
    /// What it is, in words.
    pub about: String,
    /// What is not known of it and was assumed, in words.
    pub assumed: Vec<String>,
    /// Its hosts.
    pub hosts: Vec<Host>,
    /// Its busses.
    pub buses: Vec<BusPart>,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// Its file systems.
    pub file_systems: Vec<FileSystemPart>,
    /// Who uses it.
    pub clients: Vec<Client>,
    /// The order in which ready tasks run.
    pub order: Choice<Order>,
    /// The seed of its random numbers.
    pub seed: u64,
}

/// A host: processors, and the memory that all its file systems share.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The model of its processors.
    pub cpu: Choice<cpu::Kind>,
    /// How many of them.
    pub cpus: u64,
    /// Bytes for blocks, of all its file systems together.
    pub cache_bytes: u64,
    /// Bytes of memory that survives a power failure, of all its file systems together.
    pub nvram_bytes: u64,
}

/// A bus.
#[derive(Clone, Debug)]
pub struct BusPart {
    /// Its name.
    pub name: String,
    /// The number of its host.
    pub host: usize,
    /// Its kind.
    pub kind: Choice<bus::Kind>,
    /// Bytes a second, instead of the kind's own.
    pub bytes_per_s: Option<u64>,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// The number of its host.
    pub host: usize,
    /// The number of its bus, if it has one.
    pub bus: Option<usize>,
    /// Model, queue and settings, as a configuration of which nothing else is used.
    pub config: Config,
}

/// A file system on a disk, or on a part of it.
#[derive(Clone, Debug)]
pub struct FileSystemPart {
    /// Its name.
    pub name: String,
    /// The number of its disk.
    pub disk: usize,
    /// Its first byte and its size; without a size it shares what is left of the disk equally with
    /// the others of that kind.
    pub place: (u64, Option<u64>),
    /// Layout and settings.
    pub config: Config,
}

/// A user of a file system.
#[derive(Clone, Debug)]
pub struct Client {
    /// The number of its file system.
    pub file_system: usize,
    /// What it does.
    pub does: Does,
    /// When it does it.
    pub pace: Pace,
}

/// What a client does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Does {
    /// A generated workload, and its seed.
    Workload(String, u64),
    /// A trace: a file, and its format if it is a foreign one.
    Trace(String, Option<String>),
}

/// When a client issues operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// At their times.
    #[default]
    Recorded,
    /// After the pauses that they have.
    Think,
    /// As fast as possible.
    Asap,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    about: String,
    #[serde(default)]
    assumed: Vec<String>,
    #[serde(default)]
    order: Option<String>,
    #[serde(default = "one")]
    seed: u64,
    host: BTreeMap<String, HostText>,
    #[serde(default)]
    bus: BTreeMap<String, BusText>,
    disk: BTreeMap<String, DiskText>,
    fs: BTreeMap<String, FsText>,
    #[serde(default)]
    client: Vec<ClientText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostText {
    cpu: Option<String>,
    #[serde(default = "one")]
    cpus: u64,
    cache: String,
    nvram: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BusText {
    kind: String,
    host: Option<String>,
    rate: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskText {
    model: String,
    bus: Option<String>,
    host: Option<String>,
    #[serde(default)]
    queue: Option<String>,
    #[serde(default)]
    settings: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FsText {
    disk: String,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    size: Option<String>,
    config: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientText {
    fs: String,
    workload: Option<String>,
    trace: Option<String>,
    format: Option<String>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    pace: Pace,
}

fn one() -> u64 {
    1
}

/// Settings of a configuration that are parts of a server, with the place where they are set there.
const ELSEWHERE: &[(&str, &str)] = &[
    ("disk", "model of the disk"),
    ("queue", "queue of the disk"),
    ("command-us", "settings of the disk"),
    ("ncq", "settings of the disk"),
    ("drive-read-ahead", "settings of the disk"),
    ("report-early", "settings of the disk"),
    ("skews", "settings of the disk"),
    ("ssd", "settings of the disk"),
    ("bus", "kind of the bus"),
    ("bus-rate", "rate of the bus"),
    ("cpu", "cpu of the host"),
    ("cpus", "cpus of the host"),
    ("cache", "cache of the host"),
    ("nvram", "nvram of the host"),
    ("size", "size of the file system"),
    ("journal-disk", "disk alone: a server has no journals before its disks"),
    ("journal-size", "disk alone: a server has no journals before its disks"),
    ("front-end", "pace of the client: a server has no kernel in front of it"),
];

/// The settings of a disk.
const OF_DISK: &[&str] =
    &["command-us", "ncq", "drive-read-ahead", "report-early", "skews", "ssd", "size"];

/// The position of a name among the parts of a kind.
fn find<'a>(
    kind: &'static str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<usize, SettingsError> {
    let found = names.clone().position(|known| known == name);
    found.ok_or_else(|| SettingsError::unknown(kind, name, names))
}

impl ServerFile {
    /// Parses a server file.
    ///
    /// # Errors
    /// What is wrong, with its place.
    pub fn parse(text: &str) -> Result<ServerFile, SettingsError> {
        let text: Text =
            toml::from_str(text).map_err(|error| SettingsError::new(error.to_string()))?;
        let hosts = hosts(&text)?;
        let buses = buses(&text, &hosts)?;
        let disks = disks(&text, &hosts, &buses)?;
        let file_systems = file_systems(&text, &disks)?;
        let clients = clients(&text, &file_systems)?;
        let mut order = Choice::first(&order::REGISTRY);
        if let Some(name) = &text.order {
            order.choose(name)?;
        }
        let Text { about, assumed, seed, .. } = text;
        Ok(ServerFile { about, assumed, hosts, buses, disks, file_systems, clients, order, seed })
    }

    /// The number of a file system's host.
    pub(crate) fn host_of(&self, file_system: usize) -> usize {
        self.disks[self.file_systems[file_system].disk].host
    }
}

fn hosts(text: &Text) -> Result<Vec<Host>, SettingsError> {
    let host = |(name, host): (&String, &HostText)| {
        let place = format!("host.{name}");
        let default = Config::parse(LAYOUTS[0].name())?;
        let mut cpu = default.cpu;
        if let Some(name) = &host.cpu {
            cpu.choose(name).map_err(|error| error.within(&place))?;
        }
        let cache_bytes = bytes(&host.cache).map_err(|error| error.within(&place))?;
        if host.cpus == 0 || cache_bytes == 0 {
            return Err(SettingsError::new("a host has a processor and memory").within(&place));
        }
        let nvram = host.nvram.as_deref().map(bytes).transpose();
        let nvram_bytes = nvram.map_err(|error| error.within(&place))?;
        let nvram_bytes = nvram_bytes.unwrap_or(default.settings.nvram_bytes);
        Ok(Host { name: name.clone(), cpu, cpus: host.cpus, cache_bytes, nvram_bytes })
    };
    let hosts: Vec<Host> = text.host.iter().map(host).collect::<Result<_, _>>()?;
    match hosts.is_empty() {
        true => {
            Err(SettingsError::new("a server has a host: add a table [host.NAME] with its cache"))
        }
        false => Ok(hosts),
    }
}

/// The host of a part: the one that it names, or the only one.
fn host_of(name: Option<&str>, hosts: &[Host]) -> Result<usize, SettingsError> {
    match name {
        Some(name) => find("host", name, hosts.iter().map(|host| host.name.as_str())),
        None if hosts.len() == 1 => Ok(0),
        None => Err(SettingsError::new("there are several hosts: say which, as host = \"NAME\"")),
    }
}

fn buses(text: &Text, hosts: &[Host]) -> Result<Vec<BusPart>, SettingsError> {
    let bus = |(name, bus): (&String, &BusText)| {
        let made = || -> Result<BusPart, SettingsError> {
            let host = host_of(bus.host.as_deref(), hosts)?;
            let kind = Choice::named(&bus::REGISTRY, &bus.kind)?;
            let bytes_per_s = bus.rate.as_deref().map(bytes).transpose()?;
            if bytes_per_s == Some(0) {
                return Err(SettingsError::new("a bus moves at least a byte a second"));
            }
            Ok(BusPart { name: name.clone(), host, kind, bytes_per_s })
        };
        made().map_err(|error| error.within(&format!("bus.{name}")))
    };
    text.bus.iter().map(bus).collect()
}

fn disks(text: &Text, hosts: &[Host], buses: &[BusPart]) -> Result<Vec<Disk>, SettingsError> {
    let disk = |(name, disk): (&String, &DiskText)| {
        let made = || -> Result<Disk, SettingsError> {
            let names = buses.iter().map(|bus| bus.name.as_str());
            let bus = disk.bus.as_deref().map(|name| find("bus", name, names)).transpose()?;
            let host = match (bus, disk.host.as_deref()) {
                (Some(_), Some(_)) => {
                    return Err(SettingsError::new(
                        "a disk on a bus has the bus's host: leave host out",
                    ));
                }
                (Some(bus), None) => buses[bus].host,
                (None, host) => host_of(host, hosts)?,
            };
            for setting in grammar::settings(&disk.settings)? {
                if !OF_DISK.contains(&setting.key) {
                    let names = OF_DISK.iter().copied();
                    return Err(SettingsError::unknown("setting of a disk", setting.key, names));
                }
            }
            let queue = disk.queue.as_deref().unwrap_or(queue::REGISTRY.default_entry().name);
            let layout = LAYOUTS[0].name();
            let mut text = format!("{layout}:disk={},queue={queue},size=full", disk.model);
            if !disk.settings.is_empty() {
                text = format!("{text},{}", disk.settings);
            }
            Ok(Disk { name: name.clone(), host, bus, config: Config::parse(&text)? })
        };
        made().map_err(|error| error.within(&format!("disk.{name}")))
    };
    text.disk.iter().map(disk).collect()
}

fn file_systems(text: &Text, disks: &[Disk]) -> Result<Vec<FileSystemPart>, SettingsError> {
    let fs = |(name, fs): (&String, &FsText)| {
        let made = || -> Result<FileSystemPart, SettingsError> {
            let disk = find("disk", &fs.disk, disks.iter().map(|disk| disk.name.as_str()))?;
            let (_, settings) = fs.config.split_once(':').unwrap_or((&fs.config, ""));
            for setting in grammar::settings(settings)? {
                if let Some((key, place)) = ELSEWHERE.iter().find(|(key, _)| *key == setting.key) {
                    let what =
                        format!("{key} is no setting of a file system here: it is the {place}");
                    return Err(SettingsError::new(what));
                }
            }
            let size = fs.size.as_deref().map(bytes).transpose()?;
            let from = fs.from.as_deref().map(bytes).transpose()?;
            if from.is_some() && size.is_none() {
                return Err(SettingsError::new("from needs a size too"));
            }
            let config = Config::parse(&fs.config)?;
            let place = (from.unwrap_or(u64::MAX), size);
            Ok(FileSystemPart { name: name.clone(), disk, place, config })
        };
        made().map_err(|error| error.within(&format!("fs.{name}")))
    };
    let all: Vec<FileSystemPart> = text.fs.iter().map(fs).collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err(SettingsError::new("a server has a file system: add a table [fs.NAME]")),
        false => Ok(all),
    }
}

fn clients(text: &Text, file_systems: &[FileSystemPart]) -> Result<Vec<Client>, SettingsError> {
    let client = |(number, client): (usize, &ClientText)| {
        let made = || -> Result<Client, SettingsError> {
            let names = file_systems.iter().map(|fs| fs.name.as_str());
            let file_system = find("file system", &client.fs, names)?;
            let seed = client.seed.unwrap_or(text.seed + number as u64);
            let does = match (&client.workload, &client.trace) {
                (Some(workload), None) if client.format.is_none() => {
                    Does::Workload(workload.clone(), seed)
                }
                (None, Some(_)) if client.seed.is_some() => {
                    return Err(SettingsError::new("a trace has no seed: leave it out"));
                }
                (None, Some(trace)) => Does::Trace(trace.clone(), client.format.clone()),
                _ => {
                    let what = "a client has a workload, or a trace (perhaps with a format)";
                    return Err(SettingsError::new(what));
                }
            };
            Ok(Client { file_system, does, pace: client.pace })
        };
        made().map_err(|error| error.within(&format!("client {}", number + 1)))
    };
    let all: Vec<Client> = text.client.iter().enumerate().map(client).collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err(SettingsError::new("nobody uses the server: add a [[client]]")),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        [host.main]
        cache = "8M"
        [bus.scsi]
        kind = "scsi-2"
        [disk.a]
        bus = "scsi"
        model = "hp97560"
        [fs.home]
        disk = "a"
        config = "lfs"
        [[client]]
        fs = "home"
        workload = "zipf:writes=10"
    "#;

    #[test]
    fn a_small_server_parses() {
        let server = ServerFile::parse(SMALL).unwrap();
        assert_eq!(server.hosts[0].cache_bytes, 8 << 20);
        assert_eq!((server.disks[0].bus, server.disks[0].config.disk.name), (Some(0), "hp97560"));
        assert_eq!(server.clients[0].pace, Pace::Recorded);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (from, to, words) in [
            ("disk = \"a\"", "disk = \"b\"", "fs.home"),
            ("bus = \"scsi\"", "bus = \"scso\"", "did you mean \"scsi\"?"),
            ("hp97560", "hp97561", "did you mean \"hp97560\"?"),
            ("kind = \"scsi-2\"", "kind = \"scsi2\"", "bus.scsi"),
            ("\"lfs\"", "\"lfs:cache=4M\"", "cache of the host"),
            ("\"lfs\"", "\"lfs:nvram=4M\"", "nvram of the host"),
            ("cache = \"8M\"", "cache = \"8M\"\nnvram = \"8X\"", "host.main"),
            ("\"lfs\"", "\"lfs:queue=look\"", "queue of the disk"),
            ("\"lfs\"", "\"lfs:journal-disk=pmem\"", "no journals before its disks"),
            ("\"lfs\"", "\"lsf\"", "did you mean \"lfs\"?"),
            ("fs = \"home\"", "fs = \"hom\"", "client 1"),
            ("workload =", "work =", "unknown field"),
            ("cache = \"8M\"", "cache = \"8X\"", "host.main"),
            ("cache = \"8M\"", "cache = \"0\"", "memory"),
            ("model = \"hp97560\"", "model = \"hp97560\"\nsettings = \"cache=4M\"", "disk.a"),
            ("config = \"lfs\"", "config = \"lfs\"\nfrom = \"1M\"", "size"),
        ] {
            assert!(SMALL.contains(from), "{from}");
            let error = ServerFile::parse(&SMALL.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(words), "{to}: {error}");
        }
    }

    #[test]
    fn a_server_without_users_is_refused() {
        let without = SMALL.split("[[client]]").next().unwrap();
        assert!(ServerFile::parse(without).unwrap_err().to_string().contains("[[client]]"));
    }
}
