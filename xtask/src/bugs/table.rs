//! The planted bugs: what each is, and where.
//!
//! Contract: a patch replaces a text that its file has once. `bug("name")` in the new text is the switch of a bug; a
//! patch may have several. Patches apply in order.

/// A planted bug.
#[derive(Debug)]
pub(super) struct Bug {
    pub(super) name: &'static str,
    /// The layout on which it is looked for, with a setting of the volume.
    pub(super) layout: &'static str,
    pub(super) about: &'static str,
}

/// The bugs.
pub(super) const BUGS: &[Bug] = &[
    Bug { name: "lfs-no-flush", layout: "lfs", about: "fsync does not flush the device" },
    Bug {
        name: "lfs-checkpoint-first",
        layout: "lfs",
        about: "a checkpoint does not wait for what it leads to",
    },
    Bug {
        name: "lfs-checkpoint-unordered",
        layout: "lfs",
        about: "a checkpoint waits for what it leads to, but not for its flush",
    },
    Bug {
        name: "lfs-one-slot",
        layout: "lfs",
        about: "every checkpoint overwrites the one before",
    },
    Bug { name: "lfs-checkpoint-unflushed", layout: "lfs", about: "a checkpoint is not flushed" },
    Bug {
        name: "lfs-always-closed",
        layout: "lfs",
        about: "every checkpoint says that the volume was closed",
    },
    Bug {
        name: "lfs-free-head",
        layout: "lfs",
        about: "a checkpoint forgets the list of free numbers",
    },
    Bug {
        name: "lfs-no-orphans",
        layout: "lfs",
        about: "a checkpoint counts no inode without names",
    },
    Bug { name: "lfs-old-serial", layout: "lfs", about: "a checkpoint has an old serial number" },
    Bug { name: "lfs-roll-none", layout: "lfs", about: "recovery applies no log write" },
    Bug {
        name: "lfs-roll-one",
        layout: "lfs",
        about: "recovery applies the first log write alone",
    },
    Bug {
        name: "lfs-roll-part",
        layout: "lfs",
        about: "recovery applies log writes whose end is missing",
    },
    Bug {
        name: "lfs-no-checksum",
        layout: "lfs",
        about: "recovery believes summaries without their blocks",
    },
    Bug { name: "lfs-tail-stays", layout: "lfs", about: "recovery leaves the log behind its end" },
    Bug {
        name: "lfs-freed-ignored",
        layout: "lfs",
        about: "recovery does not free what was freed",
    },
    Bug {
        name: "lfs-old-lives",
        layout: "lfs",
        about: "recovery counts blocks that were replaced as live",
    },
    Bug {
        name: "lfs-new-dead",
        layout: "lfs",
        about: "recovery does not count new blocks as live",
    },
    Bug {
        name: "lfs-orphan-forgotten",
        layout: "lfs",
        about: "recovery forgets inodes without names",
    },
    Bug {
        name: "lfs-inode-lives",
        layout: "lfs",
        about: "recovery counts the old place of an inode as live",
    },
    Bug {
        name: "lfs-picked-lost",
        layout: "lfs",
        about: "recovery loses the numbers that were picked and not used",
    },
    Bug {
        name: "lfs-freed-lost",
        layout: "lfs",
        about: "recovery loses the numbers that became free",
    },
    Bug {
        name: "lfs-indirect-old",
        layout: "lfs",
        about: "recovery takes the old content of an indirect block",
    },
    Bug {
        name: "lfs-head-back",
        layout: "lfs",
        about: "after a recovery the log goes on before its last write",
    },
    Bug {
        name: "lfs-one-stream",
        layout: "lfs",
        about: "recovery reads one stream of the log alone",
    },
    Bug {
        name: "lfs-one-segment",
        layout: "lfs",
        about: "recovery does not look into the next segment",
    },
    Bug {
        name: "lfs-freed-untold",
        layout: "lfs",
        about: "the log does not say which numbers became free",
    },
    Bug {
        name: "lfs-map-clean",
        layout: "lfs",
        about: "a checkpoint leaves out blocks of the inode map",
    },
    Bug { name: "lfs-no-end", layout: "lfs", about: "a log write does not say where it ends" },
    Bug {
        name: "fs-orphan-untold",
        layout: "lfs",
        about: "the layout does not hear that an inode lost its last name",
    },
    Bug {
        name: "fs-unlink-clean",
        layout: "lfs",
        about: "the inode of a removed name is not written",
    },
    Bug {
        name: "fs-not-adopted",
        layout: "ffs",
        about: "an inode that is freed stays on the list of those without names",
    },
    Bug { name: "fs-dotdot", layout: "lfs", about: "a directory that moves keeps its old parent" },
    Bug {
        name: "fs-rename-clean",
        layout: "lfs",
        about: "an inode that got another name is not written",
    },
    Bug {
        name: "fs-inline-lost",
        layout: "ffs",
        about: "what an inode held is lost when the file grows",
    },
    Bug {
        name: "fs-pointer-clean",
        layout: "ffs",
        about: "the inode of a new block is not written",
    },
    Bug { name: "fs-link-count", layout: "lfs", about: "a link is not counted" },
    Bug { name: "ffs-no-flush", layout: "ffs", about: "nothing is flushed" },
    Bug {
        name: "ffs-record-unflushed",
        layout: "ffs",
        about: "a record of the journal is not flushed",
    },
    Bug {
        name: "ffs-checkpoint-unflushed",
        layout: "ffs",
        about: "blocks are not flushed before the journal forgets them",
    },
    Bug {
        name: "ffs-close-unwritten",
        layout: "ffs",
        about: "closing forgets what is only in the journal",
    },
    Bug {
        name: "ffs-not-journaled",
        layout: "ffs",
        about: "what a record has is not written to its place later",
    },
    Bug { name: "ffs-head-stays", layout: "ffs", about: "each record overwrites the one before" },
    Bug {
        name: "ffs-data-late",
        layout: "ffs",
        about: "a record does not wait for the data that it leads to",
    },
    Bug {
        name: "ffs-data-unflushed",
        layout: "ffs",
        about: "data is not flushed before the record that leads to it",
    },
    Bug {
        name: "ffs-new-data-left",
        layout: "ffs",
        about: "a transaction leaves out the data of new blocks",
    },
    Bug { name: "ffs-orphans-left", layout: "ffs", about: "records name no inode without names" },
    Bug {
        name: "ffs-maps-left",
        layout: "ffs",
        about: "a transaction leaves out the maps of free space",
    },
    Bug {
        name: "ffs-tables-left",
        layout: "ffs",
        about: "a transaction leaves out blocks of inodes",
    },
    Bug {
        name: "ffs-no-checksum",
        layout: "ffs",
        about: "replay believes records without their blocks",
    },
    Bug { name: "ffs-replay-one", layout: "ffs", about: "replay takes the first record alone" },
    Bug { name: "ffs-replay-unwritten", layout: "ffs", about: "replay writes nothing" },
    Bug {
        name: "ffs-replay-unflushed",
        layout: "ffs",
        about: "replay does not flush before it moves the header",
    },
    Bug { name: "ffs-replay-orphans", layout: "ffs", about: "replay forgets inodes without names" },
    Bug { name: "ffs-not-opened", layout: "ffs", about: "a volume in use says that it is closed" },
    Bug { name: "ffs-fsync-uncommitted", layout: "ffs", about: "fsync writes no record" },
    Bug { name: "ffs-fsync-unsent", layout: "ffs", about: "fsync sends no data" },
    Bug {
        name: "ffs-fdatasync-size",
        layout: "ffs",
        about: "fdatasync does not write a new length or place",
    },
    Bug {
        name: "sync-moved",
        layout: "ffs ordering=sync",
        about: "an inode is written before the content that moved",
    },
    Bug {
        name: "sync-inline",
        layout: "ffs ordering=sync",
        about: "an inode is written before the block with what the inode held",
    },
    Bug {
        name: "sync-names",
        layout: "ffs ordering=sync",
        about: "a name is written, and its inode later",
    },
    Bug {
        name: "sync-dirs",
        layout: "ffs ordering=sync",
        about: "an operation does not write the directory that it changed",
    },
    Bug {
        name: "sync-unflushed",
        layout: "ffs ordering=sync",
        about: "an inode is not flushed before its name is written",
    },
    Bug {
        name: "sync-no-inode",
        layout: "ffs ordering=sync",
        about: "fsync does not write the inode",
    },
    Bug { name: "sync-file-unflushed", layout: "ffs ordering=sync", about: "fsync does not flush" },
    Bug { name: "async-data-left", layout: "ffs ordering=async", about: "sync leaves out data" },
    Bug { name: "async-unflushed", layout: "ffs ordering=async", about: "sync does not flush" },
];

/// File, old text, new text.
pub(super) const PATCHES: &[(&str, &str, &str)] = &[
    (
        "crates/twin-lfs/src/commit.rs",
        r##"if self.settings.planted().is(PlantedFault::SkipFlush) {"##,
        r##"if self.settings.planted().is(PlantedFault::SkipFlush) || bug("lfs-no-flush") {"##,
    ),
    (
        "crates/twin-lfs/src/commit.rs",
        r##"        self.wait_written(core, target).await?;
        self.flush_up_to(core, target).await?;
        self.write_checkpoint"##,
        r##"        if !bug("lfs-checkpoint-first") {
            self.wait_written(core, target).await?;
            if !bug("lfs-checkpoint-unordered") {
                self.flush_up_to(core, target).await?;
            }
        }
        self.write_checkpoint"##,
    ),
    (
        "crates/twin-lfs/src/commit.rs",
        r##"self.sb.checkpoint_places(checkpoint.number % 2)"##,
        r##"self.sb.checkpoint_places(if bug("lfs-one-slot") { 0 } else { checkpoint.number % 2 })"##,
    ),
    (
        "crates/twin-lfs/src/commit.rs",
        r##"let flushed = core.device.submit(Io::flush(Origin::Checkpoint)).await;"##,
        r##"let flushed = match bug("lfs-checkpoint-unflushed") {
            true => Ok(Vec::new()),
            false => core.device.submit(Io::flush(Origin::Checkpoint)).await,
        };"##,
    ),
    (
        "crates/twin-lfs/src/commit.rs",
        r##"self.describe(core, closing);"##,
        r##"self.describe(core, closing || bug("lfs-always-closed"));"##,
    ),
    (
        "crates/twin-lfs/src/commit.rs",
        r##"free_head: self.numbers.free_head(),"##,
        r##"free_head: if bug("lfs-free-head") { 0 } else { self.numbers.free_head() },"##,
    ),
    (
        "crates/twin-lfs/src/commit.rs",
        r##"orphans: self.numbers.orphans().len() as u64,"##,
        r##"orphans: if bug("lfs-no-orphans") { 0 } else { self.numbers.orphans().len() as u64 },"##,
    ),
    (
        "crates/twin-lfs/src/commit.rs",
        r##"serial: self.position.serial(),"##,
        r##"serial: self.position.serial() - u64::from(bug("lfs-old-serial")),"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"            expected += log_write.len() as u64;
"##,
        r##"            if bug("lfs-roll-none") {
                break;
            }
            expected += log_write.len() as u64;
"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"            self.apply_log_write(core, &log_write, &mut numbers).await?;
"##,
        r##"            self.apply_log_write(core, &log_write, &mut numbers).await?;
            if bug("lfs-roll-one") {
                break;
            }
"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"        let header = parts.get(&end)?.summary.header;
"##,
        r##"        let Some(part) = parts.get(&end) else {
            if bug("lfs-roll-part") && end > serial {
                break;
            }
            return None;
        };
        let header = part.summary.header;
"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"self.settings.planted().is(PlantedFault::SkipChecksum)
"##,
        r##"self.settings.planted().is(PlantedFault::SkipChecksum)
            || bug("lfs-no-checksum")
"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"            core.device.submit(io).await?;
        }
        Ok(())
    }

    /// The next partial"##,
        r##"            if !bug("lfs-tail-stays") {
                core.device.submit(io).await?;
            }
        }
        Ok(())
    }

    /// The next partial"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"                    self.free_recovered(core, *ino, *generation, numbers).await?;"##,
        r##"                    if !bug("lfs-freed-ignored") {
                        self.free_recovered(core, *ino, *generation, numbers).await?;
                    }"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"        if old.is_on_disk() {
            self.usage"##,
        r##"        if old.is_on_disk() && !bug("lfs-old-lives") {
            self.usage"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"        if new.is_on_disk() {
            let at"##,
        r##"        if new.is_on_disk() && !bug("lfs-new-dead") {
            let at"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"let orphan = d.nlink == 0 || d.flags & TRUNCATING != 0;"##,
        r##"let orphan = !bug("lfs-orphan-forgotten") && (d.nlink == 0 || d.flags & TRUNCATING != 0);"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"            if old != 0 {
                self"##,
        r##"            if old != 0 && !bug("lfs-inode-lives") {
                self"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"        numbers_to_add.extend(&from.picked);
"##,
        r##"        if !bug("lfs-picked-lost") {
            numbers_to_add.extend(&from.picked);
        }
"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"let mut numbers_to_add: BTreeSet<Ino> = numbers.freed.clone();"##,
        r##"let mut numbers_to_add: BTreeSet<Ino> = match bug("lfs-freed-lost") {
            true => BTreeSet::new(),
            false => numbers.freed.clone(),
        };"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"Some(logged) if is_logged => logged.to_vec(),"##,
        r##"Some(logged) if is_logged && !bug("lfs-indirect-old") => logged.to_vec(),"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"let offset = part.offset + header.total_bytes;"##,
        r##"let offset = part.offset + if bug("lfs-head-back") { 0 } else { header.total_bytes };"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"for stream in 0..from.heads.len() {"##,
        r##"for stream in 0..if bug("lfs-one-stream") { 1 } else { from.heads.len() } {"##,
    ),
    (
        "crates/twin-lfs/src/recover.rs",
        r##"let first_visit = visited.insert(segment);"##,
        r##"let first_visit = visited.insert(segment);
            if bug("lfs-one-segment") {
                return Ok(());
            }"##,
    ),
    (
        "crates/twin-lfs/src/gather.rs",
        r##"let freed = self.numbers.take_freed();"##,
        r##"let mut freed = self.numbers.take_freed();
        if bug("lfs-freed-untold") {
            freed.clear();
        }"##,
    ),
    (
        "crates/twin-lfs/src/build.rs",
        r##"                    self.ifile.mark_dirty(core, &anchor);"##,
        r##"                    if !bug("lfs-map-clean") {
                        self.ifile.mark_dirty(core, &anchor);
                    }"##,
    ),
    (
        "crates/twin-lfs/src/build.rs",
        r##"let flags = if index == last {"##,
        r##"let flags = if index == last && !bug("lfs-no-end") {"##,
    ),
    (
        "crates/twin-fs/src/orphans.rs",
        r##"            self.layout.inode_event(&self.core, InodeEvent::Orphaned(inode));
        }
        self.core.mark_inode_dirty(inode);"##,
        r##"            if !bug("fs-orphan-untold") {
                self.layout.inode_event(&self.core, InodeEvent::Orphaned(inode));
            }
        }
        if !bug("fs-unlink-clean") {
            self.core.mark_inode_dirty(inode);
        }"##,
    ),
    (
        "crates/twin-fs/src/orphans.rs",
        r##"        self.layout.inode_event(&self.core, InodeEvent::Adopted(inode));
"##,
        r##"        if !bug("fs-not-adopted") {
            self.layout.inode_event(&self.core, InodeEvent::Adopted(inode));
        }
"##,
    ),
    (
        "crates/twin-fs/src/ops/rename.rs",
        r##"                self.dirs.redirect(inode, hit, dir.ino, mode::DIRECTORY)?;"##,
        r##"                if !bug("fs-dotdot") {
                    self.dirs.redirect(inode, hit, dir.ino, mode::DIRECTORY)?;
                }"##,
    ),
    (
        "crates/twin-fs/src/ops/rename.rs",
        r##"            inode.d.borrow_mut().ctime = now;
            self.core.mark_inode_dirty(inode);"##,
        r##"            inode.d.borrow_mut().ctime = now;
            if !bug("fs-rename-clean") {
                self.core.mark_inode_dirty(inode);
            }"##,
    ),
    (
        "crates/twin-fs/src/data/blocks.rs",
        r##"        frame.change(|b| b.bytes_mut()[..inline.len()].copy_from_slice(&inline));
"##,
        r##"        if !bug("fs-inline-lost") {
            frame.change(|b| b.bytes_mut()[..inline.len()].copy_from_slice(&inline));
        }
"##,
    ),
    (
        "crates/twin-fs/src/data/blocks.rs",
        r##"            core.cache.mark_dirty(&inode.frames, &frame);
        }
        core.mark_inode_dirty(inode);
    }"##,
        r##"            core.cache.mark_dirty(&inode.frames, &frame);
        }
        if !bug("fs-pointer-clean") {
            core.mark_inode_dirty(inode);
        }
    }"##,
    ),
    (
        "crates/twin-fs/src/ops/create.rs",
        r##"            d.nlink += 1;"##,
        r##"            d.nlink += 1 - u32::from(bug("fs-link-count"));"##,
    ),
    (
        "crates/twin-ffs/src/writes.rs",
        r##"if !self.planted.is(PlantedFault::SkipFlush)
"##,
        r##"if !self.planted.is(PlantedFault::SkipFlush)
            && !bug("ffs-no-flush")
"##,
    ),
    (
        "crates/twin-ffs/src/journal.rs",
        r##"        target.writes.barrier(target.core, Origin::User).await?;
        self.count(|c| c.commits += 1);"##,
        r##"        if !bug("ffs-record-unflushed") {
            target.writes.barrier(target.core, Origin::User).await?;
        }
        self.count(|c| c.commits += 1);"##,
    ),
    (
        "crates/twin-ffs/src/journal.rs",
        r##"        writes.barrier(core, Origin::Checkpoint).await?;
        // The last"##,
        r##"        if !bug("ffs-checkpoint-unflushed") {
            writes.barrier(core, Origin::Checkpoint).await?;
        }
        // The last"##,
    ),
    (
        "crates/twin-ffs/src/journal.rs",
        r##"        self.checkpoint(target).await?;
        self.live.borrow_mut().clear();"##,
        r##"        if !bug("ffs-close-unwritten") {
            self.checkpoint(target).await?;
        }
        self.live.borrow_mut().clear();"##,
    ),
    (
        "crates/twin-ffs/src/journal.rs",
        r##"        journaled.extend(blocks);
"##,
        r##"        if !bug("ffs-not-journaled") {
            journaled.extend(blocks);
        }
"##,
    ),
    (
        "crates/twin-ffs/src/journal.rs",
        r##"        self.head.set((at + len) % self.ring);
        self.durable.set(record.number);"##,
        r##"        if !bug("ffs-head-stays") {
            self.head.set((at + len) % self.ring);
        }
        self.durable.set(record.number);"##,
    ),
    (
        "crates/twin-ffs/src/commit.rs",
        r##"if !self.settings.planted().is(PlantedFault::DataLate) {"##,
        r##"if !self.settings.planted().is(PlantedFault::DataLate) && !bug("ffs-data-late") {"##,
    ),
    (
        "crates/twin-ffs/src/commit.rs",
        r##"            if has_data || unflushed || early"##,
        r##"            if bug("ffs-data-unflushed") {
            } else if has_data || unflushed || early"##,
    ),
    (
        "crates/twin-ffs/src/commit.rs",
        r##"for inode in unwritten.iter().filter_map("##,
        r##"for inode in unwritten.iter().filter(|_| !bug("ffs-new-data-left")).filter_map("##,
    ),
    (
        "crates/twin-ffs/src/commit.rs",
        r##"let orphans = self.orphans.list().into_iter();"##,
        r##"let orphans = self.orphans.list().into_iter().filter(|_| !bug("ffs-orphans-left"));"##,
    ),
    (
        "crates/twin-ffs/src/commit.rs",
        r##"        pieces.extend(self.take_maps(true));
"##,
        r##"        if !bug("ffs-maps-left") {
            pieces.extend(self.take_maps(true));
        }
"##,
    ),
    (
        "crates/twin-ffs/src/commit.rs",
        r##"        pieces.extend(self.take_tables(core));
"##,
        r##"        if !bug("ffs-tables-left") {
            pieces.extend(self.take_tables(core));
        }
"##,
    ),
    (
        "crates/twin-ffs/src/replay.rs",
        r##"if block.crc32c() != crc && "##,
        r##"if block.crc32c() != crc && !bug("ffs-no-checksum") && "##,
    ),
    (
        "crates/twin-ffs/src/replay.rs",
        r##"        number += 1;
    }"##,
        r##"        number += 1;
        if bug("ffs-replay-one") {
            break;
        }
    }"##,
    ),
    (
        "crates/twin-ffs/src/open.rs",
        r##"            replay.write(&*device, &sb).await?;
"##,
        r##"            if !bug("ffs-replay-unwritten") {
                replay.write(&*device, &sb).await?;
            }
"##,
    ),
    (
        "crates/twin-ffs/src/replay.rs",
        r##"        device.submit(Io::flush(Origin::Recovery)).await?;
"##,
        r##"        if !bug("ffs-replay-unflushed") {
            device.submit(Io::flush(Origin::Recovery)).await?;
        }
"##,
    ),
    (
        "crates/twin-ffs/src/open.rs",
        r##"orphans = replay.orphans;"##,
        r##"orphans = if bug("ffs-replay-orphans") { Vec::new() } else { replay.orphans };"##,
    ),
    (
        "crates/twin-ffs/src/open.rs",
        r##"volume.layout.write_state(volume.core(), false).await?;"##,
        r##"volume.layout.write_state(volume.core(), bug("ffs-not-opened")).await?;"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"if changed || is_new || meta_frames(inode) > 0 {"##,
        r##"if !bug("ffs-fsync-uncommitted") && (changed || is_new || meta_frames(inode) > 0) {"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"        let numbers = self.send_data(core, inode, Origin::User).await?;
        let is_new"##,
        r##"        let numbers = match bug("ffs-fsync-unsent") {
            true => Vec::new(),
            false => self.send_data(core, inode, Origin::User).await?,
        };
        let is_new"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"inode.is_dirty() && (!data_only || is_new || self.has_new_mapping(core, inode));"##,
        r##"inode.is_dirty()
                && (!data_only
                    || is_new
                    || !bug("ffs-fdatasync-size") && self.has_new_mapping(core, inode));"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"        self.write_moved(core, inodes).await?;
        for inode in inodes {
            self.pin_parents"##,
        r##"        if !bug("sync-moved") {
            self.write_moved(core, inodes).await?;
        }
        for inode in inodes {
            self.pin_parents"##,
    ),
    (
        "crates/twin-ffs/src/layout.rs",
        r##"self.ordering.maps() == Wait::InOrder && self.is_inline_on_disk(core, inode)"##,
        r##"self.ordering.maps() == Wait::InOrder
            && !bug("sync-inline") && self.is_inline_on_disk(core, inode)"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"            if inode.class(0) == Class::Meta && (own || !is_dir) {"##,
        r##"            if bug("sync-names") {
            } else if inode.class(0) == Class::Meta && (own || !is_dir) {"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"            self.write_ordered(core, dir, grown).await?;
"##,
        r##"            if !bug("sync-dirs") {
                self.write_ordered(core, dir, grown).await?;
            }
"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"                self.write_inode(core, inode).await?;
                self.writes.barrier(core, Origin::User).await?;
            }
        }
        for dir"##,
        r##"                self.write_inode(core, inode).await?;
                if !bug("sync-unflushed") {
                    self.writes.barrier(core, Origin::User).await?;
                }
            }
        }
        for dir"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"let with_inode = !data_only || self.has_new_mapping(core, inode);"##,
        r##"let with_inode =
            !bug("sync-no-inode") && (!data_only || self.has_new_mapping(core, inode));"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"        self.writes.barrier(core, Origin::User).await?;
        durable();
        Ok(())
    }

    /// True if a file has indirect"##,
        r##"        if !bug("sync-file-unflushed") {
            self.writes.barrier(core, Origin::User).await?;
        }
        durable();
        Ok(())
    }

    /// True if a file has indirect"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"        for inode in core.dirty_inodes() {
            self.writes.wait_below(IN_FLIGHT_BYTES).await;"##,
        r##"        for inode in core.dirty_inodes() {
            if bug("async-data-left") {
                break;
            }
            self.writes.wait_below(IN_FLIGHT_BYTES).await;"##,
    ),
    (
        "crates/twin-ffs/src/flush.rs",
        r##"        self.write_back_all(core).await?;
        self.writes.wait_all().await;
        self.writes.barrier(core, Origin::User).await
    }"##,
        r##"        self.write_back_all(core).await?;
        self.writes.wait_all().await;
        match bug("async-unflushed") {
            true => Ok(()),
            false => self.writes.barrier(core, Origin::User).await,
        }
    }"##,
    ),
];
