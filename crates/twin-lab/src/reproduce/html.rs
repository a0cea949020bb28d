//! html
/// html
pub fn html() {}
