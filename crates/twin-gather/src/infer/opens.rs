//! Opens and closes, which NFS does not have: they are inferred from reads and writes.
//!
//! Contract: a client has a file open from its first read or write of it until it has not used it for a
//! time, or until the file is gone. An open for reading does not allow writing: a file that is written later
//! is opened again.

use std::collections::VecDeque;

use twin_fs::Ino;
use twin_rt::FixedMap;

/// The opens of a client on a file.
struct Open {
    client: u32,
    last_ns: u64,
    write: bool,
    /// The number of opens: one for reading, perhaps a further one for writing.
    count: u64,
}

/// Files that clients have open.
#[derive(Default)]
pub(super) struct Opens {
    by_file: FixedMap<Ino, Vec<Open>>,
    /// Uses in order of time.
    uses: VecDeque<(u64, Ino, u32)>,
}

/// A file to close, as often as it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Close {
    pub(super) last_ns: u64,
    pub(super) ino: Ino,
    pub(super) client: u32,
    pub(super) count: u64,
}

impl Opens {
    /// Notes a use; true if the file has to be opened for it first.
    pub(super) fn used(&mut self, ino: Ino, client: u32, write: bool, at_ns: u64) -> bool {
        self.uses.push_back((at_ns, ino, client));
        let opens = self.by_file.entry(ino).or_default();
        let Some(open) = opens.iter_mut().find(|open| open.client == client) else {
            opens.push(Open { client, last_ns: at_ns, write, count: 1 });
            return true;
        };
        open.last_ns = at_ns;
        let again = write && !open.write;
        open.write |= write;
        open.count += u64::from(again);
        again
    }

    /// Notes a file that was opened when it was created.
    pub(super) fn created(&mut self, ino: Ino, client: u32, at_ns: u64) {
        self.used(ino, client, true, at_ns);
    }

    /// The next file that its client has not used since `since_ns` or before.
    pub(super) fn idle(&mut self, since_ns: u64) -> Option<Close> {
        while let Some(&(at_ns, ino, client)) = self.uses.front()
            && at_ns <= since_ns
        {
            self.uses.pop_front();
            let Some(opens) = self.by_file.get_mut(&ino) else { continue };
            let unused = |open: &Open| open.client == client && open.last_ns == at_ns;
            if let Some(place) = opens.iter().position(unused) {
                let Open { last_ns, count, .. } = opens.swap_remove(place);
                if opens.is_empty() {
                    self.by_file.remove(&ino);
                }
                return Some(Close { last_ns, ino, client, count });
            }
        }
        None
    }

    /// All opens of a file, which is gone.
    pub(super) fn of_file(&mut self, ino: Ino) -> Vec<Close> {
        let opens = self.by_file.remove(&ino).unwrap_or_default();
        let close =
            |Open { client, last_ns, count, .. }: Open| Close { last_ns, ino, client, count };
        opens.into_iter().map(close).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_from_its_first_use_to_its_last() {
        let mut opens = Opens::default();
        assert!(opens.used(7, 1, false, 10));
        assert!(opens.used(7, 2, false, 15), "another client opens it for itself");
        assert!(!opens.used(7, 1, false, 20));
        assert_eq!(opens.idle(14), None);
        let first = Close { last_ns: 15, ino: 7, client: 2, count: 1 };
        assert_eq!(opens.idle(19), Some(first));
        let second = Close { last_ns: 20, ino: 7, client: 1, count: 1 };
        assert_eq!((opens.idle(20), opens.idle(100)), (Some(second), None));
        assert!(opens.used(7, 1, false, 200), "it was closed");
    }

    #[test]
    fn writing_opens_a_file_that_was_open_for_reading_again() {
        let mut opens = Opens::default();
        assert!(opens.used(7, 1, false, 10));
        assert!(opens.used(7, 1, true, 11));
        assert!(!opens.used(7, 1, true, 12));
        assert_eq!(opens.of_file(7), [Close { last_ns: 12, ino: 7, client: 1, count: 2 }]);
        assert_eq!(opens.idle(100), None);
    }
}
