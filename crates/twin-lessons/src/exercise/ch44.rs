//! Chapter 44: flash-based SSDs, with the victims of the real policies, the bare log, and the model of an SSD.

use serde_json::json;
use twin_clean::inputs::{LogView, SegmentInfo, SegmentState, Setting};
use twin_clean::victim::{self, Candidates};
use twin_clean::volume::{Volume, VolumeGeometry};
use twin_disk::IoKind;
use twin_rt::{MICROS, Rng, Time};
use twin_sim::model::{Access, DeviceModel, Options, Ssd, SsdFigures, Supply};

use super::{Chapter, Exercise, Made, Part, Question, hints, spaced};

pub(super) const CHAPTER: Chapter = Chapter {
    number: 44,
    title: "Flash-based SSDs",
    about: "Pages and blocks, a log inside the drive, garbage collection and wear.",
    exercises: &[
        Exercise { id: "44.1", title: "Garbage collection", make: collection },
        Exercise { id: "44.2", title: "A log of pages", make: pages },
        Exercise { id: "44.3", title: "Write amplification", make: amplification },
    ],
};

fn collection(rng: &mut Rng) -> Made {
    let pages = 8;
    let (read, program, erase) =
        (25 * rng.range(1, 4), 100 * rng.range(2, 8), 500 * rng.range(3, 8));
    let valid: Vec<u32> = (0..rng.range(3, 6)).map(|_| rng.below(pages) as u32).collect();
    let least = valid.iter().min().copied().unwrap_or(0);
    if valid.iter().filter(|one| **one == least).count() > 1 {
        return collection(rng);
    }
    let segments: Vec<SegmentInfo> = valid
        .iter()
        .map(|live| SegmentInfo {
            state: SegmentState::Sealed,
            size_blocks: pages as u32,
            written_blocks: pages as u32,
            live_blocks: *live,
            ..SegmentInfo::default()
        })
        .collect();
    let live_blocks = valid.iter().map(|one| u64::from(*one)).sum();
    let view = LogView {
        now: 100,
        live_blocks,
        segment_blocks: pages as u32,
        segments: &segments,
        open: &[],
    };
    let setting = Setting {
        blocks: 100,
        segment_blocks: pages as u32,
        garbage_share: 0.0,
        open_segments: 1,
        seed: 1,
    };
    let mut policy = victim::REGISTRY.get("greedy").map_err(|why| why.to_string())?.make(&setting);
    let chosen =
        policy.choose(&Candidates { view, min_garbage_share: 0.0 }).ok_or("no block to clean")?;
    let moved = u64::from(valid[chosen as usize]);
    Ok(Question {
        text: format!(
            "Erase blocks have {pages} pages. Reading a page takes {read} us, programming one {program} us, erasing a block \
             {erase} us. These numbers of pages of full blocks are still valid:\n\n{}\n\nWhich block does garbage collection take \
             (the fewest valid pages), how long does it take to collect it (one step after the other), and how many free \
             pages are won?",
            valid
                .iter()
                .zip(0..)
                .map(|(one, n)| format!("  block {n}: {one}"))
                .collect::<Vec<_>>()
                .join("\n")
        ),
        given: json!({"pages": pages, "valid": valid, "read": read, "program": program, "erase": erase}),
        parts: vec![
            Part::new("block", "Block", chosen),
            Part::new("us", "us", moved * (read + program) + erase),
            Part::new("won", "Pages won", pages - moved),
        ],
        hints: hints(&[
            "A valid page is read and programmed elsewhere; then the whole block is erased, once.",
        ]),
        known: None,
        attempt: vec!["lfs:size=4M,disk=ssd-tlc".into(), "workload 200 2".into(), "sync".into()],
    })
}

fn pages(rng: &mut Rng) -> Made {
    let (logical, pages) = (8_u64, 4_u64);
    let writes: Vec<u64> = (0..rng.range(8, 14)).map(|_| rng.below(logical)).collect();
    let asked = *rng.pick(&writes);
    // The bare log: blocks are pages, segments are erase blocks, one is open, nothing is cleaned yet.
    let geometry = VolumeGeometry {
        blocks: logical as u32,
        segment_blocks: pages as u32,
        garbage_share: 0.9,
        open_segments: 1,
    };
    let geometry = geometry.check().map_err(|why| why.to_string())?;
    let setting = geometry.setting(1);
    let greedy = victim::REGISTRY.get("greedy").map_err(|why| why.to_string())?.make(&setting);
    let none = twin_clean::placement::REGISTRY.get("none").map_err(|why| why.to_string())?;
    let mut volume = Volume::new(&geometry, none.make(&setting), greedy);
    for page in &writes {
        volume.write(*page as u32);
    }
    // Blocks in the order in which they were opened.
    let mut opened: Vec<(u64, u32, u32)> = volume
        .segments()
        .iter()
        .zip(0..)
        .filter(|(one, _)| one.written_blocks > 0)
        .map(|(one, number)| (one.serial, number, one.live_blocks))
        .collect();
    opened.sort_unstable();
    let place = volume.segment_of(asked as u32).ok_or("the page is nowhere")?;
    let block = opened.iter().position(|(_, number, _)| *number == place).ok_or("no such block")?;
    let valid: Vec<u32> = opened.iter().map(|(_, _, live)| *live).collect();
    if volume.totals().cleaner_writes > 0 {
        return Err("something was moved".into());
    }
    Ok(Question {
        text: format!(
            "An empty SSD writes as a log: each page that the host writes goes to the next free page, in erase blocks of \
             {pages} pages, block 0 first; an older copy becomes invalid. The host writes the logical pages {}, in this \
             order. In which block is page {asked} now, and how many valid pages has each block that was written (from \
             block 0 on)?",
            spaced(&writes)
        ),
        given: json!({"pages": pages, "writes": writes, "asked": asked}),
        parts: vec![
            Part::new("block", format!("Block of page {asked}"), block),
            Part::new("valid", "Valid pages of the blocks", spaced(&valid)),
        ],
        hints: hints(&[
            "Write the pages in rows of four, and cross out each number that comes again later.",
        ]),
        known: None,
        attempt: Vec::new(),
    })
}

/// A small SSD of one plane, for a count of wear.
fn small() -> SsdFigures {
    SsdFigures {
        channels: 1,
        chips: 1,
        dies: 1,
        planes: 1,
        at_once: 1,
        blocks: 64,
        pages: 16,
        page_bytes: 4096,
        over_provisioning: 0.2,
        gc_below: 0.05,
        gc_urgent: 0.03,
        read_ns: 60 * MICROS,
        program_ns: 600 * MICROS,
        erase_ns: 5000 * MICROS,
        variance_percent: 0,
        channel_bytes_per_s: 1_000_000_000,
        cache_bytes: 4096,
        cache_bytes_per_s: 1_000_000_000,
        link_bytes_per_s: 1_000_000_000,
        depth: 1,
    }
}

fn amplification(rng: &mut Rng) -> Made {
    let options = Options { size: Some(3 << 20), seed: rng.next_u64(), ..Options::default() };
    let mut ssd = Ssd::new("small", &small(), &options).map_err(|why| why.to_string())?;
    let (pages, mut now) = ((3 << 20) / 4096_u64, Time(0));
    let count = rng.range(2000, 4000);
    for n in 0..count {
        let page = if n < pages { n } else { rng.below(pages) };
        let access = Access { kind: IoKind::Write, at: page * 4096, len: 4096 };
        now = ssd.serve(now, &access, Supply::at_once(now)).done;
    }
    let wear = ssd.wear();
    let all = wear.host + wear.moved;
    let cycles = 1000 * rng.range(1, 10);
    Ok(Question {
        text: format!(
            "A small SSD has 64 erase blocks of 16 pages of {} bytes. Under random writes it has programmed {} pages for the \
             host and {} more to move them, and it has erased {} blocks. What is its write amplification (two digits behind \
             the point), and how many times has a block been erased on average (two digits, rounded)? If a block endures \
             {cycles} cycles and wear is even, how many pages of the host can it take in all at this amplification (rounded \
             down to whole thousands)?",
            wear.page_bytes, wear.host, wear.moved, wear.erased
        ),
        given: json!({"host": wear.host, "moved": wear.moved, "erased": wear.erased, "blocks": 64, "pages": 16, "cycles": cycles}),
        parts: vec![
            Part::new("amplification", "Write amplification", hundredths(all, wear.host)),
            Part::new("cycles", "Erasures of a block", hundredths(wear.erased, 64)),
            Part::new("endures", "Pages, in thousands", 64 * 16 * cycles * wear.host / all / 1000),
        ],
        hints: hints(&[
            "Amplification is all pages that were programmed for each page of the host.",
            "All blocks together can be programmed blocks × pages × cycles times; divide that by the amplification.",
        ]),
        known: None,
        attempt: vec!["lfs:size=8M,disk=ssd-tlc".into(), "workload 300 5".into(), "sync".into()],
    })
}

/// A quotient with two digits, rounded half up, in whole numbers.
fn hundredths(a: u64, b: u64) -> String {
    let rounded = (a * 200 + b) / (2 * b);
    format!("{}.{:02}", rounded / 100, rounded % 100)
}
