//! A flash translation layer: which physical page holds a logical one, which blocks are free, and
//! which block is cleaned next. It knows no time; [`super::ssd`] gives its steps their durations.
//!
//! Contract: page-level mapping. A logical page always stays in the plane that its number implies
//! (channel first, then chip, die, plane: MQSim's `CWDP`), so every plane is a small log of its own
//! with two open blocks, one for the host's pages and one for moved ones. Garbage collection takes
//! the block with the fewest valid pages among a few drawn at random (MQSim's `RGA`, the randomized
//! greedy algorithm of Li, Lee and Lui 2013), all of them if each of those is full. Tables grow with
//! the pages that are written, so that a large empty device costs little.

use twin_rt::Rng;

/// The number that stands for "no page".
const NONE: u32 = u32::MAX;
/// Entries of the mapping that are allocated together.
const CHUNK: usize = 1024;

/// The part of the geometry that decides about mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Number of planes of the device.
    pub(super) planes: u32,
    /// Erase blocks in a plane.
    pub(super) blocks: u32,
    /// Pages in a block.
    pub(super) pages: u32,
    /// Logical pages of the device.
    pub(super) logical: u32,
    /// Free blocks of a plane below which garbage is collected.
    pub(super) gc_below: u32,
    /// Free blocks of a plane at which the host's pages wait for garbage collection.
    pub(super) gc_urgent: u32,
}

/// A block that has been opened since it was erased.
#[derive(Clone, Debug, Default)]
struct Block {
    /// Logical pages in the order in which they were programmed; empty if the block is free.
    content: Vec<u32>,
    valid: u32,
}

/// A block that is being emptied, and the next of its pages to look at.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    next: u32,
}

#[derive(Clone, Debug, Default)]
struct Plane {
    /// Blocks that were ever opened; those beyond have never been written.
    blocks: Vec<Block>,
    erased: Vec<u32>,
    /// The open blocks: of the host, of garbage collection.
    open: [Option<u32>; 2],
    victim: Option<Victim>,
}

/// A step of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A valid page was moved to another block.
    Moved,
    /// The emptied block was erased.
    Erased,
}

/// Pages and blocks counted since the device was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Pages programmed for the host.
    pub host: u64,
    /// Pages programmed to move them.
    pub moved: u64,
    /// Number of blocks that were erased.
    pub erased: u64,
    /// Bytes in a page.
    pub page_bytes: u64,
}

/// The mapping and the blocks of a device.
pub(super) struct Ftl {
    layout: Layout,
    /// Physical page by logical page, within its plane: block times pages, plus page.
    map: Vec<Option<Box<[u32; CHUNK]>>>,
    planes: Vec<Plane>,
    rng: Rng,
    wear: Wear,
}

impl Ftl {
    /// A device on which nothing was written yet.
    pub(super) fn new(layout: Layout, seed: u64) -> Ftl {
        Ftl {
            layout,
            map: vec![None; (layout.logical as usize).div_ceil(CHUNK)],
            planes: vec![Plane::default(); layout.planes as usize],
            rng: Rng::stream(seed, "flash translation layer"),
            wear: Wear::default(),
        }
    }

    /// The plane of a logical page.
    pub(super) fn plane_of(&self, page: u32) -> u32 {
        page % self.layout.planes
    }

    /// Whether a logical page has been written and not been discarded since.
    pub(super) fn is_mapped(&self, page: u32) -> bool {
        self.place(page) != NONE
    }

    /// Pages programmed and blocks erased so far.
    pub(super) fn wear(&self) -> Wear {
        self.wear
    }

    fn place(&self, page: u32) -> u32 {
        let chunk = self.map[page as usize / CHUNK].as_ref();
        chunk.map_or(NONE, |chunk| chunk[page as usize % CHUNK])
    }

    fn set_place(&mut self, page: u32, place: u32) {
        let chunk = &mut self.map[page as usize / CHUNK];
        chunk.get_or_insert_with(|| Box::new([NONE; CHUNK]))[page as usize % CHUNK] = place;
    }

    /// The host writes a page: its old content becomes garbage.
    pub(super) fn write(&mut self, page: u32) {
        self.discard(page);
        self.wear.host += 1;
        self.program(page, 0);
    }

    /// The content of a page becomes garbage.
    pub(super) fn discard(&mut self, page: u32) {
        let place = self.place(page);
        if place != NONE {
            let plane = self.plane_of(page) as usize;
            self.planes[plane].blocks[(place / self.layout.pages) as usize].valid -= 1;
            self.set_place(page, NONE);
        }
    }

    /// Programs a page behind the last one of the plane's open block for the host (0) or for moved
    /// pages (1).
    fn program(&mut self, page: u32, stream: usize) {
        let pages = self.layout.pages;
        let plane = &mut self.planes[page as usize % self.layout.planes as usize];
        let block = plane.open[stream].unwrap_or_else(|| {
            plane.erased.pop().unwrap_or_else(|| {
                plane.blocks.push(Block::default());
                plane.blocks.len() as u32 - 1
            })
        });
        let content = &mut plane.blocks[block as usize];
        let place = block * pages + content.content.len() as u32;
        content.content.push(page);
        content.valid += 1;
        let full = content.content.len() as u32 == pages;
        plane.open[stream] = (!full).then_some(block);
        self.set_place(page, place);
    }

    /// Free blocks of a plane.
    fn free(&self, plane: u32) -> u32 {
        let plane = &self.planes[plane as usize];
        self.layout.blocks - plane.blocks.len() as u32 + plane.erased.len() as u32
    }

    /// Whether the host's pages have to wait for garbage collection in this plane.
    pub(super) fn is_urgent(&self, plane: u32) -> bool {
        self.free(plane) <= self.layout.gc_urgent
    }

    /// Whether a plane has garbage to collect.
    pub(super) fn has_garbage(&self, plane: u32) -> bool {
        self.planes[plane as usize].victim.is_some() || self.free(plane) < self.layout.gc_below
    }

    /// Does the next step of garbage collection in a plane; `None` if it would gain nothing.
    pub(super) fn collect(&mut self, plane: u32) -> Option<Step> {
        let Victim { block, next } = match self.planes[plane as usize].victim {
            Some(victim) => victim,
            None => Victim { block: self.choose(plane)?, next: 0 },
        };
        let content = &self.planes[plane as usize].blocks[block as usize].content;
        let mut pages = (next..).zip(&content[next as usize..]);
        let place = block * self.layout.pages;
        let moved = pages.find(|&(i, &page)| self.place(page) == place + i).map(|(i, &p)| (i, p));
        let Some((i, page)) = moved else {
            let plane = &mut self.planes[plane as usize];
            plane.blocks[block as usize] = Block::default();
            plane.erased.push(block);
            plane.victim = None;
            self.wear.erased += 1;
            return Some(Step::Erased);
        };
        self.planes[plane as usize].victim = Some(Victim { block, next: i + 1 });
        self.discard(page);
        self.wear.moved += 1;
        self.program(page, 1);
        Some(Step::Moved)
    }

    /// The block to empty next, unless all full blocks are wholly valid.
    fn choose(&mut self, plane: u32) -> Option<u32> {
        let (plane, pages) = (&self.planes[plane as usize], self.layout.pages);
        let gains = |&block: &u32| {
            let b = &plane.blocks[block as usize];
            b.content.len() as u32 == pages && b.valid < pages
        };
        let valid = |&block: &u32| plane.blocks[block as usize].valid;
        let all = plane.blocks.len() as u32;
        // MQSim draws log2 of the number of blocks.
        let drawn: Vec<u32> = match all {
            0 => Vec::new(),
            _ => {
                (0..self.layout.blocks.ilog2()).map(|_| self.rng.below(all.into()) as u32).collect()
            }
        };
        let best = drawn.into_iter().filter(gains).min_by_key(valid);
        best.or_else(|| (0..all).filter(gains).min_by_key(valid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(blocks: u32, spare: f64) -> Layout {
        let (planes, pages) = (2, 64);
        let logical = (f64::from(planes * blocks * pages) / (1.0 + spare)) as u32;
        Layout { planes, blocks, pages, logical, gc_below: 4, gc_urgent: 2 }
    }

    /// Writes a page as a device would that does nothing else.
    fn write(ftl: &mut Ftl, page: u32) {
        let plane = ftl.plane_of(page);
        while ftl.is_urgent(plane) && ftl.collect(plane).is_some() {}
        ftl.write(page);
    }

    /// Write amplification in the long run of uniformly random writes.
    fn amplification(blocks: u32, spare: f64) -> f64 {
        let layout = layout(blocks, spare);
        let (mut ftl, mut rng) = (Ftl::new(layout, 1), Rng::new(2));
        for page in 0..layout.logical {
            write(&mut ftl, page);
        }
        let mut before = Wear::default();
        for round in 0..12 * layout.logical {
            if round == 6 * layout.logical {
                before = ftl.wear();
            }
            write(&mut ftl, rng.below(layout.logical.into()) as u32);
        }
        let wear = ftl.wear();
        1.0 + (wear.moved - before.moved) as f64 / (wear.host - before.host) as f64
    }

    /// Luojie and Kurkoski, "An Improved Analytical Expression for Write Amplification in NAND
    /// Flash" (2012): for greedy collection and uniformly random writes, with W the Lambert
    /// function. For a spare factor of 0.3 they give 2.36, and 2.35 from simulation.
    fn published(spare: f64) -> f64 {
        let t = 1.0 + spare;
        let x = -t * (-t).exp();
        let mut w = -spare.min(0.9) / 2.0;
        for _ in 0..200 {
            w -= (w * w.exp() - x) / (w.exp() * (w + 1.0));
        }
        t / (t + w)
    }

    #[test]
    fn random_writes_are_amplified_as_the_published_formula_says() {
        assert!((published(0.3) - 2.36).abs() < 0.005);
        // The bound was fixed before the first run: the formula is for a choice among all blocks,
        // and the free blocks that collection keeps are not spare.
        for spare in [0.1, 0.3, 0.5] {
            let (found, formula) = (amplification(1024, spare), published(spare));
            println!("spare {spare}: amplification {found:.3}, formula {formula:.3}");
            assert!((found / formula - 1.0).abs() < 0.08, "{spare}: {found} {formula}");
        }
    }

    #[test]
    fn writing_in_order_moves_nothing() {
        let layout = layout(64, 0.1);
        let mut ftl = Ftl::new(layout, 1);
        for _ in 0..5 {
            for page in 0..layout.logical {
                write(&mut ftl, page);
            }
        }
        let wear = ftl.wear();
        // Collection meets the write front once a round.
        assert!(wear.moved * 50 < wear.host && wear.erased > 4 * 64, "{wear:?}");
    }

    #[test]
    fn every_page_is_where_the_map_says_and_counted_once() {
        let layout = layout(40, 0.25);
        let (mut ftl, mut rng) = (Ftl::new(layout, 3), Rng::new(4));
        let mut mapped = std::collections::BTreeSet::new();
        for _ in 0..60_000 {
            let page = rng.below(layout.logical.into()) as u32;
            if rng.chance(0.1) {
                ftl.discard(page);
                mapped.remove(&page);
            } else {
                write(&mut ftl, page);
                mapped.insert(page);
            }
        }
        for page in 0..layout.logical {
            assert_eq!(ftl.is_mapped(page), mapped.contains(&page));
            if ftl.is_mapped(page) {
                let place = ftl.place(page);
                let block = &ftl.planes[page as usize % 2].blocks[(place / 64) as usize];
                assert_eq!(block.content[(place % 64) as usize], page);
            }
        }
        let valid = ftl.planes.iter().flat_map(|p| &p.blocks).map(|b| u64::from(b.valid));
        assert_eq!(valid.sum::<u64>(), mapped.len() as u64);
        assert!(ftl.planes.iter().all(|p| p.blocks.len() <= 40));
    }

    #[test]
    fn discarded_pages_are_not_moved() {
        let layout = layout(64, 0.1);
        let (mut ftl, mut rng) = (Ftl::new(layout, 5), Rng::new(6));
        for page in 0..layout.logical {
            write(&mut ftl, page);
        }
        for page in layout.logical / 2..layout.logical {
            ftl.discard(page);
        }
        let before = ftl.wear();
        for _ in 0..8 * layout.logical {
            write(&mut ftl, rng.below(u64::from(layout.logical) / 2) as u32);
        }
        let wear = ftl.wear();
        let amplification =
            1.0 + (wear.moved - before.moved) as f64 / (wear.host - before.host) as f64;
        // Half of the logical pages: a spare factor of 1.2 instead of 0.1.
        assert!(amplification < 1.4, "{amplification}");
    }
}
