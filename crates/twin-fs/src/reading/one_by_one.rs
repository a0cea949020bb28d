//! Each block when it is wanted, and nothing ahead: how Seltzer et al. 1995 (section 2) explain the
//! reading of Sprite LFS.

use super::{ReadAdvice, ReadPolicy, ReadView};

pub(super) struct OneByOne;

impl ReadPolicy for OneByOne {
    fn advise(&self, _view: ReadView) -> ReadAdvice {
        ReadAdvice { now: 1, ..ReadAdvice::default() }
    }
}
