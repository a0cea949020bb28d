//! The hit rates of caches of several sizes and policies for the reads and writes of a workload,
//! without a file system: no names, no metadata, no disk, no time.
//!
//! ```sh
//! cargo run --release -p twin-studies --example caches -- zipf:writes=10000000,file-bytes=1073741824
//! cargo run --release -p twin-studies --example caches -- traces/libgit2-build.tw
//! ```
//!
//! Prints the share of accesses to blocks of 4 KiB that find their block, and the number of
//! accesses that one processor simulates in a second.
#![allow(clippy::disallowed_types)] // A program may read the clock; only the core may not.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use twin_cache::{Capacity, replacement, study};
use twin_fs::Ino;
use twin_lab::Workload;
use twin_rt::FixedMap;
use twin_trace::{Record, Transfer};

const BLOCK: u64 = 4096;

/// The accesses of a workload, with blocks numbered in the order of their first access.
fn accesses(workload: &Workload) -> Result<(Vec<u32>, u32), Box<dyn std::error::Error>> {
    let mut numbers: FixedMap<(Ino, u64), u32> = FixedMap::default();
    let mut out = Vec::new();
    let mut source = workload.start()?;
    while let Some(record) = source.next_record()? {
        let Record::Request { request, .. } = record else { continue };
        let Some(Transfer { ino, off, bytes, .. }) = Transfer::of(&request.op) else { continue };
        for block in off / BLOCK..(off + bytes).div_ceil(BLOCK) {
            let next = numbers.len() as u32;
            out.push(*numbers.entry((ino, block)).or_insert(next));
        }
    }
    Ok((out, numbers.len() as u32))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "zipf:writes=10000000".into());
    let workload = if Path::new(&name).exists() {
        Workload::Trace(Arc::from(std::fs::read(&name)?))
    } else {
        Workload::Generated(name, 1)
    };
    let (accesses, blocks) = accesses(&workload)?;
    println!("{} accesses to {blocks} blocks", accesses.len());
    println!("{:>10} {:>12} {:>8} {:>14}", "policy", "frames", "hits", "accesses/s");
    for entry in &replacement::REGISTRY {
        for part in [64, 16, 4] {
            let frames = (blocks / part).max(1);
            let policy = entry.make(Capacity::frames(frames.into()));
            let begun = Instant::now();
            let hits = study::hits(policy, frames, blocks, accesses.iter().copied());
            let rate = accesses.len() as f64 / begun.elapsed().as_secs_f64();
            let share = 100.0 * hits as f64 / accesses.len().max(1) as f64;
            println!("{:>10} {frames:>12} {share:>7.1}% {rate:>14.0}", entry.name);
        }
    }
    Ok(())
}
