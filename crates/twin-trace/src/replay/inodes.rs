//! The mapping of a workload's inode numbers to the volume's, and the references that the replay
//! holds.

use std::collections::VecDeque;

use twin_fs::{Ino, Op, ROOT_INO};
use twin_rt::FixedMap;

use super::ids::IdMap;

/// The references and opens that the replay holds on an inode of the volume.
#[derive(Clone, Copy, Default)]
struct HeldRefs {
    refs: u32,
    opens: u32,
}

/// The result of translating the inode numbers of an operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Translation {
    /// They are replaced by the volume's.
    Done,
    /// They are unknown until this operation has ended; nothing was changed.
    Wait(u32),
    /// One of the inodes will never be known.
    Missing,
}

/// In the table: a number of the volume that does not fit there.
const LARGE: u32 = u32::MAX;
/// In the table: the first and the last value that stand for an operation. No replay has that many
/// operations at a time.
const PENDING: u32 = 0xf000_0000;
const LAST_PENDING: u32 = LARGE - 1;

/// Maximum number of listings that may be in progress at a time and still continue at their
/// cookies.
const COOKIES: usize = 1024;

/// The tables of the mapping.
///
/// A run has one entry for each inode that was ever named, since a recording may name it again: it takes four
/// bytes.
pub(super) struct Inodes {
    /// The number of each inode of the workload on the volume; 0 if it has none yet, [`PENDING`] and the
    /// operation whose end will reveal it if there is one, and [`LARGE`] if it is in `large`.
    known: IdMap<u32>,
    large: FixedMap<Ino, Ino>,
    held: IdMap<HeldRefs>,
    /// Directory on the volume, cookie in the workload, cookie on the volume; newest last.
    cookies: VecDeque<(Ino, u64, u64)>,
}

impl Inodes {
    /// A mapping in which the root of the workload is this directory of the volume.
    pub(super) fn new(root: Ino) -> Inodes {
        let mut inodes = Inodes {
            known: IdMap::default(),
            large: FixedMap::default(),
            held: IdMap::default(),
            cookies: VecDeque::new(),
        };
        inodes.set(ROOT_INO, root);
        inodes
    }

    /// The volume's number of an inode.
    #[inline]
    pub(super) fn actual(&self, id: Ino) -> Option<Ino> {
        match self.known.get(id) {
            LARGE => self.large.get(&id).copied(),
            0 | PENDING.. => None,
            ino => Some(Ino::from(ino)),
        }
    }

    /// Sets the volume's number of an inode. Returns false if another one was known before.
    pub(super) fn introduce(&mut self, id: Ino, actual: Ino) -> bool {
        let before = self.actual(id);
        self.set(id, actual);
        before.is_none_or(|before| before == actual)
    }

    fn set(&mut self, id: Ino, actual: Ino) {
        let short = u32::try_from(actual).ok().filter(|ino| *ino < PENDING).unwrap_or(LARGE);
        *self.known.at(id) = short;
        if short == LARGE {
            self.large.insert(id, actual);
        }
    }

    /// If the inode is not known, it will be when this operation has ended.
    pub(super) fn expect(&mut self, id: Ino, op: u32) {
        let known = self.known.at(id);
        if matches!(*known, 0 | PENDING..=LAST_PENDING) && op <= LAST_PENDING - PENDING {
            *known = PENDING + op;
        }
    }

    /// The operation has ended and reveals no further inode numbers.
    pub(super) fn resolved(&mut self, id: Ino, op: u32) {
        let known = self.known.at(id);
        if op <= LAST_PENDING - PENDING && *known == PENDING + op {
            *known = 0;
        }
    }

    /// Replaces the inode numbers of an operation by the volume's.
    pub(super) fn translate(&self, op: &mut Op) -> Translation {
        let [first, second] = op.inos_mut();
        let known = |ino: &Option<&mut Ino>| match ino {
            Some(ino) => self.actual(**ino).map(Some).ok_or(**ino),
            None => Ok(None),
        };
        let (a, b) = match (known(&first), known(&second)) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(id), _) | (_, Err(id)) => {
                return match self.known.get(id) {
                    pending @ PENDING..=LAST_PENDING => Translation::Wait(pending - PENDING),
                    _ => Translation::Missing,
                };
            }
        };
        if let (Some(ino), Some(known)) = (first, a) {
            *ino = known;
        }
        if let (Some(ino), Some(known)) = (second, b) {
            *ino = known;
        }
        Translation::Done
    }

    /// `count` references of an inode of the volume are to be returned. Returns how many the replay
    /// holds of them.
    pub(super) fn forget(&mut self, actual: Ino, count: u64) -> u64 {
        let held = self.held.at(actual);
        let back = u64::from(held.refs).min(count);
        held.refs -= back as u32;
        back
    }

    /// The replay got a reference.
    pub(super) fn hold(&mut self, actual: Ino) {
        if actual != ROOT_INO {
            self.held.at(actual).refs += 1;
        }
    }

    /// The replay has opened the inode.
    pub(super) fn opened(&mut self, actual: Ino) {
        self.held.at(actual).opens += 1;
    }

    /// The replay is about to close the inode. Returns false if it is not open.
    pub(super) fn release(&mut self, actual: Ino) -> bool {
        let held = self.held.at(actual);
        let was_open = held.opens > 0;
        held.opens -= u32::from(was_open);
        was_open
    }

    /// Takes all inodes that the replay holds, with their references and opens. Afterwards it holds
    /// nothing.
    pub(super) fn take_held(&mut self) -> Vec<(Ino, u32, u32)> {
        let held = std::mem::take(&mut self.held);
        let mut all: Vec<_> = held
            .into_iter()
            .map(|(ino, held)| (ino, held.refs, held.opens))
            .filter(|&(_, refs, opens)| refs + opens > 0)
            .collect();
        all.sort_unstable();
        all
    }

    /// A listing stopped at `recorded` in the workload and at `actual` on the volume.
    pub(super) fn stopped(&mut self, dir: Ino, recorded: u64, actual: u64) {
        if self.cookies.len() == COOKIES {
            self.cookies.pop_front();
        }
        self.cookies.push_back((dir, recorded, actual));
    }

    /// The cookie at which a listing continues.
    pub(super) fn cookie(&self, dir: Ino, recorded: u64) -> Option<u64> {
        let found = self.cookies.iter().rev().find(|&&(d, r, _)| (d, r) == (dir, recorded));
        found.map(|&(_, _, actual)| actual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_changed_only_when_all_its_inodes_are_known() {
        let mut inodes = Inodes::new(ROOT_INO);
        inodes.introduce(3, 30);
        let rename = Op::Rename {
            dir: 3,
            name: (*b"a").into(),
            to_dir: 4,
            to_name: (*b"b").into(),
            mode: Default::default(),
        };
        let mut op = rename.clone();
        assert_eq!(inodes.translate(&mut op), Translation::Missing);
        inodes.expect(4, 17);
        assert_eq!(inodes.translate(&mut op), Translation::Wait(17));
        assert_eq!(op, rename);
        inodes.introduce(4, 40);
        assert_eq!(inodes.translate(&mut op), Translation::Done);
        assert!(matches!(op, Op::Rename { dir: 30, to_dir: 40, .. }));
    }

    #[test]
    fn numbers_that_do_not_fit_the_table_are_kept_beside_it() {
        let mut inodes = Inodes::new(ROOT_INO);
        let numbers = [u64::from(PENDING) - 1, PENDING.into(), u32::MAX.into(), 1 << 32, u64::MAX];
        for (id, actual) in (10..).zip(numbers) {
            assert!(inodes.introduce(id, actual));
            assert_eq!(inodes.actual(id), Some(actual));
            assert!(inodes.introduce(id, actual) && !inodes.introduce(id, 5));
            assert_eq!(inodes.actual(id), Some(5));
        }
    }

    #[test]
    fn no_more_is_given_back_than_is_held() {
        let mut inodes = Inodes::new(ROOT_INO);
        (0..5).for_each(|_| inodes.hold(30));
        assert_eq!((inodes.forget(30, 3), inodes.forget(30, 3), inodes.forget(30, 3)), (3, 2, 0));
        inodes.opened(30);
        assert_eq!((inodes.release(30), inodes.release(30)), (true, false));
    }
}
