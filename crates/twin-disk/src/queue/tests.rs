use twin_rt::{MILLIS, SECS};

use super::*;

fn read(seq: u64, at: u64) -> Waiting {
    Waiting {
        id: seq as u32,
        seq,
        kind: IoKind::Read,
        at,
        len: 0,
        origin: Origin::User,
        arrived: Time(0),
        deadline: None,
    }
}

fn pop(queue: &mut dyn Scheduler, head_at: u64) -> Option<Next> {
    queue.pop(&SchedulerInput { now: Time(0), head_at, device: &ByDistance })
}

/// Serves requests at these cylinders of a disk of 200 with the head at `head`. Returns the order
/// and the number of cylinders that the arm moves.
fn served(name: &str, head: u64, cylinders: &[u64]) -> (Vec<u64>, u64) {
    let mut queue = REGISTRY.get(name).unwrap().make();
    for (seq, &at) in cylinders.iter().enumerate() {
        queue.push(read(seq as u64, at));
    }
    let (mut at, mut moved, mut order) = (head, 0, Vec::new());
    while let Some(Next { request, way }) = pop(&mut *queue, at) {
        let stops: &[u64] = match way {
            Way::Straight => &[],
            Way::ByTheEnd => &[199],
            Way::ByTheStart => &[0],
            Way::ByEndAndStart => &[199, 0],
        };
        for &stop in stops.iter().chain([&request.at]) {
            moved += at.abs_diff(stop);
            at = stop;
        }
        order.push(request.at);
    }
    assert!(queue.is_empty());
    (order, moved)
}

/// The example of Silberschatz and others, "Operating System Concepts": eight requests on 200
/// cylinders, with the head at 53.
const TEXTBOOK: [u64; 8] = [98, 183, 37, 122, 14, 124, 65, 67];

#[test]
fn the_textbook_s_requests_are_served_in_its_orders_over_its_distances() {
    for (name, order, moved) in [
        ("fcfs", [98, 183, 37, 122, 14, 124, 65, 67], 640),
        ("sstf", [65, 67, 37, 14, 98, 122, 124, 183], 236),
        ("look", [65, 67, 98, 122, 124, 183, 37, 14], 299),
        ("scan", [65, 67, 98, 122, 124, 183, 37, 14], 331),
        ("c-look", [65, 67, 98, 122, 124, 183, 14, 37], 322),
        ("c-scan", [65, 67, 98, 122, 124, 183, 14, 37], 382),
        ("fscan", [65, 67, 98, 122, 124, 183, 37, 14], 299),
    ] {
        assert_eq!(served(name, 53, &TEXTBOOK), (order.to_vec(), moved), "{name}");
    }
}

#[test]
fn a_scan_that_turns_at_the_start_of_the_disk_goes_by_the_start() {
    let mut queue = REGISTRY.get("scan").unwrap().make();
    queue.push(read(0, 10));
    assert_eq!(pop(&mut *queue, 50).unwrap().way, Way::ByTheEnd);
    queue.push(read(1, 30));
    assert_eq!(pop(&mut *queue, 10).unwrap().way, Way::ByTheStart);
    queue.push(read(2, 60));
    assert_eq!(pop(&mut *queue, 30).unwrap().way, Way::Straight);
}

#[test]
fn sstf_takes_the_nearest() {
    assert_eq!(served("sstf", 45, &[80, 20, 60, 40, 55]).0, [40, 55, 60, 80, 20]);
}

#[test]
fn fscan_keeps_what_arrives_in_a_sweep_for_the_next_one() {
    let both = |name: &str| {
        let mut queue = REGISTRY.get(name).unwrap().make();
        [10, 50, 90].iter().enumerate().for_each(|(i, &at)| queue.push(read(i as u64, at)));
        let mut order = vec![pop(&mut *queue, 0).unwrap().request.at];
        queue.push(read(3, 60));
        queue.push(read(4, 20));
        while let Some(next) = pop(&mut *queue, *order.last().unwrap()) {
            order.push(next.request.at);
        }
        order
    };
    assert_eq!(both("look"), [10, 20, 50, 60, 90]);
    assert_eq!(both("fscan"), [10, 50, 90, 60, 20]);
}

/// After the rule of Reddy and Wyllie 1993, section 3: the set of requests with the earliest deadline
/// is served first, and in it the order is that of a scan.
#[test]
fn scan_edf_serves_deadlines_in_order_and_equal_ones_in_a_sweep() {
    let mut queue = REGISTRY.get("scan-edf").unwrap().make();
    let requests = [(900, 40), (300, 70), (300, 10), (900, 20), (300, 50), (500, 5)];
    for (seq, (ms, at)) in requests.into_iter().enumerate() {
        queue.push(Waiting { deadline: Some(Time(ms * MILLIS)), ..read(seq as u64, at) });
    }
    let mut order = vec![30];
    while let Some(next) = pop(&mut *queue, *order.last().unwrap()) {
        order.push(next.request.at);
    }
    assert_eq!(order[1..], [50, 70, 10, 5, 20, 40]);
}

#[test]
fn without_deadlines_scan_edf_lets_reads_pass_writes_for_some_seconds_only() {
    let mut queue = REGISTRY.get("scan-edf").unwrap().make();
    let write = Waiting { kind: IoKind::Write, ..read(0, 10) };
    queue.push(write);
    queue.push(Waiting { arrived: Time(4 * SECS), ..read(1, 20) });
    queue.push(Waiting { arrived: Time(6 * SECS), ..read(2, 30) });
    let order: Vec<u64> =
        std::iter::from_fn(|| pop(&mut *queue, 0)).map(|next| next.request.at).collect();
    assert_eq!(order, [20, 10, 30]);
}

/// A drum: one track of 100 bytes that passes a fixed head, a byte a nanosecond.
struct Drum;

impl Positioning for Drum {
    fn positioning_ns(&self, now: Time, _head_at: u64, request: &Waiting) -> Nanos {
        (request.at + 100 - now.0 % 100) % 100
    }
}

#[test]
fn sptf_takes_what_the_head_reaches_first() {
    let mut queue = REGISTRY.get("sptf").unwrap().make();
    [10, 90, 40, 60].iter().enumerate().for_each(|(i, &at)| queue.push(read(i as u64, at)));
    let (mut now, mut order) = (Time(50), Vec::new());
    while let Some(next) = queue.pop(&SchedulerInput { now, head_at: 0, device: &Drum }) {
        now += Drum.positioning_ns(now, 0, &next.request);
        order.push(next.request.at);
    }
    assert_eq!(order, [60, 90, 10, 40]);
}

#[test]
fn requests_for_one_address_keep_their_order() {
    for entry in &REGISTRY {
        for head in [0, 4096, 9000] {
            let mut queue = entry.make();
            (0..5).for_each(|seq| queue.push(read(seq, 4096)));
            let mut ids = Vec::new();
            let mut at = head;
            while let Some(next) = pop(&mut *queue, at) {
                at = next.request.at;
                ids.push(next.request.id);
            }
            assert_eq!(ids, [0, 1, 2, 3, 4], "{} from {head}", entry.name);
        }
    }
}

#[test]
fn every_policy_serves_every_request_once() {
    for entry in &REGISTRY {
        let (mut rng, mut queue) = (twin_rt::Rng::new(7), entry.make());
        let (mut pushed, mut popped, mut head) = (0, Vec::new(), 0);
        for _ in 0..2000 {
            if rng.chance(0.5) {
                queue.push(read(pushed, rng.below(1000)));
                pushed += 1;
            } else if let Some(next) = pop(&mut *queue, head) {
                head = next.request.at;
                popped.push(next.request.seq);
            }
        }
        assert_eq!(queue.len() + popped.len(), pushed as usize, "{}", entry.name);
        while let Some(next) = pop(&mut *queue, head) {
            popped.push(next.request.seq);
        }
        popped.sort_unstable();
        assert!(popped.into_iter().eq(0..pushed), "{}", entry.name);
    }
}

#[test]
fn an_overload_of_requests_without_deadlines_makes_scan_edf_miss_none() {
    let mut queue = REGISTRY.get("scan-edf").unwrap().make();
    let (mut now, mut seq, mut missed, mut served) = (Time(0), 0, 0, [0, 0]);
    let mut next_due = Time(0);
    let request = |seq, deadline| Waiting { deadline, arrived: now, ..read(seq, seq * 37 % 1000) };
    for _ in 0..200 {
        seq += 1;
        queue.push(request(seq, None));
    }
    while now < Time(60 * SECS) {
        // Four requests a second that are needed within a second, and always 200 others.
        if now >= next_due {
            seq += 1;
            let needed = Some(now + SECS);
            queue.push(Waiting { arrived: now, deadline: needed, ..read(seq, seq * 37 % 1000) });
            next_due += SECS / 4;
        }
        let view = SchedulerInput { now, head_at: 0, device: &ByDistance };
        let next = queue.pop(&view).unwrap().request;
        now += 20 * MILLIS;
        match next.deadline {
            Some(deadline) => {
                served[0] += 1;
                missed += u32::from(now > deadline);
            }
            None => {
                served[1] += 1;
                seq += 1;
                queue.push(Waiting { arrived: now, ..read(seq, seq * 37 % 1000) });
            }
        }
    }
    assert_eq!(missed, 0);
    assert!(served[0] > 200 && served[1] > 2000, "{served:?}");
}

#[test]
fn a_request_overtakes_an_earlier_one_for_the_same_bytes_unless_both_read() {
    let one = |seq, kind, at| Waiting { kind, len: 4096, ..read(seq, at) };
    let waiting = [
        one(0, IoKind::Write, 0),
        one(1, IoKind::Read, 4096),
        one(2, IoKind::Read, 2048),
        one(3, IoKind::Read, 6000),
        one(4, IoKind::Write, 8192),
    ];
    let found: Vec<bool> = (0..waiting.len()).map(|place| overtakes(&waiting, place)).collect();
    // The third reads what the first writes; the fourth only what others read; the last writes what the fourth reads.
    assert_eq!(found, [false, false, true, false, true]);
}
