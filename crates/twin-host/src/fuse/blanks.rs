//! Regular files without a block, of which the kernel may hold unwritten pages.
//!
//! Programs that copy files take a file without blocks for one without data (`tar -S` does not even
//! read it). But a kernel that collects writes does not count blocks: as long as a file stays open,
//! it repeats the count of our last answer, whatever it has collected since. It also collects pages
//! that are stored through a mapping, in any case.
//!
//! Contract: nobody gets the answer "no blocks" about a file of which the kernel holds pages.
//!
//! - That answer is good for one question only; the kernel does not keep it ([`Blanks::is_once`]).
//!   Before it is given, the kernel's pages are fetched ([`Blanks::needs_pages`]), unless there can
//!   be none.
//! - A writer, who is about to make pages, gets an answer with one block in advance. The kernel
//!   keeps that count, and drops it when it has written the file out.
//! - Where pages cannot be fetched, the answer has one block in advance too.
//!
//! Files that lie in their inode count the sectors of their bytes, as in other file systems.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use twin_fs::{Attr, LookupEntry, Reply, mode};
use twin_rt::{SECS, Time};

use super::translate::{Expect, node};

/// The unit of the counts that the kernel tells.
const SECTOR: u64 = 512;
/// The count of sectors that is answered in advance: one page.
const ADVANCE: u64 = 8;
/// The largest number of files that are remembered. Answers about others have a block in advance.
const MOST: usize = 1 << 16;
/// A writer that was let through before this time has made its pages.
const SURE_NS: u64 = SECS;

/// Our answers about files without blocks.
#[derive(Default)]
pub(super) struct Blanks {
    /// The kernel collects writes.
    collects: Cell<bool>,
    /// It asks by a handle before the first write to a file whose attributes are not kept.
    asks: Cell<bool>,
    /// The nodes whose attributes it does not keep, and since when.
    told: RefCell<BTreeMap<u64, Time>>,
}

/// True if the kernel may take an inode for one without data.
fn is_blank(attr: &Attr, collects: bool) -> bool {
    let sized = attr.size >= SECTOR || collects && attr.size == 0;
    attr.mode & mode::TYPE == mode::REGULAR && attr.blocks == 0 && sized
}

impl Blanks {
    /// Takes over the agreement with the kernel.
    pub(super) fn begin(&self, collects: bool, asks: bool) {
        self.collects.set(collects);
        self.asks.set(asks);
    }

    /// True if the kernel must not keep these attributes, which are those of an answer.
    pub(super) fn is_once(&self, attr: &Attr) -> bool {
        is_blank(attr, self.collects.get())
    }

    /// True if the kernel's pages of a file must be fetched before an answer with these attributes.
    pub(super) fn needs_pages(&self, attr: &Attr, now: Time) -> bool {
        // A mapping asks nobody.
        is_blank(attr, self.collects.get())
            && (attr.size >= SECTOR || !self.is_clean(node(attr.ino), now))
    }

    /// True if nobody can have written to an empty file: since its attributes are not kept, a writer
    /// would have asked.
    fn is_clean(&self, node: u64, now: Time) -> bool {
        let told = self.told.borrow();
        self.asks.get() && told.get(&node).is_some_and(|&since| now.0 - since.0 >= SURE_NS)
    }

    /// True if the kernel may ask for the attributes of a file by a handle although nobody writes to
    /// it, because they were not kept. After this call it keeps them.
    pub(super) fn take(&self, node: u64) -> bool {
        self.told.borrow_mut().remove(&node).is_some()
    }

    /// The kernel has forgotten an inode.
    pub(super) fn forget(&self, node: u64) {
        self.told.borrow_mut().remove(&node);
    }

    /// Makes a reply what the kernel may be told. `kept_stale` is true if the kernel is made to ask
    /// before each write, so that it keeps no attributes of regular files at all; `fetched`, if what it
    /// holds of the file has been fetched.
    pub(super) fn prepare(
        &self,
        expect: Expect,
        reply: &mut Reply,
        now: Time,
        kept_stale: bool,
        fetched: bool,
    ) {
        match reply {
            Reply::Attr(attr) => {
                let ahead = match expect {
                    Expect::Gate => {
                        self.take(node(attr.ino));
                        true
                    }
                    // The kernel is about to be made to take this answer for an old one.
                    Expect::Attr | Expect::Statx if kept_stale && fetched => return,
                    Expect::Attr | Expect::Statx => !fetched,
                    _ => kept_stale,
                };
                self.count(attr, ahead, now);
            }
            Reply::Entry(LookupEntry { attr, .. }) => {
                let opened = matches!(expect, Expect::Create { .. });
                self.count(attr, kept_stale || opened && self.collects.get(), now);
            }
            Reply::Dir(entries) => {
                for entry in entries.iter_mut().filter_map(|entry| entry.entry.as_mut()) {
                    self.count(&mut entry.attr, kept_stale, now);
                }
            }
            _ => {}
        }
    }

    /// Puts the count of blocks for the answer into `attr`.
    fn count(&self, attr: &mut Attr, ahead: bool, now: Time) {
        if attr.blocks > 0 || attr.mode & mode::TYPE != mode::REGULAR {
            return;
        }
        if (1..SECTOR).contains(&attr.size) {
            attr.blocks = 1;
        } else if is_blank(attr, self.collects.get())
            && (ahead || !self.remembers(node(attr.ino), now))
        {
            attr.blocks = ADVANCE;
        }
    }

    fn remembers(&self, node: u64, now: Time) -> bool {
        // Without a gate, it makes no difference who asks.
        if !self.asks.get() {
            return true;
        }
        let mut told = self.told.borrow_mut();
        if told.len() < MOST {
            told.entry(node).or_insert(now);
        }
        told.contains_key(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(100 * SECS);

    fn file(size: u64, blocks: u64) -> Attr {
        Attr { ino: 9, mode: mode::REGULAR | 0o644, size, blocks, ..Attr::default() }
    }

    fn collecting() -> Blanks {
        let blanks = Blanks::default();
        blanks.begin(true, true);
        blanks
    }

    fn told(blanks: &Blanks, expect: Expect, attr: Attr, fetched: bool) -> (u64, bool) {
        let mut reply = Reply::Attr(attr);
        blanks.prepare(expect, &mut reply, NOW, false, fetched);
        let Reply::Attr(attr) = reply else { panic!() };
        (attr.blocks, blanks.is_once(&attr))
    }

    #[test]
    fn no_blocks_is_told_once_after_a_look_and_a_writer_is_told_of_one_in_advance() {
        let blanks = collecting();
        assert!(blanks.needs_pages(&file(0, 0), NOW));
        assert_eq!(told(&blanks, Expect::Attr, file(0, 0), true), (0, true));
        assert_eq!(told(&blanks, Expect::Gate, file(0, 0), true), (ADVANCE, false));
        assert_eq!(told(&blanks, Expect::Attr, file(5000, 16), true), (16, false));
    }

    #[test]
    fn an_empty_file_that_no_writer_asked_for_needs_no_second_look() {
        let blanks = collecting();
        told(&blanks, Expect::Attr, file(0, 0), true);
        assert!(blanks.needs_pages(&file(0, 0), NOW), "a writer may be on its way");
        let later = Time(NOW.0 + 2 * SECS);
        assert!(!blanks.needs_pages(&file(0, 0), later));
        assert!(blanks.needs_pages(&file(1 << 20, 0), later), "a mapping asks nobody");
        told(&blanks, Expect::Gate, file(0, 0), true);
        assert!(blanks.needs_pages(&file(0, 0), later));
    }

    #[test]
    fn what_cannot_be_fetched_counts_a_block() {
        assert_eq!(told(&collecting(), Expect::Statx, file(0, 0), false), (ADVANCE, false));
    }

    #[test]
    fn a_kernel_that_collects_nothing_may_hold_mapped_pages_and_no_others() {
        let blanks = Blanks::default();
        assert!(!blanks.needs_pages(&file(0, 0), NOW) && !blanks.is_once(&file(0, 0)));
        assert!(blanks.needs_pages(&file(4096, 0), NOW) && blanks.is_once(&file(4096, 0)));
    }

    #[test]
    fn bytes_in_the_inode_count_as_a_sector() {
        assert_eq!(told(&collecting(), Expect::Attr, file(40, 0), true), (1, false));
    }

    #[test]
    fn a_file_made_and_opened_counts_a_block_and_a_directory_never_does() {
        let blanks = collecting();
        let create = Expect::Create { exclusive: true, opened: false };
        for (expect, kind, blocks) in [
            (create, mode::REGULAR, ADVANCE),
            (Expect::Entry, mode::REGULAR, 0),
            (Expect::Entry, mode::DIRECTORY, 0),
        ] {
            let attr = Attr { mode: kind | 0o755, ..file(0, 0) };
            let mut reply = Reply::Entry(LookupEntry { attr, generation: 1 });
            blanks.prepare(expect, &mut reply, NOW, false, false);
            let Reply::Entry(entry) = reply else { panic!() };
            assert_eq!(entry.attr.blocks, blocks);
        }
        assert!(blanks.take(9) && !blanks.take(9));
    }
}
