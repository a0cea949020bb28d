//! Twin: optimal stopping with measured death rates.

use super::{Candidates, VictimPolicy};
use crate::facts::{Setting, State};

const AGES: usize = 40;
const CLASSES: usize = 16;

#[derive(Clone, Copy, Default)]
struct Seen {
    serial: u64,
    live: u32,
    known: bool,
}

#[derive(Clone, Copy, Default)]
struct Hazard {
    deaths: f64,
    exposure: f64,
}

pub(super) struct Twin {
    seen: Vec<Seen>,
    at: u64,
    table: Vec<Hazard>,
    classes: [Hazard; CLASSES],
    all: Hazard,
    decay_at: u64,
    pseudo: f64,
}

impl Twin {
    pub(super) fn new(_: &Setting) -> Twin {
        Twin { seen: vec![], at: 0, table: vec![Hazard::default(); AGES * CLASSES], classes: Default::default(), all: Hazard::default(), decay_at: 0,
            pseudo: crate::placement::twin::env("V0", 20.0) }
    }

    fn age_bucket(age: u64, unit: u64) -> usize {
        let x = (age / unit).max(1);
        let whole = x.ilog2() as usize;
        let half = if whole == 0 { 0 } else { (x >> (whole - 1)) as usize & 1 };
        (2 * whole + half).min(AGES - 1)
    }
}

impl VictimPolicy for Twin {
    fn choose(&mut self, candidates: &Candidates<'_>) -> Option<u32> {
        let view = &candidates.view;
        let unit = (view.live_blocks >> 8).max(1);
        let dt = (view.now - self.at) as f64;
        self.at = view.now;
        self.seen.resize(view.segments.len(), Seen::default());
        for (seen, segment) in self.seen.iter_mut().zip(view.segments) {
            if segment.state != State::Sealed { seen.known = false; continue; }
            if seen.known && seen.serial == segment.serial {
                let deaths = f64::from(seen.live - segment.live_blocks);
                let exposure = f64::from(seen.live + segment.live_blocks) / 2.0 * dt;
                let class = usize::from(segment.class) % CLASSES;
                let bucket = Self::age_bucket(view.now - segment.sealed_at, unit);
                for h in [&mut self.table[class * AGES + bucket], &mut self.classes[class], &mut self.all] {
                    h.deaths += deaths;
                    h.exposure += exposure;
                }
            }
            *seen = Seen { serial: segment.serial, live: segment.live_blocks, known: true };
        }
        if view.now >= self.decay_at {
            self.decay_at = view.now + view.live_blocks / 4;
            for h in self.table.iter_mut().chain(&mut self.classes).chain([&mut self.all]) {
                h.deaths *= 0.5;
                h.exposure *= 0.5;
            }
        }
        let k = self.pseudo;
        let global = (self.all.deaths + 1e-9) / (self.all.exposure + 1e-3);
        candidates.best(|segment| {
            let class = usize::from(segment.class) % CLASSES;
            let c = self.classes[class];
            let class_rate = (c.deaths + k) / (c.exposure + k / global);
            let h = self.table[class * AGES + Self::age_bucket(view.now - segment.sealed_at, unit)];
            let rate = (h.deaths + k) / (h.exposure + k / class_rate);
            let u = segment.utilization();
            if u == 0.0 { return f64::INFINITY; }
            let g = 1.0 - u;
            -rate * u / (g - u * -u.ln())
        })
    }
}
