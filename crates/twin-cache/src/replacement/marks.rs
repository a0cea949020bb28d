//! One bit for each slot.

/// Marks of slots; a slot that was never marked has none.
#[derive(Default)]
pub(super) struct Marks(Vec<bool>);

impl Marks {
    pub(super) fn get(&self, slot: u32) -> bool {
        self.0.get(slot as usize).copied().unwrap_or(false)
    }

    pub(super) fn set(&mut self, slot: u32, marked: bool) {
        match self.0.get_mut(slot as usize) {
            Some(mark) => *mark = marked,
            None => {
                self.0.resize(slot as usize + 1, false);
                self.0[slot as usize] = marked;
            }
        }
    }
}
