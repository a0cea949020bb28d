use twin_disk::{IoKind, Origin};
use twin_rt::Time;

use super::*;
use crate::model;

/// Serves requests at these addresses with the head at `head`; returns the order.
fn order(name: &str, head: u64, addresses: &[u64]) -> Vec<u64> {
    let model = model::REGISTRY.get("hp97560").unwrap().build(&model::Options::default()).unwrap();
    let mut queue = REGISTRY.get(name).unwrap().make();
    for (i, &at) in addresses.iter().enumerate() {
        let (id, seq) = (i as u32, i as u64);
        let (kind, origin, arrived) = (IoKind::Read, Origin::User, Time(0));
        queue.push(Waiting { id, seq, kind, at, len: 512, origin, arrived });
    }
    let (mut head_at, mut out) = (head, Vec::new());
    while let Some(w) = queue.pop(&SchedulerInput { now: Time(0), head_at, model: &*model }) {
        head_at = w.at + w.len;
        out.push(w.at);
    }
    assert!(queue.is_empty());
    out
}

const KIB: u64 = 1024;
const ADDRESSES: [u64; 5] = [80 * KIB, 20 * KIB, 60 * KIB, 40 * KIB, 55 * KIB];

fn kib(order: Vec<u64>) -> Vec<u64> {
    order.into_iter().map(|at| at / KIB).collect()
}

#[test]
fn fcfs_keeps_the_order_of_arrival() {
    assert_eq!(kib(order("fcfs", 50 * KIB, &ADDRESSES)), [80, 20, 60, 40, 55]);
}

#[test]
fn c_look_goes_up_and_begins_again_at_the_lowest() {
    assert_eq!(kib(order("c-look", 50 * KIB, &ADDRESSES)), [55, 60, 80, 20, 40]);
}

#[test]
fn look_goes_up_and_turns() {
    assert_eq!(kib(order("look", 50 * KIB, &ADDRESSES)), [55, 60, 80, 40, 20]);
}

#[test]
fn sstf_takes_the_nearest() {
    assert_eq!(kib(order("sstf", 45 * KIB, &ADDRESSES)), [40, 55, 60, 80, 20]);
}

#[test]
fn sptf_takes_what_the_head_reaches_first() {
    // On one track, from rotational position zero: after 2.2 ms of controller time sector 10 has
    // passed, so the order is by angle from there.
    let base = order("sptf", 0, &[4 * KIB, 512 * 11, 512 * 20, 512 * 70]);
    let mut by_address = base.clone();
    by_address.sort_unstable();
    assert_eq!(base.len(), 4);
    // Sector numbers in the order of service, starting from some angle.
    let start = by_address.iter().position(|&at| at == base[0]).unwrap();
    by_address.rotate_left(start);
    assert_eq!(base, by_address);
}

#[test]
fn requests_for_one_address_keep_their_order() {
    for entry in &REGISTRY {
        let model =
            model::REGISTRY.get("hp97560").unwrap().build(&model::Options::default()).unwrap();
        let mut queue = entry.make();
        for seq in 0..5u64 {
            let (kind, origin, arrived) = (IoKind::Write, Origin::WriteBack, Time(0));
            queue.push(Waiting { id: seq as u32, seq, kind, at: 4096, len: 512, origin, arrived });
        }
        let view = SchedulerInput { now: Time(0), head_at: 4096, model: &*model };
        let ids: Vec<_> = std::iter::from_fn(|| queue.pop(&view)).map(|w| w.id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4], "{}", entry.name);
    }
}
