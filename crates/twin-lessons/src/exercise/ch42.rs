//! Chapter 42: crash consistency, with the real checker and the real journal.

use serde_json::json;
use twin_rt::Rng;
use twin_sim::Platter;

use super::real::{bench, bytes, field, rows};
use super::{Chapter, Exercise, Made, Part, Question, hints, spaced};
use crate::volume::{Bench, findings};

pub(super) const CHAPTER: Chapter = Chapter {
    number: 42,
    title: "Crash consistency",
    about: "What a power failure leaves behind, what the checker finds, and what a journal promises.",
    exercises: &[
        Exercise { id: "42.1", title: "Three writes, one power failure", make: three_writes },
        Exercise { id: "42.2", title: "Be the checker", make: checker },
        Exercise { id: "42.3", title: "What is still there?", make: survivors },
        Exercise { id: "42.4", title: "The price of a journal", make: price },
    ],
};

const VOLUME: &str = "vsfs:size=1M";
const BLOCK: u64 = 4096;

const LEFT: &[&str] = &[
    "as if nothing had happened",
    "a block is marked used that no file has",
    "a file has a block that is marked free",
    "the file is longer and has garbage in it",
    "all is there",
];

/// Copies blocks from one platter to another.
fn copied(onto: &Platter, from: &Platter, blocks: &[u64]) -> Platter {
    let mut onto = onto.clone();
    for block in blocks {
        onto.write(block * BLOCK, &bytes(from, block * BLOCK, BLOCK));
    }
    onto
}

fn three_writes(rng: &mut Rng) -> Made {
    let (inode, bitmap, data) = (rng.chance(0.5), rng.chance(0.5), rng.chance(0.5));
    let size = rng.range(1, 5);
    let bench = bench(VOLUME)?;
    bench.lines(&[format!("write f {}K", size * 4), "sync".into()])?;
    let before = bench.platter();
    let sb = bench.dump("superblock", None)?;
    let get = |name: &str| field(&sb, name).ok_or_else(|| format!("no field {name}"));
    bench.lines(&["append f 4K".into(), "sync".into()])?;
    let after = bench.platter();
    // The last block of the file is the new one.
    let runs = rows(&bench.dump("space", None)?, "runs");
    let file = runs.iter().rfind(|row| row[1] == "file").ok_or("the file is missing")?;
    let new = (file[6].as_u64().unwrap_or(0) + file[7].as_u64().unwrap_or(0)) / BLOCK - 1;
    let mut written = Vec::new();
    for (block, there) in [(get("inode_table")?, inode), (get("data_bitmap")?, bitmap), (new, data)]
    {
        if there {
            written.push(block);
        }
    }
    let crashed = copied(&before, &after, &written);
    let found = findings(VOLUME, &crashed)?;
    let longer = crashed.read_bytes(get("inode_table")? * BLOCK, BLOCK)
        != before.read_bytes(get("inode_table")? * BLOCK, BLOCK);
    let same_data = crashed.read_bytes(new * BLOCK, BLOCK) == after.read_bytes(new * BLOCK, BLOCK);
    let left = match (found.is_empty(), longer) {
        (true, false) => LEFT[0],
        (false, false) => LEFT[1],
        (false, true) => LEFT[2],
        (true, true) if same_data => LEFT[4],
        (true, true) => LEFT[3],
    };
    let fate =
        |name: &str, there| format!("  {name}: {}", if there { "on the disk" } else { "lost" });
    Ok(Question {
        text: format!(
            "A file of {size} blocks gets one block more. Three blocks have to be written: the inode, the data bitmap, and the \
             data. The power fails, and this is what came of them:\n\n{}\n{}\n{}\n\nWhat does one find at the next start? And \
             does a checker, which looks at metadata only, notice anything?",
            fate("inode", inode),
            fate("data bitmap", bitmap),
            fate("data block", data)
        ),
        given: json!({"inode": inode, "bitmap": bitmap, "data": data}),
        parts: vec![
            Part::chosen("left", "What one finds", left, LEFT),
            Part::chosen(
                "noticed",
                "The checker notices",
                if found.is_empty() { "no" } else { "yes" },
                &["yes", "no"],
            ),
        ],
        hints: hints(&[
            "Who says that a block is used (the bitmap), and who points to it (the inode)? Do they agree?",
            "The data block alone changes nothing that anybody can see.",
        ]),
        known: None,
        attempt: vec![
            VOLUME.into(),
            format!("write f {}K", size * 4),
            "sync".into(),
            "append f 4K".into(),
        ],
    })
}

fn checker(rng: &mut Rng) -> Made {
    let bench = bench(VOLUME)?;
    let files = rng.range(3, 6);
    for n in 0..files {
        bench.lines(&[format!("write f{n} {}K", 4 * rng.range(1, 5))])?;
    }
    bench.lines(&[format!("rm f{}", rng.below(files)), "sync".into()])?;
    let sb = bench.dump("superblock", None)?;
    let get = |name: &str| field(&sb, name).ok_or_else(|| format!("no field {name}"));
    let (first, bitmap) = (get("data")?, get("data_bitmap")?);
    let space = bench.dump("space", None)?;
    let runs: Vec<(u64, u64, u64)> = rows(&space, "runs")
        .iter()
        .map(|row| {
            let n = |at: usize| row[at].as_u64().unwrap_or(0);
            (n(0), n(6) / BLOCK - first, n(7) / BLOCK)
        })
        .collect();
    let end = runs.iter().map(|(_, at, blocks)| at + blocks).max().unwrap_or(1);
    let block = rng.below(end + 2);
    let used = runs.iter().any(|(_, at, blocks)| (*at..at + blocks).contains(&block));
    // The bit flips on the medium, and the real checker is asked.
    let mut platter = bench.closed()?;
    let at = bitmap * BLOCK + block / 8;
    let byte = platter.read_bytes(at, 1)[0];
    let set: Vec<u64> = {
        let raw = platter.read_bytes(bitmap * BLOCK, BLOCK);
        (0..end + 4)
            .filter(|n| (raw[(n / 8) as usize] >> (n % 8) & 1 == 1) != (*n == block))
            .collect()
    };
    let flipped = byte ^ (1 << (block % 8));
    let data = twin_disk::Block::Bytes(twin_disk::Bytes::copy_of(&[flipped]));
    platter.write(at, &[data]);
    if findings(VOLUME, &platter)?.is_empty() {
        return Err("the checker finds nothing".into());
    }
    let files: Vec<String> = runs
        .iter()
        .map(|(ino, at, blocks)| format!("  inode {ino}: data blocks {at} to {}", at + blocks - 1))
        .collect();
    let kinds = &["marked free, but a file has it", "marked used, but no file has it"];
    Ok(Question {
        text: format!(
            "The inodes of a vsfs volume point to these data blocks (counted from the start of the data region):\n\n{}\n\nIn \
             the data bitmap these bits are set:\n\n  {}\n\nWhich block is wrong in the bitmap, and how?",
            files.join("\n"),
            spaced(&set)
        ),
        given: json!({"files": runs, "set": set}),
        parts: vec![
            Part::new("block", "Block", block),
            Part::chosen("how", "It is", if used { kinds[0] } else { kinds[1] }, kinds),
        ],
        hints: hints(&[
            "Go through the inodes, as the checker does, and make the bitmap anew; then compare.",
        ]),
        known: None,
        attempt: vec![VOLUME.into(), "write f0 8K".into(), "write f1 12K".into(), "sync".into()],
    })
}

fn survivors(rng: &mut Rng) -> Made {
    let layout = *rng.pick(&["ffs:size=8M,group=1M", "lfs:size=8M"]);
    let mut lines = Vec::new();
    let count = rng.range(4, 7);
    let syncs: Vec<u64> = (0..rng.range(1, 3)).map(|_| rng.below(count)).collect();
    for n in 0..count {
        lines.push(format!("touch f{n}"));
        if n > 0 && rng.chance(0.3) {
            lines.push(format!("rm f{}", n - 1));
        }
        if syncs.contains(&n) {
            lines.push("sync".into());
        }
    }
    let bench = bench(layout)?;
    bench.tried(&lines)?;
    let again = Bench::open(layout, bench.durable()?)?;
    let recovered = again.recovery().map(String::from);
    let names: Vec<String> = rows(&again.dump("space", None)?, "names")
        .iter()
        .filter_map(|row| row[2].as_str().map(String::from))
        .collect();
    let mut left: Vec<String> = (0..count).map(|n| format!("f{n}")).collect();
    left.retain(|name| names.contains(name));
    let kind = if layout.starts_with("ffs") { "FFS with a journal" } else { "a log" };
    let _ = recovered;
    Ok(Question {
        text: format!(
            "A volume ({kind}) is new. These lines are carried out one right after the other; then the power fails at once, \
             and of all that was not certain nothing has reached the disk:\n\n{}\n\nWhich files are there after recovery? \
             Give the names in order, or none.",
            lines.join("\n")
        ),
        given: json!({"lines": lines}),
        parts: vec![Part::new(
            "left",
            "Files",
            if left.is_empty() { "none".into() } else { left.join(" ") },
        )],
        hints: hints(&[
            "Changes are in memory until they are written; sync returns when all that came before is on the disk.",
            "What was removed after the last sync is there again.",
        ]),
        known: None,
        attempt: [vec![layout.to_string()], lines.clone()].concat(),
    })
}

fn price(rng: &mut Rng) -> Made {
    let (meta, data) = (rng.range(1, 5), rng.range(1, 12));
    Ok(Question {
        text: format!(
            "An operation changes {meta} blocks of metadata and {data} blocks of data. A transaction begins with one \
             block (TxB) and ends with one (TxE). How many blocks are written in all, to the journal and to their own \
             places, with data journaling, with metadata journaling (ordered), and without a journal? How many of those \
             under metadata journaling have to be written before TxE may be written?"
        ),
        given: json!({"meta": meta, "data": data}),
        parts: vec![
            Part::new("journal", "Data journaling", 2 + 2 * (meta + data)),
            Part::new("ordered", "Metadata journaling", 2 + 2 * meta + data),
            Part::new("none", "Without a journal", meta + data),
            Part::new("before", "Before TxE", 1 + meta + data),
        ],
        hints: hints(&[
            "What is in the journal is written twice: there, and when it goes to its place (checkpointing).",
            "Ordered means that the data is in its place before the transaction is committed.",
        ]),
        known: Some(
            "The book's example: appending a block changes an inode, a bitmap and a data block.",
        ),
        attempt: vec!["ffs:size=8M,group=1M".into(), "write a 4K".into(), "sync".into()],
    })
}
