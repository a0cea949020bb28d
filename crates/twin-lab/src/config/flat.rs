//! Times of flat SSDs as text: microseconds and a rate with slashes between them.

use twin_settings::SettingsError;
use twin_settings::value::{bytes, bytes_text, list, nanos};
use twin_sim::model::FlatTimes;

/// The times that a text has.
///
/// # Errors
/// If it has not four.
pub(super) fn parse(text: &str) -> Result<FlatTimes, SettingsError> {
    let [read, write, flush, rate] =
        list(text, "read/write/flush/bytes a second, as 80/25/1000/550M")?;
    let link_bytes_per_s = bytes(rate)?;
    if link_bytes_per_s == 0 {
        let what = format!("{text:?}: a link moves at least a byte a second");
        return Err(SettingsError::new(what));
    }
    let ns = |text| match nanos(text, twin_rt::MICROS)? {
        ns if ns <= 1000 * twin_rt::SECS => Ok(ns),
        _ => Err(SettingsError::new(format!("{text} is longer than 1000 s"))),
    };
    let (read_ns, write_ns, flush_ns) = (ns(read)?, ns(write)?, ns(flush)?);
    Ok(FlatTimes { read_ns, write_ns, flush_ns, link_bytes_per_s })
}

/// The times as text.
pub(super) fn text(ssd: &FlatTimes) -> String {
    let us = |ns| ns / twin_rt::MICROS;
    let (read, write, flush) = (us(ssd.read_ns), us(ssd.write_ns), us(ssd.flush_ns));
    format!("{read}/{write}/{flush}/{}", bytes_text(ssd.link_bytes_per_s))
}
