//! The ifile: the segment usage table, the inode map, and the list of free numbers.

use twin_fs::dinode::HIDDEN;
use twin_fs::{Ino, ROOT_INO};

use super::tree::Tree;
use super::{Checker, Finding, Kind, Node, Severity, State};
use crate::format::IFILE_INO;
use crate::format::{IMAP_ENTRY_BYTES, ImapEntry, SEG_ENTRY_BYTES, SegEntry};

impl Node {
    fn new(entry: Option<ImapEntry>) -> Node {
        let blank = Node {
            at: 0,
            link: 0,
            crc: 0,
            generation: 0,
            nlink: 0,
            names: 0,
            state: State::Unknown,
            kind: 0,
            marked: false,
            listed: false,
        };
        match entry {
            None => blank,
            Some(ImapEntry::Free { next, generation }) => {
                Node { link: next, generation, state: State::Free, ..blank }
            }
            Some(ImapEntry::Used { at, crc, generation, orphan }) => {
                Node { at, crc, generation, marked: orphan, state: State::Used, ..blank }
            }
        }
    }
}

impl Checker<'_> {
    /// Reads the ifile whole: fills the table and the nodes.
    pub(super) async fn read_ifile(&mut self) {
        let d = self.view.standing.ifile.clone();
        let shape = self.view.sb.shape.clone();
        let bad = |what: String| Finding::new(Kind::Ifile, Severity::Fatal, what).of(IFILE_INO);
        if (d.ino, d.mode, d.nlink, d.flags) != (IFILE_INO, 0, 1, HIDDEN) {
            self.add(bad("the checkpoint's inode is not that of an ifile".into()));
        }
        let blocks = shape.blocks_for(d.size);
        if !d.size.is_multiple_of(shape.block_size.into()) || d.size > self.view.sb.size {
            self.add(bad(format!("a length of {} bytes", d.size)));
        }
        let mut tree = Tree::new(&d);
        let mut next = 0;
        while let Some(step) = self.next_data(&mut tree).await {
            let lbn = step.lbn as u64;
            if lbn >= blocks {
                continue;
            }
            self.pass_over(next, lbn);
            next = lbn + 1;
            match self.view.block(IFILE_INO, step.lbn, step.ptr).await {
                Ok(content) => self.take_ifile_block(lbn, Some(&content)),
                Err(error) => {
                    let what = format!("block {lbn}, {}", self.ifile_block_name(lbn));
                    self.add_error(Kind::Ifile, Severity::Fatal, IFILE_INO, error, &what);
                    self.take_ifile_block(lbn, None);
                }
            }
        }
        self.pass_over(next, blocks.min(self.view.sb.size / u64::from(shape.block_size)));
        self.table.resize(self.view.sb.segments as usize, SegEntry::default());
        if let Some(table) = self.view.standing.table.take() {
            self.table = table;
        }
        self.compare_allocated(&d, tree.allocated);
        self.check_first_numbers();
    }

    /// Blocks of the ifile that do not exist.
    fn pass_over(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let what = format!("there are no blocks {first} to {}", end - 1);
        self.add(Finding::new(Kind::Ifile, Severity::Fatal, what).of(IFILE_INO));
        for lbn in first..end {
            self.take_ifile_block(lbn, None);
        }
    }

    fn ifile_block_name(&self, lbn: u64) -> String {
        let sb = &self.view.sb;
        match lbn.checked_sub(sb.usage_blocks()) {
            None => "of the segment usage table".into(),
            Some(nth) => {
                let first = nth * self.view.map_entries();
                format!("with inodes {first} to {}", first + self.view.map_entries() - 1)
            }
        }
    }

    fn take_ifile_block(&mut self, lbn: u64, content: Option<&[u8]>) {
        let blank = vec![0; self.view.sb.shape.block_size as usize];
        if lbn < self.view.sb.usage_blocks() {
            let raw = content.unwrap_or(&blank);
            self.table.extend(raw.chunks_exact(SEG_ENTRY_BYTES).map(SegEntry::decode));
            return;
        }
        let known = content.is_some();
        let entries = content.unwrap_or(&blank).chunks_exact(IMAP_ENTRY_BYTES);
        self.nodes.extend(entries.map(|raw| Node::new(known.then(|| ImapEntry::decode(raw)))));
    }

    /// Numbers 0 and 1 are nobody's; the root exists.
    fn check_first_numbers(&mut self) {
        for ino in 0..ROOT_INO {
            if self.node(ino).is_none_or(|node| node.state != State::Free) {
                let what = "a number that no file can have is not free in the inode map";
                self.add(Finding::new(Kind::MapEntry, Severity::Minor, what).of(ino));
            }
        }
        if self.node(ROOT_INO).is_none_or(|node| node.state == State::Free) {
            let what = "the root directory is not in the inode map";
            self.add(Finding::new(Kind::MapEntry, Severity::Fatal, what).of(ROOT_INO));
        }
    }

    /// Every free number is on the list once, or was picked; nothing else is on it.
    pub(super) fn check_free_list(&mut self) {
        let mut at = self.view.standing.free_head;
        let (mut from, mut count): (Ino, u64) = (0, 0);
        while at != 0 {
            let place = if from == 0 { "it begins".into() } else { format!("inode {from} leads") };
            let wrong = match self.node_mut(at) {
                _ if at <= ROOT_INO => "a number that is never free",
                None => "a number past the end of the map",
                Some(node) if node.state == State::Unknown => "a number that the map lacks",
                Some(node) if node.state != State::Free => "a number that is in use",
                Some(node) if node.listed => "a number that it has been at: a circle",
                Some(node) => {
                    node.listed = true;
                    count += 1;
                    (from, at) = (at, node.link);
                    continue;
                }
            };
            let what = format!("the list of free numbers: {place} at {at}, {wrong}");
            self.add(Finding::new(Kind::FreeList, Severity::Serious, what).of(at));
            break;
        }
        let said = self.view.standing.free_inodes;
        if said != count {
            let what = format!("{said} free numbers are counted, the list has {count}");
            self.add(Finding::new(Kind::FreeList, Severity::Minor, what));
        }
        self.check_unlisted();
    }

    /// Free numbers that are not on the list.
    fn check_unlisted(&mut self) {
        let picked = self.view.standing.picked.clone();
        for ino in picked {
            match self.node_mut(ino) {
                Some(node) if node.state == State::Free && !node.listed => node.listed = true,
                _ => {
                    let what = "a number that was picked for a new file is not a free one";
                    self.add(Finding::new(Kind::FreeList, Severity::Minor, what).of(ino));
                }
            }
        }
        let missing = |(ino, node): &(usize, &Node)| {
            *ino as Ino > ROOT_INO && node.state == State::Free && !node.listed
        };
        let mut leaked = self.nodes.iter().enumerate().filter(missing).map(|(ino, _)| ino as Ino);
        if let Some(first) = leaked.next() {
            let more = leaked.count();
            let what = format!("free, but not on the list of free numbers; so are {more} more");
            self.add(Finding::new(Kind::FreeList, Severity::Minor, what).of(first));
        }
    }
}
