//! A table whose places are reused, with a check against stale keys.

/// Values under small numeric keys. A key consists of a place and the number of earlier uses of
/// that place, so that the key of a removed value finds nothing.
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { places: Vec::new(), free: Vec::new(), len: 0 }
    }
}

/// Keys fit in this many bits: 24 of uses, 32 of place.
pub(crate) const KEY_BITS: u32 = 56;
const USES: u32 = (1 << 24) - 1;

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        self.len += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let slot = &mut self.places[place as usize];
        slot.1 = Some(value);
        u64::from(slot.0) << 32 | u64::from(place)
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let slot = self.places.get_mut(key as u32 as usize)?;
        if u64::from(slot.0) == key >> 32 { slot.1.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        self.get_mut(key)?;
        let slot = &mut self.places[key as u32 as usize];
        slot.0 = (slot.0 + 1) & USES;
        self.free.push(key as u32);
        self.len -= 1;
        slot.1.take()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_removed_value_finds_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert("a");
        assert_eq!(slab.remove(a), Some("a"));
        let b = slab.insert("b");
        assert_eq!((a as u32, slab.remove(a), slab.len()), (b as u32, None, 1));
        assert_eq!(slab.get_mut(b), Some(&mut "b"));
    }
}
