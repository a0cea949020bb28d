//! Each kind of damage, made with right checksums through the volume's own state in memory, or by
//! changing bytes on the disk, is found and named.

use twin_disk::{Bytes as DiskBytes, Origin};
use twin_fs::dir::block::Format;
use twin_fs::dir::index::{self, BlockMap, Frames, StepError};
use twin_fs::dir::name_hash;
use twin_fs::geometry::Ptr;
use twin_fs::{Inode, Layout, ROOT_INO, dirty_parents, mode};

use super::rich::{Rich, long_name};
use super::*;
use crate::format::{
    BlockContents, CHECKPOINT_BYTES, Checkpoint, HeadPos, ImapEntry, Profile, Summary, Superblock,
};

const SIZE: u64 = 4 << 20;

impl Rich {
    fn inode(&self, ino: Ino) -> Rc<Inode> {
        let (layout, core) = (&self.w.volume.layout, self.w.volume.core());
        self.w.rt.block_on(layout.load_inode(core, ino)).unwrap().unwrap()
    }

    /// Changes an inode.
    fn edit(&self, ino: Ino, f: impl FnOnce(&mut twin_fs::dinode::Dinode)) {
        let inode = self.inode(ino);
        f(&mut inode.d.borrow_mut());
        self.w.volume.core().mark_inode_dirty(&inode);
    }

    fn block(&self, ino: Ino, lbn: i64) -> Vec<u8> {
        let core = self.w.volume.core();
        let frame = self.w.rt.block_on(core.block(&self.inode(ino), lbn, Origin::User));
        frame.unwrap().unwrap().unwrap().block().to_bytes().to_vec()
    }

    /// Changes the content of a block of a file.
    fn edit_block<T>(&self, ino: Ino, lbn: i64, f: impl FnOnce(&mut [u8]) -> T) -> T {
        let core = self.w.volume.core();
        let inode = self.inode(ino);
        let mut pinned = Vec::new();
        self.w.rt.block_on(core.pin_parents(&inode, lbn, &mut pinned)).unwrap().unwrap();
        let frame = self.w.rt.block_on(core.block(&inode, lbn, Origin::User));
        let frame = frame.unwrap().unwrap().unwrap();
        let done = frame.change(|block| f(block.bytes_mut()));
        core.cache.mark_dirty(&inode.frames, &frame);
        dirty_parents(core, &inode, lbn);
        done
    }

    fn format(&self) -> Format {
        match self.w.volume.layout.sb.profile {
            Profile::Classic => Format::Classic,
            Profile::Modern => Format::Modern,
        }
    }

    /// Bytes of a directory's first block that are part of it.
    fn len(&self, dir: Ino) -> usize {
        let size = self.inode(dir).d.borrow().size;
        size.min(self.w.volume.layout.sb.geometry.block_size.into()) as usize
    }

    /// Adds an entry to a directory's first block, past all rules.
    fn add_name(&self, dir: Ino, name: &[u8], ino: Ino, kind: u32) {
        let (format, len) = (self.format(), self.len(dir));
        let placed = self.edit_block(dir, 0, |raw| format.insert(&mut raw[..len], name, ino, kind));
        assert!(placed.is_some());
    }

    /// Removes an entry of a directory's first block, past all rules.
    fn remove_name(&self, dir: Ino, name: &[u8]) {
        let (format, len) = (self.format(), self.len(dir));
        self.edit_block(dir, 0, |raw| {
            let found = format.find(&raw[..len], name).unwrap();
            format.remove(&mut raw[..len], found.offset).unwrap();
        });
    }

    /// Makes an entry of a directory's first block lead elsewhere.
    fn redirect(&self, dir: Ino, name: &[u8], ino: Ino, kind: u32) {
        let (format, len) = (self.format(), self.len(dir));
        self.edit_block(dir, 0, |raw| {
            let found = format.find(&raw[..len], name).unwrap();
            format.set_ino(&mut raw[..len], found.offset, ino, kind).unwrap();
        });
    }

    fn edit_entry(&self, ino: Ino, f: impl FnOnce(&mut ImapEntry)) {
        let (lfs, core) = (&self.w.volume.layout, self.w.volume.core());
        let frame = self.w.rt.block_on(lfs.ifile.map_block(core, ino)).unwrap().unwrap();
        let mut entry = lfs.ifile.entry(&frame, ino);
        f(&mut entry);
        lfs.ifile.set_entry(core, &frame, ino, entry);
    }

    fn index_of(&self, dir: Ino) -> Ino {
        self.inode(dir).d.borrow().index_ino
    }
}

/// Damages a rich volume through its memory, closes it, and checks it. A repair must mend it.
fn damaged(options: &MkfsOptions, damage: impl FnOnce(&Rich)) -> Report {
    let rich = Rich::new(options, SIZE);
    damage(&rich);
    let disk = rich.w.close();
    let report = check_disk(Rc::clone(&disk), false).unwrap();
    super::repair::assert_repaired(&disk.to_bytes());
    report
}

/// Finds a finding of a kind, about an inode.
fn expect(report: &Report, kind: FindingKind, ino: Option<Ino>) -> &Finding {
    let mut all = report.findings.iter();
    let found = all.find(|f| f.kind == kind && (ino.is_none() || f.ino == ino));
    found.unwrap_or_else(|| panic!("no {kind:?} of inode {ino:?}: {report}"))
}

/// In both profiles, damage to an inode or what belongs to it is found under its name.
fn finds(kind: FindingKind, damage: impl Fn(&Rich) -> Ino) {
    for options in profiles() {
        let mut ino = 0;
        let report = damaged(&options, |rich| ino = damage(rich));
        expect(&report, kind, Some(ino));
    }
}

#[test]
fn a_rich_volume_is_clean() {
    for options in profiles() {
        let rich = Rich::new(&options, SIZE);
        assert_eq!(rich.index_of(rich.dir) != 0, options.profile == Profile::Modern);
        let report = assert_clean(&rich.w.close(), "rich");
        assert_eq!(report.counts.hidden, if options.profile == Profile::Modern { 2 } else { 0 });
    }
}

#[test]
fn wrong_link_counts_are_found() {
    for by in [-1i32, 1] {
        finds(FindingKind::LinkCount, |rich| {
            rich.edit(rich.small, |d| d.nlink = d.nlink.wrapping_add_signed(by));
            rich.small
        });
        finds(FindingKind::LinkCount, |rich| {
            rich.edit(rich.inner, |d| d.nlink = d.nlink.wrapping_add_signed(by));
            rich.inner
        });
    }
}

#[test]
fn a_lost_inode_is_found() {
    finds(FindingKind::LostInode, |rich| {
        rich.remove_name(ROOT_INO, b"big");
        rich.big
    });
    finds(FindingKind::LostInode, |rich| {
        rich.remove_name(rich.inner, b"innermost");
        rich.innermost
    });
}

#[test]
fn entries_that_lead_nowhere_or_to_the_wrong_type_are_found() {
    for (ino, kind) in [(1, mode::REGULAR), (200, mode::REGULAR), (1 << 30, mode::REGULAR)] {
        finds(FindingKind::DirEntry, |rich| {
            rich.redirect(ROOT_INO, b"big", ino, kind);
            ROOT_INO
        });
    }
    finds(FindingKind::DirEntry, |rich| {
        rich.redirect(ROOT_INO, b"big", rich.big, mode::SYMLINK);
        ROOT_INO
    });
    finds(FindingKind::DirEntry, |rich| {
        rich.add_name(ROOT_INO, b"second", rich.inner, mode::DIRECTORY);
        ROOT_INO
    });
}

#[test]
fn an_entry_that_leads_to_a_hidden_file_is_found() {
    let report = damaged(&MkfsOptions::modern([1; 16]), |rich| {
        rich.redirect(ROOT_INO, b"big", rich.index_of(rich.dir), mode::REGULAR);
    });
    assert!(expect(&report, FindingKind::DirEntry, Some(ROOT_INO)).what.contains("hidden"));
}

#[test]
fn a_name_that_is_there_twice_is_found() {
    finds(FindingKind::DuplicateName, |rich| {
        rich.add_name(ROOT_INO, b"big", rich.small, mode::REGULAR);
        ROOT_INO
    });
}

#[test]
fn a_wrong_parent_is_found() {
    finds(FindingKind::Parent, |rich| {
        rich.redirect(rich.innermost, b"..", ROOT_INO, mode::DIRECTORY);
        rich.innermost
    });
}

#[test]
fn a_directory_block_against_its_format_is_found_with_its_place() {
    for options in profiles() {
        let mut inner = 0;
        let report = damaged(&options, |rich| {
            inner = rich.inner;
            let (format, len) = (rich.format(), rich.len(inner));
            rich.edit_block(inner, 0, |raw| {
                let found = format.find(&raw[..len], b"tiny").unwrap();
                let head = if format == Format::Classic { 4 } else { 8 };
                raw[found.offset + head] = 2;
            });
        });
        assert!(expect(&report, FindingKind::DirBlock, Some(inner)).at.is_some());
    }
}

#[test]
fn directories_in_a_circle_are_found() {
    finds(FindingKind::Unreachable, |rich| {
        // The inner directory moves into its own child.
        let (dir, inner, innermost) = (rich.dir, rich.inner, rich.innermost);
        let format = rich.format();
        let blocks = rich.w.volume.core().geometry.blocks_for(rich.inode(dir).d.borrow().size);
        let size = rich.inode(dir).d.borrow().size as usize;
        for lbn in 0..blocks {
            let len = (size - lbn as usize * 4096).min(4096);
            rich.edit_block(dir, lbn as i64, |raw| {
                if let Some(found) = format.find(&raw[..len], b"inner") {
                    format.remove(&mut raw[..len], found.offset).unwrap();
                }
            });
        }
        rich.add_name(innermost, b"inner", inner, mode::DIRECTORY);
        rich.redirect(inner, b"..", innermost, mode::DIRECTORY);
        rich.edit(dir, |d| d.nlink -= 1);
        rich.edit(innermost, |d| d.nlink += 1);
        inner.min(innermost)
    });
}

#[test]
fn a_place_that_two_files_use_is_found_and_the_log_tells_the_owner() {
    for options in profiles() {
        let mut inos = (0, 0);
        let report = damaged(&options, |rich| {
            inos = (rich.big, rich.small);
            let stolen: Ptr = rich.inode(rich.big).d.borrow().ptrs[1];
            rich.edit(rich.small, |d| {
                d.ptrs[0] = stolen;
                d.size = 4096;
                d.allocated = 4096;
            });
        });
        let twice: Vec<&Finding> =
            report.findings.iter().filter(|f| f.kind == FindingKind::DoubleUse).collect();
        assert_eq!(twice.len(), 1, "{report}");
        assert!(twice[0].what.contains(&format!("block 1 of inode {}", inos.0)), "{report}");
    }
}

#[test]
fn an_indirect_block_that_is_its_own_child_ends_the_walk() {
    for options in profiles() {
        let report = damaged(&options, |rich| {
            let geometry = rich.w.volume.core().geometry.clone();
            let inode = rich.inode(rich.big);
            let top = geometry.inode_child(geometry.direct + 1);
            rich.block(rich.big, top);
            let own = inode.d.borrow().ptrs[geometry.direct + 1];
            rich.edit_block(rich.big, top, |raw| {
                for index in 0..geometry.per_block() as usize {
                    geometry.set_ptr(raw, index, own);
                }
            });
        });
        assert!(!report.is_clean());
    }
}

#[test]
fn pointers_to_impossible_places_are_found() {
    for options in profiles() {
        let report = damaged(&options, |rich| {
            rich.edit(rich.big, |d| d.ptrs[2].addr = 3);
        });
        expect(&report, FindingKind::Pointer, None);
    }
}

#[test]
fn a_block_past_the_end_and_a_wrong_length_are_found() {
    finds(FindingKind::Size, |rich| {
        rich.edit(rich.big, |d| d.size = 60_000);
        rich.big
    });
    let report = damaged(&MkfsOptions::modern([1; 16]), |rich| {
        rich.edit(rich.small, |d| d.size = 5000);
    });
    expect(&report, FindingKind::Pointer, None);
}

#[test]
fn wrong_counts_of_bytes_and_entries_are_found() {
    finds(FindingKind::Allocated, |rich| {
        rich.edit(rich.big, |d| d.allocated += 4096);
        rich.big
    });
    let mut dir = 0;
    let report = damaged(&MkfsOptions::modern([1; 16]), |rich| {
        dir = rich.dir;
        rich.edit(dir, |d| d.entries += 1);
    });
    expect(&report, FindingKind::EntryCount, Some(dir));
}

#[test]
fn impossible_fields_of_inodes_are_found() {
    let edits: [fn(&mut twin_fs::dinode::Dinode); 3] =
        [|d| d.mode = 0o644, |d| d.flags |= 64, |d| d.mode = mode::DIRECTORY | 0o755];
    for edit in edits {
        finds(FindingKind::Inode, |rich| {
            rich.edit(rich.small, edit);
            rich.small
        });
    }
    finds(FindingKind::OrphanMark, |rich| {
        rich.edit(rich.small, |d| d.flags |= twin_fs::dinode::TRUNCATING);
        rich.small
    });
    finds(FindingKind::Inode, |rich| {
        rich.edit(rich.inner, |d| d.size += 3);
        rich.inner
    });
    finds(FindingKind::Size, |rich| {
        rich.edit(rich.innermost, |d| d.size = 0);
        rich.innermost
    });
    let mut small = 0;
    let report = damaged(&MkfsOptions::modern([1; 16]), |rich| {
        small = rich.small;
        rich.edit(small, |d| d.index_ino = 9);
    });
    expect(&report, FindingKind::InodeField, Some(small));
}

#[test]
fn map_entries_that_contradict_inodes_are_found() {
    finds(FindingKind::Inode, |rich| {
        rich.edit_entry(rich.small, |entry| {
            let ImapEntry::Used { generation, .. } = entry else { panic!() };
            *generation += 1;
        });
        rich.small
    });
    finds(FindingKind::OrphanMark, |rich| {
        rich.edit_entry(rich.small, |entry| {
            let ImapEntry::Used { orphan, .. } = entry else { panic!() };
            *orphan = true;
        });
        rich.small
    });
    finds(FindingKind::MapEntry, |rich| {
        rich.edit_entry(rich.small, |entry| {
            let ImapEntry::Used { at, .. } = entry else { panic!() };
            *at = 0;
        });
        rich.small
    });
    for options in profiles() {
        let report = damaged(&options, |rich| {
            let mut stolen = 0;
            rich.edit_entry(rich.big, |entry| {
                let ImapEntry::Used { at, .. } = entry else { panic!() };
                stolen = *at;
            });
            rich.edit_entry(rich.small, |entry| {
                let ImapEntry::Used { at, .. } = entry else { panic!() };
                *at = stolen;
            });
        });
        assert!(report.has(FindingKind::Inode), "{report}");
    }
}

#[test]
fn damage_to_the_list_of_free_numbers_is_found() {
    const LAST: Ino = 250;
    let makes: [fn(&Rich); 4] = [
        |rich| rich.edit_entry(LAST, |e| *e = ImapEntry::Free { next: LAST, generation: 0 }),
        |rich| rich.edit_entry(LAST, |e| *e = ImapEntry::Free { next: 5, generation: 0 }),
        |rich| rich.edit_entry(LAST, |e| *e = ImapEntry::Free { next: 0, generation: 0 }),
        |rich| {
            let numbers = &rich.w.volume.layout.numbers;
            numbers.set_list(numbers.free_head(), numbers.free() + 1);
        },
    ];
    for options in profiles() {
        for make in makes {
            let report = damaged(&options, make);
            assert!(report.has(FindingKind::FreeList), "{report}");
            assert!(report.findings.iter().all(|f| f.kind == FindingKind::FreeList), "{report}");
        }
    }
}

#[test]
fn a_usage_table_that_is_wrong_is_found() {
    for options in profiles() {
        let report = damaged(&options, |rich| {
            let lfs = &rich.w.volume.layout;
            let at = lfs.sb.segment_start(lfs.sb.segments() - 3);
            lfs.usage.block_lives(at, 512, twin_rt::Time(1), None);
        });
        let finding = expect(&report, FindingKind::Usage, None);
        assert_eq!(finding.severity, Severity::Minor);
        let report = damaged(&options, |rich| {
            let lfs = &rich.w.volume.layout;
            let at = lfs.sb.geometry.byte_of(rich.inode(rich.big).d.borrow().ptrs[0].addr);
            lfs.usage.block_dies(at, 512, crate::segment_usage::Death::Rewritten);
        });
        assert_eq!(expect(&report, FindingKind::Usage, None).severity, Severity::Serious);
    }
}

fn on_index(rich: &Rich, step: impl Fn(&mut BlockMap, [u64; 2]) -> Result<(), StepError>) {
    let ino = rich.index_of(rich.dir);
    let mut map = BlockMap::default();
    map.put(0, rich.block(ino, 0));
    let key = index::header(&map).unwrap().key;
    let before = loop {
        let before = map.clone();
        match step(&mut map, key) {
            Ok(()) => break before,
            Err(StepError::Load(lbn)) => map.put(lbn, rich.block(ino, lbn as i64)),
            Err(stop) => panic!("{stop:?}"),
        }
    };
    for lbn in 0..1000 {
        let now = map.read(lbn, <[u8]>::to_vec);
        if let Some(now) = now
            && Some(&now) != before.read(lbn, <[u8]>::to_vec).as_ref()
        {
            rich.edit_block(ino, lbn as i64, |raw| raw.copy_from_slice(&now));
        }
    }
}

#[test]
fn stale_and_missing_entries_of_an_index_are_found() {
    let options = MkfsOptions::modern([1; 16]);
    let mut dir = 0;
    let report = damaged(&options, |rich| {
        dir = rich.dir;
        on_index(rich, |map, key| index::insert(map, name_hash(key, b"nobody"), 1));
    });
    assert!(expect(&report, FindingKind::Index, Some(dir)).what.contains("lead to no name"));
    let report = damaged(&options, |rich| {
        on_index(rich, |map, key| {
            let hash = name_hash(key, &long_name(7));
            let lbn = index::lookup(map, hash)?[0];
            index::remove(map, hash, lbn).map(|found| assert!(found))
        });
    });
    assert!(expect(&report, FindingKind::Index, Some(dir)).what.contains("not in the index"));
    let report = damaged(&options, |rich| {
        rich.edit_block(rich.index_of(rich.dir), 0, |raw| raw[44..48].fill(0xff));
    });
    expect(&report, FindingKind::Index, Some(dir));
}

#[test]
fn hidden_files_without_one_owner_are_found() {
    let options = MkfsOptions::modern([1; 16]);
    let mut hidden = 0;
    let report = damaged(&options, |rich| {
        hidden = rich.index_of(rich.dir);
        rich.edit(rich.dir, |d| d.index_ino = 0);
    });
    expect(&report, FindingKind::HiddenFile, Some(hidden));
    let mut ino = 0;
    let report = damaged(&options, |rich| {
        ino = rich.small.max(rich.xattrs);
        let hidden = rich.inode(rich.xattrs).d.borrow().xattr_ino;
        rich.edit(rich.small, |d| {
            d.xattrs.clear();
            d.xattr_ino = hidden;
        });
    });
    expect(&report, FindingKind::HiddenFile, None);
    let report = damaged(&options, |rich| {
        ino = rich.small;
        rich.edit(rich.small, |d| {
            d.xattrs.clear();
            d.xattr_ino = rich.big;
        });
    });
    expect(&report, FindingKind::HiddenFile, Some(ino));
}

#[test]
fn damaged_lists_of_attributes_are_found() {
    let options = MkfsOptions::modern([1; 16]);
    let mut ino = 0;
    let report = damaged(&options, |rich| {
        ino = rich.small;
        rich.edit(ino, |d| d.xattrs = vec![1, 2, 3]);
    });
    expect(&report, FindingKind::Xattrs, Some(ino));
    for at in [0, 4] {
        let report = damaged(&options, |rich| {
            ino = rich.xattrs;
            let hidden = rich.inode(ino).d.borrow().xattr_ino;
            rich.edit_block(hidden, 0, |raw| raw[at] ^= 0x40);
        });
        expect(&report, FindingKind::Xattrs, Some(ino));
    }
}

/// Changes the newest checkpoint on the disk, in all its copies.
pub(super) fn edit_checkpoint(bytes: &mut [u8], f: impl FnOnce(&mut Checkpoint, &Superblock)) {
    let sb = Superblock::decode(&bytes[..4096], 0, bytes.len() as u64).unwrap();
    let newest = (0..2).filter_map(|slot| {
        let at = sb.checkpoint_places(slot)[0];
        Checkpoint::decode(&sb, &bytes[at as usize..], at).ok()
    });
    let mut checkpoint = newest.max_by_key(|checkpoint| checkpoint.number).unwrap();
    f(&mut checkpoint, &sb);
    for at in sb.checkpoint_places(checkpoint.number % 2) {
        let raw = checkpoint.encode(&sb);
        bytes[at as usize..at as usize + raw.len()].copy_from_slice(&raw);
    }
}

#[test]
fn a_log_that_would_go_on_in_live_segments_is_found() {
    for options in profiles() {
        let rich = Rich::new(&options, SIZE);
        let addr = rich.inode(rich.big).d.borrow().ptrs[0].addr;
        let mut bytes = rich.w.close().to_bytes();
        edit_checkpoint(&mut bytes, |checkpoint, sb| {
            checkpoint.heads[0].next = sb.segment_of(sb.geometry.byte_of(addr)).unwrap();
        });
        expect(&check_bytes(bytes.clone(), false), FindingKind::LogHead, None);
        edit_checkpoint(&mut bytes, |checkpoint, _| {
            checkpoint.heads[0].offset = 0;
            checkpoint.heads[0].next = checkpoint.heads[0].segment;
        });
        expect(&check_bytes(bytes, false), FindingKind::LogHead, None);
    }
}

#[test]
fn an_ifile_that_is_too_short_is_found() {
    for options in profiles() {
        let mut bytes = Rich::new(&options, SIZE).w.close().to_bytes();
        edit_checkpoint(&mut bytes, |checkpoint, _| checkpoint.ifile.size += 4096);
        expect(&check_bytes(bytes, false), FindingKind::Ifile, Some(1));
    }
}

#[test]
fn a_wrong_count_of_orphans_is_found() {
    for options in profiles() {
        let mut bytes = Rich::new(&options, SIZE).w.close().to_bytes();
        edit_checkpoint(&mut bytes, |checkpoint, _| checkpoint.orphans = 1);
        expect(&check_bytes(bytes, false), FindingKind::OrphanMark, None);
    }
}

#[test]
fn each_copy_of_superblock_and_checkpoint_matters() {
    let bytes = Rich::new(&MkfsOptions::modern([1; 16]), SIZE).w.close().to_bytes();
    let sb = Superblock::decode(&bytes[..4096], 0, SIZE).unwrap();
    for at in Superblock::places(sb.size(), 2) {
        let mut bad = bytes.clone();
        bad[at as usize + 100] ^= 1;
        let report = check_bytes(bad, false);
        assert_eq!(expect(&report, FindingKind::Superblock, None).at, Some(at));
        assert_eq!(report.findings.len(), 1, "{report}");
    }
    for at in (0..2).flat_map(|slot| sb.checkpoint_places(slot)) {
        for offset in [0, 13, 200, CHECKPOINT_BYTES - 1] {
            let mut bad = bytes.clone();
            bad[(at + offset) as usize] ^= 1;
            let report = check_bytes(bad, false);
            assert_eq!(expect(&report, FindingKind::Checkpoint, None).at, Some(at));
            assert_eq!(report.findings.len(), 1, "{report}");
        }
    }
}

#[test]
fn without_a_sound_checkpoint_the_check_says_so_and_ends() {
    let mut bytes = Rich::new(&MkfsOptions::classic([1; 16]), SIZE).w.close().to_bytes();
    bytes[4096..12288].fill(0);
    let report = check_bytes(bytes.clone(), false);
    assert_eq!(report.worst(), Some(Severity::Fatal));
    assert!(report.has(FindingKind::Checkpoint));
    bytes[0] ^= 1;
    assert!(try_check(bytes, false).is_err());
}

#[test]
fn swapped_and_changed_data_is_found_under_its_file() {
    for options in profiles() {
        let rich = Rich::new(&options, SIZE);
        let big = rich.big;
        let ptrs = rich.inode(big).d.borrow().ptrs.clone();
        let geometry = rich.w.volume.core().geometry.clone();
        let bytes = rich.w.close().to_bytes();
        let place = |nth: usize| geometry.byte_of(ptrs[nth].addr) as usize;
        let mut swapped = bytes.clone();
        swapped[place(3)..place(3) + 4096].copy_from_slice(&bytes[place(4)..place(4) + 4096]);
        swapped[place(4)..place(4) + 4096].copy_from_slice(&bytes[place(3)..place(3) + 4096]);
        assert!(check_bytes(swapped.clone(), false).is_clean());
        let ino = (options.profile == Profile::Modern).then_some(big);
        expect(&check_bytes(swapped, true), FindingKind::Data, ino);
        let mut flipped = bytes;
        flipped[place(5) + 77] ^= 4;
        let report = check_bytes(flipped, true);
        let finding = expect(&report, FindingKind::Data, ino);
        if ino.is_some() {
            assert_eq!(finding.at, Some(place(5) as u64));
        }
    }
}

#[test]
fn damaged_metadata_is_found_at_its_place() {
    let rich = Rich::new(&MkfsOptions::modern([1; 16]), SIZE);
    let geometry = rich.w.volume.core().geometry.clone();
    let single = rich.inode(rich.big).d.borrow().ptrs[geometry.direct];
    let names = rich.inode(rich.inner).d.borrow().ptrs[0];
    let table = rich.w.volume.layout.ifile.inode.d.borrow().ptrs[0];
    let (big, inner) = (rich.big, rich.inner);
    let bytes = rich.w.close().to_bytes();
    for (ptr, kind, ino) in
        [(single, FindingKind::IndirectBlock, big), (names, FindingKind::DirBlock, inner)]
    {
        let at = geometry.byte_of(ptr.addr);
        let mut bad = bytes.clone();
        bad[at as usize + 9] ^= 1;
        let report = check_bytes(bad, false);
        assert_eq!(expect(&report, kind, Some(ino)).at, Some(at), "{report}");
    }
    // The table moves with every checkpoint, so look it up on the closed volume.
    let mut bad = bytes;
    let mut at = 0;
    edit_checkpoint(&mut bad, |checkpoint, sb| {
        at = sb.geometry.byte_of(checkpoint.ifile.ptrs[0].addr)
    });
    assert_ne!(at, geometry.byte_of(table.addr));
    bad[at as usize] ^= 1;
    expect(&check_bytes(bad, false), FindingKind::Ifile, Some(1));
}

#[test]
fn a_damaged_summary_is_found() {
    for options in profiles() {
        let rich = Rich::new(&options, SIZE);
        let sb = rich.w.volume.layout.sb.clone();
        let addr = rich.inode(rich.big).d.borrow().ptrs[0].addr;
        let mut bytes = rich.w.close().to_bytes();
        let segment = sb.segment_of(sb.geometry.byte_of(addr)).unwrap();
        bytes[sb.segment_start(segment) as usize + 90] ^= 1;
        for data in [false, true] {
            expect(&check_bytes(bytes.clone(), data), FindingKind::Summary, None);
        }
    }
}

#[test]
fn a_summary_that_names_other_blocks_is_found() {
    let rich = Rich::new(&MkfsOptions::modern([1; 16]), SIZE);
    let (sb, big) = (rich.w.volume.layout.sb.clone(), rich.big);
    let addr = rich.inode(big).d.borrow().ptrs[0].addr;
    let mut bytes = rich.w.close().to_bytes();
    let at = sb.segment_start(sb.segment_of(sb.geometry.byte_of(addr)).unwrap()) as usize;
    let raw = DiskBytes::copy_of(&bytes[at..at + sb.segment_size as usize]);
    let mut offset = 0;
    loop {
        let mut summary = Summary::decode(&sb, &raw[offset..], 65536).unwrap();
        let mut changed = false;
        for entry in &mut summary.entries {
            if let crate::format::SummaryEntry::File { ino, blocks, .. } = entry
                && *ino == big
            {
                blocks[0].lbn += 1000;
                changed = true;
            }
        }
        if changed {
            let new = summary.encode(&sb);
            bytes[at + offset..at + offset + new.len()].copy_from_slice(&new);
            break;
        }
        offset += summary.header.total_bytes as usize;
    }
    let report = check_bytes(bytes, false);
    expect(&report, FindingKind::Summary, Some(big));
}

#[test]
fn a_volume_that_cannot_be_recovered_is_found() {
    let mut rich = Rich::new(&MkfsOptions::modern([1; 16]), SIZE);
    rich.w.op(Op::Sync);
    let table = rich.w.volume.layout.ifile.inode.d.borrow().ptrs[0].addr;
    let at = rich.w.volume.layout.sb.geometry.byte_of(table);
    let mut bytes = rich.w.crash().to_bytes();
    bytes[at as usize] ^= 1;
    let report = check_bytes(bytes, false);
    assert_eq!(expect(&report, FindingKind::Recovery, None).severity, Severity::Fatal);
    expect(&report, FindingKind::Ifile, Some(1));
}

/// An inode in the log may have any number; roll-forward must not make the map as long as it asks.
#[test]
fn an_impossible_inode_in_the_log_is_refused() {
    let mut rich = Rich::new(&MkfsOptions::classic([1; 16]), SIZE);
    rich.w.op(Op::Sync);
    let head = rich.w.volume.layout.position.head(0);
    rich.w.create(ROOT_INO, "new");
    rich.w.op(Op::Sync);
    let after = rich.w.volume.layout.position.head(0);
    let sb = rich.w.volume.layout.sb.clone();
    let mut bytes = rich.w.crash().to_bytes();
    // The sync wrote one partial segment, perhaps in the next segment.
    let place = if after.segment == head.segment { head } else { HeadPos { offset: 0, ..after } };
    let at = (sb.segment_start(place.segment) + u64::from(place.offset)) as usize;
    let old = Summary::decode(&sb, &bytes[at..], sb.segment_size - place.offset).unwrap();
    let mut crcs = Vec::new();
    for block in old.blocks(&sb) {
        let range = at + block.at as usize..at + (block.at + block.len) as usize;
        if let BlockContents::Inodes(_) = block.what {
            bytes[range.start + 4..range.start + 8].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
        }
        crcs.push(crc32c::crc32c(&bytes[range]));
    }
    let raw = Summary::new(old.header, old.entries, &crcs).encode(&sb);
    bytes[at..at + raw.len()].copy_from_slice(&raw);
    let report = check_bytes(bytes, false);
    let finding = expect(&report, FindingKind::Recovery, None);
    assert!(finding.what.contains("impossible inode 2147483647"), "{report}");
}

#[test]
fn an_ifile_longer_than_the_volume_is_refused() {
    for options in profiles() {
        let mut bytes = Rich::new(&options, SIZE).w.close().to_bytes();
        edit_checkpoint(&mut bytes, |checkpoint, _| checkpoint.ifile.size = 1 << 41);
        // The checkpoint before it counts, and the log is rolled forward from there.
        let report = check_bytes(bytes, false);
        assert!(report.was_open, "{report}");
    }
}
