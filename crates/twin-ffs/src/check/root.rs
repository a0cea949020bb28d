//! The root directory, without which nobody gets at anything.
//!
//! Contract: a volume whose root is lost gets an empty one, as `fsck` gives it. The next round
//! finds its files without a name, and they go to `lost+found` in the new root.

use twin_fs::dinode::Dinode;
use twin_fs::dir::block::{CHUNK, Format};
use twin_fs::shape::Ptr;
use twin_fs::{FsError, ROOT_INO, Result, Timestamp, mode};

use super::{Checker, Finding, Kind, Life};

impl Checker<'_> {
    /// Sees that there is a root, once it is known which fragments are in use.
    pub(super) async fn check_root(&mut self) -> Result<()> {
        if self.nodes[ROOT_INO as usize].life == Life::Used {
            return Ok(());
        }
        let (addr, off) = self.view.sb.inode_place(ROOT_INO);
        let at = self.view.sb.shape.byte_of(addr) + off as u64;
        let what = "there is no root directory";
        self.wrong(Finding::serious(Kind::Root, what).at(at).of(ROOT_INO));
        match (self.fixes, self.makes_root) {
            (false, _) => Ok(()),
            (true, true) => self.make_root().await,
            (true, false) => Err(FsError::corrupt(
                at,
                "there is no root directory; check --repair makes one, with all files in \
                 lost+found",
            )),
        }
    }

    async fn make_root(&mut self) -> Result<()> {
        let shape = self.view.sb.shape.clone();
        let mode = mode::DIRECTORY | 0o755;
        let mut d = Dinode::new(&shape, ROOT_INO, 1, mode, Timestamp::default());
        d.nlink = 2;
        d.size = match self.dir_format() {
            Format::Classic => CHUNK as u64,
            Format::Sectored | Format::Modern => shape.block_size.into(),
        };
        let len = shape.len_on_disk(0, d.size);
        let addr = self.free_place(len / shape.frag_size).ok_or(FsError::NoSpace)?;
        d.ptrs[0] = Ptr { addr, len, crc: 0 };
        d.allocated = len.into();
        let mut bytes = vec![0; len as usize];
        self.empty_block(&d, 0, &mut bytes[..d.size as usize]);
        self.view.put(addr, bytes);
        self.view.put_inode(&d).await
    }

    /// The first run of free fragments within a block.
    fn free_place(&self, frags: u32) -> Option<u64> {
        let per = self.view.sb.frags_per_block();
        for (group, used) in (0..).zip(&self.used) {
            let end = self.view.sb.frags_of(group);
            let fits = |&at: &u32| at % per + frags <= per && at + frags <= end;
            let free = |&at: &u32| (at..at + frags).all(|i| !used.get(i));
            let mut places = (self.view.sb.group_data_start()..end).filter(fits);
            if let Some(at) = places.find(free) {
                return Some(self.view.sb.group_start(group) + u64::from(at));
            }
        }
        None
    }
}
