//! Chapter 43: the log-structured file system, with its cleaner.

use serde_json::{Value, json};
use twin_clean::inputs::{LogView, SegmentInfo, SegmentState, Setting};
use twin_clean::victim::{self, Candidates};
use twin_fs::write_cost;
use twin_rt::Rng;

use super::real::{bench, rows};
use super::{Chapter, Exercise, Made, Part, Question, hints, spaced};

pub(super) const CHAPTER: Chapter = Chapter {
    number: 43,
    title: "Log-structured file systems",
    about: "A log, its inode map, and the cleaner that makes room: which segment, and at what price.",
    exercises: &[
        Exercise { id: "43.1", title: "Which segment is cleaned?", make: victims },
        Exercise { id: "43.2", title: "Live or dead?", make: live },
        Exercise { id: "43.3", title: "The price of cleaning", make: cost },
    ],
};

const VOLUME: &str = "lfs:size=4M";

fn victims(rng: &mut Rng) -> Made {
    let size = 100;
    let count = rng.range(4, 7);
    let list: Vec<(u32, u64)> =
        (0..count).map(|_| (10 + rng.below(85) as u32, 1 + rng.below(200))).collect();
    let (greedy, benefit) = (chosen(&list, size, "greedy")?, chosen(&list, size, "cost-benefit")?);
    if !is_certain(&list, size) {
        return victims(rng);
    }
    let listed: Vec<String> = list
        .iter()
        .zip(0..)
        .map(|((live, age), n)| format!("  segment {n}: {live} live blocks, age {age}"))
        .collect();
    Ok(Question {
        text: format!(
            "Segments have {size} blocks and are all full:\n\n{}\n\nWhich one is cleaned first by the greedy policy, and \
             which one by cost-benefit, that is the most (1 − u) · age / (1 + u)? How many blocks does the greedy cleaner \
             gain?",
            listed.join("\n")
        ),
        given: json!({"size": size, "segments": list}),
        parts: vec![
            Part::new("greedy", "Greedy", greedy),
            Part::new("cost_benefit", "Cost-benefit", benefit),
            Part::new("gain", "Blocks gained", size - list[greedy as usize].0),
        ],
        hints: hints(&[
            "u is the share of live blocks. Greedy takes the least u.",
            "A segment that has been stable for long is worth cleaning at a higher u than one that still changes.",
        ]),
        known: None,
        attempt: vec![
            format!("{VOLUME},victim=greedy"),
            "workload 300 4".into(),
            "sync".into(),
            "clean 2".into(),
        ],
    })
}

/// The segment that the real policy of this name cleans first.
fn chosen(list: &[(u32, u64)], size: u32, name: &str) -> Result<u32, String> {
    let now = 10_000;
    let segments: Vec<SegmentInfo> = list
        .iter()
        .map(|(live, age)| SegmentInfo {
            state: SegmentState::Sealed,
            size_blocks: size,
            written_blocks: size,
            live_blocks: *live,
            sealed_at: now + 1 - age,
            youngest_at: now + 1 - age,
            ..SegmentInfo::default()
        })
        .collect();
    let view = LogView {
        now,
        live_blocks: list.iter().map(|(live, _)| u64::from(*live)).sum(),
        segment_blocks: size,
        segments: &segments,
        open: &[],
    };
    let setting = Setting {
        blocks: 1000,
        segment_blocks: size,
        garbage_share: 0.0,
        open_segments: 1,
        seed: 1,
    };
    let mut policy = victim::REGISTRY.get(name).map_err(|why| why.to_string())?.make(&setting);
    policy.choose(&Candidates { view, min_garbage_share: 0.0 }).ok_or_else(|| "no victim".into())
}

/// One right answer each: no ties, and no two scores that rounding could exchange.
fn is_certain(list: &[(u32, u64)], size: u32) -> bool {
    let score = |(live, age): &(u32, u64)| {
        let u = f64::from(*live) / f64::from(size);
        (1.0 - u) * *age as f64 / (1.0 + u)
    };
    let mut scores: Vec<f64> = list.iter().map(score).collect();
    scores.sort_by(f64::total_cmp);
    let mut lives: Vec<u32> = list.iter().map(|(live, _)| *live).collect();
    lives.sort_unstable();
    scores.windows(2).all(|two| two[1] - two[0] > 0.01)
        && lives.windows(2).all(|two| two[0] != two[1])
}

fn live(rng: &mut Rng) -> Made {
    let bench = bench(VOLUME)?;
    let mut lines = Vec::new();
    for n in 0..3 {
        lines.push(format!("write f{n} {}K", 4 * rng.range(1, 4)));
    }
    lines.push("sync".into());
    for _ in 0..rng.range(2, 4) {
        match rng.below(3) {
            0 => lines.push(format!("rm f{}", rng.below(3))),
            _ => lines.push(format!("write f{} 4K", rng.below(3))),
        }
        lines.push("sync".into());
    }
    bench.tried(&lines)?;
    let runs: Vec<(u64, u64, u64, u64)> = rows(&bench.dump("space", None)?, "runs")
        .iter()
        .filter(|row| row[1] == "file")
        .map(|row| {
            let n = |at: usize| row[at].as_u64().unwrap_or(0);
            (n(0), n(4), n(5), n(6))
        })
        .collect();
    let (entries, mut living) = listed_blocks(&bench.dump("summaries", Some(0))?);
    if entries.is_empty() {
        return Err("there are no blocks of files in the first segment".into());
    }
    living.sort_unstable();
    let dead = entries.len() - living.len();
    let listed: Vec<String> = entries
        .iter()
        .map(|(at, ino, lbn)| format!("  at byte {at}: inode {ino}, block {lbn}"))
        .collect();
    let maps: Vec<String> = runs
        .iter()
        .map(|(ino, lbn, blocks, at)| {
            format!("  inode {ino}: blocks {lbn} to {} from byte {at} on", lbn + blocks - 1)
        })
        .collect();
    let maps = if maps.is_empty() { "  (there is no file left)".into() } else { maps.join("\n") };
    Ok(Question {
        text: format!(
            "The summaries of a segment list these data blocks, in the order in which they were written:\n\n{}\n\nThe inode \
             map leads to inodes which say where the blocks of files are now (blocks have 4096 bytes):\n\n{maps}\n\nHow many \
             of the blocks listed are dead, and at which bytes are the live ones (in ascending order, or none)?",
            listed.join("\n")
        ),
        given: json!({"entries": entries, "maps": runs, "block": 4096}),
        parts: vec![
            Part::new("dead", "Dead blocks", dead),
            Part::new(
                "live",
                "Live at",
                if living.is_empty() { "none".into() } else { spaced(&living) },
            ),
        ],
        hints: hints(&[
            "A block is live if the file that it was written for still points to this place for that block.",
            "That is all the cleaner does: look up the inode in the map, and compare the pointer.",
        ]),
        known: None,
        attempt: [vec![VOLUME.to_string()], lines.clone()].concat(),
    })
}

/// The data blocks of files that summaries list (byte, inode, block), and the bytes of those that the real code calls
/// live.
fn listed_blocks(dumped: &[Value]) -> (Vec<(u64, u64, u64)>, Vec<u64>) {
    let (mut entries, mut living): (Vec<(u64, u64, u64)>, Vec<u64>) = (Vec::new(), Vec::new());
    for part in dumped.iter().filter(|part| part["columns"].is_array()) {
        let columns: Vec<&str> = part["columns"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one.as_str())
            .collect();
        let at = |name: &str| columns.iter().position(|one| *one == name);
        let (Some(kind), Some(byte), Some(ino), Some(lbn), Some(live)) =
            (at("kind"), at("at"), at("ino"), at("lbn"), at("live"))
        else {
            continue;
        };
        for row in part["rows"].as_array().into_iter().flatten() {
            let number = |at: usize| row[at].as_u64();
            let (Some(byte), Some(ino), Some(lbn)) = (number(byte), number(ino), number(lbn))
            else {
                continue;
            };
            // Inode 2 is the root; files come behind it.
            if ino < 3 || row[kind] == "inodes" {
                continue;
            }
            entries.push((byte, ino, lbn));
            if row[live] == true {
                living.push(byte);
            }
        }
    }
    (entries, living)
}

fn cost(rng: &mut Rng) -> Made {
    let per_segment = 64;
    // Live blocks of each segment: such that a whole number of segments comes out clean.
    let (live, segments) = *rng.pick(&[
        (16_u64, 4_u64),
        (32, 2),
        (32, 4),
        (32, 6),
        (48, 4),
        (48, 8),
        (16, 8),
        (40, 8),
        (24, 8),
        (8, 8),
    ]);
    let (read, moved) = (segments * per_segment, segments * live);
    let new = read - moved;
    let gained = new / per_segment;
    // As the log counts it: what is written (moved and new), and what the cleaner reads, for what is new.
    let cost = write_cost(moved + new, read, new).ok_or("nothing new")?;
    Ok(Question {
        text: format!(
            "Segments have {per_segment} blocks. The cleaner reads {segments} whole segments, in each of which {live} blocks are \
             live, and writes the live ones together. The room is then filled with new data. How many blocks does the \
             cleaner write, how many segments are won (net), and what is the write cost: all blocks read and written for \
             each block of new data? (Two digits behind the point.)"
        ),
        given: json!({"per_segment": per_segment, "segments": segments, "live": live}),
        parts: vec![
            Part::new("moved", "Blocks that the cleaner writes", moved),
            Part::new("won", "Segments won", gained),
            Part::new("cost", "Write cost", format!("{:.2}", cost + 1e-9)),
        ],
        hints: hints(&[
            "Read N, write N·u, and then N·(1 − u) blocks of new data fit.",
            "The cost is (N + N·u + N·(1 − u)) / (N·(1 − u)) = 2 / (1 − u).",
        ]),
        known: Some("At u = 0.8 the cost is 10: Rosenblum and Ousterhout's figure 3."),
        attempt: vec![VOLUME.into(), "workload 400 2".into(), "sync".into(), "clean 4".into()],
    })
}
