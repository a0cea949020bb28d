//! Every replacement policy on a mount whose cache is far smaller than its files: what is read is what was
//! written, on both layouts, also while the file changes its own policy. The policies are those that the help of `mount --replacement` lists; the one
//! that needs to know the future is refused with the reason.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use rustix::fs::{XattrFlags, setxattr};

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "replacement",
    about: "mount --replacement with every policy, log and FFS: all that is read was written",
    limit_s: (120, 600),
    run,
};

const BLOCK: usize = 4096;
/// Blocks of the file: eight times the cache.
const BLOCKS: usize = 2048;
const CACHE: &str = "1M";
const SIZE: &str = "48M";
/// The attribute with the file's own policy.
const OWN: &str = "user.twinfs.replacement";

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let policies = policies(bench)?;
    refuses_the_future(bench)?;
    let layouts = if bench.mkfs.is_empty() { &["lfs", "ffs"][..] } else { &[bench.layout()] };
    let mut reads = 0;
    for layout in layouts {
        let mut volume = Volume::make_of(bench, layout, SIZE)?;
        let mut written = vec![0u8; BLOCKS];
        for (at, policy) in policies.iter().enumerate() {
            volume.set_options(&["--cache", CACHE, "--file-types", "--replacement", policy]);
            volume.mount()?;
            let seed = bench.seed.wrapping_mul(1000) + at as u64;
            let found = work(&volume, &mut written, (seed, &policies), bench.size(600, 6000));
            reads += found.map_err(|why| format!("{layout}, {policy}: {why}"))?;
            volume.umount_and_check().map_err(|why| format!("{layout}, {policy}: {why}"))?;
        }
    }
    Ok(format!("{} policies on {} layouts, {reads} reads", policies.len(), layouts.len()))
}

/// The policies that the help lists.
fn policies(bench: &Bench) -> Result<Vec<String>, String> {
    let help = bench.shell(&bench.dir, &format!("{} mount --help", bench.program.display()))?;
    // The help may be wrapped anywhere.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, list) = help.split_once("the cache when it is full: ").ok_or("no policy is listed")?;
    let (list, _) = list.split_once(". ").ok_or("the list of policies has no end")?;
    let policies: Vec<String> = list.split(", ").map(String::from).collect();
    match policies.len() {
        0..4 => Err(format!("too few policies are listed: {policies:?}")),
        _ => Ok(policies),
    }
}

fn refuses_the_future(bench: &Bench) -> Result<(), String> {
    let mut command = Command::new(&bench.program);
    command.args(["mount", "--replacement", "belady", "disk.img", "mnt"]);
    match bench.run(&mut command) {
        Err(why) if why.contains("needs to know all accesses in advance") => Ok(()),
        Err(why) => Err(format!("the refusal of the optimum does not say why: {why}")),
        Ok(_) => Err("a mount with the optimum was accepted".into()),
    }
}

/// Overwrites and reads blocks at random, past the kernel's own cache, and changes the file's own policy now and then; `written` has the number in each
/// block. Gives the number of reads.
fn work(
    volume: &Volume<'_>,
    written: &mut [u8],
    (seed, policies): (u64, &[String]),
    rounds: usize,
) -> Result<usize, String> {
    let text = |error: std::io::Error| error.to_string();
    let path = volume.dir().join("data");
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let file = file.map_err(text)?;
    let mut rng = Rng::new(seed);
    let (mut content, mut reads) = (vec![0; BLOCK], 0);
    for round in 0..rounds {
        // Some blocks are used more often than others.
        let most = 1 + rng.below(BLOCKS);
        let block = rng.below(most);
        if written[block] == 0 || rng.below(3) == 0 {
            written[block] = written[block] % 250 + 1;
            file.write_all_at(&vec![written[block]; BLOCK], (block * BLOCK) as u64)
                .map_err(text)?;
        } else {
            file.read_exact_at(&mut content, (block * BLOCK) as u64).map_err(text)?;
            reads += 1;
            if content.iter().any(|byte| *byte != written[block]) {
                return Err(format!("block {block} is wrong in round {round}, seed {seed}"));
            }
        }
        if round % 100 == 49 {
            let own = &policies[rng.below(policies.len())];
            let set = setxattr(&path, OWN, own.as_bytes(), XattrFlags::empty());
            set.map_err(|error| format!("{OWN} of {own}: {error}"))?;
        }
        if round % 100 == 99 {
            file.sync_data().map_err(text)?;
            drop_kernel_cache(&path)?;
        }
    }
    drop(file);
    let whole = fs::read(&path).map_err(text)?;
    let wrong = whole
        .chunks(BLOCK)
        .zip(written.iter())
        .position(|(block, number)| block.iter().any(|byte| byte != number));
    match wrong {
        Some(block) => Err(format!("block {block} is wrong at the end, seed {seed}")),
        None => Ok(reads),
    }
}

/// Makes the kernel forget what it has of a file, so that reads reach the mount.
fn drop_kernel_cache(path: &std::path::Path) -> Result<(), String> {
    let mut command = Command::new("dd");
    command.arg(format!("of={}", path.display())).args([
        "oflag=nocache",
        "conv=notrunc",
        "count=0",
    ]);
    let output = command.output().map_err(|error| format!("dd: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("dd: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
