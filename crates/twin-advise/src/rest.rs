//! What a run did behind its beginning: the figures of the whole less those of the beginning.
//!
//! Contract: a run of a workload and one of its beginning do the same until the beginning ends, because nothing knows
//! what follows. Times and counts of the rest are differences. Latencies are those of the difference of the two
//! distributions, as exact as their classes are. What is not a sum (memory, space) is that of the whole.

use twin_lab::{Figures, Latency, VerbFigures};

/// The share of operations below the 99th percentile.
const P99: f64 = 0.99;

/// The figures behind the beginning.
pub(crate) fn rest(whole: &Figures, beginning: &Figures) -> Figures {
    let verbs: Vec<VerbFigures> = whole.verbs.iter().map(|of| rest_of(of, beginning)).collect();
    let mut all: Vec<(f64, u64)> = verbs.iter().flat_map(|of| of.distribution.clone()).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let latency = Latency {
        count: whole.latency.count.saturating_sub(beginning.latency.count),
        p99_us: quantile(&all, P99),
        ..whole.latency
    };
    let mut rest = Figures {
        ops: whole.ops.saturating_sub(beginning.ops),
        finish_s: whole.finish_s - beginning.span_s,
        span_s: whole.span_s - beginning.span_s,
        waiting_s: whole.waiting_s - beginning.waiting_s,
        latency,
        verbs,
        ..whole.clone()
    };
    let written = &mut rest.disk_use.written_bytes;
    *written = written.saturating_sub(beginning.disk_use.written_bytes);
    if let (Some(wear), Some(before)) = (&mut rest.disk_use.wear, &beginning.disk_use.wear) {
        wear.programmed_bytes = wear.programmed_bytes.saturating_sub(before.programmed_bytes);
    }
    rest
}

fn rest_of(of: &VerbFigures, beginning: &Figures) -> VerbFigures {
    let before = beginning.verbs.iter().find(|other| other.verb == of.verb);
    let Some(before) = before else { return of.clone() };
    let less = |(us, count): &(f64, u64)| {
        let same = before.distribution.iter().find(|(other, _)| other == us);
        (*us, count.saturating_sub(same.map_or(0, |(_, count)| *count)))
    };
    let distribution: Vec<(f64, u64)> = of.distribution.iter().map(less).collect();
    let count = of.latency.count.saturating_sub(before.latency.count);
    let mean_us = (of.total_s() - before.total_s()) * 1e6 / count.max(1) as f64;
    let p99_us = quantile(&distribution, P99);
    VerbFigures {
        latency: Latency { count, mean_us, p99_us, ..of.latency },
        distribution,
        ..of.clone()
    }
}

/// The largest value of the class in which this share of all is reached; the classes are sorted.
fn quantile(classes: &[(f64, u64)], share: f64) -> f64 {
    let all: u64 = classes.iter().map(|(_, count)| count).sum();
    let wanted = ((all as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let reached = classes.iter().find(|(_, count)| {
        seen += count;
        seen >= wanted
    });
    reached.map_or(0.0, |(us, _)| *us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_lab::{Config, Workload, simulate};
    use twin_trace::replay::Pace;
    use twin_verdict::MEASURES;

    #[test]
    fn the_rest_and_the_beginning_are_the_whole() {
        let whole = Workload::Generated("mail:messages=100".into(), 1);
        let part = Workload::Part(Box::new(whole.clone()), 400);
        let config = Config::parse("lfs:size=64M,cache=4M").unwrap();
        let run = |workload| simulate(&config, workload, Pace::Asap).unwrap();
        let (whole, part) = (run(&whole), run(&part));
        assert_eq!(part.ops, 400);
        let rest = rest(&whole, &part);
        assert_eq!(rest.ops + part.ops, whole.ops);
        assert!((rest.waiting_s + part.waiting_s - whole.waiting_s).abs() < 1e-9);
        assert!(rest.finish_s > 0.0 && rest.finish_s < whole.finish_s);
        assert!(rest.disk_use.written_bytes < whole.disk_use.written_bytes);
        let value = |name: &str, of: &Figures| MEASURES.get(name).unwrap().value_of(of).unwrap();
        for name in ["p99", "fsync"] {
            let (rest, whole) = (value(name, &rest), value(name, &whole));
            assert!(
                rest > 0.0 && rest < whole * 3.0 && whole < rest * 3.0,
                "{name} {rest} {whole}"
            );
        }
        let of_verbs: u64 = rest.verbs.iter().map(|of| of.latency.count).sum();
        assert_eq!(of_verbs, rest.latency.count);
    }

    #[test]
    fn a_quantile_is_the_largest_value_of_its_class() {
        let classes = [(1.0, 98), (5.0, 1), (9.0, 1)];
        assert_eq!((quantile(&classes, 0.5), quantile(&classes, 0.99)), (1.0, 5.0));
        assert_eq!((quantile(&classes, 1.0), quantile(&[], 0.99)), (9.0, 0.0));
    }
}
