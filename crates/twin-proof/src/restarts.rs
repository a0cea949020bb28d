//! The walk over the power failures of a recorded run: every point, and at it the outcomes of the writes
//! that are in doubt.
//!
//! Contract: a campaign says what was promised at a point and judges what a restart finds; which points
//! and outcomes it meets, and in what order random numbers are drawn for them, is decided here. Contents
//! that the campaign knows already are not opened again, and after the most failures of its depth the walk
//! ends.

use twin_rt::Rng;
use twin_sim::Platter;
use twin_sim::faults::WriteLog;

use super::contents::Contents;
use super::crash::{describe, outcomes};
use super::{Depth, Explored};

/// A campaign of restarts after power failures.
pub(super) trait Restarts {
    /// What the volume had promised at a point.
    type Promise: Copy;

    /// How much is looked at, the figures, and the random numbers.
    fn parts(&mut self) -> (&Depth, &mut Explored, &mut Rng);

    /// What was promised when this was the latest mark of the log, 0 if there was none.
    fn promised(&self, mark: u64) -> Self::Promise;

    /// Whether this content was met before; if so, it is compared with what is promised now.
    ///
    /// # Errors
    /// If less was found in it than is promised now.
    fn is_known(&mut self, key: u64, promised: Self::Promise) -> Result<bool, String>;

    /// Opens what a power failure left, counts it as one, and judges it.
    ///
    /// # Errors
    /// If it breaks a promise.
    fn check(&mut self, platter: Platter, key: u64, promised: Self::Promise) -> Result<(), String>;

    /// Walks over the power failures of a log.
    ///
    /// # Errors
    /// The first that breaks a promise.
    fn explore(&mut self, log: &WriteLog) -> Result<(), String> {
        let mut contents = Contents::new(0);
        let share = self.parts().0.points as f64 / log.crash_points().count() as f64;
        for point in log.crash_points() {
            contents.advance(&point.state);
            let (depth, explored, rng) = self.parts();
            if !rng.chance(share) {
                continue;
            }
            explored.points += 1;
            let all = outcomes(&point, &depth.exploration, rng);
            let promised = self.promised(point.mark.unwrap_or(0));
            for outcomes in all {
                let key = contents.fingerprint(&point.state, &outcomes);
                self.parts().1.outcomes += 1;
                let broken = |what: String| describe(&point, &outcomes, &what);
                if self.is_known(key, promised).map_err(broken)? {
                    continue;
                }
                let (depth, explored, _) = self.parts();
                if explored.failures >= depth.most {
                    return Ok(());
                }
                self.check(point.state.with(&outcomes), key, promised).map_err(broken)?;
            }
        }
        Ok(())
    }
}
