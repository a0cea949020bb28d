//! Chapter 40: the implementation of a file system, on vsfs itself.

use serde_json::{Value, json};
use twin_fs::{Op, Reply};
use twin_rt::Rng;

use super::real::{bench, field, rows};
use super::{Chapter, Exercise, Made, Part, Question, hints, spaced};
use crate::volume::Bench;

pub(super) const CHAPTER: Chapter = Chapter {
    number: 40,
    title: "File system implementation",
    about: "vsfs: bitmaps, a table of inodes, data blocks; and what happens when one of them is full.",
    exercises: &[
        Exercise { id: "40.1", title: "What was done?", make: what_was_done },
        Exercise { id: "40.2", title: "Where is the inode?", make: inode_place },
        Exercise { id: "40.3", title: "Few data blocks", make: few_blocks },
        Exercise { id: "40.4", title: "Few inodes", make: few_inodes },
    ],
};

const VOLUME: &str = "vsfs:size=1M";

/// What one sees of a small volume: inodes with kind, size, links and blocks; names.
fn state(bench: &Bench) -> Result<Value, String> {
    let (inodes, space) = (bench.dump("inodes", None)?, bench.dump("space", None)?);
    let inodes: Vec<Value> = rows(&inodes, "inodes")
        .into_iter()
        .map(|row| json!({"inode": row[0], "kind": row[2], "size": row[5], "links": row[4], "blocks": row[6].as_u64().unwrap_or(0) / 4096}))
        .collect();
    let names: Vec<Value> = rows(&space, "names")
        .into_iter()
        .map(|row| json!({"directory": row[0], "name": row[2], "inode": row[1]}))
        .collect();
    Ok(json!({"inodes": inodes, "names": names}))
}

fn described(state: &Value) -> String {
    let inodes = state["inodes"].as_array().into_iter().flatten().map(|one| {
        format!(
            "  inode {}: {}, {} bytes, {} links, {} data blocks",
            one["inode"],
            one["kind"].as_str().unwrap_or(""),
            one["size"],
            one["links"],
            one["blocks"]
        )
    });
    let names = state["names"].as_array().into_iter().flatten().map(|one| {
        format!(
            "  in directory {}: {} is inode {}",
            one["directory"],
            one["name"].as_str().unwrap_or(""),
            one["inode"]
        )
    });
    inodes.chain(names).collect::<Vec<_>>().join("\n")
}

const DONE: &[&str] = &["mkdir", "touch", "append", "ln", "rm", "mv"];

fn what_was_done(rng: &mut Rng) -> Made {
    let mut before = vec!["mkdir d".to_string(), "write a 4K".into(), "touch b".into()];
    for n in 0..rng.range(1, 4) {
        before.push(format!("write c{n} {}K", 4 * rng.range(1, 3)));
    }
    let what = *rng.pick(DONE);
    let target = *rng.pick(&["a", "b", "c0"]);
    let line = match what {
        "mkdir" => format!("mkdir {}", rng.pick(&["e", "d/e"])),
        "touch" => format!("touch {}", rng.pick(&["g", "d/g"])),
        "append" => format!("append {target} 4K"),
        "ln" => format!("ln {target} d/h"),
        "rm" => format!("rm {target}"),
        _ => format!("mv {target} d/m"),
    };
    let bench = bench(VOLUME)?;
    bench.lines(&before)?;
    bench.lines(&["sync".into()])?;
    let earlier = state(&bench)?;
    bench.lines(&[line.clone(), "sync".into()])?;
    let later = state(&bench)?;
    Ok(Question {
        text: format!(
            "A vsfs volume before an operation (inode 2 is the root):\n{}\n\nand after it:\n{}\n\nWhat was done?",
            described(&earlier),
            described(&later)
        ),
        given: json!({"before": earlier, "after": later}),
        parts: vec![Part::chosen("what", "Operation", what, DONE)],
        hints: hints(&[
            "Which inode is new, which is gone, which has another size or another number of links?",
            "A new directory changes the links of the one above it; a new name for an old inode changes only the links.",
        ]),
        known: None,
        attempt: [vec![VOLUME.to_string()], before, vec![line]].concat(),
    })
}

fn inode_place(rng: &mut Rng) -> Made {
    let per_inode = *rng.pick(&[2_u64, 4, 8]);
    let settings = format!("vsfs:size=2M,bytes-per-inode={per_inode}K");
    let bench = bench(&settings)?;
    let files = rng.range(20, 60);
    let lines: Vec<String> = (0..files).map(|n| format!("touch f{n}")).collect();
    bench.lines(&lines)?;
    bench.lines(&["sync".into()])?;
    let sb = bench.dump("superblock", None)?;
    let get = |name: &str| field(&sb, name).ok_or_else(|| format!("no field {name}"));
    let (table, inode_size, block) = (get("inode_table")?, get("inode_size")?, get("block_size")?);
    let inodes = rows(&bench.dump("inodes", None)?, "inodes");
    let row = &inodes[rng.range(5, inodes.len() as u64 - 1) as usize];
    let (ino, at) = (row[0].as_u64().unwrap_or(0), row[7].as_u64().unwrap_or(0));
    Ok(Question {
        text: format!(
            "On a vsfs volume with blocks of {block} bytes the inode table begins at block {table}; an inode has \
             {inode_size} bytes, and inode 0 is the first. In which block is inode {ino}, at which byte of the device does \
             it begin, and which sector of 512 bytes has to be read for it?"
        ),
        given: json!({"block": block, "table": table, "inode_size": inode_size, "inode": ino}),
        parts: vec![
            Part::new("block", "Block", at / block),
            Part::new("byte", "Byte", at),
            Part::new("sector", "Sector", at / 512),
        ],
        hints: hints(&[
            "The book: block = (inumber × size of an inode) / size of a block, from the start of the table on.",
        ]),
        known: None,
        attempt: vec![settings, "touch f".into(), "sync".into()],
    })
}

/// The numbers, from 1, of the lines that fail.
fn failing(tried: &[bool]) -> String {
    let failed = tried.iter().zip(1..).filter(|(done, _)| !**done).map(|(_, number)| number);
    let numbers = spaced(failed);
    if numbers.is_empty() { "none".into() } else { numbers }
}

fn numbered(lines: &[String]) -> String {
    lines.iter().zip(1..).map(|(line, n)| format!("  {n}. {line}")).collect::<Vec<_>>().join("\n")
}

/// Free blocks and inodes.
fn room(bench: &Bench) -> Result<(u64, u64), String> {
    match bench.ask(Op::StatFs)? {
        Ok(Reply::Stat(stat)) => Ok((stat.free, stat.free_inodes)),
        _ => Err("no figures".into()),
    }
}

fn few_blocks(rng: &mut Rng) -> Made {
    let free = rng.range(0, 4);
    let settings = "vsfs:size=256K";
    let bench = bench(settings)?;
    let first = ["touch old", "write small 4K", "mkdir d"].map(String::from);
    bench.lines(&first)?;
    let (blocks, _) = room(&bench)?;
    // Fillers of at most ten blocks need no indirect block.
    let (mut left, mut number) = (blocks - free, 0);
    while left > 0 {
        let piece = left.min(10);
        bench.lines(&[format!("write fill{number} {}K", piece * 4)])?;
        (left, number) = (left - piece, number + 1);
    }
    bench.lines(&["sync".into()])?;
    let (found, _) = room(&bench)?;
    let mut lines: Vec<String> = vec![
        "touch new".into(),
        "mkdir e".into(),
        format!("write x {}K", 4 * rng.range(1, 4)),
        format!("append small {}K", 4 * rng.range(1, 3)),
        "ln old other".into(),
        "rm small".into(),
        "write small 4K".into(),
    ];
    rng.shuffle(&mut lines);
    lines.truncate(6);
    let platter = bench.closed()?;
    let mut tried = Vec::new();
    for line in &lines {
        // Each on its own copy of the volume.
        let copy = Bench::open(settings, platter.clone())?;
        tried.extend(copy.tried(std::slice::from_ref(line))?);
    }
    Ok(Question {
        text: format!(
            "A vsfs volume with blocks of 4096 bytes has many free inodes, but the number of free data blocks is {found}. It has an empty file \
             old, a file small of 4096 bytes and a directory d; every directory has room for more names in its block. Each \
             of these lines is tried on its own, on the volume as it is now:\n\n{}\n\nWhich of them fail for want of data \
             blocks? (Write writes over what is there, from the beginning.) Give the numbers in order, or none.",
            numbered(&lines)
        ),
        given: json!({"free": found, "lines": lines}),
        parts: vec![Part::new("failing", "Lines that fail", failing(&tried))],
        hints: hints(&[
            "Which lines need a new data block, and how many? A name goes into the block that the directory has.",
            "An empty file needs an inode and no block; an empty directory has “.” and “..” in a block of its own.",
        ]),
        known: Some(
            "This is exercise 3 of the chapter, which its own script cannot show: it stops when it is full.",
        ),
        attempt: [vec![settings.into()], first.to_vec(), vec!["df".into()]].concat(),
    })
}

fn few_inodes(rng: &mut Rng) -> Made {
    let free = rng.range(0, 3);
    let settings = "vsfs:size=1M,bytes-per-inode=32K";
    let bench = bench(settings)?;
    let first = ["write a 4K", "mkdir d"].map(String::from);
    bench.lines(&first)?;
    let (_, inodes) = room(&bench)?;
    let fill: Vec<String> =
        (0..inodes.saturating_sub(free)).map(|n| format!("touch fill{n}")).collect();
    bench.lines(&fill)?;
    bench.lines(&["sync".into()])?;
    let (_, found) = room(&bench)?;
    let mut lines: Vec<String> = Vec::new();
    let (mut next, mut gone) = (0, 0);
    for _ in 0..6 {
        next += 1;
        lines.push(match rng.below(6) {
            0 => format!("touch t{next}"),
            1 => format!("mkdir m{next}"),
            2 => format!("write w{next} 4K"),
            3 => format!("ln a l{next}"),
            4 => "append a 4K".into(),
            _ => {
                gone += 1;
                format!("rm fill{gone}")
            }
        });
    }
    let tried = bench.tried(&lines)?;
    Ok(Question {
        text: format!(
            "A vsfs volume has many free data blocks, but the number of free inodes is {found}. It has a file a, a directory d, and empty files \
             fill1, fill2 and so on. These lines are carried out one after the other:\n\n{}\n\nWhich of them fail for want \
             of inodes? Give the numbers in order, or none.",
            numbered(&lines)
        ),
        given: json!({"free": found, "lines": lines}),
        parts: vec![Part::new("failing", "Lines that fail", failing(&tried))],
        hints: hints(&[
            "Only what makes a new file or directory needs an inode; a link is a name, and a longer file has more blocks.",
            "rm of the last name gives the inode back, so a later line may succeed.",
        ]),
        known: Some(
            "This is exercise 4 of the chapter, which its own script cannot show: it stops when it is full.",
        ),
        attempt: [vec![settings.into()], first.to_vec(), fill, vec!["df".into()]].concat(),
    })
}
