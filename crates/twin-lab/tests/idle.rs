//! Idle times in simulations: what is cleaned in them, and that it is counted by its reason.

use twin_fs::CleanerCounts;
use twin_lab::{Config, Figures, Workload, simulate};
use twin_trace::replay::Pace;

/// A file server with pauses, on a volume of which its files take four fifths.
const SERVER: &str = "file-server:server=1,part=1%";

fn run(when: &str) -> (Figures, CleanerCounts) {
    let config = format!("lfs:size=56M,cache=4M,segment=256K,when={when}");
    let config = Config::parse(&config).unwrap();
    let pace = Pace::Recorded { speed: 1.0 };
    let figures = simulate(&config, &Workload::Generated(SERVER.into(), 1), pace).unwrap();
    let counts = figures.log.cleaner.unwrap().0;
    let parts = [counts.background, counts.demand, counts.by_hand];
    let (segments, moved) = (figures.log.cleaned_segments, figures.log.moved_bytes);
    assert_eq!(parts.iter().map(|part| part.segments).sum::<u64>(), segments, "{when}");
    assert_eq!(parts.iter().map(|part| part.moved_bytes).sum::<u64>(), moved, "{when}");
    (figures, counts)
}

#[test]
fn what_is_cleaned_in_idle_times_is_not_cleaned_on_demand_and_an_end_saves_moves() {
    let (least, demand) = run("on-demand");
    assert!(demand.demand.segments > 50, "the volume is to be cleaned: {demand:?}");
    assert_eq!(demand.background.segments, 0, "{demand:?}");
    assert!(demand.idle.of_two_s > 100, "{demand:?}");
    assert!(demand.idle.of_four_s <= demand.idle.of_two_s, "{demand:?}");
    let [idle, enough] = ["idle", "enough"].map(|when| {
        let (figures, counts) = run(when);
        assert!(counts.background.segments > 50, "{when}: {counts:?}");
        assert!(counts.demand.segments < demand.demand.segments / 2, "{when}: {counts:?}");
        // The cleaner's own requests end no idle time.
        assert!(counts.idle.of_four_s * 10 > demand.idle.of_four_s * 9, "{when}: {counts:?}");
        let row = serde_json::to_value(&figures).unwrap();
        let written = &row["log"]["cleaner"]["background"]["segments"];
        assert_eq!(*written, counts.background.segments, "{when}");
        figures.log
    });
    assert!(enough.moved_bytes < idle.moved_bytes / 2, "{idle:?}, {enough:?}");
    let (cost, least) = (enough.write_cost.unwrap(), least.log.write_cost.unwrap());
    assert!(cost < 1.3 * least, "{cost} and {least}");
}
