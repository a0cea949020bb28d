//! Chapter 41: the fast file system, on a volume of cylinder groups.

use serde_json::json;
use twin_fs::geometry::{Geometry, Parent};
use twin_rt::Rng;

use super::real::{bench, field, rows};
use super::{Chapter, Exercise, Made, Part, Question, hints};

pub(super) const CHAPTER: Chapter = Chapter {
    number: 41,
    title: "Locality and the fast file system",
    about: "Cylinder groups, fragments, pointers, and how large a piece must be to be worth a seek.",
    exercises: &[
        Exercise { id: "41.1", title: "Which cylinder group?", make: group },
        Exercise { id: "41.2", title: "Fragments", make: fragments },
        Exercise { id: "41.3", title: "Which pointer?", make: pointer },
        Exercise { id: "41.4", title: "Worth a seek", make: amortized },
    ],
};

const VOLUME: &str = "ffs:size=8M,group=1M";

fn group(rng: &mut Rng) -> Made {
    let bench = bench(VOLUME)?;
    for n in 0..rng.range(4, 9) {
        bench.lines(&[
            format!("mkdir d{n}"),
            format!("write d{n}/a 4K"),
            format!("touch d{n}/b"),
        ])?;
    }
    bench.lines(&["sync".into()])?;
    let groups = rows(&bench.dump("groups", None)?, "groups");
    let starts: Vec<u64> = groups.iter().filter_map(|row| row[1].as_u64()).collect();
    let one = bench.dump("groups", Some(0))?;
    let maps = field(&one, "maps_at").ok_or("no maps")?;
    let (block, first) = (maps - starts[0], starts[0]);
    let table = maps + block - first;
    let per_group = {
        let overview = bench.dump("overview", None)?;
        field(&overview, "inodes").ok_or("no inodes")? / starts.len() as u64
    };
    let inodes = rows(&bench.dump("inodes", None)?, "inodes");
    // Mostly one that is not in the first group.
    let row = &inodes[rng.range(inodes.len() as u64 / 3, inodes.len() as u64) as usize];
    let (ino, at) = (row[0].as_u64().unwrap_or(0), row[7].as_u64().unwrap_or(0));
    let group = starts.iter().rposition(|start| *start <= at).ok_or("before the groups")?;
    Ok(Question {
        text: format!(
            "An FFS volume has {} cylinder groups; group 0 begins at byte {first}, and each has {} bytes. Each group has \
             {per_group} inodes of 512 bytes, in a table that begins {table} bytes behind the start of the group; inode 0 is \
             the first of group 0. In which group is inode {ino}, which index has it in the group's table, and at which byte \
             of the device does it begin?",
            starts.len(),
            starts[1] - first
        ),
        given: json!({"first": first, "group_bytes": starts[1] - first, "per_group": per_group, "table": table, "inode_size": 512, "inode": ino}),
        parts: vec![
            Part::new("group", "Group", group),
            Part::new("index", "Index in the group", ino % per_group),
            Part::new("byte", "Byte", at),
        ],
        hints: hints(&[
            "Divide the number of the inode by the inodes of a group: the quotient is the group, the rest the index.",
        ]),
        known: None,
        attempt: vec![
            VOLUME.into(),
            "mkdir d".into(),
            "mkdir e".into(),
            "write d/a 4K".into(),
            "write e/a 4K".into(),
            "sync".into(),
        ],
    })
}

fn fragments(rng: &mut Rng) -> Made {
    let bytes = rng.range(1, 95 * 1024);
    let bench = bench(VOLUME)?;
    bench.lines(&[format!("write f {bytes}"), "sync".into()])?;
    let inodes = rows(&bench.dump("inodes", None)?, "inodes");
    let file = inodes.iter().find(|row| row[2] == "file").ok_or("the file is missing")?;
    let allocated = file[6].as_u64().unwrap_or(0);
    let (blocks, fragments) = (allocated / 8192, allocated % 8192 / 1024);
    Ok(Question {
        text: format!(
            "FFS with blocks of 8192 bytes and fragments of 1024 bytes gives the end of a small file only the fragments that \
             it needs. A file has {bytes} bytes. How many whole blocks and how many fragments does it get, and how many \
             bytes of them are wasted? (If all eight fragments of a block are needed, that is a whole block.)"
        ),
        given: json!({"bytes": bytes, "block": 8192, "fragment": 1024}),
        parts: vec![
            Part::new("blocks", "Whole blocks", blocks),
            Part::new("fragments", "Fragments", fragments),
            Part::new("wasted", "Bytes wasted", allocated - bytes),
        ],
        hints: hints(&["Round the size up to whole fragments first."]),
        known: None,
        attempt: vec![VOLUME.into(), format!("write f {bytes}"), "sync".into(), "stat f".into()],
    })
}

fn pointer(rng: &mut Rng) -> Made {
    let block = *rng.pick(&[1024_u32, 4096, 8192]);
    let (direct, per_block) = (12_u64, u64::from(block) / 4);
    let geometry = Geometry::classic(block, block);
    let number = match rng.below(3) {
        0 => rng.below(direct),
        1 => direct + rng.below(per_block),
        _ => direct + per_block + rng.below((per_block * per_block).min(200_000)),
    };
    let offset = number * u64::from(block) + rng.below(block.into());
    // Follow the pointers of the real geometry up to the inode.
    let (mut levels, mut lbn, mut index) = (0, number as i64, None);
    loop {
        match geometry.parent(lbn) {
            Parent::Indirect(above, at) => {
                index.get_or_insert(at as u64);
                (levels, lbn) = (levels + 1, above);
            }
            Parent::Inode(at) => {
                index.get_or_insert(at as u64);
                break;
            }
        }
    }
    let kinds = &["direct", "single indirect", "double indirect"];
    let index = index.ok_or("no pointer")?;
    Ok(Question {
        text: format!(
            "An inode has 12 direct pointers, a single indirect and a double indirect one; blocks have {block} bytes, and an \
             indirect block is full of pointers of 4 bytes. Byte {offset} of a file is read. Which block of the file is that \
             (counted from 0), by which kind of pointer is it reached, how many blocks are read for it when nothing but the \
             inode is in memory (the data block is one), and which index has the pointer to it in the block, or the inode, \
             that holds this pointer?"
        ),
        given: json!({"block": block, "offset": offset, "direct": direct, "pointer": 4}),
        parts: vec![
            Part::new("number", "Block of the file", number),
            Part::chosen("kind", "Pointer", kinds[levels], kinds),
            Part::new("reads", "Blocks read", levels + 1),
            Part::new("index", "Index", index),
        ],
        hints: hints(&[
            "An indirect block has block size / 4 pointers.",
            "Subtract what the direct pointers map, then what the single indirect block maps.",
        ]),
        known: None,
        attempt: vec![VOLUME.into(), "write f 200K".into(), "sync".into()],
    })
}

fn amortized(rng: &mut Rng) -> Made {
    let positioning = rng.range(4, 13);
    let rate = 10 * rng.range(2, 16);
    let percent = *rng.pick(&[50_u64, 75, 80, 90]);
    // MB/s times ms are KB; the share of transfer in the time is p, so transfer is p / (1 - p) of positioning.
    let kb = rate * positioning * percent / (100 - percent);
    let exact = (rate * positioning * percent).is_multiple_of(100 - percent);
    if !exact {
        return amortized(rng);
    }
    Ok(Question {
        text: format!(
            "Positioning (seek and rotation) takes {positioning} ms on average, and the disk transfers {rate} MB/s. FFS divides \
             large files into pieces, each in another group. How many KB must a piece have so that the disk moves data at \
             {percent}% of its rate, and how long (in ms) does the transfer of such a piece take? (1 MB = 1000 KB.)"
        ),
        given: json!({"positioning_ms": positioning, "rate_mb_s": rate, "percent": percent}),
        parts: vec![
            Part::new("kb", "KB", kb),
            Part::new("ms", "ms of transfer", positioning * percent / (100 - percent)),
        ]
        .into_iter()
        .filter(|part| part.name == "kb" || (positioning * percent).is_multiple_of(100 - percent))
        .collect(),
        hints: hints(&[
            "At 50% the transfer takes exactly as long as the positioning.",
            "At p the transfer takes p / (1 − p) times the positioning.",
        ]),
        known: Some(
            "The book: 10 ms and 40 MB/s need 400 KB for half the rate (409.6 KB with 1 MB = 1024 KB).",
        ),
        attempt: Vec::new(),
    })
}
