//! How far a command is, on standard error.
//!
//! Contract: on a terminal it is a bar that goes when the work is done. Elsewhere it is a line every
//! `EVERY` from `FIRST` on, so that a log of a long command says how far it came, and a short command
//! says nothing. A program that calls the command asks instead. The time left is extrapolated, and told only while that is honest: after a few seconds, and if
//! the second half of the time until now went about as fast as the first. Standard output is never touched.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::style::ProgressTracker;
use indicatif::{
    ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle, TermLike,
};

use twin_host::{Bar, Count, Counter, real_clock};

use crate::call::Call;

/// When the first line is written off a terminal, and how long it is from one to the next.
const FIRST: f64 = 2.0;
const EVERY: f64 = 5.0;
/// How often a bar is drawn.
const TICK: Duration = Duration::from_millis(100);

/// How far a command is. Clones show the same.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Begins to show `len` steps of `what`; 0 if their number is not known.
    pub fn of(what: &'static str, len: u64) -> Progress {
        Progress::styled(what, len, "{human_pos}", "{human_len}")
    }

    /// The same for bytes.
    pub fn of_bytes(what: &'static str, len: u64) -> Progress {
        Progress::styled(what, len, "{binary_bytes}", "{binary_total_bytes}")
    }

    /// Begins to show which share of `what` is done.
    pub fn share(what: &'static str) -> Progress {
        Progress::made(
            what,
            1,
            (
                "{spinner} {prefix} {wide_bar} {percent}%{left}",
                "twinfs: {prefix}: {percent}%, {elapsed} so far{left}",
            ),
        )
    }

    /// Who tells it how much is done of how much.
    pub fn told(&self) -> Arc<dyn Fn(usize, usize) + Send + Sync> {
        let bar = self.clone();
        Arc::new(move |done, all| bar.set(done as u64, all as u64))
    }

    /// Begins to show how long something takes whose steps cannot be counted.
    pub fn waiting(what: &'static str) -> Progress {
        Progress::made(
            what,
            0,
            ("{spinner} {prefix}, {elapsed}", "twinfs: {prefix}, {elapsed} so far"),
        )
    }

    /// Shows nothing.
    pub fn hidden() -> Progress {
        Progress(ProgressBar::hidden())
    }

    fn styled(what: &'static str, len: u64, pos: &str, all: &str) -> Progress {
        let count = if len == 0 { pos.to_owned() } else { format!("{pos} of {all}") };
        let (bar, line) = match len {
            0 => (format!("{{spinner}} {{prefix}}: {count}, {{elapsed}}"), "{elapsed} so far"),
            _ => (
                format!("{{spinner}} {{prefix}} {{wide_bar}} {count}{{left}}"),
                "{elapsed} so far{left}",
            ),
        };
        Progress::made(what, len, (&bar, &format!("twinfs: {{prefix}}: {count}, {line}")))
    }

    /// With one template for terminals and one for lines.
    fn made(what: &'static str, len: u64, (bar_text, line): (&str, &str)) -> Progress {
        if let Some(call) = Call::current() {
            let len = Some(len).filter(|&len| len > 0);
            let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::hidden());
            let bar = bar.with_finish(ProgressFinish::AndClear);
            call.begin(what, bar.clone());
            return Progress(bar);
        }
        let is_terminal = io::stderr().is_terminal();
        let target = match is_terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::term_like(Box::new(Lines::default())),
        };
        let bar = match len {
            0 => ProgressBar::with_draw_target(None, target),
            len => ProgressBar::with_draw_target(Some(len), target),
        };
        let template = if is_terminal { bar_text } else { line };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("left", Left::default()));
        }
        // An error ends it too.
        let bar = bar.with_finish(ProgressFinish::AndClear);
        bar.set_prefix(what);
        bar.enable_steady_tick(TICK);
        Progress(bar)
    }

    /// So many steps more are done.
    pub fn inc(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// So many are done.
    pub fn set_done(&self, done: u64) {
        self.0.set_position(done);
    }

    /// So many are done, of so many.
    pub fn set(&self, done: u64, all: u64) {
        self.0.set_length(all);
        self.0.set_position(done);
    }

    /// Ends it: nothing stays on a terminal.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }

    /// A function that counts steps on it, from any thread.
    pub fn counting(&self) -> Arc<dyn Fn(u64) + Send + Sync> {
        let bar = self.0.clone();
        Arc::new(move |more| bar.inc(more))
    }

    /// Counts what is read through the result.
    pub fn reading<R: io::Read>(&self, input: R) -> impl io::Read + use<R> {
        self.0.wrap_read(input)
    }

    /// What opens an input as often as it is read; progress begins anew each time.
    pub fn reading_again<R: io::Read, F: Fn() -> io::Result<R>>(
        &self,
        open: F,
    ) -> impl Fn() -> io::Result<indicatif::ProgressBarIter<R>> + use<R, F> {
        let bar = self.0.clone();
        move || {
            bar.set_position(0);
            Ok(bar.wrap_read(open()?))
        }
    }
}

/// Shows how far the work of the libraries is.
pub struct Shown;

impl twin_host::Progress for Shown {
    fn begin(&self, what: &'static str, count: Count) -> Bar {
        Bar::new(match count {
            Count::Steps(all) => Progress::of(what, all),
            Count::Bytes(all) => Progress::of_bytes(what, all),
            Count::Time => Progress::waiting(what),
        })
    }
}

impl Counter for Progress {
    fn add(&self, steps: u64) {
        self.inc(steps);
    }

    fn set_done(&self, done: u64) {
        Progress::set_done(self, done);
    }

    fn set(&self, done: u64, all: u64) {
        Progress::set(self, done, all);
    }

    fn finish(&self) {
        Progress::finish(self);
    }
}

/// Tells the time left, as long as it can be told.
#[derive(Clone, Default)]
struct Left {
    /// How much was done, of all, and after how many seconds.
    samples: Vec<(f64, f64)>,
}

/// The time between two samples, in seconds, and the fewest samples from which the time left is shown.
const SAMPLE: f64 = 0.5;
const FEWEST: usize = 10;
/// How much faster one half of the time may be than the other.
const STEADY: f64 = 1.6;
/// The share below which nothing is shown.
const LEAST: f64 = 0.02;

impl Left {
    fn sample(&mut self, elapsed_s: f64, done: u64, all: Option<u64>) {
        let Some(all) = all.filter(|&all| all > 0) else { return };
        let share = done as f64 / all as f64;
        match self.samples.last() {
            // Another number of steps, or the work has begun anew.
            Some((_, before)) if share < *before => self.samples.clear(),
            Some((at, _)) if elapsed_s < at + SAMPLE => return,
            _ => {}
        }
        self.samples.push((elapsed_s, share));
    }

    /// The seconds left, if the pace has been steady.
    fn seconds(&self) -> Option<f64> {
        let (now, share) = *self.samples.last()?;
        let (half, before) = *self.samples.get(self.samples.len() / 2)?;
        if self.samples.len() < FEWEST || !(LEAST..1.0).contains(&share) || before <= 0.0 {
            return None;
        }
        let paces = [before / half, (share - before) / (now - half)];
        let [slow, fast] = [paces[0].min(paces[1]), paces[0].max(paces[1])];
        (fast <= STEADY * slow).then(|| (1.0 - share) / paces[1])
    }
}

// A clock of indicatif's, which is not read here.
#[allow(clippy::disallowed_types)]
impl ProgressTracker for Left {
    fn clone_box(&self) -> Box<dyn ProgressTracker> {
        Box::new(self.clone())
    }

    fn tick(&mut self, state: &ProgressState, _: std::time::Instant) {
        self.sample(state.elapsed().as_secs_f64(), state.pos(), state.len());
    }

    fn reset(&mut self, _: &ProgressState, _: std::time::Instant) {
        self.samples.clear();
    }

    fn write(&self, _: &ProgressState, out: &mut dyn std::fmt::Write) {
        if let Some(seconds) = self.seconds() {
            let _ = write!(out, ", about {} left", words(seconds));
        }
    }
}

fn words(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// What stands for a terminal where there is none: now and then a line.
struct Lines {
    clock: Box<dyn Fn() -> f64 + Send + Sync>,
    /// What was drawn since the last line, and when the next one is due, in seconds.
    state: Mutex<(String, f64)>,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines { clock: Box::new(real_clock()), state: Mutex::new((String::new(), FIRST)) }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

impl Lines {
    /// The line that is to be written now, if one is.
    fn due(&self, now: f64) -> Option<String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let text = std::mem::take(&mut state.0);
        let line = text.trim();
        if line.is_empty() || now < state.1 {
            return None;
        }
        state.1 = now + EVERY;
        Some(line.to_owned())
    }
}

impl TermLike for Lines {
    fn width(&self) -> u16 {
        1000
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0.push_str(text);
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0.clear();
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        if let Some(line) = self.due((self.clock)()) {
            // Who has closed standard error does not want to know.
            let _ = writeln!(io::stderr(), "{line}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Far;
    use std::process::ExitCode;

    #[test]
    fn how_far_a_call_is_can_be_seen() {
        let call = Call::new(vec!["compare".into()]);
        call.carry_out(|_| {
            let all = Progress::of("runs", 4);
            let one = Progress::of("operations", 0);
            one.inc(3);
            assert_eq!(call.far(), Some(Far { what: "operations", done: 3, all: None }));
            one.finish();
            all.inc(1);
            assert_eq!(call.far(), Some(Far { what: "runs", done: 1, all: Some(4) }));
            all.finish();
            assert_eq!(call.far(), None);
            Ok(ExitCode::SUCCESS)
        })
        .unwrap();
    }

    #[test]
    fn lines_come_now_and_then_and_a_short_command_has_none() {
        let lines = Lines::default();
        let at = |now: f64, text: &str| {
            lines.write_str(text).unwrap();
            lines.due(now)
        };
        assert_eq!(at(0.1, "1 of 9"), None);
        assert_eq!(at(1.9, "2 of 9"), None);
        assert_eq!(at(2.1, "3 of 9   ").as_deref(), Some("3 of 9"));
        assert_eq!(at(6.0, "4 of 9"), None);
        assert_eq!(at(7.2, "5 of 9").as_deref(), Some("5 of 9"), "not what was due before");
        assert_eq!(at(99.0, " "), None);
    }

    /// The time left after samples of what was done of a hundred, each half a second after the one before.
    fn left(done: impl Iterator<Item = u64>) -> Option<f64> {
        let mut left = Left::default();
        (1..).zip(done).for_each(|(at, done)| left.sample(f64::from(at) * SAMPLE, done, Some(100)));
        left.seconds()
    }

    #[test]
    fn the_time_left_is_shown_while_the_pace_is_steady() {
        assert_eq!(left(1..=5), None, "nothing is known yet");
        assert_eq!(left(1..=40).map(f64::round), Some(30.0));
        assert_eq!(left((1..=20).chain((22..=80).step_by(8))), None, "it has become faster");
        assert_eq!(left((1..=40).map(|_| 50)), None, "it stands still");
        assert_eq!(left(1..=100), None, "all is done");
        assert_eq!(left((1..=40).chain(1..=4)), None, "it began anew");
        assert_eq!([words(12.4), words(600.0), words(9000.0)], ["12 s", "10 min", "2.5 h"]);
    }
}
