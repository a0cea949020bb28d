//! Explores leases: `one SEED`, `count FROM..TO`, `bugs FROM..TO [NAME]`. See `twin_proof::nfs::lease`.

use twin_proof::nfs::lease::{Bug, Ran, Scenario, run};
use twin_proof::nfs::{VOLUMES, Volume};

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = args.get(1).ok_or("one SEED, count FROM..TO, or bugs FROM..TO [NAME]")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (number(from)?, number(to)?),
        None => (number(text)?, number(text)? + 1),
    };
    // The third layout promises nothing about data that is not synced.
    let volumes: Result<Vec<Volume>, String> =
        VOLUMES[..2].iter().map(|v| Volume::make(v)).collect();
    let volumes = volumes?;
    let volume = |seed: u64| &volumes[seed as usize % volumes.len()];
    if args[0] == "bugs" {
        let named = |bug: &Bug| args.get(2).is_none_or(|name| *name == format!("{bug:?}"));
        for bug in Bug::ALL.into_iter().filter(named) {
            let finds =
                |seed: &u64| run(&Scenario::random(*seed).with_bug(bug), volume(*seed)).err();
            let first = (from..to).find_map(|seed| finds(&seed).map(|what| (seed, what)));
            match first {
                Some((seed, what)) => {
                    println!("{bug:?}: seed {seed}: {}", what.lines().next().unwrap_or_default());
                }
                None => println!("{bug:?}: not found"),
            }
        }
        return Ok(());
    }
    let mut sum = Ran::default();
    let mut failed = 0;
    for seed in from..to {
        match run(&Scenario::random(seed), volume(seed)) {
            Ok(ran) => sum += ran,
            Err(what) => {
                failed += 1;
                println!("seed {seed}: {what}");
            }
        }
    }
    println!("{} runs, {failed} failed, {sum:?}", to - from);
    if failed > 0 { Err("promises were broken".into()) } else { Ok(()) }
}
