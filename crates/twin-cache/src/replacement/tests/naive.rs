//! The policies once more, as their papers' pseudo-code reads: lists are vectors, every search is linear,
//! blocks are numbers and there is nothing but accesses. The oldest element of a list is its first.

use crate::Capacity;
use crate::replacement::w_tiny_lfu::Sketch;

/// A cache that is told of accesses, and says whether the block was in it.
pub(super) type Naive = Box<dyn FnMut(u32) -> bool>;

fn position(list: &[u32], block: u32) -> Option<usize> {
    list.iter().position(|other| *other == block)
}

fn take(list: &mut Vec<u32>, block: u32) -> bool {
    position(list, block).map(|at| list.remove(at)).is_some()
}

/// A list whose victim is chosen by `rank`: the smallest, and the first among equals.
fn ranked(c: usize, mut rank: impl FnMut(u32, u64, bool) -> u64 + 'static) -> Naive {
    let (mut list, mut now): (Vec<(u64, u32)>, u64) = (Vec::new(), 0);
    Box::new(move |block| {
        now += 1;
        if let Some(at) = list.iter().position(|(_, other)| *other == block) {
            let new = rank(block, now, true);
            if new != list[at].0 {
                list.remove(at);
                list.push((new, block));
            }
            return true;
        }
        if list.len() == c {
            let least = list.iter().map(|(rank, _)| *rank).min().unwrap();
            let at = list.iter().position(|(rank, _)| *rank == least).unwrap();
            list.remove(at);
        }
        list.push((rank(block, now, false), block));
        false
    })
}

pub(super) fn fifo(c: usize) -> Naive {
    let mut ranks = std::collections::BTreeMap::new();
    ranked(c, move |block, now, hit| {
        if !hit {
            ranks.insert(block, now);
        }
        ranks[&block]
    })
}

pub(super) fn lru(c: usize) -> Naive {
    ranked(c, |_, now, _| now)
}

pub(super) fn mru(c: usize) -> Naive {
    ranked(c, |_, now, _| u64::MAX - now)
}

pub(super) fn lfu(c: usize) -> Naive {
    let mut uses = std::collections::BTreeMap::new();
    ranked(c, move |block, _, hit| {
        let uses = uses.entry(block).or_insert(0);
        *uses = if hit { *uses + 1 } else { 1 };
        *uses
    })
}

/// Belady: `accesses` are all that will come.
pub(super) fn belady(c: usize, accesses: Vec<u32>) -> Naive {
    ranked(c, move |block, now, _| {
        let next = accesses.iter().skip(now as usize).position(|other| *other == block);
        u64::MAX - next.map_or(u64::MAX, |next| now + next as u64)
    })
}

pub(super) fn clock(c: usize) -> Naive {
    // A ring with a fixed place for each frame, and a hand.
    let (mut ring, mut hand): (Vec<(u32, bool)>, usize) = (Vec::new(), 0);
    Box::new(move |block| {
        if let Some(frame) = ring.iter_mut().find(|(other, _)| *other == block) {
            frame.1 = true;
            return true;
        }
        if ring.len() < c {
            ring.push((block, false));
            return false;
        }
        while ring[hand].1 {
            ring[hand].1 = false;
            hand = (hand + 1) % c;
        }
        ring[hand] = (block, false);
        hand = (hand + 1) % c;
        false
    })
}

pub(super) fn sieve(c: usize) -> Naive {
    // Algorithm 1; the queue's tail is first.
    let mut queue: Vec<(u32, bool)> = Vec::new();
    let mut hand: Option<usize> = None;
    Box::new(move |block| {
        if let Some(object) = queue.iter_mut().find(|(other, _)| *other == block) {
            object.1 = true;
            return true;
        }
        if queue.len() == c {
            let mut at = hand.unwrap_or(0);
            while queue[at].1 {
                queue[at].1 = false;
                at = if at + 1 == queue.len() { 0 } else { at + 1 };
            }
            queue.remove(at);
            hand = (at < queue.len()).then_some(at);
        }
        queue.push((block, false));
        false
    })
}

pub(super) fn slru(c: usize) -> Naive {
    let (mut probation, mut protected): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    Box::new(move |block| {
        if take(&mut probation, block) || take(&mut protected, block) {
            protected.push(block);
            if protected.len() > c * 8 / 10 {
                probation.push(protected.remove(0));
            }
            return true;
        }
        if probation.len() + protected.len() == c {
            if probation.is_empty() {
                protected.remove(0)
            } else {
                probation.remove(0)
            };
        }
        probation.push(block);
        false
    })
}

pub(super) fn two_queue(c: usize) -> Naive {
    let (mut a1in, mut a1out, mut am) = (Vec::new(), Vec::new(), Vec::new());
    Box::new(move |block| {
        if take(&mut am, block) {
            am.push(block);
            return true;
        }
        if position(&a1in, block).is_some() {
            return true;
        }
        // The procedure reclaimfor.
        if a1in.len() + am.len() == c {
            if a1in.len() > c / 4 || am.is_empty() {
                a1out.push(a1in.remove(0));
                if a1out.len() > c / 2 {
                    a1out.remove(0);
                }
            } else {
                am.remove(0);
            }
        }
        if take(&mut a1out, block) {
            am.push(block)
        } else {
            a1in.push(block)
        }
        false
    })
}

/// Figure 2.1, with K = 2.
pub(super) fn lru_2(c: usize) -> Naive {
    #[derive(Clone, Copy)]
    struct Hist {
        page: u32,
        one: u64,
        two: u64,
        last: u64,
    }
    let period = (c / 8) as u64;
    let (mut buffer, mut retained): (Vec<Hist>, Vec<Hist>) = (Vec::new(), Vec::new());
    let mut t = 0;
    Box::new(move |block| {
        t += 1;
        if let Some(p) = buffer.iter_mut().find(|p| p.page == block) {
            if t - p.last > period {
                let correlated = p.last - p.one;
                p.two = p.one + correlated;
                p.one = t;
            }
            p.last = t;
            return true;
        }
        if buffer.len() == c {
            let eligible = buffer.iter().filter(|q| t - q.last > period);
            let order = |q: &&Hist| (q.two, q.one);
            let victim = eligible.min_by_key(order).or_else(|| buffer.iter().min_by_key(order));
            let victim = *victim.unwrap();
            buffer.retain(|q| q.page != victim.page);
            retained.push(victim);
            if retained.len() > c {
                retained.remove(0);
            }
        }
        let known = retained.iter().position(|p| p.page == block).map(|at| retained.remove(at));
        let two = known.map_or(0, |p| p.one);
        buffer.push(Hist { page: block, one: t, two, last: t });
        false
    })
}

/// Figure 4.
pub(super) fn arc(c: usize) -> Naive {
    let [mut t1, mut t2, mut b1, mut b2]: [Vec<u32>; 4] = Default::default();
    let mut p = 0.0;
    Box::new(move |x| {
        if take(&mut t1, x) || take(&mut t2, x) {
            t2.push(x);
            return true;
        }
        let (in_b1, in_b2) = (position(&b1, x).is_some(), position(&b2, x).is_some());
        let ratio = |a: &[u32], b: &[u32]| (a.len() as f64 / b.len() as f64).max(1.0);
        if in_b1 {
            p = f64::min(p + ratio(&b2, &b1), c as f64);
        } else if in_b2 {
            p = f64::max(p - ratio(&b1, &b2), 0.0);
        }
        let mut replaces = in_b1 || in_b2;
        if !replaces {
            if t1.len() + b1.len() == c {
                if t1.len() < c {
                    b1.remove(0);
                    replaces = true;
                } else {
                    t1.remove(0);
                }
            } else {
                let all = t1.len() + t2.len() + b1.len() + b2.len();
                if all >= c {
                    if all == 2 * c {
                        b2.remove(0);
                    }
                    replaces = true;
                }
            }
        }
        if replaces && t1.len() + t2.len() == c {
            let first = t1.len() as f64 > p || (in_b2 && t1.len() as f64 == p);
            if !t1.is_empty() && (first || t2.is_empty()) {
                b1.push(t1.remove(0));
            } else {
                b2.push(t2.remove(0));
            }
        }
        if in_b1 || in_b2 {
            take(&mut b1, x);
            take(&mut b2, x);
            t2.push(x);
        } else {
            t1.push(x);
        }
        false
    })
}

/// Figure 2.
pub(super) fn car(c: usize) -> Naive {
    let [mut t1, mut t2]: [Vec<(u32, bool)>; 2] = Default::default();
    let [mut b1, mut b2]: [Vec<u32>; 2] = Default::default();
    let mut p: f64 = 0.0;
    Box::new(move |x| {
        if let Some(page) = t1.iter_mut().chain(&mut t2).find(|page| page.0 == x) {
            page.1 = true;
            return true;
        }
        let (in_b1, in_b2) = (position(&b1, x).is_some(), position(&b2, x).is_some());
        if t1.len() + t2.len() == c {
            loop {
                let (from, ghosts) = match t1.len() as f64 >= p.max(1.0) || t2.is_empty() {
                    true => (&mut t1, &mut b1),
                    false => (&mut t2, &mut b2),
                };
                let (page, used) = from.remove(0);
                if !used {
                    ghosts.push(page);
                    break;
                }
                t2.push((page, false));
            }
            if !in_b1 && !in_b2 {
                if t1.len() + b1.len() == c {
                    b1.remove(0);
                } else if t1.len() + t2.len() + b1.len() + b2.len() == 2 * c {
                    b2.remove(0);
                }
            }
        }
        let ratio = |a: &[u32], b: &[u32]| (a.len() as f64 / b.len() as f64).max(1.0);
        if in_b1 {
            p = (p + ratio(&b2, &b1)).min(c as f64);
            take(&mut b1, x);
            t2.push((x, false));
        } else if in_b2 {
            p = (p - ratio(&b1, &b2)).max(0.0);
            take(&mut b2, x);
            t2.push((x, false));
        } else {
            t1.push((x, false));
        }
        false
    })
}

/// Section 3.3, with a stack that has at most 2c blocks.
pub(super) fn lirs(c: usize) -> Naive {
    let hirs = (c / 100).max(1);
    let mut s: Vec<u32> = Vec::new();
    let mut q: Vec<u32> = Vec::new();
    let mut lir: Vec<u32> = Vec::new();
    // Those of the stack that are not resident, in the order in which they left.
    let mut gone: Vec<u32> = Vec::new();
    fn prune(s: &mut Vec<u32>, lir: &[u32], gone: &mut Vec<u32>) {
        while s.len() > 1 && position(lir, s[0]).is_none() {
            let bottom = s.remove(0);
            take(gone, bottom);
        }
    }
    Box::new(move |x| {
        let hit = position(&lir, x).is_some() || position(&q, x).is_some();
        let in_s = take(&mut s, x);
        let becomes_lir = in_s && position(&lir, x).is_none() && c > hirs;
        if !hit && lir.len() + q.len() == c {
            let evicted = q.remove(0);
            if position(&s, evicted).is_some() {
                gone.push(evicted);
            }
        }
        s.push(x);
        take(&mut gone, x);
        if becomes_lir {
            take(&mut q, x);
            if lir.len() == c - hirs {
                let bottom = s[0];
                s.remove(0);
                take(&mut lir, bottom);
                q.push(bottom);
            }
            lir.push(x);
        } else if position(&lir, x).is_none() {
            if !hit && lir.len() < c - hirs {
                lir.push(x);
            } else {
                take(&mut q, x);
                q.push(x);
            }
        }
        prune(&mut s, &lir, &mut gone);
        while s.len() > 2 * c && !gone.is_empty() {
            let oldest = gone.remove(0);
            take(&mut s, oldest);
        }
        hit
    })
}

#[derive(Clone, Copy, Debug)]
struct Page {
    page: u32,
    hot: bool,
    test: bool,
    used: bool,
    resident: bool,
}

/// Section 4. The clock is a vector with a fixed order; hands are pages.
struct Clock {
    c: usize,
    mc: usize,
    clock: Vec<Page>,
    /// Indexes into `clock`.
    hot: usize,
    cold: usize,
    tests: usize,
}

impl Clock {
    fn count(&self, which: impl Fn(&Page) -> bool) -> usize {
        self.clock.iter().filter(|page| which(page)).count()
    }

    /// Puts a page at the list's head: before HANDhot.
    fn insert(&mut self, page: Page) {
        let at = self.hot.min(self.clock.len());
        self.clock.insert(at, page);
        let moves = |hand: &mut usize, len: usize| {
            if *hand >= at && len > 1 {
                *hand += 1;
            }
        };
        let len = self.clock.len();
        moves(&mut self.hot, len);
        moves(&mut self.cold, len);
        moves(&mut self.tests, len);
    }

    fn remove(&mut self, at: usize) -> Page {
        let page = self.clock.remove(at);
        for hand in [&mut self.hot, &mut self.cold, &mut self.tests] {
            if *hand > at {
                *hand -= 1;
            }
            if *hand >= self.clock.len() {
                *hand = 0;
            }
        }
        page
    }

    /// Where there was no resident cold page, HANDcold waits for the first one.
    fn first_cold(&mut self, at: usize) {
        if self.count(|page| page.resident && !page.hot) == 1 {
            self.cold = at;
        }
    }

    /// HANDcold stops at the next resident cold page.
    fn stop_cold(&mut self) {
        for _ in 0..self.clock.len() {
            let page = self.clock[self.cold];
            if page.resident && !page.hot {
                break;
            }
            self.cold = (self.cold + 1) % self.clock.len();
        }
    }

    fn end_test(&mut self, at: usize) -> bool {
        if std::mem::take(&mut self.clock[at].test) {
            self.mc = (self.mc - 1).max(1);
        }
        let gone = !self.clock[at].resident;
        if gone {
            self.remove(at);
        }
        gone
    }

    fn run_hot(&mut self) {
        loop {
            let hot = self.count(|page| page.hot);
            let over = hot > self.c - self.mc;
            let at = self.hot;
            if self.clock[at].hot {
                if !over {
                    return;
                }
                if std::mem::take(&mut self.clock[at].used) {
                    self.hot = (at + 1) % self.clock.len();
                } else {
                    self.clock[at].hot = false;
                    self.clock[at].test = false;
                    self.first_cold(at);
                    self.hot = (at + 1) % self.clock.len();
                }
            } else if hot == 0 {
                return;
            } else if !self.end_test(at) {
                self.hot = (at + 1) % self.clock.len();
            }
        }
    }

    fn run_cold(&mut self) {
        loop {
            let at = self.cold;
            let page = self.clock[at];
            let next = (at + 1) % self.clock.len();
            if page.hot || !page.resident {
                self.cold = next;
            } else if page.used {
                let mut page = self.remove(at);
                self.stop_cold();
                page.used = false;
                if page.test {
                    (page.hot, page.test) = (true, false);
                    self.mc = (self.mc + 1).min(self.c);
                } else {
                    page.test = true;
                }
                self.insert(page);
                if page.hot {
                    self.run_hot();
                }
            } else if page.test {
                self.clock[at].resident = false;
                self.cold = next;
                break;
            } else {
                self.remove(at);
                break;
            }
        }
        self.stop_cold();
        while self.count(|page| !page.resident) > self.c {
            let at = self.tests;
            if self.clock[at].hot || !self.end_test(at) {
                self.tests = (at + 1) % self.clock.len();
            }
        }
    }

    fn access(&mut self, x: u32) -> bool {
        let found = self.clock.iter().position(|page| page.page == x);
        if let Some(at) = found
            && self.clock[at].resident
        {
            self.clock[at].used = true;
            return true;
        }
        if let Some(at) = found {
            self.remove(at);
            self.mc = (self.mc + 1).min(self.c);
        }
        if self.count(|page| page.resident) == self.c {
            match self.count(|page| page.resident && !page.hot) {
                // The cache's last resort: the page at HANDhot.
                0 => drop(self.remove(self.hot)),
                _ => self.run_cold(),
            }
        }
        let hot = found.is_some();
        self.insert(Page { page: x, hot, test: !hot, used: false, resident: true });
        if hot {
            self.run_hot();
        } else {
            self.first_cold((self.hot + self.clock.len() - 1) % self.clock.len());
        }
        self.stop_cold();
        false
    }
}

pub(super) fn clock_pro(c: usize) -> Naive {
    let mut clock = Clock { c, mc: 1, clock: Vec::new(), hot: 0, cold: 0, tests: 0 };
    Box::new(move |x| clock.access(x))
}

/// Algorithm 1; the tail of a queue is first.
pub(super) fn s3_fifo(c: usize) -> Naive {
    let small = c / 10;
    let [mut s, mut m]: [Vec<(u32, u8)>; 2] = Default::default();
    let mut ghosts: Vec<u32> = Vec::new();
    fn evict_main(m: &mut Vec<(u32, u8)>) {
        loop {
            let (page, freq) = m.remove(0);
            if freq == 0 {
                return;
            }
            m.push((page, freq - 1));
        }
    }
    Box::new(move |x| {
        if let Some(page) = s.iter_mut().chain(&mut m).find(|page| page.0 == x) {
            page.1 = (page.1 + 1).min(3);
            return true;
        }
        if s.len() + m.len() == c {
            let mut evicted = false;
            while s.len() >= small.max(1) && !evicted {
                let (page, freq) = s.remove(0);
                if freq > 1 {
                    m.push((page, 0));
                    if m.len() > c - small {
                        evict_main(&mut m);
                        evicted = true;
                    }
                } else {
                    ghosts.push(page);
                    if ghosts.len() > c - small {
                        ghosts.remove(0);
                    }
                    evicted = true;
                }
            }
            if !evicted {
                evict_main(&mut m);
            }
        }
        if take(&mut ghosts, x) {
            m.push((x, 0))
        } else {
            s.push((x, 0))
        }
        false
    })
}

/// Section 4, with the sketch of the policy: its estimates have a test of their own.
pub(super) fn w_tiny_lfu(c: usize) -> Naive {
    let window_max = (c / 100).max(1);
    let protected_max = (c - window_max) * 8 / 10;
    let [mut window, mut probation, mut protected]: [Vec<u32>; 3] = Default::default();
    let mut sketch = Sketch::new(Capacity::frames(c as u64).blocks());
    Box::new(move |x| {
        sketch.add((0, x.into()));
        if take(&mut window, x) {
            window.push(x);
            return true;
        }
        if take(&mut probation, x) || take(&mut protected, x) {
            protected.push(x);
            if protected.len() > protected_max {
                probation.push(protected.remove(0));
            }
            return true;
        }
        window.push(x);
        if window.len() > window_max {
            let candidate = window.remove(0);
            if window.len() + probation.len() + protected.len() + 1 > c {
                let main = if probation.is_empty() { &mut protected } else { &mut probation };
                let uses = |page: u32| sketch.estimate((0, page.into()));
                if !main.is_empty() && uses(candidate) > uses(main[0]) {
                    main.remove(0);
                    probation.push(candidate);
                }
            } else {
                probation.push(candidate);
            }
        }
        false
    })
}
