//! What the shared checker calls in a round over a log-structured volume.
//!
//! Contract: changes stay in memory; see [`image`](super::image).

use twin_cache::Lbn;
use twin_check::{
    Claim, Finding, FindingKind, FoundInode, Image, Node, NumberState, Numbers, Progress, Report,
    Severity, Step,
};
use twin_disk::Bytes;
use twin_fs::dinode::{Dinode, HIDDEN, TRUNCATING};
use twin_fs::geometry::{Geometry, Ptr, UNWRITTEN};
use twin_fs::{Ino, Result};
use twin_rt::BoxFuture;

use super::claims::{Claims, Refused};
use super::image::{LfsImage, block_identity, inode_identity};

impl Image for LfsImage {
    fn geometry(&self) -> &Geometry {
        &self.view.sb.geometry
    }

    fn begin<'a>(&'a mut self, report: &'a mut Report) -> BoxFuture<'a, Result<Numbers>> {
        Box::pin(self.begin_round(report))
    }

    fn inodes<'a>(&'a self, some: &'a [Ino]) -> BoxFuture<'a, Vec<Result<Option<FoundInode>>>> {
        Box::pin(self.read_inodes(some))
    }

    fn block<'a>(&'a self, ino: Ino, lbn: Lbn, ptr: Ptr) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(async move {
            match lbn < 0 {
                true => self.view.indirect(ino, lbn, ptr).await,
                false => self.view.block(ino, lbn, ptr).await,
            }
        })
    }

    fn check_place(&self, ptr: Ptr) -> std::result::Result<(), &'static str> {
        self.view.sb.geometry.check_ptr(ptr, self.view.frags)?;
        let at = self.view.sb.geometry.byte_of(ptr.addr);
        self.claims.locate(at, ptr.len).map(drop).map_err(Refused::words)
    }

    fn is_in_memory(&self, ino: Ino, lbn: Lbn) -> bool {
        self.view.log_state.overlays(ino, lbn)
    }

    fn claim(&mut self, d: &Dinode, step: Step) -> Claim {
        let Step { lbn, ptr } = step;
        let at = self.view.sb.geometry.byte_of(ptr.addr);
        let id = block_identity(d.ino, d.generation, lbn, at, ptr.len, ptr.crc);
        match self.claims.block(at, ptr.len, id) {
            Ok(()) => Claim::Free,
            Err(Refused::Taken) => Claim::Taken,
            Err(_) => Claim::Reserved,
        }
    }

    fn owner(&self, at: u64) -> BoxFuture<'_, Option<(Ino, Lbn)>> {
        Box::pin(self.written_for(at))
    }

    fn quotas_are_counted(&self) -> bool {
        self.quotas_are_counted
    }

    fn note(&mut self, found: &FoundInode, report: &mut Report) {
        let FoundInode { at, d } = found;
        let is_hidden = d.flags & HIDDEN != 0;
        let needs_work = d.nlink == 0 || d.flags & TRUNCATING != 0;
        let Some(entry) = self.entry_mut(d.ino) else { return };
        entry.kind = if is_hidden { 0 } else { (d.kind() >> 12) as u8 };
        if entry.marked {
            report.counts.orphans += 1;
        }
        let what = match (entry.marked, needs_work) {
            (true, false) => "marked as in need of work after a crash, but is not",
            (false, true) => "has no names or is being cut, but is not marked as in need of work",
            _ => return,
        };
        report.add(Finding::minor(FindingKind::OrphanMark, what).at(*at).of(d.ino));
    }

    fn put_inode<'a>(&'a mut self, d: &'a Dinode) -> BoxFuture<'a, Result<()>> {
        if let Some(entry) = self.entry_mut(d.ino) {
            (entry.state, entry.generation) = (NumberState::Used, d.generation);
        }
        if self.freed.remove(&d.ino).is_some() {
            self.replaced.insert(d.ino);
        }
        self.view.log_state.put_inode(d.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn free_inode(&mut self, ino: Ino) -> BoxFuture<'_, Result<()>> {
        if let Some(entry) = self.entry_mut(ino) {
            entry.state = NumberState::Free;
            let next = entry.generation.wrapping_add(1);
            self.freed.insert(ino, next);
        }
        self.view.log_state.drop_inode(ino);
        Box::pin(std::future::ready(Ok(())))
    }

    fn put_block(
        &mut self,
        ino: Ino,
        lbn: Lbn,
        ptr: Ptr,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<Ptr>> {
        self.view.log_state.put_block(ino, lbn, Bytes::copy_of(&content));
        let placed = if ptr.is_hole() { Ptr { addr: UNWRITTEN, ..ptr } } else { ptr };
        Box::pin(std::future::ready(Ok(placed)))
    }

    fn end<'a>(
        &'a mut self,
        _: &'a [Node],
        _: bool,
        report: &'a mut Report,
        progress: &'a mut dyn FnMut(Progress),
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            report.counts.used_bytes = self.claims.live_bytes();
            self.check_orphan_count(report);
            self.check_usage(report);
            if !self.is_record {
                self.check_pins(report);
            }
            self.check_log(report, progress).await;
            Ok(())
        })
    }
}

impl LfsImage {
    /// Claims the places of all inodes. Gives the inodes in the order of their places, in which
    /// they are read fastest.
    fn claim_inodes(&mut self, report: &mut Report) -> Vec<Ino> {
        let size = u64::from(self.view.sb.geometry.inode_size);
        let profile = self.view.sb.profile;
        let used = self.map.iter().zip(0..).filter(|(entry, _)| entry.state == NumberState::Used);
        let mut places: Vec<(u64, Ino)> =
            used.map(|(entry, ino)| (entry.at.saturating_mul(size), ino)).collect();
        places.sort_unstable();
        let mut order = Vec::with_capacity(places.len());
        for (at, ino) in places {
            let is_new = at == 0 && self.view.log_state.inode(ino).is_some();
            let crc = self.map[ino as usize].crc;
            let claimed = match at {
                _ if is_new => Ok(()),
                0 => Err("in use by the inode map, but never written".into()),
                _ if at.checked_add(size).is_none() => {
                    Err("the inode map leads out of the volume".into())
                }
                _ => {
                    let id = inode_identity(profile, ino, at, crc);
                    let refused = |r: Refused| format!("the inode itself {}", r.words());
                    self.claims.inode(at, id).map_err(refused)
                }
            };
            match claimed {
                Ok(()) => order.push(ino),
                Err(what) => {
                    let kind = if at == 0 { FindingKind::MapEntry } else { FindingKind::Pointer };
                    report.add(Finding::serious(kind, what).at(at).of(ino));
                    self.map[ino as usize].state = NumberState::Broken;
                }
            }
        }
        order
    }

    async fn begin_round(&mut self, report: &mut Report) -> Result<Numbers> {
        self.claims = Claims::new(&self.view.sb);
        self.read_ifile(report).await;
        self.read_snapshots(report).await;
        if self.repairs {
            self.find_lost_inodes().await;
        }
        self.lay_over();
        self.check_free_list(report);
        let order = self.claim_inodes(report);
        self.claims.reserve();
        Ok(Numbers { states: self.map.iter().map(|entry| entry.state).collect(), order })
    }

    /// Checks the number of orphans in the checkpoint: the next mount looks for orphans only if it
    /// is not 0.
    fn check_orphan_count(&self, report: &mut Report) {
        let (said, found) = (self.view.log_state.orphans, report.counts.orphans);
        if said != found {
            let what = format!("{said} orphans are counted, {found} inodes are marked as such");
            report.add(Finding::new(FindingKind::OrphanMark, Severity::Minor, what));
        }
    }
}
