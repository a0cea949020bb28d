//! The placement hints that a volume takes ([`PlacementHints`]), carried out on its space.
//!
//! Contract: nothing waits. The places of one call are claimed all or none.

use twin_cache::Lbn;
use twin_fs::{FsError, HintedRun, Ino, PlacementHints, Result};

use crate::ffs::Ffs;
use crate::format::Superblock;
use crate::space::Freed;

/// The blocks of a run: number in the file, first fragment, fragments.
fn blocks<'a>(
    sb: &'a Superblock,
    run: &'a HintedRun,
) -> impl Iterator<Item = (Lbn, u64, u32)> + use<'a> {
    let (block, frag) = (u64::from(sb.geometry.block_size), u64::from(sb.geometry.frag_size));
    (0..run.bytes.div_ceil(block)).map(move |nth| {
        let bytes = block.min(run.bytes - nth * block);
        let addr = (run.at + nth * block) / frag;
        (run.lbn + nth as Lbn, addr, bytes.div_ceil(frag) as u32)
    })
}

impl PlacementHints for Ffs {
    fn claim(&self, runs: &[HintedRun]) -> Result<()> {
        let mut space = self.alloc_mut();
        let mut claimed = Vec::new();
        for (_, addr, frags) in runs.iter().flat_map(|run| blocks(&self.sb, run)) {
            if !space.claim(&self.sb, Freed { addr, frags }) {
                claimed.into_iter().for_each(|place| space.give_back(&self.sb, place));
                return Err(FsError::Invalid("a place that is to be held is not free"));
            }
            claimed.push(Freed { addr, frags });
        }
        self.hints.note_claims(&claimed);
        Ok(())
    }

    fn assign(&self, ino: Option<Ino>, runs: &[HintedRun]) {
        let blocks = runs.iter().flat_map(|run| blocks(&self.sb, run));
        self.hints.note_file(ino, blocks.map(|(lbn, addr, _)| (lbn, addr)).collect());
    }

    fn end(&self) {
        let rest = self.hints.take_rest();
        let mut space = self.alloc_mut();
        rest.into_iter().for_each(|place| space.give_back(&self.sb, place));
    }
}
