//! The states of a volume, changed and compared where the volume is: by a mount, or in an image that nobody uses.

use std::path::Path;
use std::rc::Rc;

use serde_json::Value;
use twin_fs::snapshots::{Difference, HeadChange, Keep, StateKind};
use twin_fs::{Cpu, FsError, LayoutKind, NO_SNAPSHOTS, Settings, SnapshotView, Volume};

use twin_host::{Count, Host, HostOptions, ImageOptions, Progress};

use crate::answers::Question;
use crate::client::{FrozenVolume, Hold, MountClient};
use crate::image::must_be_log;
use crate::media;
use crate::opening::{OpenOptions, Opened, device, open_with_note};
use crate::states::{states_as_json, why_not_deleted, why_not_head, why_not_kept};

/// Bytes of names that one question to a mount has at the most.
const NAMES_AT_A_TIME: usize = 2048;
/// The most memory that a mount takes to hold its state while states are read.
const HELD_MOST: u64 = 256 << 20;
/// Memory for blocks of each state that is read.
const CACHE_BYTES: u64 = 64 << 20;

/// The mount at a directory; `None` if it is an image.
///
/// # Errors
/// If no volume of ours is mounted at a directory, or it does not answer.
pub fn mount_at(volume: &Path) -> Result<Option<MountClient>, String> {
    if !volume.is_dir() {
        return Ok(None);
    }
    let mount = MountClient::at(volume)?;
    let nothing =
        || format!("{}: no volume of twinfs is mounted there: name its image", volume.display());
    mount.ok_or_else(nothing).map(Some)
}

/// A volume that keeps states, open to be read.
pub struct ReadVolume {
    /// Its host.
    pub host: Host,
    /// Its layout.
    pub kind: &'static dyn LayoutKind,
    /// The volume, of a mount as it was at one instant.
    pub volume: Volume,
    /// The hold on that instant.
    pub hold: Option<Hold>,
    /// The mount or the image, in words.
    name: String,
}

impl ReadVolume {
    /// Of a mount or an image.
    ///
    /// # Errors
    /// If it cannot be opened, or keeps no states.
    pub fn open(place: &Path, progress: &dyn Progress) -> Result<ReadVolume, String> {
        let name = place.display().to_string();
        let Some(mount) = mount_at(place)? else {
            let (kind, Opened { host, volume, .. }) = open(place, true, progress)?;
            return Ok(ReadVolume { host, kind, volume, hold: None, name });
        };
        let FrozenVolume { host, kind, device, hold, .. } = mount.freeze(HELD_MOST)?;
        let settings = Settings { read_only: true, ..Settings::default() };
        let config = kind.config();
        let opening = config.open(host.rt(), device, Cpu::none(), settings);
        let opened = host.rt().block_on(opening).map_err(|e| e.to_string())?;
        let volume = opened.map_err(|e| format!("{name}: {e}"))?.volume;
        Ok(ReadVolume { host, kind, volume, hold: Some(hold), name })
    }

    /// The states that are kept.
    ///
    /// # Errors
    /// If the layout keeps none.
    pub fn states(&self) -> Result<twin_fs::snapshots::States, String> {
        Ok(snapshots_of(&self.volume)?.states(self.volume.core()))
    }

    /// Opens one of the states.
    ///
    /// # Errors
    /// If there is none of that name, or it cannot be read.
    pub fn state(&self, name: &str) -> Result<Volume, String> {
        let opening = self.volume.open_state(name, CACHE_BYTES);
        let opened = self.host.rt().block_on(opening).map_err(|e| e.to_string())?;
        opened.map_err(|error| format!("{}: {}", self.name, why_not_head(name, &error)))
    }
}

/// Opens the volume in an image, which must keep states.
fn open(
    image: &Path,
    read_only: bool,
    progress: &dyn Progress,
) -> Result<(&'static dyn LayoutKind, Opened), String> {
    let kind = must_be_log(image, NO_SNAPSHOTS)?;
    let options = OpenOptions {
        image: ImageOptions { read_only, ..ImageOptions::default() },
        settings: Settings { read_only, ..Settings::default() },
        ..OpenOptions::of(kind)
    };
    Ok((kind, open_with_note(image, options, progress)?))
}

fn snapshots_of(volume: &Volume) -> Result<&dyn SnapshotView, String> {
    volume.layout().views().snapshots.ok_or_else(|| NO_SNAPSHOTS.to_owned())
}

/// Opens an image for writing, changes its states, and closes it. Gives how long the change took.
fn change(
    image: &Path,
    what: impl AsyncFnOnce(&dyn SnapshotView, &Volume) -> Result<(), FsError>,
    in_words: impl Fn(&FsError) -> String,
    progress: &dyn Progress,
) -> Result<u64, String> {
    let (_, Opened { host, volume, below, .. }) = open(image, false, progress)?;
    let snapshots = snapshots_of(&volume)?;
    let work = async {
        let begun = host.now();
        let changed = what(snapshots, &volume).await;
        let took_ns = host.now().since(begun);
        volume.close().await.map_err(|error| error.to_string())?;
        changed.map(|()| took_ns).map_err(|error| in_words(&error))
    };
    let done = host.rt().block_on(work).map_err(|e| e.to_string())?;
    media::end(&host, below.close)?;
    done.map_err(|why| format!("{}: {why}", image.display()))
}

/// Keeps a state of the volume under a name, and gives how many nanoseconds that took.
///
/// # Errors
/// If it was not kept.
pub fn keep(
    volume: &Path,
    name: &str,
    what: &Keep,
    progress: &dyn Progress,
) -> Result<u64, String> {
    let Some(mount) = mount_at(volume)? else {
        let kept = async |snapshots: &dyn SnapshotView, volume: &Volume| {
            snapshots.keep(volume.core(), name, what.clone()).await
        };
        return change(volume, kept, |error| why_not_kept(name, error), progress);
    };
    mount.hand_over()?;
    let (is_branch, from) = match what {
        Keep::Snapshot => (false, None),
        Keep::Branch => (true, None),
        Keep::BranchOf(from) => (true, Some(from.clone())),
    };
    let (answer, _) = mount.ask(Question::KeepState { name: name.into(), is_branch, from })?;
    Ok(answer["took_ns"].as_u64().unwrap_or_default())
}

/// The states of a volume, as [`states_as_json`] has them.
///
/// # Errors
/// If it keeps none, or cannot be read.
pub fn list(volume: &Path, progress: &dyn Progress) -> Result<Value, String> {
    if let Some(mount) = mount_at(volume)? {
        return Ok(mount.ask(Question::States)?.0);
    }
    let (_, Opened { volume, .. }) = open(volume, true, progress)?;
    Ok(states_as_json(&snapshots_of(&volume)?.states(volume.core())))
}

/// Deletes states.
///
/// # Errors
/// If they were not deleted; of many names some may be.
pub fn delete(volume: &Path, names: &[String], progress: &dyn Progress) -> Result<(), String> {
    let Some(mount) = mount_at(volume)? else {
        let deleted = async |snapshots: &dyn SnapshotView, volume: &Volume| {
            snapshots.delete(volume.core(), names).await
        };
        return change(volume, deleted, |error| why_not_deleted(names, error), progress).map(drop);
    };
    for names in in_parts(names) {
        mount.ask(Question::DeleteStates { names })?;
    }
    Ok(())
}

/// The names in parts that fit into a question.
fn in_parts(names: &[String]) -> Vec<Vec<String>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for name in names {
        bytes += name.len() + 4;
        if bytes > NAMES_AT_A_TIME {
            parts.push(Vec::new());
            bytes = name.len() + 4;
        }
        if let Some(part) = parts.last_mut() {
            part.push(name.clone());
        }
    }
    parts
}

/// Makes another state the head of the volume in an image; `name` is that of the state.
///
/// # Errors
/// If the volume is mounted, or the head was not changed.
pub fn set_head(image: &Path, name: &str, change: &HeadChange) -> Result<(), String> {
    if image.is_dir() {
        let dir = image.display();
        return Err(format!(
            "{dir}: the head is changed while nobody uses it: unmount it, and name its image"
        ));
    }
    let kind = must_be_log(image, NO_SNAPSHOTS)?;
    let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
    let (device, _) = device(&host, image, kind, &ImageOptions::default())?;
    let changing = kind.set_head(host.rt(), Rc::new(device), change);
    let done = host.rt().block_on(changing).map_err(|e| e.to_string())?;
    done.map_err(|error| format!("{}: {}", image.display(), why_not_head(name, &error)))
}

/// What differs between two states, the second the head unless it is named.
///
/// # Errors
/// If there is no such state, or one of them cannot be read.
pub fn differences(
    place: &Path,
    from: &str,
    to: Option<&str>,
    progress: &dyn Progress,
) -> Result<Vec<Difference>, String> {
    let of = ReadVolume::open(place, progress)?;
    let states = of.states()?.states;
    let head = states.iter().find(|state| state.kind == StateKind::Head);
    let head = head.map_or("", |head| head.name.as_str());
    let state = |name: &str| match name == head {
        true => Ok(of.volume.clone()),
        false => of.state(name),
    };
    let (from, to) = (state(from)?, state(to.unwrap_or(head))?);
    let _comparing = progress.begin("states are compared", Count::Time);
    let comparing = of.kind.differences(&from, &to);
    let found = of.host.rt().block_on(comparing).map_err(|e| e.to_string())?;
    found.map_err(|error| format!("{}: {error}", place.display()))
}
