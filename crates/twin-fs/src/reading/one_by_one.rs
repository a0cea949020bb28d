//! Reads each block when it is needed, and nothing ahead. This is how Seltzer et al. 1995 (section
//! 2) explain the read performance of Sprite LFS.

use super::{Nearby, ReadAdvice, ReadPolicy, ReadPolicyInput};

pub(super) struct OneByOne;

impl ReadPolicy for OneByOne {
    fn advise(&self, _view: ReadPolicyInput, _: &dyn Nearby) -> ReadAdvice {
        ReadAdvice { now: 1, ..ReadAdvice::default() }
    }
}
