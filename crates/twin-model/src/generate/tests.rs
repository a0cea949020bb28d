//! Tests of the workloads against the model.

use std::collections::BTreeMap;

use twin_rt::Time;

use super::*;
use crate::{DataMode, ModelFs, Settings};
use twin_fs::{FsError, mode};

fn model() -> ModelFs {
    let settings = Settings { data: DataMode::Stamps, ..Settings::default() };
    ModelFs::new(settings, Time(0))
}

fn run(name: &str, seed: u64, ops: usize) -> (Vec<Request>, Vec<Result<Reply>>, Generator) {
    let mut model = model();
    let mut generator = Generator::new(name, WorkloadParams::default(), seed).unwrap();
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for _ in 0..ops {
        let request = generator.next();
        let reply = model.apply(Time(request.id * 1000), &request);
        generator.learn(&request, &reply);
        requests.push(request);
        replies.push(reply);
    }
    (requests, replies, generator)
}

#[test]
fn the_same_seed_gives_the_same_requests_and_another_gives_others() {
    for spec in WORKLOADS {
        let (a, b, c) =
            (run(spec.name, 1, 500).0, run(spec.name, 1, 500).0, run(spec.name, 2, 500).0);
        assert_eq!(a, b, "{}", spec.name);
        assert_ne!(a, c, "{}", spec.name);
    }
}

#[test]
fn names_of_workloads_are_unique_and_unknown_ones_are_none() {
    let mut names: Vec<&str> = WORKLOADS.iter().map(|spec| spec.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), WORKLOADS.len());
    assert!(Generator::new("no such", WorkloadParams::default(), 0).is_none());
}

/// The name of an operation's variant.
fn kind(op: &Op) -> String {
    format!("{op:?}").split([' ', '{', '(']).next().unwrap_or_default().to_string()
}

#[test]
fn mixed_requests_are_of_every_kind_and_each_succeeds_and_most_may_fail() {
    let (requests, replies, _) = run("mixed", 3, 20_000);
    let mut counts: BTreeMap<String, [u32; 2]> = BTreeMap::new();
    for (request, reply) in requests.iter().zip(&replies) {
        counts.entry(kind(&request.op)).or_default()[usize::from(reply.is_err())] += 1;
    }
    assert_eq!(counts.len(), 29, "{counts:?}");
    let succeed = counts.values().filter(|[ok, _]| *ok >= 5).count();
    let fail = counts.values().filter(|[_, err]| *err > 0).count();
    assert!(succeed == 29 && fail >= 22, "{counts:?}");
}

#[test]
fn most_requests_make_sense() {
    for (name, least) in [
        ("mixed", 0.65),
        ("metadata", 0.5),
        ("fill", 0.9),
        ("overwrite", 0.99),
        ("small_files", 0.95),
        ("commits", 0.95),
        ("acls", 0.4),
    ] {
        let (_, replies, _) = run(name, 4, 10_000);
        let share = replies.iter().filter(|reply| reply.is_ok()).count() as f64 / 10_000.0;
        assert!(share >= least, "{name}: {share} succeed");
    }
}

#[test]
fn mixed_requests_fail_for_many_reasons() {
    let (_, replies, _) = run("mixed", 5, 30_000);
    let reason = |error: &FsError| format!("{error:?}").split('(').next().unwrap().to_string();
    let mut reasons: Vec<String> =
        replies.iter().filter_map(|r| r.as_ref().err().map(reason)).collect();
    reasons.sort();
    reasons.dedup();
    let expected = [
        "Access",
        "AttributesTooBig",
        "Exists",
        "FileTooBig",
        "Invalid",
        "IsDirectory",
        "NameTooLong",
        "NoAttribute",
        "NoSuchOffset",
        "NotDirectory",
        "NotEmpty",
        "NotFound",
        "NotPermitted",
        "NotSupported",
        "Range",
        "Stale",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn trees_stay_near_their_shape() {
    for spec in WORKLOADS {
        let (_, _, generator) = run(spec.name, 6, 20_000);
        let (world, params) = (generator.world(), WorkloadParams::default());
        let names = world.name_count() as u64;
        // Commits are to a few files of each client, on purpose.
        let fewest = if spec.name == "commits" { u64::from(params.clients) } else { 10 };
        assert!(
            (fewest..=4 * (params.files + params.dirs)).contains(&names),
            "{}: {names}",
            spec.name
        );
        let written = world.written_bytes();
        assert!(written < 2 * params.space_max, "{}: {written} bytes", spec.name);
    }
}

#[test]
fn mixed_trees_are_deep_and_files_sparse() {
    let mut model = model();
    let mut generator = Generator::new("mixed", WorkloadParams::default(), 7).unwrap();
    let (mut deepest, mut sparse) = (0, false);
    for n in 0..20_000 {
        let request = generator.next();
        let reply = model.apply(Time(request.id), &request);
        generator.learn(&request, &reply);
        if n % 1000 == 0 {
            let dump = model.dump();
            assert_eq!(dump.contradiction(), None);
            let depth = |path: &[u8]| path.iter().filter(|b| **b == b'/').count();
            deepest = dump.nodes.keys().map(|path| depth(path)).max().unwrap().max(deepest);
            sparse |= dump.nodes.values().any(|node| {
                node.attr.kind() == mode::REGULAR
                    && node.attr.size > 1 << 24
                    && node.attr.blocks > 0
            });
        }
    }
    assert!(deepest >= 5 && sparse, "depth {deepest}, sparse {sparse}");
}

/// A full volume, simulated: refuses writes above a limit.
#[test]
fn filling_meets_no_space_again_and_again() {
    let mut model = model();
    let params = WorkloadParams { space_max: u64::MAX, ..WorkloadParams::default() };
    let mut generator = Generator::new("fill", params, 8).unwrap();
    let (mut refusals, mut removed, mut room) = (0, 0, true);
    for _ in 0..30_000 {
        let request = generator.next();
        let used: u64 = generator.world().written_bytes();
        let reply = match &request.op {
            Op::Write { data, .. } if used + data.len() > 20 << 20 => Err(FsError::NoSpace),
            _ => model.apply(Time(request.id), &request),
        };
        generator.learn(&request, &reply);
        if reply == Err(FsError::NoSpace) && room {
            refusals += 1;
            room = false;
        }
        if matches!(request.op, Op::Unlink { .. }) && reply.is_ok() {
            removed += 1;
            room = true;
        }
    }
    assert!(refusals > 20 && removed > 200, "{refusals} refusals, {removed} removed");
}

#[test]
fn several_clients_may_have_requests_under_way() {
    let mut model = model();
    let mut generator = Generator::new("mixed", WorkloadParams::default(), 9).unwrap();
    let mut rng = Rng::new(9);
    let mut under_way: Vec<Request> = Vec::new();
    let mut succeeded = 0;
    for _ in 0..10_000 {
        let idle: Vec<u32> =
            (0..4).filter(|c| under_way.iter().all(|request| request.client != *c)).collect();
        if !idle.is_empty() && rng.chance(0.6) {
            under_way.push(generator.next_for(*rng.pick(&idle)));
        } else if !under_way.is_empty() {
            let nth = rng.below(under_way.len() as u64) as usize;
            let request = under_way.swap_remove(nth);
            let reply = model.apply(Time(request.id), &request);
            succeeded += u32::from(reply.is_ok());
            generator.learn(&request, &reply);
        }
    }
    assert!(succeeded > 2_500, "{succeeded} of 5000 succeeded");
}
