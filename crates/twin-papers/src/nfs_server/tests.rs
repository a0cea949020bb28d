//! The study on small servers.

use twin_clean::{trigger, victim};
use twin_trace::nfs::{SERVERS, server};

use super::*;

/// The scale of each server.
const PART: f64 = 0.2;

fn study(name: &str, model: WriteModel, policy: &str) -> Outcome {
    let totals = server(name).unwrap().scaled(PART);
    let cleaning = trigger::REGISTRY.get(policy).map_or(Cleaning::Never, Cleaning::When);
    let victim = victim::REGISTRY.get("greedy").unwrap();
    Study {
        totals,
        model,
        cleaning,
        victim,
        seed: 1,
        pauses: Pauses::Sessions,
        lost: 0.0,
        stops: true,
    }
    .run()
    .unwrap()
}

#[test]
fn idle_cleaning_leaves_less_to_be_done_on_demand_than_none() {
    let idle = study("maytag", WriteModel::Async, "idle");
    let demand = study("maytag", WriteModel::Async, "on-demand");
    assert!(demand.on_demand > 0 && demand.background == 0, "{demand:?}");
    assert!(idle.on_demand * 10 <= demand.on_demand, "{} {}", idle.on_demand, demand.on_demand);
    assert!(idle.background > 0);
}

#[test]
fn synchronous_writes_ask_the_disk_more_often() {
    // By night of every server; the least of them does by day.
    let at_night = std::env::var_os("TWINFS_NIGHT").is_some();
    for server in SERVERS.iter().filter(|server| at_night || server.name == "cellar") {
        let sync = study(server.name, WriteModel::Sync, "idle");
        let buffered = study(server.name, WriteModel::Async, "idle");
        // Each change is a write of its own, instead of a few writes that fill segments.
        let totals = server.scaled(PART);
        let changes = totals.data_writes + totals.directory_changes + totals.inode_updates;
        let more = sync.arrivals as f64 - buffered.arrivals as f64;
        assert!(more > 0.9 * changes as f64, "{}: {more} of {changes}", server.name);
        assert!(sync.user_bytes == buffered.user_bytes);
        assert!((0.8..0.95).contains(&sync.utilization), "{}", sync.utilization);
    }
}

#[test]
fn a_server_without_a_cleaner_moves_nothing() {
    let never = study("cellar", WriteModel::Async, "never");
    assert_eq!((never.moved_bytes, never.cleaner_blocks_met, never.on_demand), (0, 0, 0));
    assert!(never.wait(0.99) >= never.wait(0.5));
}

#[test]
fn an_idle_time_ends_what_accumulated_once_however_many_victims_it_cleans() {
    let outcome = study("cellar", WriteModel::Async, "idle");
    let idle_times = outcome.idle_s.iter().filter(|&&s| s >= 2.0).count();
    assert!(outcome.accumulated.len() <= idle_times, "{}", outcome.accumulated.len());
    assert!(outcome.accumulated.iter().all(|&bytes| bytes > 0));
    let accumulated: u64 = outcome.accumulated.iter().sum();
    assert!(accumulated <= outcome.user_bytes && accumulated * 10 > outcome.user_bytes * 9);
}

#[test]
fn equal_pauses_leave_no_time_to_clean() {
    let totals = server("cellar").unwrap().scaled(PART);
    let victim = victim::REGISTRY.get("greedy").unwrap();
    let cleaning = Cleaning::When(trigger::REGISTRY.get("idle").unwrap());
    let (model, pauses) = (WriteModel::Sync, Pauses::Equal);
    let study = Study { totals, model, cleaning, victim, seed: 1, pauses, lost: 0.0, stops: true };
    let outcome = study.run().unwrap();
    // A change comes in every three seconds, so idle times do not last.
    let predicts = outcome.predicts();
    assert!(predicts.is_nan() || predicts < 0.9, "{predicts}");
}

#[test]
fn the_course_of_the_log_ends_with_what_the_study_says() {
    let outcome = study("cellar", WriteModel::Async, "idle");
    let (_, last) = outcome.history.samples.last().unwrap();
    assert_eq!(last.log.moved_bytes, outcome.moved_bytes);
    assert_eq!(last.log.cleaned_segments, outcome.background + outcome.on_demand);
    assert!(last.log.write_cost.unwrap() > 1.0);
    let log = outcome.history.log.unwrap();
    let segments = outcome.disk_bytes / SECTOR / u64::from(SEGMENT_SECTORS);
    assert_eq!(u64::from(log.full() + log.clean + log.open), segments);
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let run = || study("cellar", WriteModel::Sync, "adaptive");
    assert_eq!(run(), run());
}
