//! Decides when the kernel has to ask for counts of blocks again.
//!
//! A kernel that collects writes keeps the attributes of a file, and with them the count of its
//! blocks, until the file is closed. Data that arrives from the kernel changes the count here, but
//! the kernel does not learn of it.
//!
//! Contract: after an fsync the kernel asks again if the count has changed since our last answer.
//! After data that it sent by itself it asks again within about two seconds, if the file is not
//! small or has received data before: the many small files that are created and closed at once do
//! not need it, and would each pay with a request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use twin_rt::{SECS, Time};

/// The most files that are remembered.
const MOST: usize = 4096;
/// How long a file that was found changed is not looked at again.
const QUIET_NS: u64 = SECS;
/// A file that takes as many bytes is not small.
const LARGE: u64 = 64 << 10;

/// A file that data arrived for.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Data has arrived since the last fsync.
    arrived: bool,
    /// When data first arrived.
    first: Option<Time>,
    /// The bytes that the file took when the kernel was last made to ask, or last got an answer;
    /// `None` before that.
    kernel_s: Option<u64>,
    /// The bytes that it took when the kernel was last to be made to ask soon.
    soon: Option<u64>,
}

#[derive(Default)]
pub(super) struct Counts {
    files: RefCell<BTreeMap<u64, Known>>,
    /// The file that data arrived for last, and until when it is not looked at again.
    last: Cell<(u64, Time)>,
}

impl Counts {
    /// Notes that data of a node arrived; `takes` is called for the bytes that it takes now. Returns
    /// true if the kernel has to be made to ask soon.
    pub(super) fn arrived(&self, node: u64, now: Time, takes: impl FnOnce() -> u64) -> bool {
        let (last, until) = self.last.get();
        if last == node && now < until {
            return false;
        }
        self.last.set((node, Time(now.0 + QUIET_NS)));
        let mut files = self.files.borrow_mut();
        if files.len() >= MOST && !files.contains_key(&node) {
            files.clear();
        }
        let file = files.entry(node).or_default();
        file.arrived = true;
        let takes = takes();
        let lives = now.0 - file.first.get_or_insert(now).0 >= QUIET_NS;
        if takes < LARGE && !lives {
            return false;
        }
        let takes = Some(takes);
        file.kernel_s != takes && std::mem::replace(&mut file.soon, takes) != takes
    }

    /// Called at the end of an fsync. Returns true if the kernel has to be made to ask now.
    pub(super) fn synced(&self, node: u64, takes: impl FnOnce() -> u64) -> bool {
        if self.last.get().0 == node {
            self.last.set((0, Time::default()));
        }
        let mut files = self.files.borrow_mut();
        let Some(file) = files.get_mut(&node) else { return false };
        if !std::mem::take(&mut file.arrived) {
            return false;
        }
        let takes = Some(takes());
        std::mem::replace(&mut file.kernel_s, takes) != takes
    }

    /// The kernel has got the attributes of a node.
    pub(super) fn told(&self, node: u64, takes: impl FnOnce() -> u64) {
        if let Some(file) = self.files.borrow_mut().get_mut(&node) {
            file.kernel_s = Some(takes());
            file.soon = None;
        }
    }

    /// The kernel has forgotten a node.
    pub(super) fn forget(&self, node: u64) {
        self.files.borrow_mut().remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(50 * SECS);

    #[test]
    fn an_fsync_after_data_makes_the_kernel_ask_if_the_count_changed() {
        let counts = Counts::default();
        assert!(!counts.synced(9, || LARGE), "nothing has arrived");
        assert!(counts.arrived(9, NOW, || LARGE));
        assert!(counts.synced(9, || LARGE), "soon is not now");
        counts.arrived(9, NOW, || 2 * LARGE);
        assert!(!counts.arrived(9, NOW, || 3 * LARGE), "a burst is looked at once");
        assert!(counts.synced(9, || 3 * LARGE));
        assert!(!counts.arrived(9, NOW, || 3 * LARGE));
        assert!(!counts.synced(9, || 3 * LARGE), "it was written over in place");
    }

    #[test]
    fn what_the_kernel_was_told_meanwhile_counts() {
        let counts = Counts::default();
        counts.arrived(9, NOW, || 4096);
        counts.told(9, || 4096);
        assert!(!counts.synced(9, || 4096));
        counts.arrived(9, NOW, || 8192);
        counts.told(9, || 4096);
        assert!(counts.synced(9, || 8192));
        counts.arrived(9, NOW, || 4096);
        counts.forget(9);
        assert!(!counts.synced(9, || 4096));
    }

    #[test]
    fn a_file_that_grows_by_itself_is_asked_for_again_and_a_small_one_that_is_made_is_not() {
        let counts = Counts::default();
        let at = |s: u64| Time(s * SECS);
        assert!(!counts.arrived(9, at(1), || 4096));
        assert!(counts.arrived(9, at(3), || 8192));
        assert!(!counts.arrived(9, at(5), || 8192));
        assert!(counts.arrived(9, at(7), || 12_288));
        assert!(counts.arrived(8, at(7), || LARGE));
    }
}
