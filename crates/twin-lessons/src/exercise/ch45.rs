//! Chapter 45: data integrity, with bits that rot under real layouts.

use serde_json::json;
use twin_disk::{Block, Bytes};
use twin_rt::Rng;

use super::real::{bench, rows};
use super::{Chapter, Exercise, Made, Part, Question, hints};
use crate::volume::Bench;

pub(super) const CHAPTER: Chapter = Chapter {
    number: 45,
    title: "Data integrity and protection",
    about: "Checksums, what they notice and what they miss, and what a file system does about it.",
    exercises: &[
        Exercise { id: "45.1", title: "Three checksums", make: checksums },
        Exercise { id: "45.2", title: "What goes unnoticed", make: unnoticed },
        Exercise { id: "45.3", title: "A bit rots", make: rot },
    ],
};

fn xor(data: &[u8]) -> u64 {
    data.iter().fold(0, |sum, byte| sum ^ u64::from(*byte))
}

fn sum(data: &[u8]) -> u64 {
    data.iter().map(|byte| u64::from(*byte)).sum::<u64>() % 256
}

/// Fletcher's two sums.
fn fletcher(data: &[u8]) -> (u64, u64) {
    data.iter().fold((0, 0), |(a, b), byte| {
        let a = (a + u64::from(*byte)) % 255;
        (a, (b + a) % 255)
    })
}

fn text(data: &[u8]) -> String {
    data.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

fn checksums(rng: &mut Rng) -> Made {
    let data: Vec<u8> = (0..rng.range(4, 7)).map(|_| rng.below(256) as u8).collect();
    let (a, b) = fletcher(&data);
    Ok(Question {
        text: format!(
            "Compute the checksums of the bytes {}: XOR of all bytes; their sum modulo 256; and Fletcher's two sums modulo \
             255 (a grows by each byte, b by each new a, both from 0).",
            text(&data)
        ),
        given: json!({"data": data}),
        parts: vec![
            Part::new("xor", "XOR", xor(&data)),
            Part::new("sum", "Sum", sum(&data)),
            Part::new("a", "Fletcher a", a),
            Part::new("b", "Fletcher b", b),
        ],
        hints: hints(&[
            "For XOR write the bytes in binary: a column with an odd number of ones gives a one.",
        ]),
        known: None,
        attempt: Vec::new(),
    })
}

fn unnoticed(rng: &mut Rng) -> Made {
    let data: Vec<u8> = (0..rng.range(4, 6)).map(|_| rng.below(256) as u8).collect();
    let (mut damaged, what) = (data.clone(), rng.below(4));
    let (i, j) = (0, rng.range(1, data.len() as u64 - 1) as usize);
    let bit = rng.below(8);
    match what {
        // Two bytes change places.
        0 => damaged.swap(i, j),
        // The same bit flips in both.
        1 => {
            damaged[i] ^= 1 << bit;
            damaged[j] ^= 1 << bit;
        }
        // One grows by what the other loses.
        2 => {
            damaged[i] = damaged[i].wrapping_add(3);
            damaged[j] = damaged[j].wrapping_sub(3);
        }
        // One bit flips.
        _ => damaged[j] ^= 1 << bit,
    }
    if damaged == data {
        return unnoticed(rng);
    }
    let notices = |same: bool| if same { "no" } else { "yes" };
    let yes_no = &["yes", "no"];
    // The checksum of the log's blocks, which notices every change as small as these.
    let crc = crc32c::crc32c(&data) == crc32c::crc32c(&damaged);
    Ok(Question {
        text: format!(
            "A block had the bytes {}. When it is read again it has {}. Which checksums notice the difference: XOR, the sum \
             modulo 256, Fletcher's sums modulo 255, a CRC of 32 bits (which notices every change within 32 bits that follow \
             one another, and each of these)?",
            text(&data),
            text(&damaged)
        ),
        given: json!({"data": data, "damaged": damaged}),
        parts: vec![
            Part::chosen("xor", "XOR", notices(xor(&data) == xor(&damaged)), yes_no),
            Part::chosen("sum", "Sum", notices(sum(&data) == sum(&damaged)), yes_no),
            Part::chosen(
                "fletcher",
                "Fletcher",
                notices(fletcher(&data) == fletcher(&damaged)),
                yes_no,
            ),
            Part::chosen("crc", "CRC", notices(crc), yes_no),
        ],
        hints: hints(&[
            "Neither XOR nor a sum knows the order of bytes. Compute both blocks' checksums.",
        ]),
        known: None,
        attempt: Vec::new(),
    })
}

const READS: &[&str] = &["the right data", "wrong data, and no error", "an error"];

/// The first byte of a block inside the file f, in another file, or in free space.
fn place(bench: &Bench, where_: &str) -> Result<u64, String> {
    let dump = bench.dump("space", None)?;
    let inodes = rows(&bench.dump("space", None)?, "names");
    let of = |name: &str| {
        let row = inodes.iter().find(|row| row[2] == name);
        row.and_then(|row| row[1].as_u64()).ok_or_else(|| format!("no file {name}"))
    };
    let (file, other) = (of("f")?, of("other")?);
    let runs = rows(&dump, "runs");
    let begin = |ino: u64| {
        let row = runs.iter().find(|row| row[0].as_u64() == Some(ino));
        row.and_then(|row| row[6].as_u64()).ok_or_else(|| "the file has no block".to_string())
    };
    match where_ {
        "inside the file" => begin(file),
        "in another file" => begin(other),
        _ => {
            let free = rows(&dump, "free");
            let last = free.last().and_then(|row| row[0].as_u64()).ok_or("nothing is free")?;
            Ok(last + 8192)
        }
    }
}

fn rot(rng: &mut Rng) -> Made {
    let (settings, sums) = *rng.pick(&[
        ("vsfs:size=1M", false),
        ("ffs:size=8M,group=1M", false),
        ("lfs:size=4M", true),
    ]);
    let where_ = *rng.pick(&["inside the file", "in another file", "in free space"]);
    let bench = bench(settings)?;
    let blocks = rng.range(2, 6);
    let lines = [
        format!("write f {}K", blocks * 4),
        "write other 8K".into(),
        "sync".into(),
        "read f".into(),
    ];
    bench.lines(&lines)?;
    let right = bench.line("read f")??;
    let at = place(&bench, where_)? + rng.below(4096);
    let mut platter = bench.closed()?;
    let byte = platter.read_bytes(at, 1)[0] ^ (1 << rng.below(8));
    platter.write(at, &[Block::Bytes(Bytes::copy_of(&[byte]))]);
    let again = Bench::open(settings, platter)?;
    let read = match again.line("read f")? {
        Err(_) => READS[2],
        Ok(said) if said == right => READS[0],
        Ok(_) => READS[1],
    };
    let noticed = READS[2] == read;
    let kind = settings.split(':').next().unwrap_or_default();
    let words = if sums {
        "has a checksum for each block of file data"
    } else {
        "has no checksums of file data"
    };
    Ok(Question {
        text: format!(
            "A volume of the layout {kind} {words}. A file f of {blocks} blocks of 4 KiB is written and synced, and another \
             one after it. The volume is closed, and one bit of the medium flips, {where_}. The volume is opened and f is \
             read from beginning to end. What does the reader get? And could a scrubber that only compares checksums of \
             data, here, now tell the damage to f?"
        ),
        given: json!({"checksums": sums, "where": where_}),
        parts: vec![
            Part::chosen("read", "The reader gets", read, READS),
            Part::chosen(
                "scrubber",
                "A scrubber could tell",
                if noticed { "yes" } else { "no" },
                &["yes", "no"],
            ),
        ],
        hints: hints(&[
            "Without a checksum the disk's word is all there is: it read what was there.",
        ]),
        known: None,
        attempt: [vec![settings.to_string()], lines.to_vec()].concat(),
    })
}
