//! Settings that make no sense, as a user may type them: a configuration, workload or benchmark is
//! refused with a message, or runs to its end, without a panic, a hang or a huge allocation.

use twin_lab::{Config, Workload, presets, settings_help, simulate};
use twin_rt::Rng;
use twin_trace::replay::Pace;

/// The keys that take numbers, from the parts of the help that begin with "Keys", which are
/// generated from the tables of keys.
fn keys() -> Vec<String> {
    let help = settings_help();
    let parts = help.split("\n\n").filter(|part| part.starts_with("Keys"));
    let named = parts.flat_map(|part| part.lines().skip(1));
    let mut keys: Vec<_> = named.filter_map(|line| line.split_whitespace().next()).collect();
    keys.sort_unstable();
    keys.dedup();
    let keys = keys.into_iter().map(String::from);
    // Some keys need a certain layout, a bus or a kind of disk.
    let hardware = ["lfs", "ffs", "bsd-lfs", "lfs-ssd"];
    let takes = |key: &String, value| {
        hardware.iter().any(|preset| Config::parse(&format!("{preset}:{key}={value}")).is_ok())
    };
    keys.filter(|key| ["7", "7/7", "7/7/7"].iter().any(|value| takes(key, value))).collect()
}

/// A number that programs often mishandle.
fn odd(rng: &mut Rng) -> u64 {
    let near = *rng.pick(&[
        0,
        1,
        2,
        7,
        100,
        512,
        4096,
        65536,
        1 << 20,
        1 << 31,
        1 << 32,
        1 << 40,
        1 << 63,
        u64::MAX,
    ]);
    near.wrapping_add(rng.below(3)).wrapping_sub(1)
}

fn value(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => (*rng.pick(&["yes", "no", "full", "own", "", "-1", "0x10", "K", "é", "1e9"])).into(),
        1 => format!("{}/{}", odd(rng), odd(rng)),
        2 => format!("{}/{}/{}", odd(rng), odd(rng), odd(rng)),
        3 => format!("{}{}", rng.below(5), rng.pick(&["K", "M", "G", "T"])),
        _ => odd(rng).to_string(),
    }
}

#[test]
fn odd_settings_are_refused_or_work() {
    let keys = keys();
    assert!(keys.len() > 20, "{keys:?}");
    let (mut refused, mut impossible, mut ran) = (0, 0, 0);
    for seed in 0..8000 {
        let mut rng = Rng::stream(seed, "odd settings");
        let preset = rng.pick(presets()).name;
        let mut text = format!("{preset}:size=16M,cache=1M");
        for _ in 0..rng.range(1, 4) {
            text += &format!(",{}={}", rng.pick(&keys), value(&mut rng));
        }
        let Ok(config) = Config::parse(&text) else {
            refused += 1;
            continue;
        };
        // Printed first, so that a run that hangs or panics is known.
        println!("{seed}: {text}");
        let workload = Workload::Generated("small-files:files=12".into(), 1);
        match simulate(&config, &workload, Pace::Asap) {
            Ok(_) => ran += 1,
            Err(error) => {
                assert!(!error.to_string().is_empty(), "{text}");
                impossible += 1;
            }
        }
    }
    assert!(refused > 500 && impossible > 500 && ran > 500, "{refused} {impossible} {ran}");
}

/// The README's comparison of a user's own recording needs disks smaller than the default size of
/// the simulated volume, and was once refused.
#[test]
fn the_comparison_that_the_readme_tells_of_works() {
    let readme = include_str!("../../../README.md");
    let line = readme.lines().find_map(|line| line.strip_prefix("twinfs compare -t work.tw "));
    let configs: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert!(configs.len() > 2, "{configs:?}");
    let workload = Workload::Generated("build:files=20".into(), 1);
    for text in configs {
        simulate(Config::parse(text).unwrap(), &workload, Pace::Asap).unwrap();
    }
    // A requested size is refused if the disk is smaller.
    let config = Config::parse("lfs:disk=hp97560,size=4G").unwrap();
    let error = simulate(&config, &workload, Pace::Asap).unwrap_err().to_string();
    assert!(error.contains("hp97560"), "{error}");
}

#[test]
fn a_trace_that_was_cut_off_is_replayed_and_said_to_be_cut() {
    let whole = include_bytes!("../../../traces/libgit2-build.tw");
    let config = Config::parse("lfs").unwrap();
    let run = |bytes: &[u8]| simulate(&config, &Workload::Trace(bytes.into()), Pace::Asap).unwrap();
    assert_eq!(run(whole).cut, None);
    let figures = run(&whole[..whole.len() / 2]);
    assert!(figures.ops > 1000 && figures.cut.unwrap().contains("was cut off"));
}
