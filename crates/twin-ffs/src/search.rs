//! The search for a free place once a group has been preferred: there, then in groups at
//! quadratically growing distances, then in all of them.
//!
//! Contract: pure but for the allocation itself, which `try_group` makes. Source: `ffs_hashalloc`
//! of 4.4BSD; McKusick, Joy, Leffler and Fabry 1984, section 3.3.

/// How far a search had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Group,
    /// A group found by the quadratic rehash.
    Quadratic,
    Exhaustive,
}

/// Tries groups in order until one gives something. `try_group` is told whether the group is the
/// preferred one, where the preferred place counts.
pub(crate) fn search<T>(
    groups: u32,
    preferred: u32,
    mut try_group: impl FnMut(u32, bool) -> Option<T>,
) -> Option<(T, Reach)> {
    if let Some(found) = try_group(preferred, true) {
        return Some((found, Reach::Group));
    }
    let mut group = preferred;
    let mut step = 1;
    while step < groups {
        group = (group + step) % groups;
        if let Some(found) = try_group(group, false) {
            return Some((found, Reach::Quadratic));
        }
        step *= 2;
    }
    // The preferred group and the one after it have been looked at.
    for distance in 2..groups {
        if let Some(found) = try_group((preferred + distance) % groups, false) {
            return Some((found, Reach::Exhaustive));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_tried_at_quadratic_distances_and_then_all_of_them() {
        let mut tried = Vec::new();
        let found = search(10, 3, |group, first| {
            tried.push(group);
            assert_eq!(first, tried.len() == 1);
            None::<()>
        });
        assert_eq!(found, None);
        assert_eq!(tried, [3, 4, 6, 0, 8, 5, 6, 7, 8, 9, 0, 1, 2]);
        let mut all = tried.clone();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10, "every group is tried");
    }

    #[test]
    fn it_says_how_far_it_went() {
        let only = |wanted| move |group, _| (group == wanted).then_some(group);
        assert_eq!(search(10, 3, only(3)), Some((3, Reach::Group)));
        assert_eq!(search(10, 3, only(6)), Some((6, Reach::Quadratic)));
        assert_eq!(search(10, 3, only(9)), Some((9, Reach::Exhaustive)));
        assert_eq!(search(1, 0, only(5)), None);
    }
}
