//! The history of a run: what was done to the files of a volume, in order, with all contents.
//!
//! Contract: an event stands where its operation had taken effect, before its answer went out. A sync says
//! how many events had happened when it began: only those it makes durable. A mark of an acknowledgement stands
//! after every operation that had been answered before, and before every one that began later. Inodes have
//! numbers of their own, each used once.

use std::sync::Arc;

use twin_fs::mode;

use crate::tree::{DEVICE, Effect, Id, Meta, Name, Tree};

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A new inode got its first name.
    Make {
        /// The directory.
        dir: Id,
        /// The name in it.
        name: Name,
        /// The new inode.
        id: Id,
        /// What it is.
        meta: Meta,
        /// The target of a symbolic link.
        target: Option<Box<[u8]>>,
    },
    /// An inode got another name.
    Link {
        /// The directory.
        dir: Id,
        /// The name in it.
        name: Name,
        /// The inode.
        id: Id,
    },
    /// A name was removed.
    Remove {
        /// The directory.
        dir: Id,
        /// The name in it.
        name: Name,
        /// The inode to which it led.
        id: Id,
    },
    /// A name was moved.
    Rename {
        /// The old directory.
        dir: Id,
        /// The old name.
        name: Name,
        /// The new directory.
        to_dir: Id,
        /// The new name.
        to_name: Name,
        /// The inode.
        id: Id,
        /// The inode that lost the new name, or got the old one.
        replaced: Option<Id>,
        /// The two names changed places.
        exchange: bool,
    },
    /// Bytes were written.
    Write {
        /// The file.
        id: Id,
        /// Where.
        off: u64,
        /// What.
        bytes: Arc<[u8]>,
        /// The length of the file before.
        was: u64,
    },
    /// The length was set.
    Resize {
        /// The file.
        id: Id,
        /// The new length.
        size: u64,
        /// The length before.
        was: u64,
    },
    /// Room was reserved, and the file perhaps became longer.
    Allocate {
        /// The file.
        id: Id,
        /// The length then.
        size: u64,
        /// The length before.
        was: u64,
    },
    /// A range became zeros.
    Zero {
        /// The file.
        id: Id,
        /// Its first byte.
        off: u64,
        /// Bytes.
        len: u64,
        /// The length of the file then, if it became longer.
        size: u64,
    },
    /// Permissions or owners changed.
    Attr {
        /// The inode.
        id: Id,
        /// The new permission bits.
        mode: Option<u32>,
        /// The new owner.
        uid: Option<u32>,
        /// The new group.
        gid: Option<u32>,
    },
    /// An extended attribute was set or removed.
    Xattr {
        /// The inode.
        id: Id,
        /// The attribute.
        name: Name,
        /// Its value.
        value: Option<Box<[u8]>>,
    },
    /// An inode was made durable.
    Fsync {
        /// The inode.
        id: Id,
        /// Without times: fdatasync.
        data_only: bool,
        /// The number of events before it began.
        since: usize,
    },
    /// All was made durable.
    Sync {
        /// The number of events before it began.
        since: usize,
    },
    /// A file was closed by one of those who had it open.
    Close {
        /// The file.
        id: Id,
    },
    /// The program succeeded.
    Exit,
    /// The program said what it has promised.
    Ack {
        /// In its words.
        label: String,
    },
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What happened.
    pub what: What,
    /// The path of the inode, then; after a rename the new one.
    pub path: String,
}

/// What was done to the files of a volume.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What was there at its beginning, all of it durable.
    pub base: Tree,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// What was acknowledged before its beginning, if it is that of a recovery, which acknowledges nothing itself.
    pub promised: Option<Vec<String>>,
}

impl What {
    /// The inode that it is about.
    pub fn id(&self) -> Option<Id> {
        match self {
            What::Make { id, .. }
            | What::Link { id, .. }
            | What::Remove { id, .. }
            | What::Rename { id, .. }
            | What::Write { id, .. }
            | What::Resize { id, .. }
            | What::Allocate { id, .. }
            | What::Zero { id, .. }
            | What::Attr { id, .. }
            | What::Xattr { id, .. }
            | What::Fsync { id, .. }
            | What::Close { id } => Some(*id),
            What::Sync { .. } | What::Exit | What::Ack { .. } => None,
        }
    }

    /// True for an fsync or a sync.
    pub fn is_sync(&self) -> bool {
        matches!(self, What::Fsync { .. } | What::Sync { .. })
    }

    /// What it changes, all of it.
    pub fn effects(&self) -> Vec<Effect> {
        match self.clone() {
            What::Make { dir, name, id, meta, target } => {
                vec![Effect::Make { id, meta, target }, Effect::Name { dir, name, id: Some(id) }]
            }
            What::Link { dir, name, id } => vec![Effect::Name { dir, name, id: Some(id) }],
            What::Remove { dir, name, .. } => vec![Effect::Name { dir, name, id: None }],
            What::Rename { dir, name, to_dir, to_name, id, replaced, exchange } => {
                let old = if exchange { replaced } else { None };
                vec![
                    Effect::Name { dir, name, id: old },
                    Effect::Name { dir: to_dir, name: to_name, id: Some(id) },
                ]
            }
            What::Write { id, off, bytes, .. } => {
                let part = (0, bytes.len());
                vec![Effect::Data { id, off, bytes, part, extends: true }]
            }
            What::Resize { id, size, .. } => vec![Effect::Size { id, size, grows: false }],
            What::Allocate { id, size, .. } => vec![Effect::Size { id, size, grows: true }],
            What::Zero { id, off, len, size } => {
                vec![Effect::Zero { id, off, len }, Effect::Size { id, size, grows: true }]
            }
            What::Attr { id, mode, uid, gid } => vec![Effect::Attr { id, mode, uid, gid }],
            What::Xattr { id, name, value } => vec![Effect::Xattr { id, name, value }],
            What::Fsync { .. }
            | What::Sync { .. }
            | What::Close { .. }
            | What::Exit
            | What::Ack { .. } => Vec::new(),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Event {
    /// The event in words, as a system call with the path of its file.
    pub fn words(&self) -> String {
        let path = &self.path;
        match &self.what {
            What::Write { id: DEVICE, off, bytes, .. } => {
                format!("device: write {} bytes at {off}", bytes.len())
            }
            What::Fsync { id: DEVICE, .. } => "device: flush".into(),
            What::Make { meta, .. } => match meta.mode & mode::TYPE {
                mode::DIRECTORY => format!("mkdir {path}"),
                mode::SYMLINK => format!("symlink {path}"),
                mode::REGULAR => format!("create {path}"),
                _ => format!("mknod {path}"),
            },
            What::Link { .. } => format!("link {path}"),
            What::Remove { .. } => format!("unlink {path}"),
            What::Rename { name, exchange: true, .. } => {
                format!("exchange {} with {path}", text(name))
            }
            What::Rename { name, replaced, .. } => {
                let over = if replaced.is_some() { ", which existed" } else { "" };
                format!("rename {} to {path}{over}", text(name))
            }
            What::Write { off, bytes, was, .. } => {
                let how = if *off == *was { "append" } else { "write" };
                format!("{how} {path}: {} bytes at {off}", bytes.len())
            }
            What::Resize { size, was, .. } => format!("truncate {path}: {was} to {size} bytes"),
            What::Allocate { size, .. } => format!("fallocate {path}: {size} bytes"),
            What::Zero { off, len, .. } => format!("zero {path}: {len} bytes at {off}"),
            What::Attr { .. } => format!("set attributes of {path}"),
            What::Xattr { name, .. } => format!("set xattr {} of {path}", text(name)),
            What::Fsync { data_only: false, .. } => format!("fsync {path}"),
            What::Fsync { data_only: true, .. } => format!("fdatasync {path}"),
            What::Sync { .. } => "sync of everything".into(),
            What::Close { .. } => format!("close {path}"),
            What::Exit => "exit 0".into(),
            What::Ack { label } => format!("ack {label}"),
        }
    }
}

impl History {
    /// The tree after all events.
    pub fn last(&self) -> Tree {
        let mut tree = self.base.clone();
        self.events
            .iter()
            .flat_map(|event| event.what.effects())
            .for_each(|effect| tree.apply(&effect));
        tree
    }

    /// The path that an inode had last.
    pub fn last_path(&self, id: Id) -> &str {
        let named = |event: &&Event| {
            event.what.id() == Some(id)
                && matches!(event.what, What::Make { .. } | What::Link { .. } | What::Rename { .. })
        };
        self.events.iter().rfind(named).map_or("", |event| &event.path)
    }

    /// True if the program acknowledged something by itself.
    pub fn has_acks(&self) -> bool {
        self.events.iter().any(|event| matches!(event.what, What::Ack { .. }))
    }

    /// The history until the power fails: at a number of operations, at the `fsync` of a number, or at the `end`.
    ///
    /// # Errors
    /// If the text names no moment of it.
    pub fn until(&self, moment: &str) -> Result<History, String> {
        let words: Vec<&str> = moment.split_whitespace().collect();
        let number = |word: &str| word.parse::<usize>().map_err(|_| format!("{word}: no number"));
        let operations =
            |what: &What| !matches!(what, What::Ack { .. } | What::Close { .. } | What::Exit);
        let nth = |n: usize, of: &dyn Fn(&What) -> bool| {
            let mut found = self.events.iter().enumerate().filter(|(_, event)| of(&event.what));
            let all = self.events.iter().filter(|event| of(&event.what)).count();
            let found = found.nth(n).map(|(index, _)| index);
            found.ok_or_else(|| format!("{moment}: the run has {all}"))
        };
        let end = match words[..] {
            ["end"] => self.events.len(),
            ["fsync", n] => nth(number(n)?.saturating_sub(1), &What::is_sync)?,
            [n] if number(n)?
                == self.events.iter().filter(|event| operations(&event.what)).count() =>
            {
                self.events.len()
            }
            [n] => nth(number(n)?, &operations)?,
            _ => {
                return Err(format!(
                    "{moment}: a moment is a number, `fsync` and a number, or `end`"
                ));
            }
        };
        Ok(History { events: self.events[..end].to_vec(), ..self.clone() })
    }

    /// The labels that hold before the event of this number. Of a program that acknowledges nothing these are its
    /// syncs and its exit.
    pub fn acked(&self, before: usize) -> Vec<String> {
        if let Some(promised) = &self.promised {
            return promised.clone();
        }
        let own = self.has_acks();
        let mut labels = Vec::new();
        let mut syncs = 0;
        for event in &self.events[..before.min(self.events.len())] {
            match &event.what {
                What::Ack { label } => labels.push(label.clone()),
                What::Exit if !own => labels.push("exit 0".into()),
                what if !own && what.is_sync() && what.id() != Some(DEVICE) => {
                    syncs += 1;
                    labels.push(format!("fsync {syncs} {}", event.path));
                }
                _ => {}
            }
        }
        labels
    }
}
