//! Questions to a mount, from another process.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;
use twin_disk::{Block, BlockDevice, Bytes, OldContent};
use twin_fs::LayoutKind;
use twin_host::channel::Asking;
use twin_host::fuse::{UnmountError, daemon_usage, hand_over};
use twin_host::{Host, HostOptions, ImageOptions};
use twin_lab::layouts::layout;

use crate::answers::{OLD_MOST, Question};
use crate::opening;

/// A mount that answers.
pub struct MountClient {
    dir: PathBuf,
    asking: Asking,
}

/// The hold on the state of an instant.
pub struct Hold(Rc<RefCell<Option<MountClient>>>);

impl Hold {
    /// Ends the hold, while the device goes on to be read: what is read from now on is what is there then. That is right for
    /// whoever reads only what is not overwritten, as the blocks of a state that is kept.
    pub fn let_go(self) {
        self.0.take();
    }
}

/// The device of a mount as it was at one instant.
pub struct FrozenVolume {
    /// The runtime on which the device is read.
    pub host: Host,
    /// The layout of the volume.
    pub kind: &'static dyn LayoutKind,
    /// The device with the content of that instant.
    pub device: Rc<dyn BlockDevice>,
    /// The hold, which lasts as long as the device unless it is let go.
    pub hold: Hold,
    /// For how long operations had to wait.
    pub held_ns: u64,
    /// The mount's memory for blocks, in bytes.
    pub cache_bytes: u64,
    /// What it records, and the number of requests in it until then.
    pub recorded: Option<(PathBuf, u64)>,
}

impl MountClient {
    /// The mount at a directory; `None` if none of ours is there.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn at(dir: &Path) -> Result<Option<MountClient>, String> {
        let in_dir = |why: &dyn std::fmt::Display| format!("{}: {why}", dir.display());
        let pid = match daemon_usage(dir) {
            Ok(usage) => usage.pid,
            Err(UnmountError::NotMounted(_)) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let asking = Asking::connect(pid).map_err(|error| {
            in_dir(&format!("process {pid}, which has mounted it, cannot be asked: {error}"))
        })?;
        Ok(Some(MountClient { dir: dir.to_owned(), asking }))
    }

    /// Asks, and returns the answer and the bytes with it.
    ///
    /// # Errors
    /// What the mount says, or that it does not answer.
    pub fn ask(&self, question: Question) -> Result<(Value, Vec<u8>), String> {
        let in_dir = |why: &dyn std::fmt::Display| format!("{}: {why}", self.dir.display());
        let text = serde_json::to_vec(&question).map_err(|error| in_dir(&error))?;
        let answer = self.asking.ask(&text).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => {
                in_dir(&"the mount does not answer: only its user and root may ask, 8 at a time")
            }
            _ => in_dir(&error),
        })?;
        let end = answer.iter().position(|&byte| byte == b'\n').unwrap_or(answer.len());
        let value: Value = serde_json::from_slice(&answer[..end])
            .map_err(|error| in_dir(&format!("the mount's answer has no sense: {error}")))?;
        match value["error"].as_str() {
            Some(why) => Err(in_dir(&why)),
            None => Ok((value, answer.get(end + 1..).unwrap_or_default().to_vec())),
        }
    }

    /// Has the kernel pass on what it has collected for the mount.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn hand_over(&self) -> Result<(), String> {
        let in_dir = |e: std::io::Error| format!("{}: {e}", self.dir.display());
        let root = std::fs::File::open(&self.dir).map_err(in_dir)?;
        hand_over(&root).map_err(in_dir)
    }

    /// Has the mount hold the state of an instant, for as long as the device that is returned exists.
    /// What programs have written to the mount until now is in it.
    ///
    /// # Errors
    /// If the mount refuses, or its image cannot be read.
    pub fn freeze(self, keep_bytes: u64) -> Result<FrozenVolume, String> {
        self.hand_over()?;
        let (answer, _) = self.ask(Question::Freeze { keep_bytes })?;
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        let kind = layout(text("layout")).map_err(|error| error.to_string())?;
        let host = Host::start(HostOptions::default()).map_err(|e| e.to_string())?;
        let options = ImageOptions { read_only: true, beside: true, ..ImageOptions::default() };
        let (now, _) = opening::device(&host, Path::new(text("image")), kind, &options)?;
        let holder = Rc::new(RefCell::new(Some(self)));
        let hold = Hold(Rc::clone(&holder));
        let old = move |at: u64, len: u64| match &*holder.borrow() {
            Some(holder) => holder.old(at, len),
            None => Ok(Vec::new()),
        };
        let device = Rc::new(OldContent::new(host.rt(), Rc::new(now), old));
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let recorded = answer["recorded"]["path"].as_str().map(PathBuf::from);
        Ok(FrozenVolume {
            host,
            kind,
            device,
            hold,
            held_ns: number(&answer["held_ns"]),
            cache_bytes: number(&answer["cache_bytes"]),
            recorded: recorded.map(|path| (path, number(&answer["recorded"]["requests"]))),
        })
    }

    /// What has been overwritten of a range.
    fn old(&self, mut at: u64, mut len: u64) -> Result<Vec<(u64, Block)>, String> {
        let mut pieces: Vec<(u64, Block)> = Vec::new();
        while len > 0 {
            let part = len.min(OLD_MOST);
            let (answer, bytes) = self.ask(Question::Old { at, len: part })?;
            let places: Vec<(u64, usize)> = serde_json::from_value(answer["pieces"].clone())
                .map_err(|error| format!("the mount's answer has no sense: {error}"))?;
            let mut from = 0;
            for (place, len) in places {
                let piece = bytes.get(from..from + len).ok_or("the mount's answer is cut off")?;
                from += len;
                // Of a grain that two questions meet in, once is enough.
                if pieces.last().is_none_or(|(last, _)| *last < place) {
                    pieces.push((place, Block::Bytes(Bytes::copy_of(piece))));
                }
            }
            (at, len) = (at + part, len - part);
        }
        Ok(pieces)
    }
}
