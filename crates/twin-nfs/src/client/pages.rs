//! The data of a file that a client holds.
//!
//! Contract: a page is clean (as on the server when it was read), dirty, or written and not yet
//! known to be on the server's disk. Only clean pages may be dropped. A page that changes gets a
//! new version, so that the end of a WRITE or COMMIT shows whether it still speaks of the page.

use std::collections::BTreeMap;
use std::ops::Range;

use twin_rt::Time;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// How far a page is from the server's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Clean,
    Dirty,
    /// Written, with the server's verifier.
    Unstable(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) data: Vec<u8>,
    /// All of its bytes are right; otherwise only those of `dirty`.
    pub(super) full: bool,
    /// Bytes that the server's disk may not have.
    pub(super) dirty: Range<usize>,
    pub(super) state: State,
    pub(super) version: u64,
    /// The first change that is not known to be on the server's disk. Later changes of the page come on top.
    owed_from: u64,
    /// When it became dirty.
    pub(super) since: Time,
    /// The last use, for eviction.
    pub(super) used: u64,
}

impl Page {
    pub(super) fn clean(data: Vec<u8>) -> Page {
        let state = State::Clean;
        Page {
            data,
            full: true,
            dirty: 0..0,
            state,
            version: 0,
            owed_from: 0,
            since: Time(0),
            used: 0,
        }
    }
}

/// The pages of a file.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pub(super) all: BTreeMap<u64, Page>,
    version: u64,
}

/// Consecutive dirty bytes that one WRITE takes, and the pages that they are in, with versions.
pub(super) struct Run {
    pub(super) off: u64,
    pub(super) data: Vec<u8>,
    pub(super) pages: Vec<(u64, u64)>,
}

impl Pages {
    /// The version of the latest change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The end of what is not known to be on the server's disk.
    pub(super) fn end(&self) -> u64 {
        let mut unclean = self.all.iter().rev().filter(|(_, page)| page.state != State::Clean);
        unclean.next().map_or(0, |(n, page)| n * PAGE + page.dirty.end as u64)
    }

    /// When the oldest dirty page became so.
    pub(super) fn oldest(&self) -> Option<Time> {
        let unclean = self.all.values().filter(|page| page.state != State::Clean);
        unclean.map(|page| page.since).min()
    }

    /// True if a change up to this version is not known to be on the server's disk (or, unless
    /// `stable`, not known to be on the server).
    pub(super) fn owes(&self, version: u64, stable: bool) -> bool {
        self.all.values().any(|page| {
            let owed = page.state == State::Dirty || stable && page.state != State::Clean;
            owed && page.owed_from <= version
        })
    }

    /// True if a write of this range would leave a gap of unknown bytes in the page.
    pub(super) fn leaves_gap(&self, n: u64, range: &Range<usize>) -> bool {
        self.all.get(&n).is_some_and(|page| {
            !page.full && (range.start > page.dirty.end || range.end < page.dirty.start)
        })
    }

    /// Writes into a page. `beyond`: the file has no bytes there yet.
    pub(super) fn write(
        &mut self,
        n: u64,
        range: Range<usize>,
        bytes: &[u8],
        beyond: bool,
        now: Time,
    ) {
        self.version += 1;
        let page = self.all.entry(n).or_insert_with(|| Page {
            full: beyond,
            dirty: range.clone(),
            ..Page::clean(vec![0; PAGE as usize])
        });
        page.data[range.clone()].copy_from_slice(bytes);
        if page.state == State::Clean {
            (page.dirty, page.since) = (range.clone(), now);
            page.owed_from = self.version;
        } else {
            page.dirty = page.dirty.start.min(range.start)..page.dirty.end.max(range.end);
        }
        page.full |= page.dirty == (0..PAGE as usize);
        page.state = State::Dirty;
        page.version = self.version;
    }

    /// Completes a page with what the server has.
    pub(super) fn fill(&mut self, n: u64, from: Vec<u8>) {
        let page = self.all.entry(n).or_insert_with(|| Page::clean(from.clone()));
        if !page.full {
            let mut whole = from;
            whole[page.dirty.clone()].copy_from_slice(&page.data[page.dirty.clone()]);
            page.data = whole;
            page.full = true;
        }
    }

    /// Dirty bytes in pieces of at most `most` bytes.
    pub(super) fn runs(&self, most: u64) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (&n, page) in self.all.iter().filter(|(_, page)| page.state == State::Dirty) {
            let off = n * PAGE + page.dirty.start as u64;
            let bytes = &page.data[page.dirty.clone()];
            match runs.last_mut() {
                Some(run)
                    if run.off + run.data.len() as u64 == off
                        && (run.data.len() + bytes.len()) as u64 <= most =>
                {
                    run.data.extend_from_slice(bytes);
                    run.pages.push((n, page.version));
                }
                _ => runs.push(Run { off, data: bytes.to_vec(), pages: vec![(n, page.version)] }),
            }
        }
        runs
    }

    /// Pages that are written and not committed, with versions and verifiers.
    pub(super) fn unstable(&self) -> Vec<(u64, u64, u64)> {
        let unstable = self.all.iter().filter_map(|(&n, page)| match page.state {
            State::Unstable(verifier) => Some((n, page.version, verifier)),
            _ => None,
        });
        unstable.collect()
    }

    /// Sets the state of a page, unless it has changed since.
    pub(super) fn set_state(&mut self, n: u64, version: u64, state: State) {
        if let Some(page) = self.all.get_mut(&n)
            && page.version == version
        {
            page.state = state;
        }
    }

    /// Drops a page, unless it has changed since.
    pub(super) fn lose(&mut self, n: u64, version: u64) {
        if self.all.get(&n).is_some_and(|page| page.version == version) {
            self.all.remove(&n);
        }
    }

    /// Drops everything. Versions go on, so that the end of an earlier WRITE speaks of no later page.
    pub(super) fn drop_all(&mut self) {
        self.all.clear();
    }

    /// Drops what is clean.
    pub(super) fn drop_clean(&mut self) {
        self.all.retain(|_, page| page.state != State::Clean);
        // Data that was read around dirty bytes may have changed with the rest.
        self.all.values_mut().for_each(|page| page.full = page.dirty == (0..PAGE as usize));
    }

    /// The file ends here now.
    pub(super) fn cut(&mut self, size: u64) {
        self.all.retain(|&n, _| n * PAGE < size);
        let within = (size % PAGE) as usize;
        if within > 0
            && let Some(page) = self.all.get_mut(&(size / PAGE))
        {
            page.data[within..].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(pages: &mut Pages, n: u64, range: Range<usize>, byte: u8) {
        let bytes = vec![byte; range.len()];
        pages.write(n, range, &bytes, false, Time(5));
    }

    #[test]
    fn adjacent_dirty_bytes_are_written_together_up_to_a_size() {
        let mut pages = Pages::default();
        write(&mut pages, 0, 100..4096, 1);
        write(&mut pages, 1, 0..4096, 2);
        write(&mut pages, 2, 0..10, 3);
        write(&mut pages, 7, 0..10, 4);
        let shape = |most| -> Vec<(u64, usize)> {
            pages.runs(most).iter().map(|run| (run.off, run.data.len())).collect()
        };
        assert_eq!(shape(1 << 20), [(100, 8102), (7 * PAGE, 10)]);
        assert_eq!(shape(8100), [(100, 8092), (2 * PAGE, 10), (7 * PAGE, 10)]);
        assert_eq!(pages.end(), 7 * PAGE + 10);
    }

    #[test]
    fn a_page_that_changed_meanwhile_stays_dirty() {
        let mut pages = Pages::default();
        write(&mut pages, 0, 0..8, 1);
        let version = pages.version();
        write(&mut pages, 0, 8..16, 2);
        pages.set_state(0, version, State::Unstable(9));
        assert!(pages.owes(pages.version(), false));
        assert!(pages.owes(version, true), "what was written first is not known to be durable");
        pages.set_state(0, pages.version(), State::Unstable(9));
        assert!(!pages.owes(pages.version(), false) && pages.owes(pages.version(), true));
        assert_eq!(pages.unstable(), [(0, pages.version(), 9)]);
    }

    #[test]
    fn what_was_sent_before_everything_was_dropped_says_nothing_of_what_comes_after() {
        let mut pages = Pages::default();
        write(&mut pages, 0, 0..8, 1);
        let version = pages.version();
        pages.drop_all();
        write(&mut pages, 0, 0..8, 2);
        pages.set_state(0, version, State::Clean);
        assert!(pages.owes(pages.version(), false));
    }

    #[test]
    fn gaps_are_filled_around_what_is_dirty() {
        let mut pages = Pages::default();
        write(&mut pages, 0, 10..20, 1);
        assert!(pages.leaves_gap(0, &(30..40)) && !pages.leaves_gap(0, &(20..40)));
        pages.fill(0, vec![7; PAGE as usize]);
        assert!(!pages.leaves_gap(0, &(30..40)));
        let data = &pages.all[&0].data;
        assert_eq!((data[9], data[10], data[19], data[20]), (7, 1, 1, 7));
    }

    #[test]
    fn a_cut_file_reads_zeros_when_it_grows_again() {
        let mut pages = Pages::default();
        pages.fill(0, vec![7; PAGE as usize]);
        pages.fill(1, vec![7; PAGE as usize]);
        pages.cut(100);
        assert_eq!(pages.all.len(), 1);
        assert_eq!((pages.all[&0].data[99], pages.all[&0].data[100]), (7, 0));
    }
}
