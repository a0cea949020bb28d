//! The section of the page on delayed writes: figures 2 to 5 of Cut-and-Paste File Systems 1996, ours.

use twin_report::draw::{Bar, Distribution, Group, Span, bars, distribution, nth};
use twin_report::markup::charts as side_by_side;

use crate::studies::days::{DAYS, Days, DirtyData, Load, shares};

/// Figures 2 to 5 with ours: distributions of the first days and of the loads by hand, and all means.
pub(crate) fn charts(days: &Days) -> String {
    if days.is_empty() {
        return String::new();
    }
    let loads = [
        ("Latencies, sprite-1991, day 1", Load::Day(1)),
        ("Latencies by hand, after trace 1b", Load::Parallel),
        ("Latencies by hand, after trace 5", Load::Flood),
    ];
    let mut all: Vec<String> = loads
        .map(|(title, load)| {
            let of = |(number, kept): (usize, DirtyData)| {
                let shares = days.of(load, kept, None).map(shares).unwrap_or_default();
                Distribution { name: kept.name().into(), colour: nth(number), shares }
            };
            let lines: Vec<Distribution> = DirtyData::ALL.into_iter().enumerate().map(of).collect();
            let count =
                days.of(load, DirtyData::Seconds, None).map_or(0, |f| f.whole.latency.count);
            distribution(title, &lines, count)
        })
        .into();
    let group = |(title, load): (String, Load)| {
        let bar = |(number, kept): (usize, DirtyData)| {
            Bar::new(kept.name(), nth(number), days.mean_ms(load, kept))
        };
        Group { title, bars: DirtyData::ALL.into_iter().enumerate().map(bar).collect() }
    };
    let of_days = (1..=DAYS).map(|day| (format!("sprite-1991, day {day}"), Load::Day(day)));
    let by_hand = [("after 1b".to_string(), Load::Parallel), ("after 5".to_string(), Load::Flood)];
    let groups: Vec<Group> = of_days.chain(by_hand).map(group).collect();
    all.push(bars("Mean latencies, ms", &groups, Span::Shared));
    format!("<h2>Delayed writes</h2>{ABOUT}{}", side_by_side(&all))
}

const ABOUT: &str = "<p>Figures 2 to 5 of <i>Cut-and-Paste File Systems</i> (Bosch and Mullender, USENIX \
    1996) with ours. The traces of Sprite are not to be had: sprite-1991 stands in for them, and two \
    loads by hand for the traces with another order.</p>";
