//! A mount's memory stays below the limit of `--memory` when its clients use files larger than
//! that.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, tools};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "memory",
    about: "large and small files on a mount with --memory 192M; full: 576M, more files",
    limit_s: (180, 600),
    run,
};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// The amount of work.
struct Amount {
    memory: &'static str,
    allowed_mib: f64,
    large_mib: u64,
    random: u64,
    small: u64,
}

const SHORT: Amount =
    Amount { memory: "192M", allowed_mib: 192.0, large_mib: 400, random: 20_000, small: 4000 };
const FULL: Amount =
    Amount { memory: "576M", allowed_mib: 576.0, large_mib: 1000, random: 80_000, small: 30_000 };

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    let amount = if bench.full { &FULL } else { &SHORT };
    let mut volume = Volume::make(bench, "2G")?;
    volume.set_options(&["--memory", amount.memory]);
    volume.mount()?;
    work(bench, &volume, amount).map_err(|error| error.to_string())?;
    let said = bench.run(Command::new(&bench.program).arg("stat").arg(volume.dir()))?;
    let most = most_mib(&said).ok_or(format!("no memory in {said:?}"))?;
    volume.umount_and_check()?;
    let told = format!("with --memory {} at most {most:.0} MiB", amount.memory);
    if most > amount.allowed_mib { Err(told.into()) } else { Ok(told) }
}

/// The largest memory of the daemon that `stat` reports, in MiB.
fn most_mib(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("memory"))?;
    let (before, _) = line.split_once(" MiB at most")?;
    before.split_whitespace().next_back()?.parse().ok()
}

fn work(bench: &Bench, volume: &Volume<'_>, amount: &Amount) -> std::io::Result<()> {
    let mut rng = Rng::new(bench.seed);
    let content = rng.bytes(MIB as usize);
    let path = volume.dir().join("large");
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(true).read(true).write(true).open(path)?;
    for at in 0..amount.large_mib {
        file.write_all_at(&content, at * MIB)?;
    }
    file.sync_all()?;
    let pages = (amount.large_mib * MIB / PAGE) as usize;
    let page = |rng: &mut Rng| rng.below(pages - 1) as u64 * PAGE;
    let mut buffer = vec![0; 2 * PAGE as usize];
    for bytes in [2 * PAGE as usize, PAGE as usize] {
        for _ in 0..amount.random {
            file.write_all_at(&content[..bytes], page(&mut rng))?;
        }
        file.sync_all()?;
        forget(&file)?;
        for _ in 0..amount.random {
            file.read_exact_at(&mut buffer[..bytes], page(&mut rng))?;
        }
        for n in 0..amount.small / 2 {
            let dir = volume.dir().join(format!("{bytes}-{}", n / 1000));
            std::fs::create_dir_all(&dir)?;
            std::fs::write(dir.join(n.to_string()), &content[..2000])?;
        }
    }
    forget(&file)?;
    let mut buffer = vec![0; MIB as usize];
    (0..amount.large_mib).try_for_each(|at| file.read_exact_at(&mut buffer, at * MIB))
}

/// Drops a file's clean pages from the kernel's cache, so that reads reach the daemon.
fn forget(file: &File) -> std::io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_most_memory_is_read_from_what_stat_says() {
        let said = "used   3\nmemory           80 MiB now, 97.5 MiB at most (`mount --memory` bounds it)\n";
        assert_eq!(super::most_mib(said), Some(97.5));
        assert_eq!(super::most_mib("inodes 4"), None);
    }
}
