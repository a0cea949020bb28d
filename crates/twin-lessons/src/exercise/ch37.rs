//! Chapter 37: hard disk drives and their scheduling. The toy disk is that of the book, as the real model of a disk.

use serde_json::json;
use twin_rt::Rng;

use super::real::{order, toy};
use super::{Chapter, Exercise, Made, Part, Question, hints, spaced};

pub(super) const CHAPTER: Chapter = Chapter {
    number: 37,
    title: "Hard disk drives",
    about: "Where the time of a request goes, and what the order of requests is worth.",
    exercises: &[
        Exercise { id: "37.1", title: "Three queues on the toy disk", make: three_queues },
        Exercise { id: "37.2", title: "Seek, rotation, transfer", make: one_request },
        Exercise { id: "37.3", title: "Which way does the arm go?", make: elevators },
        Exercise { id: "37.4", title: "Track skew", make: skew },
    ],
};

/// Units of a seek from a track to the next.
const SEEK: u64 = 40;

const DISK: &str = "The toy disk has three tracks of twelve sectors. Blocks 0 to 11 are on the outermost track, 12 to 23 on \
the middle one, 24 to 35 on the innermost one; sector k of each track lies at the same angle. A sector passes in 30 units \
of time (a revolution takes 360), and the arm needs 40 units for each track that it moves. In the beginning the head is \
over the outermost track, in the middle of sector 6, so that sector 7 begins 15 units later.";

fn list(blocks: &[u64]) -> String {
    blocks.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Distinct blocks at distinct angles, none of which is as far from the head as another: all orders are certain.
fn blocks(rng: &mut Rng, count: usize) -> Vec<u64> {
    loop {
        let mut picked: Vec<u64> = Vec::new();
        while picked.len() < count {
            let block = rng.below(36);
            if picked.iter().all(|one| one % 12 != block % 12) && block % 12 != 6 {
                picked.push(block);
            }
        }
        let heads = picked.iter().map(|one| one + 1).chain([0]);
        let certain = heads.into_iter().all(|head| {
            let mut far: Vec<u64> = picked
                .iter()
                .filter(|one| **one + 1 != head)
                .map(|one| one.abs_diff(head))
                .collect();
            far.sort_unstable();
            far.windows(2).all(|two| two[0] != two[1])
        });
        if certain {
            return picked;
        }
    }
}

fn three_queues(rng: &mut Rng) -> Made {
    let count = rng.range(3, 5) as usize;
    let requests = blocks(rng, count);
    let time = |policy| toy(&requests, policy, SEEK, 0).map(|(_, time)| time);
    Ok(Question {
        text: format!(
            "{DISK}\n\nThe requests {} wait all at once, in this order of arrival. After how many units is the last one \
             done under each policy? FIFO serves them as they came; SSTF takes the block whose number is nearest to the \
             one behind the block that was served last (block 0 in the beginning), as the queue of this file system \
             does; SATF takes the one that is reached first, seek and rotation together.",
            list(&requests)
        ),
        given: json!({"requests": requests}),
        parts: vec![
            Part::new("fifo", "FIFO", time("fcfs")?),
            Part::new("sstf", "SSTF", time("sstf")?),
            Part::new("satf", "SATF", time("sptf")?),
        ],
        hints: hints(&[
            "Keep two things: the track of the head, and the angle, that is the time since the beginning plus 195, modulo 360.",
            "Sector k begins to pass at every time whose angle is 30 k. First add the seek, then wait for the angle, then add 30.",
            "While the arm moves the disk turns: the wait is counted from the end of the seek.",
        ]),
        known: Some(
            "For the requests 7, 30, 8 the book's answers are FIFO 795, SSTF 375, SATF 375.",
        ),
        attempt: Vec::new(),
    })
}

fn one_request(rng: &mut Rng) -> Made {
    let block = blocks(rng, 1)[0];
    let (timed, _) = toy(&[block], "fcfs", SEEK, 0)?;
    let (_, seek, rotation, transfer) = timed[0];
    Ok(Question {
        text: format!(
            "{DISK}\n\nBlock {block} is requested. How long are its seek, its rotational delay and its transfer?"
        ),
        given: json!({"block": block}),
        parts: vec![
            Part::new("seek", "Seek", seek),
            Part::new("rotation", "Rotational delay", rotation),
            Part::new("transfer", "Transfer", transfer),
        ],
        hints: hints(&[
            "The track is the block's number divided by 12; each track on the way costs 40.",
            "The angle after the seek is 195 plus the seek; the sector comes at 30 times its number on the track.",
        ]),
        known: Some("For block 10 the book's answers are 0, 105 and 30."),
        attempt: vec!["vsfs:size=4M,disk=hp97560".into(), "write a 20K".into(), "sync".into()],
    })
}

fn elevators(rng: &mut Rng) -> Made {
    let head = rng.range(20, 80);
    let places = loop {
        let mut places: Vec<u64> = (0..rng.range(5, 8)).map(|_| rng.below(100)).collect();
        places.retain(|place| *place != head);
        let mut sorted: Vec<u64> = places.iter().copied().chain([head]).collect();
        sorted.sort_unstable();
        sorted.dedup();
        // No request lies in the middle between two others, nor do two have one place.
        let uneven = (0..sorted.len()).all(|at| {
            let far: Vec<u64> = sorted.iter().map(|one| one.abs_diff(sorted[at])).collect();
            (0..far.len()).all(|i| (0..i).all(|j| far[i] != far[j]))
        });
        if sorted.len() == places.len() + 1 && places.len() >= 5 && uneven {
            break places;
        }
    };
    let way = |order: &[u64]| {
        order.iter().fold((head, 0), |(at, sum), next| (*next, sum + at.abs_diff(*next))).1
    };
    let (sstf, clook, look) = (
        order(&places, head, "sstf")?,
        order(&places, head, "c-look")?,
        order(&places, head, "look")?,
    );
    Ok(Question {
        text: format!(
            "The head is at track {head}. Requests wait for the tracks {}. In which order are they served by SSTF, by the \
             elevator that goes up first and then down (LOOK), and by the one that only serves on its way up and then \
             returns to the lowest request (C-LOOK)? And over how many tracks does the arm move under LOOK?",
            list(&places)
        ),
        given: json!({"head": head, "places": places}),
        parts: vec![
            Part::new("sstf", "Order of SSTF", spaced(&sstf)),
            Part::new("look", "Order of LOOK", spaced(&look)),
            Part::new("clook", "Order of C-LOOK", spaced(&clook)),
            Part::new("tracks", "Tracks under LOOK", way(&look)),
        ],
        hints: hints(&[
            "Sort the tracks first, and mark where the head is.",
            "LOOK turns at the last request, not at the edge of the disk.",
        ]),
        known: None,
        attempt: vec![
            "ffs:size=16M,group=1M,queue=c-look".into(),
            "workload 60 3".into(),
            "sync".into(),
        ],
    })
}

fn skew(rng: &mut Rng) -> Made {
    let (first, seek) = (rng.range(5, 11), 10 * rng.range(1, 20) + 5);
    let blocks: Vec<u64> = (first..14).collect();
    let time = |skew| toy(&blocks, "fcfs", seek, skew).map(|(_, time)| time);
    let (mut least, mut best) = (u64::MAX, 0);
    for skew in 0..12 {
        let took = time(skew)?;
        if took < least {
            (least, best) = (took, skew);
        }
    }
    Ok(Question {
        text: format!(
            "The disk is that of the other exercises (twelve sectors on a track, 30 units for a sector, the head in the \
             middle of sector 6 of the outermost track in the beginning), but a seek to the next track takes {seek} units. \
             Blocks {first} to 13 are read one after the other. With a track skew of n, sector 0 of each track lies n \
             sectors behind that of the track before it. How long does it take without skew, which skew makes it shortest \
             (the smallest such skew), and how long does it take then?"
        ),
        given: json!({"first": first, "last": 13, "seek": seek}),
        parts: vec![
            Part::new("without", "Units without skew", time(0)?),
            Part::new("skew", "Best skew", best),
            Part::new("with", "Units with it", least),
        ],
        hints: hints(&[
            "When block 11 is done the head is just before sector 0 of its own track. Where is it after the seek?",
            "The skew must be at least as long as the seek, in whole sectors.",
        ]),
        known: None,
        attempt: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{SEEK, toy};

    /// Those that the book's homework prints for its toy disk.
    #[test]
    fn the_toy_disk_gives_the_published_answers() {
        let time = |policy| toy(&[7, 30, 8], policy, SEEK, 0).unwrap().1;
        assert_eq!([time("fcfs"), time("sstf"), time("sptf")], [795, 375, 375]);
        let fifo = |blocks: &[u64]| toy(blocks, "fcfs", SEEK, 0).unwrap();
        assert_eq!(fifo(&[10]), (vec![(10, 0, 105, 30)], 135));
        assert_eq!(fifo(&[10, 11]), (vec![(10, 0, 105, 30), (11, 0, 0, 30)], 165));
        assert_eq!(fifo(&[10, 18]), (vec![(10, 0, 105, 30), (18, 40, 170, 30)], 375));
    }
}
