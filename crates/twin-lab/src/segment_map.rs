//! A picture of a log in characters: a map of its segments, and how full they are.
//!
//! [`frame`] draws a bare volume at a moment; repeated calls show it live.

use twin_clean::inputs::{SegmentInfo, SegmentState};
use twin_clean::volume::{Totals, Volume};

/// The appearance of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Number of characters in a line.
    pub columns: usize,
    /// Whether colours show ages, through escape sequences of terminals.
    pub colours: bool,
    /// With colours: a segment to show in reverse because it is being read or written.
    pub marked: Option<usize>,
}

const LEGEND: &str = "tenths live: . 1 to 9 #  being written: a to f by class  cleaned: *  free: _";
/// Number of rows of the histogram, one for each tenth.
const TENTHS: usize = 10;
const BAR: usize = 40;

/// The frame of a volume. `before` are the totals at the last frame.
pub fn frame(volume: &Volume, before: &Totals, look: Look) -> String {
    let (totals, segments) = (volume.totals(), volume.segments());
    let count = |state| segments.iter().filter(|segment| segment.state == state).count();
    let used: u64 = segments.iter().map(|segment| u64::from(segment.written_blocks)).sum();
    let garbage = 1.0 - volume.live_blocks() as f64 / used.max(1) as f64;
    let mut text = format!(
        "{} blocks written, amplification {:.3}, lately {:.3}; {:.1}% garbage\n\
         {} segments: {} being written, {} full, {} free; {} cleaned\n",
        totals.user_writes,
        totals.write_amplification(),
        totals.since(before).write_amplification(),
        garbage * 100.0,
        segments.len(),
        count(SegmentState::Open),
        count(SegmentState::Sealed),
        count(SegmentState::Free),
        totals.victims,
    );
    text += &map(segments, totals.user_writes, volume.live_blocks(), look);
    text
}

/// The map of segments, its legend, and the histogram of live shares, at the moment `now` (in user
/// writes).
pub(crate) fn map(segments: &[SegmentInfo], now: u64, live_blocks: u64, look: Look) -> String {
    let mut text = String::new();
    let columns = look.columns.max(1);
    let marked = look.marked.filter(|_| look.colours);
    // Whole rows of segments that were never filled are summarized by their number.
    let last = segments.iter().rposition(|segment| segment.state != SegmentState::Free);
    let shown = last.max(marked).map_or(0, |last| last / columns + 1).max(1) * columns;
    let (drawn, rest) = segments.split_at(shown.min(segments.len()));
    for (row, in_row) in drawn.chunks(columns).enumerate() {
        for (column, segment) in in_row.iter().enumerate() {
            let colour = age(segment, now, live_blocks).filter(|_| look.colours);
            let reverse = marked == Some(row * columns + column);
            match (reverse, colour) {
                (true, _) => text += &format!("\x1b[7m{}\x1b[0m", mark(segment)),
                (_, Some(colour)) => text += &format!("\x1b[{colour}m{}\x1b[0m", mark(segment)),
                _ => text.push(mark(segment)),
            }
        }
        text.push('\n');
    }
    if !rest.is_empty() {
        text += &format!("and {} more, free\n", rest.len());
    }
    text += LEGEND;
    text.push('\n');
    text + &histogram(segments)
}

/// One character for a segment.
fn mark(segment: &SegmentInfo) -> char {
    match segment.state {
        SegmentState::Free => '_',
        SegmentState::Open => char::from(b'a' + segment.class.min(25)),
        SegmentState::Cleaning => '*',
        SegmentState::Sealed => match tenth(segment) {
            0 => '.',
            TENTHS => '#',
            tenth => char::from(b'0' + tenth as u8),
        },
    }
}

/// The live share of a segment in tenths, rounded down; ten if all of it is live.
fn tenth(segment: &SegmentInfo) -> usize {
    (segment.utilization() * TENTHS as f64) as usize
}

/// The colour of a segment's age: red below a tenth of a volume of writes, then yellow up to one
/// volume, then blue.
fn age(segment: &SegmentInfo, now: u64, live_blocks: u64) -> Option<u8> {
    let sealed =
        (segment.state == SegmentState::Sealed).then(|| now.saturating_sub(segment.sealed_at))?;
    Some(match sealed {
        age if age < live_blocks / 10 => 31,
        age if age < live_blocks => 33,
        _ => 34,
    })
}

/// The number of full segments by live share.
fn histogram(segments: &[SegmentInfo]) -> String {
    let mut counts = [0usize; TENTHS];
    for segment in segments.iter().filter(|segment| segment.state == SegmentState::Sealed) {
        counts[tenth(segment).min(TENTHS - 1)] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let mut text = String::new();
    for (at, &count) in counts.iter().enumerate() {
        let bar = "=".repeat((count * BAR).div_ceil(most));
        text += &format!("{:3} to {:3}% {count:6} {bar}\n", at * 10, at * 10 + 10);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use twin_clean::volume::{VolumeGeometry, workload};
    use twin_clean::{placement, victim};

    fn volume(writes: u32) -> Volume {
        let geometry = VolumeGeometry::of_working_set(1000).unwrap();
        let setting = geometry.setting(1);
        let placement = placement::REGISTRY[1].make(&setting);
        let mut volume = Volume::new(&geometry, placement, victim::REGISTRY[1].make(&setting));
        let mut source = workload::parse("uniform").unwrap().start(1000, 1);
        (0..writes).for_each(|_| volume.write(source.next_block()));
        volume
    }

    #[test]
    fn a_frame_has_every_segment_once_and_the_counts_add_up() {
        let volume = volume(5000);
        let look = Look { columns: 50, ..Look::default() };
        let frame = frame(&volume, &Totals::default(), look);
        let rows = volume.segments().len().div_ceil(50);
        let map: String = frame.lines().skip(2).take(rows).collect();
        assert_eq!(map.chars().count(), volume.segments().len());
        assert_eq!(map.matches('a').count(), 1, "one is being written: {map}");
        let sealed = map.chars().filter(|c| ".123456789#".contains(*c)).count();
        let bars = frame.lines().skip(3 + rows);
        let counts = bars.map(|line| line.split_whitespace().nth(3).unwrap());
        let all: usize = counts.map(|count| count.parse::<usize>().unwrap()).sum();
        assert_eq!(all, sealed, "{frame}");
        assert!(frame.contains("5000 blocks written") && !frame.contains('\x1b'));
    }

    #[test]
    fn an_empty_volume_can_be_drawn() {
        let look = Look { columns: 80, colours: true, marked: None };
        assert!(frame(&volume(0), &Totals::default(), look).contains("0 segments"));
    }

    #[test]
    fn free_rows_at_the_end_are_counted_and_a_marked_segment_is_seen() {
        let mut segments = vec![SegmentInfo::default(); 35];
        segments[3].state = SegmentState::Open;
        let look = Look { columns: 10, ..Look::default() };
        let text = map(&segments, 0, 0, look);
        assert!(text.starts_with("___a______\nand 25 more, free\n"), "{text}");
        let text = map(&segments, 0, 0, Look { colours: true, marked: Some(12), ..look });
        assert!(text.contains("\n__\x1b[7m_\x1b[0m_______\nand 15 more"), "{text}");
    }
}
