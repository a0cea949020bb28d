//! Where operations run: places that are made once and used again, so that an operation allocates nothing for its
//! future.
//!
//! Contract: a place holds one operation at a time and is empty between two. What is dropped unfinished leaves its
//! place as what has ended does. Nothing here knows what an operation is.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The most empty places that are kept.
const KEPT: usize = 64;

/// A place for one future at a time, made of an input.
pub(crate) trait Place<I, T> {
    fn begin(&mut self, input: I);
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T>;
    fn clear(&mut self);
}

struct PlaceOf<F, Fut> {
    run: F,
    future: Pin<Box<Option<Fut>>>,
}

impl<I, T, F: Fn(I) -> Fut, Fut: Future<Output = T>> Place<I, T> for PlaceOf<F, Fut> {
    fn begin(&mut self, input: I) {
        self.future.set(Some((self.run)(input)));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        match self.future.as_mut().as_pin_mut() {
            Some(future) => future.poll(cx),
            None => Poll::Pending,
        }
    }

    fn clear(&mut self) {
        self.future.set(None);
    }
}

/// An empty place for futures of this function.
pub(crate) fn place<I, T, F, Fut>(run: F) -> Box<dyn Place<I, T>>
where
    F: Fn(I) -> Fut + 'static,
    Fut: Future<Output = T> + 'static,
{
    Box::new(PlaceOf { run, future: Box::pin(None) })
}

/// The places of one volume.
pub(crate) struct Places<I, T> {
    make: fn() -> Box<dyn Place<I, T>>,
    empty: RefCell<Vec<Box<dyn Place<I, T>>>>,
}

impl<I, T> Places<I, T> {
    pub(crate) fn new(make: fn() -> Box<dyn Place<I, T>>) -> Rc<Places<I, T>> {
        Rc::new(Places { make, empty: RefCell::default() })
    }

    /// Begins what the places are for; nothing happens before the first poll.
    pub(crate) fn begin(self: &Rc<Self>, input: I) -> Placed<I, T> {
        let empty = self.empty.borrow_mut().pop();
        let mut place = empty.unwrap_or_else(|| (self.make)());
        place.begin(input);
        Placed { place: Some(place), home: Rc::clone(self) }
    }
}

/// What runs in a place.
pub(crate) struct Placed<I, T> {
    /// `None` once it has ended.
    place: Option<Box<dyn Place<I, T>>>,
    home: Rc<Places<I, T>>,
}

impl<I, T> Placed<I, T> {
    fn leave(&mut self) {
        if let Some(mut place) = self.place.take() {
            // Before the list is borrowed: what the future holds may end other operations.
            place.clear();
            let mut empty = self.home.empty.borrow_mut();
            if empty.len() < KEPT {
                empty.push(place);
            }
        }
    }
}

impl<I, T> Future for Placed<I, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(place) = &mut self.place else {
            panic!("an operation was awaited again after it had ended")
        };
        let result = place.poll(cx);
        if result.is_ready() {
            self.leave();
        }
        result
    }
}

impl<I, T> Drop for Placed<I, T> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_rt::{ClockOnly, MILLIS, Rt};

    fn waits() -> Box<dyn Place<(Rt, u64), u64>> {
        place(|(rt, ms): (Rt, u64)| async move {
            rt.sleep(ms * MILLIS).await;
            ms
        })
    }

    #[test]
    fn a_place_is_used_again_and_as_many_are_made_as_are_used_at_once() {
        let (rt, places) = (Rt::new(ClockOnly::default(), 0), Places::new(waits));
        for ms in [0, 3, 0] {
            assert_eq!(rt.block_on(places.begin((rt.clone(), ms))), Ok(ms));
            assert_eq!(places.empty.borrow().len(), 1);
        }
        let two = [2, 1].map(|ms| places.begin((rt.clone(), ms)));
        assert!(places.empty.borrow().is_empty());
        assert_eq!(rt.block_on(twin_rt::join_all(two)), Ok(vec![2, 1]));
        assert_eq!(places.empty.borrow().len(), 2);
    }

    #[test]
    fn what_is_dropped_unfinished_drops_what_it_held_and_leaves_its_place() {
        let (rt, places) = (Rt::new(ClockOnly::default(), 0), Places::new(waits));
        let begun = places.begin((rt.clone(), 1));
        let handles = Rc::strong_count(&places);
        drop(begun);
        assert_eq!((Rc::strong_count(&places), places.empty.borrow().len()), (handles - 1, 1));
    }
}
