//! Quotas of directories: how much everything below a directory may take together.
//!
//! Contract: an inode carries the number of the quota that it counts for ([`Dinode::quota`](crate::dinode::Dinode)), which
//! it gets from the directory in which it is made and keeps for life; only the making of a quota around it changes it.
//! [`Quotas`] has the limit and the use of each number. A number without a quota counts for nothing, and is never given
//! again, so a quota that ends leaves no work behind. Names do not lead across: a rename or a link from one quota into
//! another fails as between two volumes, and `mv` copies then (as project quotas of XFS do). Of nested quotas an inode
//! counts for the innermost.
//!
//! An operation asks for room (`Quotas::check`) in the step in which it changes something, so no limit is ever
//! exceeded, and the use follows in the same step. The use is not written with each change: it is written when the volume
//! is closed, and after a crash all inodes are read once ([`QuotaNote`]).
//!
//! Bytes are those of `du`: blocks of data and the indirect ones, the blocks of directories with their indexes, and of
//! extended attributes that do not fit an inode. What an inode itself holds is no byte, and an inode is a file of any kind
//! but a device.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use crate::{FsError, Ino, Result, VolumeStat};

/// The number of a quota; 0 is none.
pub type QuotaId = u32;

/// The most quotas that a volume can have, so that the list of them fits an attribute of 64 KiB.
pub const QUOTAS_MAX: usize = 512;

/// The attribute of a directory that is its quota; see [`QuotaLimits::parse`]. It is in no list of attributes, so nobody
/// copies it with a file.
pub const QUOTA_ATTRIBUTE: &[u8] = b"system.twinfs.quota";
/// The attribute of the root that lists all quotas, one a line.
pub const QUOTAS_ATTRIBUTE: &[u8] = b"system.twinfs.quotas";

/// What the layout's note on the device, its checkpoint or state, says of quotas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaNote {
    /// There are none, and never were.
    #[default]
    None,
    /// There are some, and what is written of their use is out of date.
    Uncounted,
    /// There are some, and what is written of their use is right, if the volume was closed.
    Counted,
}

impl QuotaNote {
    /// The number that stands for it on the device.
    pub fn code(self) -> u32 {
        match self {
            QuotaNote::None => 0,
            QuotaNote::Uncounted => 1,
            QuotaNote::Counted => 2,
        }
    }

    /// What a number on the device stands for. One that is unknown makes everything be counted.
    pub fn from_code(code: u32) -> QuotaNote {
        match code {
            0 => QuotaNote::None,
            2 => QuotaNote::Counted,
            _ => QuotaNote::Uncounted,
        }
    }

    /// The note once something has changed without being counted.
    #[must_use]
    pub fn outdated(self) -> QuotaNote {
        if self == QuotaNote::None { self } else { QuotaNote::Uncounted }
    }
}

/// The most that may be below a directory; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Bytes of blocks.
    pub bytes: Option<u64>,
    /// Inodes.
    pub files: Option<u64>,
}

impl QuotaLimits {
    /// Reads limits as the attribute has them: `bytes=N`, `files=N` or both, with a space between them.
    pub fn parse(value: &[u8]) -> Result<QuotaLimits> {
        const BAD: FsError =
            FsError::Invalid("a quota is bytes=NUMBER, files=NUMBER or both with a space between");
        let text = std::str::from_utf8(value).map_err(|_| BAD)?;
        let mut limits = QuotaLimits::default();
        for word in text.split_ascii_whitespace() {
            let (name, number) = word.split_once('=').ok_or(BAD)?;
            let place = match name {
                "bytes" => &mut limits.bytes,
                "files" => &mut limits.files,
                _ => return Err(BAD),
            };
            if place.replace(number.parse().map_err(|_| BAD)?).is_some() {
                return Err(BAD);
            }
        }
        if limits == QuotaLimits::default() { Err(BAD) } else { Ok(limits) }
    }
}

impl fmt::Display for QuotaLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QuotaLimits { bytes: Some(bytes), files: Some(files) } => {
                write!(f, "bytes={bytes} files={files}")
            }
            QuotaLimits { bytes: Some(bytes), files: None } => write!(f, "bytes={bytes}"),
            QuotaLimits { bytes: None, files: Some(files) } => write!(f, "files={files}"),
            QuotaLimits { bytes: None, files: None } => Ok(()),
        }
    }
}

/// What there is below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// Bytes of blocks.
    pub bytes: u64,
    /// Inodes.
    pub files: u64,
}

impl QuotaUse {
    /// Adds what another inode takes.
    pub fn add(&mut self, other: QuotaUse) {
        self.bytes += other.bytes;
        self.files += other.files;
    }
}

/// The quota of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The directory.
    pub root: Ino,
    /// What is allowed.
    pub limits: QuotaLimits,
    /// What there is.
    pub used: QuotaUse,
    /// Everything that was there when the quota was made counts for it.
    pub complete: bool,
}

impl Quota {
    /// The quota as its attribute shows it.
    pub fn describe(&self) -> String {
        let (limits, QuotaUse { bytes, files }) = (self.limits, self.used);
        let rest = if self.complete { "" } else { " incomplete" };
        format!("{limits} used_bytes={bytes} used_files={files}{rest}")
    }

    /// The figures of the volume as somebody in the directory sees them: no more than the quota allows.
    #[must_use]
    pub fn narrow(&self, stat: VolumeStat) -> VolumeStat {
        let mut stat = stat;
        if let Some(limit) = self.limits.bytes {
            let block = u64::from(stat.block_size.max(1));
            let left = limit.saturating_sub(self.used.bytes) / block;
            stat.free = stat.free.min(left);
            stat.blocks = stat.blocks.min(self.used.bytes.div_ceil(block) + left);
        }
        if let Some(limit) = self.limits.files {
            let left = limit.saturating_sub(self.used.files);
            stat.free_inodes = stat.free_inodes.min(left);
            stat.inodes = stat.inodes.min(self.used.files + left);
        }
        stat
    }
}

/// The quotas of an open volume.
#[derive(Default)]
pub struct Quotas {
    note: Cell<QuotaNote>,
    table: RefCell<BTreeMap<QuotaId, Quota>>,
    /// The last number that was given; `None` until the table was read or the first was given.
    last: Cell<Option<QuotaId>>,
    /// For tests: the table is written so that it cannot be read.
    is_unreadable: Cell<bool>,
    /// Bytes that operations of several steps have asked for and not taken yet, by inode.
    held: RefCell<BTreeMap<Ino, (QuotaId, u64)>>,
}

impl Quotas {
    /// What the layout writes in its checkpoint or state.
    pub fn note(&self) -> QuotaNote {
        self.note.get()
    }

    /// Takes over what a layout has found on its device, or what is to be written there.
    pub fn set_note(&self, note: QuotaNote) {
        self.note.set(note);
    }

    /// True if the table is in memory, so that it can be written.
    pub(crate) fn is_open(&self) -> bool {
        self.last.get().is_some()
    }

    /// Begins an empty table whose first number comes after this one.
    pub(crate) fn go_on_after(&self, last: QuotaId) {
        self.last.set(Some(last));
    }

    /// The number itself if there is such a quota, otherwise 0.
    pub(crate) fn effective(&self, id: QuotaId) -> QuotaId {
        if id != 0 && self.table.borrow().contains_key(&id) { id } else { 0 }
    }

    /// The quota with this number.
    pub(crate) fn get(&self, id: QuotaId) -> Option<Quota> {
        if id == 0 { None } else { self.table.borrow().get(&id).copied() }
    }

    /// The quota of this directory.
    pub(crate) fn of_root(&self, ino: Ino) -> Option<(QuotaId, Quota)> {
        let table = self.table.borrow();
        table.iter().find(|(_, quota)| quota.root == ino).map(|(&id, &quota)| (id, quota))
    }

    /// All quotas, in the order in which they were made.
    pub fn all(&self) -> Vec<(QuotaId, Quota)> {
        self.table.borrow().iter().map(|(&id, &quota)| (id, quota)).collect()
    }

    /// Asks for room for more bytes and files. What takes none is allowed even above the limit.
    ///
    /// # Errors
    /// `QuotaExceeded` if there would be more than the quota allows.
    pub(crate) fn check(&self, id: QuotaId, more: QuotaUse) -> Result<()> {
        let Some(quota) = self.get(id) else { return Ok(()) };
        let held: u64 =
            self.held.borrow().values().filter(|(other, _)| *other == id).map(|(_, n)| n).sum();
        let exceeds = |limit: Option<u64>, used: u64, more: u64| {
            more > 0 && limit.is_some_and(|limit| used.saturating_add(more) > limit)
        };
        let bytes = quota.used.bytes.saturating_add(held);
        if exceeds(quota.limits.bytes, bytes, more.bytes)
            || exceeds(quota.limits.files, quota.used.files, more.files)
        {
            return Err(FsError::QuotaExceeded);
        }
        Ok(())
    }

    /// Keeps room for an operation on `ino` that takes it in several steps; until
    /// [`let_go`](Self::let_go), what the inode takes comes out of it.
    pub(crate) fn hold(&self, id: QuotaId, ino: Ino, bytes: u64) -> Result<()> {
        if self.effective(id) == 0 {
            return Ok(());
        }
        self.check(id, QuotaUse { bytes, files: 0 })?;
        self.held.borrow_mut().insert(ino, (id, bytes));
        Ok(())
    }

    pub(crate) fn let_go(&self, ino: Ino) {
        self.held.borrow_mut().remove(&ino);
    }

    /// The blocks of an inode that counts for `id` took `before` bytes and take `after` now.
    pub(crate) fn count_bytes(&self, id: QuotaId, ino: Ino, before: u64, after: u64) {
        let mut table = self.table.borrow_mut();
        let Some(quota) = table.get_mut(&id) else { return };
        // On a damaged volume the sum may be wrong, as the count of an inode may be.
        quota.used.bytes = (quota.used.bytes + after).saturating_sub(before);
        if let Some((_, held)) = self.held.borrow_mut().get_mut(&ino) {
            *held = held.saturating_sub(after.saturating_sub(before));
        }
    }

    /// An inode counts for `id` from now on, or did until now.
    pub fn count_inode(&self, id: QuotaId, taken: QuotaUse, appears: bool) {
        let mut table = self.table.borrow_mut();
        let Some(Quota { used, .. }) = table.get_mut(&id) else { return };
        match appears {
            true => used.add(taken),
            false => {
                used.bytes = used.bytes.saturating_sub(taken.bytes);
                used.files = used.files.saturating_sub(taken.files);
            }
        }
    }

    /// The directory has been freed, and with it its quota.
    pub(crate) fn forget_root(&self, ino: Ino) {
        self.table.borrow_mut().retain(|_, quota| quota.root != ino);
    }

    /// Adds a quota, or changes the limits of one. Returns its number.
    pub(crate) fn set(&self, root: Ino, limits: QuotaLimits) -> Result<QuotaId> {
        if let Some((id, _)) = self.of_root(root) {
            self.change(id, |quota| quota.limits = limits);
            return Ok(id);
        }
        let full = self.table.borrow().len() >= QUOTAS_MAX;
        let id = self.last.get().unwrap_or(0).checked_add(1).filter(|_| !full);
        let id = id.ok_or(FsError::Invalid("a volume has at most 512 quotas"))?;
        self.last.set(Some(id));
        let (used, complete) = (QuotaUse::default(), false);
        self.table.borrow_mut().insert(id, Quota { root, limits, used, complete });
        Ok(id)
    }

    /// Changes a quota, if there is one with this number.
    pub(crate) fn change(&self, id: QuotaId, change: impl FnOnce(&mut Quota)) {
        if let Some(quota) = self.table.borrow_mut().get_mut(&id) {
            change(quota);
        }
    }

    /// For tests: from here on the table is written so that it cannot be read.
    pub fn plant_unreadable(&self) {
        self.is_unreadable.set(true);
    }

    /// Puts a quota back that was ended a moment before.
    pub(crate) fn put(&self, id: QuotaId, quota: Quota) {
        self.table.borrow_mut().insert(id, quota);
    }

    /// Ends a quota.
    pub(crate) fn remove(&self, id: QuotaId) {
        self.table.borrow_mut().remove(&id);
    }

    /// The table as bytes: what [`take`](Self::take) reads.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let table = self.table.borrow();
        let mut raw = self.last.get().unwrap_or(0).to_le_bytes().to_vec();
        for (&id, quota) in &*table {
            let Quota { root, limits, used, complete } = quota;
            let has = |limit: Option<u64>, bit: u32| if limit.is_some() { bit } else { 0 };
            let bits = has(limits.bytes, 1) | has(limits.files, 2) | u32::from(*complete) << 2;
            raw.extend(if self.is_unreadable.get() { 0 } else { id }.to_le_bytes());
            raw.extend(bits.to_le_bytes());
            let limits = [limits.bytes, limits.files].map(|limit| limit.unwrap_or(0));
            for number in [*root, limits[0], limits[1], used.bytes, used.files] {
                raw.extend(number.to_le_bytes());
            }
        }
        raw
    }

    /// Takes over a table from its bytes.
    pub(crate) fn take(&self, raw: &[u8]) -> Result<()> {
        let (last, table) = decode(raw)?;
        self.last.set(Some(last));
        *self.table.borrow_mut() = table;
        Ok(())
    }
}

/// Bytes of an entry of the table.
const ENTRY_BYTES: usize = 48;

/// The name of the attribute under which the root keeps the table of quotas, which no client can name; [`decode`] reads
/// its value.
pub const TABLE_NAME: &[u8] = b"twinfs.quotas";

/// Reads the table of quotas, the value of [`TABLE_NAME`]: the last number that was given to a quota, and the quotas by
/// their numbers.
///
/// # Errors
/// [`FsError::Corrupt`] if the bytes are no whole number of entries, or more than [`QUOTAS_MAX`], or if an entry has a
/// number that was never given, a number that another entry has, or flags that do not exist.
pub fn decode(raw: &[u8]) -> Result<(QuotaId, BTreeMap<QuotaId, Quota>)> {
    let bad = || {
        FsError::inconsistent(
            "the table of quotas cannot be decoded: `twinfs check --repair` gives it up",
        )
    };
    let (last, entries) = raw.split_first_chunk::<4>().ok_or_else(bad)?;
    let last = u32::from_le_bytes(*last);
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() || entries.len() > QUOTAS_MAX {
        return Err(bad());
    }
    let mut table = BTreeMap::new();
    for raw in entries {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| raw[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| raw[at + i]));
        let (id, bits) = (word(0), word(4));
        let [root, bytes, files, used_bytes, used_files] =
            std::array::from_fn(|nth| long(8 + 8 * nth));
        let limits = QuotaLimits {
            bytes: (bits & 1 != 0).then_some(bytes),
            files: (bits & 2 != 0).then_some(files),
        };
        let used = QuotaUse { bytes: used_bytes, files: used_files };
        let quota = Quota { root, limits, used, complete: bits & 4 != 0 };
        if id == 0 || id > last || bits > 7 || table.insert(id, quota).is_some() {
            return Err(bad());
        }
    }
    Ok((last, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas() -> Quotas {
        let quotas = Quotas::default();
        let limits = QuotaLimits { bytes: Some(100), files: Some(2) };
        assert_eq!(quotas.set(7, limits), Ok(1));
        quotas
    }

    fn bytes(bytes: u64) -> QuotaUse {
        QuotaUse { bytes, files: 0 }
    }

    #[test]
    fn limits_are_read_as_they_are_shown() {
        let both = QuotaLimits { bytes: Some(10), files: Some(3) };
        assert_eq!(QuotaLimits::parse(b"files=3 bytes=10"), Ok(both));
        let quota = Quota { root: 7, limits: both, used: bytes(5), complete: true };
        assert_eq!(quota.describe(), "bytes=10 files=3 used_bytes=5 used_files=0");
        for bad in
            [&b""[..], b"10", b"bytes=", b"bytes=1 bytes=2", b"bytes=-1", b"blocks=4", b"\xff"]
        {
            assert!(QuotaLimits::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_limit_is_reached_and_not_exceeded() {
        let quotas = quotas();
        quotas.count_bytes(1, 9, 0, 60);
        assert_eq!(quotas.check(1, bytes(40)), Ok(()));
        assert_eq!(quotas.check(1, bytes(41)), Err(FsError::QuotaExceeded));
        quotas.count_inode(1, QuotaUse { bytes: 0, files: 2 }, true);
        assert_eq!(quotas.check(1, QuotaUse { bytes: 0, files: 1 }), Err(FsError::QuotaExceeded));
        assert_eq!(quotas.check(2, bytes(1000)), Ok(()), "there is no such quota");
    }

    #[test]
    fn what_takes_nothing_is_allowed_above_a_limit() {
        let quotas = quotas();
        quotas.count_bytes(1, 9, 0, 200);
        assert_eq!(quotas.check(1, QuotaUse::default()), Ok(()));
    }

    #[test]
    fn room_that_is_held_is_nobody_elses_and_not_counted_twice() {
        let quotas = quotas();
        quotas.hold(1, 9, 80).unwrap();
        assert_eq!(quotas.check(1, bytes(30)), Err(FsError::QuotaExceeded));
        quotas.count_bytes(1, 9, 0, 80);
        assert_eq!(quotas.check(1, bytes(20)), Ok(()));
        quotas.let_go(9);
        assert_eq!(quotas.check(1, bytes(20)), Ok(()));
    }

    #[test]
    fn a_table_survives_its_encoding_and_no_cut_of_it_passes() {
        let quotas = quotas();
        quotas.count_bytes(1, 9, 0, 60);
        quotas.set(8, QuotaLimits { bytes: None, files: Some(1) }).unwrap();
        quotas.change(2, |quota| quota.complete = true);
        let raw = quotas.encode();
        let read = Quotas::default();
        read.take(&raw).unwrap();
        assert_eq!(read.all(), quotas.all());
        for len in (0..raw.len()).filter(|len| !(len + ENTRY_BYTES - 4).is_multiple_of(ENTRY_BYTES))
        {
            assert!(Quotas::default().take(&raw[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn numbers_of_quotas_that_ended_are_not_given_again() {
        let quotas = quotas();
        quotas.remove(1);
        assert_eq!(quotas.effective(1), 0);
        assert_eq!(quotas.set(7, QuotaLimits { bytes: Some(1), files: None }), Ok(2));
    }

    #[test]
    fn figures_are_those_of_the_quota_where_they_are_less() {
        let quota = Quota {
            root: 7,
            limits: QuotaLimits { bytes: Some(40_960), files: None },
            used: bytes(8192),
            complete: true,
        };
        let stat =
            VolumeStat { block_size: 4096, blocks: 1000, free: 900, ..VolumeStat::default() };
        let seen = quota.narrow(stat);
        assert_eq!((seen.blocks, seen.free), (10, 8));
        assert_eq!(seen.inodes, stat.inodes);
    }
}
