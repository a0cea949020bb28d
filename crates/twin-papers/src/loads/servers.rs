//! The file servers of Heuristic Cleaning: the totals of table 2, and what the sessions were fitted to.

use std::sync::Arc;

use twin_trace::nfs::{Kind as Request, SERVERS, Stream, Totals};

use super::{Figure, Load, Purpose};
use crate::check::{Check, Expect, Kind};
use crate::claims::claims;
use crate::progress::Progress;
use crate::reproduce::reproduce;
use crate::results::Results;
use crate::variation::Variation;

/// The claim whose checks say what was fitted.
const CLAIM: &str = "heuristic-cleaning";

pub(super) const LOAD: Load = Load {
    name: "file-server",
    about: "Attic, Cellar and Maytag, for the traces of Heuristic Cleaning",
    numbers: 9,
    figures,
    fitted: None,
};

/// Table 2 from the streams, and the results of the model that the sessions drive.
fn figures(threads: usize, progress: &Progress) -> Result<Vec<Figure>, String> {
    let mut all: Vec<Figure> = SERVERS.iter().flat_map(of_stream).collect();
    let claim = claims().iter().find(|claim| claim.id == CLAIM).ok_or("no such claim")?;
    let quiet = |_: &_, _: &_| {};
    let base = (false, &Results::empty());
    let (judged, _) =
        reproduce(&[claim], base, &Variation::NONE, threads, (&Arc::clone(progress), &quiet))
            .map_err(|error| error.to_string())?;
    all.extend(judged.iter().flat_map(|judged| &judged.checks).filter_map(of_check));
    Ok(all)
}

/// Figures of table 2, which the stream meets by counting down. Volumes are among the checks.
fn of_stream(totals: &Totals) -> Vec<Figure> {
    let (mut reads, mut writes, mut changes, mut last) = (0u64, 0u64, 0u64, 0);
    for request in Stream::new(totals, 1) {
        last = request.at;
        match request.kind {
            Request::Read(..) => reads += 1,
            Request::Write(..) => writes += 1,
            Request::Create { .. } | Request::Remove { .. } | Request::Rename(_) => changes += 1,
            _ => {}
        }
    }
    let count = |what: &str, published: u64, generated: u64| {
        let published = published as f64;
        figure(totals, what, published, generated as f64)
    };
    vec![
        count("requests that read data", totals.data_reads, reads),
        count("requests that write data", totals.data_writes, writes),
        count("changes of directories", totals.directory_changes, changes),
        count("seconds of the trace", totals.seconds, last / 1_000_000_000),
    ]
}

fn figure(totals: &Totals, what: &str, published: f64, generated: f64) -> Figure {
    Figure {
        what: format!("{}-like: {what}", totals.name),
        unit: "",
        published: twin_report::units::figure(published),
        range: (published * 0.85, published * 1.15),
        source: "HC, table 2".into(),
        generated,
        purpose: Purpose::Given,
    }
}

/// A check of the paper as a figure: what is fitted, or follows from what is, was given.
fn of_check(check: &Check) -> Option<Figure> {
    let purpose = match check.kind {
        Kind::Fitted | Kind::Forced => Purpose::Given,
        Kind::Paper | Kind::Order => Purpose::HeldOut,
        Kind::Own => return None,
    };
    let range = match check.paper {
        Expect::Figure(paper) => (paper * 0.85, paper * 1.15),
        Expect::Ratio(paper) => (paper * 0.8, paper * 1.2),
        Expect::Within(paper, distance) => (paper - distance, paper + distance),
        Expect::Between(low, high) => (low * 0.85, high * 1.15),
        Expect::AtLeast(low) => (low, f64::INFINITY),
        Expect::AtMost(high) => (f64::NEG_INFINITY, high),
    };
    Some(Figure {
        what: check.what.clone(),
        unit: "",
        published: check.paper.to_string(),
        range,
        source: "HC, section 5".into(),
        generated: check.ours,
        purpose,
    })
}
