//! What the tests against measurements share: where the traces are, and how far a model is off.

use std::fs::File;
use std::path::PathBuf;

use twin_rt::Nanos;
use twin_sim::demerit;

/// A file of `../shared/traces` beside the repository, or of the directory that TWINFS_SHARED
/// names; `None`, with a reason printed, if it is not there.
pub(crate) fn shared(path: &str) -> Option<File> {
    let root = std::env::var_os("TWINFS_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = root.join("traces").join(path);
    match File::open(&path) {
        Ok(file) => Some(file),
        Err(error) => {
            println!("skipped: {}: {error}", path.display());
            None
        }
    }
}

/// Measured and modelled times of some requests.
#[derive(Default)]
pub(crate) struct Times(pub(crate) Vec<Nanos>, pub(crate) Vec<Nanos>);

impl Times {
    /// Prints the figures; returns the demerit and the share of requests that are modelled within a
    /// millisecond, one for one.
    pub(crate) fn judge(&self, what: &str) -> (f64, f64) {
        let mean = |times: &[Nanos]| times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e6;
        let close = self.0.iter().zip(&self.1).filter(|(a, b)| a.abs_diff(**b) <= 1_000_000);
        let close = close.count() as f64 / self.0.len() as f64;
        let demerit = demerit(&self.0, &self.1).unwrap();
        println!(
            "{what}: {} requests, measured {:.2} ms, modelled {:.2} ms, demerit {:.2}%, {:.0}% of \
             them within 1 ms",
            self.0.len(),
            mean(&self.0),
            mean(&self.1),
            demerit * 100.0,
            close * 100.0,
        );
        (demerit, close)
    }
}
