//! Processes of a trace, their open files and working directories.
//!
//! Contract: a descriptor belongs to a table of a process, which threads share and which a fork copies;
//! descriptors that were copied share the place in the file. A file is released when the last
//! descriptor for it is gone.

use std::collections::{BTreeMap, BTreeSet};

use twin_fs::Ino;

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub(super) ino: Ino,
    /// Where the next read or write without a place begins.
    pub(super) at: u64,
    /// Writes go to the end.
    pub(super) appends: bool,
    /// The number of descriptors.
    descriptors: u64,
}

struct Process {
    table: usize,
    cwd: Option<Vec<u8>>,
}

/// All processes.
#[derive(Default)]
pub(super) struct Processes {
    processes: BTreeMap<u32, Process>,
    /// The open file of each descriptor.
    tables: Vec<BTreeMap<i64, usize>>,
    files: Vec<OpenFile>,
    ended: BTreeSet<u32>,
}

impl Processes {
    /// Makes a process that is not known: a child of `parent` as that is now, or one that has nothing
    /// open. A thread shares the descriptors of its parent.
    pub(super) fn make(&mut self, pid: u32, parent: Option<u32>, is_thread: bool) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let cwd = parent.and_then(|parent| parent.cwd.clone());
        let table = match parent {
            Some(parent) if is_thread => parent.table,
            _ => {
                let copy = parent.map(|parent| self.tables[parent.table].clone());
                let copy = copy.unwrap_or_default();
                copy.values().for_each(|&file| self.files[file].descriptors += 1);
                self.tables.push(copy);
                self.tables.len() - 1
            }
        };
        self.processes.insert(pid, Process { table, cwd });
    }

    /// True if a process ended and did nothing afterwards.
    pub(super) fn has_ended(&self, pid: u32) -> bool {
        self.ended.contains(&pid) && !self.processes.contains_key(&pid)
    }

    pub(super) fn cwd(&self, pid: u32) -> Option<&[u8]> {
        self.processes.get(&pid)?.cwd.as_deref()
    }

    pub(super) fn set_cwd(&mut self, pid: u32, path: &[u8]) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.cwd = Some(path.to_owned());
        }
    }

    fn table(&mut self, pid: u32) -> Option<&mut BTreeMap<i64, usize>> {
        let table = self.processes.get(&pid)?.table;
        Some(&mut self.tables[table])
    }

    /// The open file of a descriptor.
    pub(super) fn file(&mut self, pid: u32, fd: i64) -> Option<&mut OpenFile> {
        let file = *self.table(pid)?.get(&fd)?;
        Some(&mut self.files[file])
    }

    /// Gives a descriptor to a file that was opened. Returns the file that is released by this.
    pub(super) fn opened(&mut self, pid: u32, fd: i64, ino: Ino, appends: bool) -> Option<Ino> {
        self.files.push(OpenFile { ino, at: 0, appends, descriptors: 1 });
        let file = self.files.len() - 1;
        let old = self.table(pid)?.insert(fd, file)?;
        self.lose(old)
    }

    /// Copies a descriptor. Returns the file that is released by this.
    pub(super) fn copied(&mut self, pid: u32, from: i64, to: i64) -> Option<Ino> {
        if from == to {
            return None;
        }
        let Some(file) = self.table(pid)?.get(&from).copied() else {
            return self.closed(pid, to);
        };
        self.files[file].descriptors += 1;
        let old = self.table(pid)?.insert(to, file)?;
        self.lose(old)
    }

    /// Closes a descriptor. Returns the file that is released by this.
    pub(super) fn closed(&mut self, pid: u32, fd: i64) -> Option<Ino> {
        let file = self.table(pid)?.remove(&fd)?;
        self.lose(file)
    }

    /// Ends a process. Returns the files that are released by this.
    pub(super) fn exit(&mut self, pid: u32) -> Vec<Ino> {
        self.ended.insert(pid);
        let Some(process) = self.processes.remove(&pid) else { return Vec::new() };
        if self.processes.values().any(|other| other.table == process.table) {
            return Vec::new();
        }
        let table = std::mem::take(&mut self.tables[process.table]);
        table.into_values().filter_map(|file| self.lose(file)).collect()
    }

    fn lose(&mut self, file: usize) -> Option<Ino> {
        let file = &mut self.files[file];
        file.descriptors -= 1;
        (file.descriptors == 0).then_some(file.ino)
    }
}
