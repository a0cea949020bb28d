//! Chapter 39: files and directories, on a vsfs volume.

use serde_json::json;
use twin_fs::{Cred, Name, Op, ROOT_INO, Reply, Request, SetAttr};
use twin_rt::Rng;

use super::real::{bench, field, rows};
use super::{Chapter, Exercise, Made, Part, Question, hints};

pub(super) const CHAPTER: Chapter = Chapter {
    number: 39,
    title: "Files and directories",
    about: "Names and inodes, links, permissions, and files with holes.",
    exercises: &[
        Exercise { id: "39.1", title: "Who still counts?", make: links },
        Exercise { id: "39.2", title: "May I?", make: permissions },
        Exercise { id: "39.3", title: "A file with holes", make: holes },
    ],
};

const VOLUME: &str = "vsfs:size=1M";

fn links(rng: &mut Rng) -> Made {
    // Each name's inode, in the order in which they were made, so that every line can be carried out.
    let (mut files, mut dirs): (Vec<(String, u32)>, Vec<String>) =
        (vec![("f0".into(), 0)], Vec::new());
    let mut lines = vec!["touch f0".to_string()];
    let (mut next, mut inodes) = (1, 1);
    for step in 0..rng.range(5, 8) {
        match rng.below(if files.len() > 1 { 5 } else { 4 }) {
            0 => {
                lines.push(format!("touch f{next}"));
                files.push((format!("f{next}"), inodes));
                inodes += 1;
            }
            1 | 2 => {
                let (name, inode) = rng.pick(&files).clone();
                lines.push(format!("ln {name} f{next}"));
                files.push((format!("f{next}"), inode));
            }
            3 => {
                lines.push(format!("mkdir d{step}"));
                dirs.push(format!("d{step}"));
            }
            _ => {
                let gone = files.remove(rng.below(files.len() as u64) as usize);
                lines.push(format!("rm {}", gone.0));
            }
        }
        next += 1;
    }
    let asked = rng.pick(&files).0.clone();
    let bench = bench(VOLUME)?;
    bench.lines(&lines)?;
    bench.lines(&["sync".into()])?;
    let attr = |op| match bench.ask(op)? {
        Ok(Reply::Entry(entry)) => Ok(entry.attr),
        _ => Err("a name is missing".to_string()),
    };
    let look = |name: &str| Op::Lookup { dir: ROOT_INO, name: Name::from(name.as_bytes()) };
    let (file, root) = (attr(look(&asked))?, attr(look("."))?);
    let in_use = rows(&bench.dump("inodes", None)?, "inodes").len();
    Ok(Question {
        text: format!(
            "A new vsfs volume has a root directory and nothing else. These lines are carried out in it:\n\n{}\n\nHow many \
             links does {asked} have now, how many the root directory, and how many inodes are in use (with the root's)?",
            lines.join("\n")
        ),
        given: json!({"lines": lines, "asked": asked}),
        parts: vec![
            Part::new("file", format!("Links of {asked}"), file.nlink),
            Part::new("root", "Links of the root", root.nlink),
            Part::new("inodes", "Inodes in use", in_use),
        ],
        hints: hints(&[
            "A link is a name. rm removes a name; the inode goes when its last name has gone.",
            "A directory counts its name, its own “.” and the “..” of each directory in it; for the root the name is its own “..”.",
        ]),
        known: None,
        attempt: [vec![VOLUME.to_string()], lines.clone(), vec!["ls".into()]].concat(),
    })
}

fn permissions(rng: &mut Rng) -> Made {
    let mode = rng.below(0o1000) as u32;
    let (uid, gid) = (100 + rng.below(3) as u32, 10 + rng.below(2) as u32);
    let (who, group) = (100 + rng.below(3) as u32, 10 + rng.below(2) as u32);
    let bench = bench(VOLUME)?;
    bench.lines(&["touch f".into()])?;
    let found = bench.ask(Op::Lookup { dir: ROOT_INO, name: Name::from(b"f".as_slice()) })?;
    let Ok(Reply::Entry(entry)) = found else { return Err("the file is missing".into()) };
    let ino = entry.attr.ino;
    let set = SetAttr { mode: Some(mode), uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
    bench.ask(Op::SetAttr { ino, set })?.map_err(|why| why.to_string())?;
    let may = |mask| -> Result<&'static str, String> {
        let (id, client, cred) = (u64::MAX, 0, Cred::user(who, group));
        let request = Request { id, client, cred, op: Op::Access { ino, mask } };
        let asked = bench.rt().block_on(bench.volume().execute(request));
        Ok(if asked.map_err(|_| "no answer".to_string())?.is_ok() { "yes" } else { "no" })
    };
    let yes_no = &["yes", "no"];
    Ok(Question {
        text: format!(
            "A file belongs to user {uid} and group {gid}; its mode is {mode:03o}. A process of user {who} and group {group} \
             (no other groups) opens it. May it read, write, execute?"
        ),
        given: json!({"mode": mode, "owner": [uid, gid], "process": [who, group]}),
        parts: vec![
            Part::chosen("read", "Read", may(4)?, yes_no),
            Part::chosen("write", "Write", may(2)?, yes_no),
            Part::chosen("execute", "Execute", may(1)?, yes_no),
        ],
        hints: hints(&[
            "Three bits each for the owner, the group and all others; each octal digit is read 4, write 2, execute 1.",
            "Exactly one of the three counts: the owner's bits for the owner, even if the group's would allow more.",
        ]),
        known: None,
        attempt: Vec::new(),
    })
}

fn holes(rng: &mut Rng) -> Made {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    for _ in 0..rng.range(2, 4) {
        // Within the direct pointers: ten blocks of 4 KiB.
        let at = rng.below(36) * 1024;
        pieces.push((at, (1 + rng.below(6)) * 512));
    }
    let lines: Vec<String> =
        pieces.iter().map(|(at, len)| format!("write f {len} at {at}")).collect();
    let bench = bench(VOLUME)?;
    bench.lines(&lines)?;
    bench.lines(&["sync".into()])?;
    let dump = bench.dump("overview", None)?;
    let _ = field(&dump, "blocks");
    let inodes = rows(&bench.dump("inodes", None)?, "inodes");
    let file = inodes.iter().find(|row| row[2] == "file").ok_or("the file is missing")?;
    let (size, allocated) = (file[5].as_u64().unwrap_or(0), file[6].as_u64().unwrap_or(0));
    Ok(Question {
        text: format!(
            "Blocks have 4096 bytes. A new file is written in pieces:\n\n{}\n\nHow long is the file (its size in the inode), \
             and how many data blocks has it?",
            pieces
                .iter()
                .map(|(at, len)| format!("{len} bytes at offset {at}"))
                .collect::<Vec<_>>()
                .join("\n")
        ),
        given: json!({"pieces": pieces, "block": 4096}),
        parts: vec![
            Part::new("size", "Size in bytes", size),
            Part::new("blocks", "Data blocks", allocated / 4096),
        ],
        hints: hints(&[
            "The size is the end of the piece that reaches farthest.",
            "A block is allocated if any byte of it was written; what was never written is a hole and costs nothing.",
        ]),
        known: None,
        attempt: [vec![VOLUME.to_string()], lines.clone(), vec!["sync".into(), "stat f".into()]]
            .concat(),
    })
}
