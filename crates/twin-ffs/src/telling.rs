//! What the volume is told of places ([`crate::told`]), carried out.
//!
//! Contract: nothing waits. A file's places are held all or none.

use twin_cache::Lbn;
use twin_fs::{FsError, Result, Told, ToldRun};

use crate::ffs::Ffs;
use crate::format::Superblock;
use crate::space::Freed;

/// The blocks of a run: number in the file, first fragment, fragments.
fn blocks<'a>(
    sb: &'a Superblock,
    run: &'a ToldRun,
) -> impl Iterator<Item = (Lbn, u64, u32)> + use<'a> {
    let (block, frag) = (u64::from(sb.geometry.block_size), u64::from(sb.geometry.frag_size));
    (0..run.bytes.div_ceil(block)).map(move |nth| {
        let bytes = block.min(run.bytes - nth * block);
        let addr = (run.at + nth * block) / frag;
        (run.lbn + nth as Lbn, addr, bytes.div_ceil(frag) as u32)
    })
}

impl Ffs {
    pub(crate) fn note_told(&self, told: Told<'_>) -> Result<()> {
        match told {
            Told::Hold(runs) => self.hold(runs),
            Told::File(ino, runs) => {
                let blocks = runs.iter().flat_map(|run| blocks(&self.sb, run));
                self.told.note_file(ino, blocks.map(|(lbn, addr, _)| (lbn, addr)).collect());
                Ok(())
            }
            Told::End => {
                let rest = self.told.end();
                let mut space = self.alloc_mut();
                rest.into_iter().for_each(|place| space.give_back(&self.sb, place));
                Ok(())
            }
        }
    }

    fn hold(&self, runs: &[ToldRun]) -> Result<()> {
        let mut space = self.alloc_mut();
        let mut here = Vec::new();
        for (_, addr, frags) in runs.iter().flat_map(|run| blocks(&self.sb, run)) {
            if !space.hold(&self.sb, Freed { addr, frags }) {
                here.into_iter().for_each(|place| space.give_back(&self.sb, place));
                return Err(FsError::Invalid("a place that is to be held is not free"));
            }
            here.push(Freed { addr, frags });
        }
        self.told.note_held(&here);
        Ok(())
    }
}
