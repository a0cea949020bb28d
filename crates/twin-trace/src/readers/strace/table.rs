//! Processes of a trace, their open files and working directories.
//!
//! Contract: a descriptor belongs to a table of a process, which `CLONE_FILES` shares and a fork copies;
//! descriptors that were copied share the place in the file. A working directory is shared by `CLONE_FS`.
//! An execution closes what is to be closed then. A file is released when the last descriptor for it is
//! gone. Memory is that of the processes and descriptors that there are at a time.

use std::collections::BTreeMap;

use twin_fs::Ino;

/// A file that processes have open, perhaps by several descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub(super) ino: Ino,
    /// The offset of the next read or write without an offset of its own; `None` if it is not
    /// known.
    pub(super) at: Option<u64>,
    /// Writes go to the end.
    pub(super) appends: bool,
    /// The open file has an open of its own to release.
    pub(super) is_open: bool,
    /// The latest path that was shown for it, as a hash.
    pub(super) path: u64,
    /// The number of descriptors.
    pub(super) descriptors: u64,
}

impl OpenFile {
    /// A file that was opened at its start.
    pub(super) fn new(ino: Ino, appends: bool) -> OpenFile {
        OpenFile { ino, at: Some(0), appends, is_open: true, path: 0, descriptors: 0 }
    }
}

/// The purpose of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    File(usize),
    /// No file: a pipe, a socket, a device.
    Other,
}

#[derive(Clone, Copy)]
struct Descriptor {
    slot: Slot,
    closes_on_exec: bool,
}

#[derive(Default)]
struct Table {
    descriptors: BTreeMap<i64, Descriptor>,
    processes: u64,
}

struct Process {
    table: usize,
    cwd: usize,
}

/// A working directory: an inode, or a path that the text tells, which is followed when it is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Cwd {
    #[default]
    Unknown,
    At(Ino),
    Path(Vec<u8>),
}

/// The tables that a call shares with the process that it makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) files: bool,
    pub(super) cwd: bool,
}

/// The processes of the trace, with their descriptors and directories.
#[derive(Default)]
pub(super) struct Processes {
    processes: BTreeMap<u32, Process>,
    tables: Slab<Table>,
    files: Slab<Option<OpenFile>>,
    /// Working directories, each with the number of processes that share it.
    cwds: Slab<(Cwd, u64)>,
}

/// Values at places that are used again.
#[derive(Default)]
struct Slab<T> {
    values: Vec<T>,
    free: Vec<usize>,
}

impl<T: Default> Slab<T> {
    fn put(&mut self, value: T) -> usize {
        match self.free.pop() {
            Some(at) => {
                self.values[at] = value;
                at
            }
            None => {
                self.values.push(value);
                self.values.len() - 1
            }
        }
    }

    fn take(&mut self, at: usize) -> T {
        self.free.push(at);
        std::mem::take(&mut self.values[at])
    }
}

impl Processes {
    /// Makes a process that is not known: a child of `parent` as that is now, or one that has nothing
    /// open.
    pub(super) fn make(&mut self, pid: u32, parent: Option<u32>, shared: Shared) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let parent = parent.and_then(|parent| self.processes.get(&parent));
        let (table, cwd) = match parent {
            None => (None, None),
            Some(&Process { table, cwd }) => (Some(table), Some(cwd)),
        };
        let table = match table {
            Some(table) if shared.files => table,
            _ => {
                let copy = table.map(|table| self.tables.values[table].descriptors.clone());
                self.new_table(copy.unwrap_or_default())
            }
        };
        self.tables.values[table].processes += 1;
        let cwd = match cwd {
            Some(cwd) if shared.cwd => cwd,
            _ => {
                let place = cwd.map(|cwd| self.cwds.values[cwd].0.clone()).unwrap_or_default();
                self.cwds.put((place, 0))
            }
        };
        self.cwds.values[cwd].1 += 1;
        self.processes.insert(pid, Process { table, cwd });
    }

    fn new_table(&mut self, descriptors: BTreeMap<i64, Descriptor>) -> usize {
        for descriptor in descriptors.values() {
            if let Slot::File(file) = descriptor.slot
                && let Some(file) = &mut self.files.values[file]
            {
                file.descriptors += 1;
            }
        }
        self.tables.put(Table { descriptors, processes: 0 })
    }

    pub(super) fn is_alive(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// The one process that there is.
    pub(super) fn only(&self) -> Option<u32> {
        let mut pids = self.processes.keys();
        pids.next().copied().filter(|_| pids.next().is_none())
    }

    pub(super) fn cwd(&self, pid: u32) -> &Cwd {
        self.processes.get(&pid).map_or(&Cwd::Unknown, |process| &self.cwds.values[process.cwd].0)
    }

    pub(super) fn set_cwd(&mut self, pid: u32, cwd: Cwd) {
        if let Some(process) = self.processes.get(&pid) {
            self.cwds.values[process.cwd].0 = cwd;
        }
    }

    fn table(&mut self, pid: u32) -> Option<&mut BTreeMap<i64, Descriptor>> {
        let table = self.processes.get(&pid)?.table;
        Some(&mut self.tables.values[table].descriptors)
    }

    /// The purpose of a descriptor; `None` if it is not known.
    pub(super) fn slot(&mut self, pid: u32, fd: i64) -> Option<Slot> {
        Some(self.table(pid)?.get(&fd)?.slot)
    }

    /// The open file with this number.
    pub(super) fn file(&mut self, file: usize) -> Option<&mut OpenFile> {
        self.files.values.get_mut(file)?.as_mut()
    }

    /// Gives a descriptor to a file that was opened. Returns the file that is released by this.
    pub(super) fn opened(
        &mut self,
        pid: u32,
        fd: i64,
        file: OpenFile,
        on_exec: bool,
    ) -> Option<Ino> {
        let file = self.files.put(Some(OpenFile { descriptors: 1, ..file }));
        self.set(pid, fd, Slot::File(file), on_exec)
    }

    /// Gives a descriptor to what is no file. Returns the file that is released by this.
    pub(super) fn opened_other(&mut self, pid: u32, fd: i64, on_exec: bool) -> Option<Ino> {
        self.set(pid, fd, Slot::Other, on_exec)
    }

    fn set(&mut self, pid: u32, fd: i64, slot: Slot, closes_on_exec: bool) -> Option<Ino> {
        let old = self.table(pid)?.insert(fd, Descriptor { slot, closes_on_exec })?;
        self.lose(old.slot)
    }

    /// Copies a descriptor. Returns the file that is released by this.
    pub(super) fn copied(&mut self, pid: u32, from: i64, to: i64, on_exec: bool) -> Option<Ino> {
        if from == to {
            return None;
        }
        let Some(slot) = self.slot(pid, from) else { return self.closed(pid, to) };
        if let Slot::File(file) = slot
            && let Some(file) = self.file(file)
        {
            file.descriptors += 1;
        }
        self.set(pid, to, slot, on_exec)
    }

    /// Whether an execution closes a descriptor.
    pub(super) fn set_on_exec(&mut self, pid: u32, fd: i64, closes: bool) {
        if let Some(descriptor) = self.table(pid).and_then(|table| table.get_mut(&fd)) {
            descriptor.closes_on_exec = closes;
        }
    }

    /// Closes a descriptor. Returns the file that is released by this.
    pub(super) fn closed(&mut self, pid: u32, fd: i64) -> Option<Ino> {
        let old = self.table(pid)?.remove(&fd)?;
        self.lose(old.slot)
    }

    /// The descriptors in a range.
    pub(super) fn between(&mut self, pid: u32, from: i64, to: i64) -> Vec<i64> {
        if from > to {
            return Vec::new();
        }
        self.table(pid)
            .map(|table| table.range(from..=to).map(|(fd, _)| *fd).collect())
            .unwrap_or_default()
    }

    /// A process executes a program. Returns the files that are released by this.
    pub(super) fn executed(&mut self, pid: u32) -> Vec<Ino> {
        self.unshare_files(pid);
        let Some(table) = self.table(pid) else { return Vec::new() };
        let closing: Vec<i64> =
            table.iter().filter(|(_, of)| of.closes_on_exec).map(|(fd, _)| *fd).collect();
        closing.into_iter().filter_map(|fd| self.closed(pid, fd)).collect()
    }

    /// A process gets a table of its own.
    pub(super) fn unshare_files(&mut self, pid: u32) {
        let Some(&Process { table, .. }) = self.processes.get(&pid) else { return };
        if self.tables.values[table].processes < 2 {
            return;
        }
        let own = self.new_table(self.tables.values[table].descriptors.clone());
        self.tables.values[table].processes -= 1;
        self.tables.values[own].processes = 1;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.table = own;
        }
    }

    /// Ends a process. Returns the files that are released by this.
    pub(super) fn exit(&mut self, pid: u32) -> Vec<Ino> {
        let Some(Process { table, cwd }) = self.processes.remove(&pid) else { return Vec::new() };
        let left = &mut self.cwds.values[cwd].1;
        *left -= 1;
        if *left == 0 {
            self.cwds.take(cwd);
        }
        let left = &mut self.tables.values[table].processes;
        *left -= 1;
        if *left > 0 {
            return Vec::new();
        }
        let table = self.tables.take(table);
        table.descriptors.into_values().filter_map(|of| self.lose(of.slot)).collect()
    }

    fn lose(&mut self, slot: Slot) -> Option<Ino> {
        let Slot::File(at) = slot else { return None };
        let file = self.file(at)?;
        file.descriptors -= 1;
        if file.descriptors > 0 {
            return None;
        }
        let file = self.files.take(at)?;
        file.is_open.then_some(file.ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_closes_what_is_to_be_closed_then() {
        let mut all = Processes::default();
        all.make(1, None, Shared::default());
        all.opened(1, 3, OpenFile::new(7, false), true);
        all.opened(1, 4, OpenFile::new(8, false), false);
        assert_eq!(all.executed(1), [7]);
        assert_eq!((all.slot(1, 3), all.slot(1, 4).is_some()), (None, true));
    }

    #[test]
    fn a_copy_of_a_table_holds_its_files_open() {
        let mut all = Processes::default();
        all.make(1, None, Shared::default());
        all.opened(1, 3, OpenFile::new(7, false), false);
        all.make(2, Some(1), Shared::default());
        all.make(3, Some(1), Shared { files: true, cwd: true });
        assert_eq!((all.closed(3, 3), all.slot(1, 3)), (None, None));
        assert_eq!(all.exit(2), [7]);
    }

    #[test]
    fn places_of_files_that_were_closed_are_used_again() {
        let mut all = Processes::default();
        all.make(1, None, Shared::default());
        for ino in 0..1000 {
            all.opened(1, 3, OpenFile::new(ino, false), false);
        }
        assert_eq!(all.files.values.len(), 2);
    }
}
