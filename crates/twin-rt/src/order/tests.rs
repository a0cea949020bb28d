//! Tests of the order of tasks in the executor.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Order, REGISTRY};
use crate::{ClockOnly, Event, EventDigest, Rt, Time};

/// The order in which tasks go on that a notification wakes at one time; each of them has this
/// deadline while it waits.
fn order_of_tasks(order: Order, dues: &[Option<u64>]) -> (Vec<usize>, EventDigest) {
    let rt = Rt::with_order(ClockOnly::default(), 0, order);
    let (event, log) = (Rc::new(Event::new()), Rc::new(RefCell::new(Vec::new())));
    for (number, &due) in dues.iter().enumerate() {
        let (rt2, event, log) = (rt.clone(), Rc::clone(&event), Rc::clone(&log));
        rt.spawn("task", async move {
            rt2.by(due.map(Time), event.wait()).await;
            log.borrow_mut().push(number);
            rt2.record(&[number as u64]);
        });
    }
    rt.run_ready();
    event.notify();
    rt.run_ready();
    (log.take(), rt.digest())
}

fn by_deadline() -> Order {
    **REGISTRY.get("deadline").unwrap()
}

#[test]
fn tasks_with_deadlines_run_before_those_without() {
    let dues = [None, Some(7), None, Some(3)];
    assert_eq!(order_of_tasks(Order::Fifo, &dues).0, [0, 1, 2, 3]);
    assert_eq!(order_of_tasks(by_deadline(), &dues).0, [3, 1, 0, 2]);
}

#[test]
fn without_deadlines_the_orders_fifo_and_deadline_are_the_same_run() {
    let none = vec![None; 30];
    assert_eq!(order_of_tasks(by_deadline(), &none), order_of_tasks(Order::Fifo, &none));
}

#[test]
fn a_task_without_a_deadline_runs_beside_any_number_that_have_one() {
    let rt = Rt::with_order(ClockOnly::default(), 0, by_deadline());
    let (turns, log) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    for _ in 0..3 {
        let (rt2, turns) = (rt.clone(), Rc::clone(&turns));
        rt.spawn("urgent", async move {
            for _ in 0..1000 {
                turns.set(turns.get() + 1);
                rt2.by(Some(Time(1)), rt2.yield_now()).await;
            }
        });
    }
    let (rt2, turns, seen) = (rt.clone(), Rc::clone(&turns), Rc::clone(&log));
    rt.spawn("patient", async move {
        for _ in 0..3 {
            rt2.yield_now().await;
            seen.borrow_mut().push(turns.get());
        }
    });
    rt.run_ready();
    assert!(log.borrow().iter().all(|&turns| turns < 3 * 4 * 9), "{log:?}");
    assert_eq!(log.borrow().len(), 3);
}

#[test]
fn a_deadline_within_another_is_the_earlier_one_and_ends_with_its_future() {
    let rt = Rt::with_order(ClockOnly::default(), 0, by_deadline());
    let rt2 = rt.clone();
    rt.block_on(async move {
        let inner = async { (rt2.by(Some(Time(9)), async { rt2.due() }).await, rt2.due()) };
        assert_eq!(rt2.by(Some(Time(5)), inner).await, (Some(Time(5)), Some(Time(5))));
        let rt3 = rt2.clone();
        let own = async move { assert_eq!(rt3.due(), None) };
        let started = async { rt2.run_or_spawn("own", own) };
        rt2.by(Some(Time(5)), started).await;
        assert_eq!(rt2.due(), None);
    })
    .unwrap();
}
