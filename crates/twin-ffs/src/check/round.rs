//! What the shared checker calls in a round over a clustered volume.
//!
//! Contract: changes stay in memory, over the content of the device, until the round ends; then all
//! are written.

use twin_cache::Lbn;
use twin_check::{
    Claim, Finding, FindingKind, FoundInode, Image, Node, NumberState, Numbers, Phase, Progress,
    Report, Severity, Step,
};
use twin_disk::Bytes;
use twin_fs::dinode::{Dinode, TRUNCATING};
use twin_fs::geometry::{Geometry, Ptr};
use twin_fs::{FsError, Ino, ROOT_INO, Result};
use twin_rt::BoxFuture;

use super::image::FfsImage;
use crate::bits::Bits;
use crate::format::CgImage;

impl Image for FfsImage {
    fn geometry(&self) -> &Geometry {
        &self.view.sb.geometry
    }

    fn begin<'a>(&'a mut self, report: &'a mut Report) -> BoxFuture<'a, Result<Numbers>> {
        Box::pin(self.read_maps(report))
    }

    fn inodes<'a>(&'a self, some: &'a [Ino]) -> BoxFuture<'a, Vec<Result<Option<FoundInode>>>> {
        Box::pin(self.read_inodes(some))
    }

    fn block<'a>(&'a self, _: Ino, _: Lbn, ptr: Ptr) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(self.view.get(ptr.addr, ptr.len))
    }

    fn check_place(&self, ptr: Ptr) -> std::result::Result<(), &'static str> {
        self.view.wrong(ptr).map_or(Ok(()), Err)
    }

    fn claim(&mut self, d: &Dinode, step: Step) -> Claim {
        // Directories are read anyway; of links and hidden files not everything is.
        let is_data = step.lbn >= 0 && !d.is_dir();
        if self.compares_data && is_data {
            self.data.push((d.ino, step.lbn, step.ptr));
        }
        let Some((group, within)) = self.view.sb.locate(step.ptr.addr) else { return Claim::Free };
        let used = &mut self.used[group as usize];
        let mut claim = Claim::Free;
        for i in within..within + step.ptr.len / self.view.sb.geometry.frag_size {
            if used.get(i) {
                claim = Claim::Taken;
            }
            used.set(i, true);
        }
        claim
    }

    fn note(&mut self, found: &FoundInode, report: &mut Report) {
        let FoundInode { at, d } = found;
        let is_removed = d.nlink == 0 && d.ino != ROOT_INO;
        if !is_removed && d.flags & TRUNCATING == 0 {
            return;
        }
        report.counts.orphans += 1;
        if !self.was_open {
            let (kind, what) = match is_removed {
                true => (FindingKind::LostInode, "the inode has no names but is in use"),
                false => (FindingKind::Size, "the inode is being cut, on a volume that was closed"),
            };
            report.add(Finding::minor(kind, what).at(*at).of(d.ino));
        }
    }

    fn quotas_are_counted(&self) -> bool {
        self.quotas_are_counted
    }

    fn may_revive(&self) -> bool {
        self.was_open && self.view.sb.journal_bytes == 0
    }

    fn put_inode<'a>(&'a mut self, d: &'a Dinode) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.view.put_inode(d))
    }

    fn free_inode(&mut self, ino: Ino) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let found = self.read_run(&[ino]).await.pop();
            let generation = match found {
                Some(Ok(Some(found))) => found.d.generation,
                _ => 0,
            };
            self.view.free_inode(ino, generation).await
        })
    }

    fn put_block(
        &mut self,
        _: Ino,
        _: Lbn,
        ptr: Ptr,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<Ptr>> {
        let placed = match ptr.is_hole() {
            false => Ok(ptr),
            true => {
                let addr = self.take_place(ptr.len / self.view.sb.geometry.frag_size);
                addr.map(|addr| Ptr { addr, ..ptr }).ok_or(FsError::NoSpace)
            }
        };
        if let Ok(ptr) = placed {
            self.view.put(ptr.addr, content);
        }
        Box::pin(std::future::ready(placed))
    }

    fn end<'a>(
        &'a mut self,
        nodes: &'a [Node],
        fixes: bool,
        report: &'a mut Report,
        progress: &'a mut dyn FnMut(Progress),
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.check_maps(nodes, fixes, report);
            self.compare_data(report).await;
            if fixes {
                self.clear_unknown_inodes(nodes).await?;
            }
            progress(Progress { phase: Phase::Layout, done: 1, total: 1 });
            match fixes && self.view.is_changed() {
                true => self.view.write().await,
                false => Ok(()),
            }
        })
    }
}

impl FfsImage {
    /// Reads the maps of all groups. Gives the inode numbers that have ever been written.
    async fn read_maps(&mut self, report: &mut Report) -> Result<Numbers> {
        let sb = &self.view.sb;
        let mut numbers =
            Numbers { states: vec![NumberState::Free; sb.inodes() as usize], order: vec![] };
        self.used = (0..sb.groups).map(|g| Bits::new(sb.frags_of(g))).collect();
        (self.free_from, self.maps) = ((0, 0), Vec::new());
        for group in 0..sb.groups {
            let raw = self.view.get(sb.cg_addr(group), sb.geometry.block_size).await?;
            let image = CgImage::decode(sb, group, &raw);
            let written = image.as_ref().map_or(sb.group_inodes, |image| image.inodes_written);
            if let Err(error) = &image {
                let (kind, what) = (FindingKind::GroupMaps, "a group's maps");
                report.add(Finding::from_error(kind, Severity::Serious, error, what));
            }
            self.maps.push(image.ok());
            let first = Ino::from(group) * Ino::from(sb.group_inodes);
            let all = first.max(ROOT_INO)..first + Ino::from(written);
            for ino in all {
                numbers.states[ino as usize] = NumberState::Used;
                numbers.order.push(ino);
            }
        }
        Ok(numbers)
    }

    /// Clears garbage in the inode tables of groups whose maps cannot be read. Nothing says which
    /// of their inodes were ever written, and a new file must not meet garbage in its inode.
    async fn clear_unknown_inodes(&mut self, nodes: &[Node]) -> Result<()> {
        let sb = self.view.sb.clone();
        let unknown = (0..sb.groups).filter(|&group| self.maps[group as usize].is_none());
        for group in unknown {
            let first = Ino::from(group) * Ino::from(sb.group_inodes);
            for ino in first.max(ROOT_INO)..first + Ino::from(sb.group_inodes) {
                let (addr, off) = sb.inode_place(ino);
                let block = self.view.get(addr, sb.geometry.block_size).await?;
                let raw = &block[off..off + sb.geometry.inode_size as usize];
                let is_blank = raw.iter().all(|&b| b == 0)
                    || Dinode::free_generation(&sb.geometry, raw).is_some();
                if nodes[ino as usize].state == NumberState::Free && !is_blank {
                    self.view.free_inode(ino, 0).await?;
                }
            }
        }
        Ok(())
    }
}
