//! The volumes on which the simulations of a command begin: old ones, full ones, or that of an image.
//!
//! Contract: an image is read and never written; a simulation changes a copy in memory.

use std::cell::RefCell;
use std::path::Path;

use serde_json::Value;
use twin_age::snapshot;
use twin_ageing::began::Began;
use twin_ageing::old_volumes::{AgedSpec, Beginning, OldVolumes};
use twin_cli::progress::Progress;
use twin_cli::{Failure, usage};
use twin_fs::LayoutKind;
use twin_lab::{Config, Run};
use twin_mount::image::layout_of;
use twin_mount::image_volume::{platter_of, run_on_image};
use twin_mount::kept_volumes::{Kept, Notes};
use twin_mount::source_map::snapshot_bytes;
use twin_sim::Platter;
use twin_verdict::{Judgement, Seeded};

use crate::cli;

/// Where simulations begin.
pub(super) struct Start {
    what: What,
    /// Volumes of earlier commands are used, and those that are made are kept.
    keeps: bool,
    /// The layout score of the volume of each configuration, by its name.
    scores: RefCell<Vec<(String, Option<f64>)>>,
}

enum What {
    Made(Beginning),
    Image { name: String, kind: &'static dyn LayoutKind, platter: Platter },
}

impl Start {
    /// What the command line asks for; `None` for new volumes.
    ///
    /// # Errors
    /// If it cannot be had.
    pub(super) fn of(args: &cli::Start) -> Result<Option<Start>, Failure> {
        let what = match (&args.aged, &args.fill, &args.from) {
            (Some(text), ..) => {
                let spec = AgedSpec::parse(text).map_err(|e| usage(format!("--aged: {e}")))?;
                What::Made(Beginning::Aged(spec))
            }
            (None, Some(full), _) => {
                let spec = AgedSpec::filled(full).map_err(|e| usage(format!("--fill: {e}")))?;
                What::Made(Beginning::Aged(spec))
            }
            (None, None, Some(path)) => from(path, args.places)?,
            (None, None, None) => return Ok(None),
        };
        Ok(Some(Start { what, keeps: !args.no_kept_volumes, scores: RefCell::default() }))
    }

    /// True if new volumes are run beside.
    pub(super) fn has_fresh(&self) -> bool {
        matches!(self.what, What::Made(_))
    }

    /// The runs with their volumes; those that cannot have one go to `not_run`.
    ///
    /// # Errors
    /// If there is none left.
    pub(super) fn apply(
        &self,
        runs: Vec<Run>,
        not_run: &mut Vec<(String, String)>,
    ) -> Result<Vec<Run>, Failure> {
        let bar = Progress::waiting("volumes are made old");
        let notes = Notes::default();
        let kept = self.keeps.then(|| Kept::of_user(Notes::clone(&notes))).flatten();
        let mut old = match kept {
            Some(kept) => OldVolumes::kept_in(Box::new(kept)),
            None => OldVolumes::default(),
        };
        let mut started = Vec::new();
        for run in runs {
            let Run { config, .. } = &run;
            let made = match &self.what {
                What::Made(beginning) => {
                    old.start(config, beginning).map_err(|error| error.to_string())
                }
                What::Image { name, kind, platter } => run_on_image(config, name, *kind, platter),
            };
            match made {
                Ok((Run { config, start, .. }, score)) => {
                    self.scores.borrow_mut().push((config.name.clone(), score));
                    started.push(Run { config, start, ..run });
                }
                Err(why) => not_run.push((run.config.name, why)),
            }
        }
        bar.finish();
        notes.borrow().iter().for_each(|note| twin_host::note!("twinfs: {note}"));
        Ok(started)
    }

    /// The runs with their volumes, in their order.
    ///
    /// # Errors
    /// If one of them cannot have one.
    pub(super) fn apply_all(&self, runs: Vec<Run>) -> Result<Vec<Run>, Failure> {
        let mut refused = Vec::new();
        let started = self.apply(runs, &mut refused)?;
        match refused.first() {
            Some((name, why)) => Err(format!("{name}: {why}").into()),
            None => Ok(started),
        }
    }

    /// The verdict on old volumes, with that on new ones where they differ.
    pub(super) fn verdict(
        &self,
        fresh: Option<&[(Config, Seeded)]>,
        old: &[(Config, Seeded)],
        of_old: Option<String>,
        how: &Judgement<'_>,
    ) -> Option<String> {
        Some(self.began().verdict(fresh, old, of_old, how))
    }

    /// Adds to the objects of old volumes what they began on, and those of new ones.
    ///
    /// # Errors
    /// None that figures can have.
    pub(super) fn add_to(
        &self,
        objects: &mut Vec<Value>,
        fresh: &[(Config, Seeded)],
    ) -> Result<(), String> {
        self.began().add_to(objects, fresh)
    }

    fn began(&self) -> Began {
        let words = match &self.what {
            What::Made(beginning) => beginning.to_string(),
            What::Image { name, .. } => format!("the volume in {name}"),
        };
        Began { words, scores: self.scores.borrow().clone() }
    }
}

/// What a file holds: a snapshot's files, or the volume in an image.
fn from(path: &Path, places: Option<cli::Places>) -> Result<What, Failure> {
    let name = path.display().to_string();
    if !path.is_dir()
        && let Some(bytes) = snapshot_bytes(path)?
    {
        let map = snapshot::decode(&bytes).map_err(|why| format!("{name}: {why}"))?;
        return Ok(What::Made(match places {
            Some(places) => Beginning::Copy(name, map, places.of_copy()),
            None => Beginning::Files(name, map),
        }));
    }
    if places.is_some() {
        return Err(usage(format!("--places: {name} is no snapshot")));
    }
    let kind = layout_of(path)?;
    let platter = platter_of(path).map_err(|why| format!("{name}: {why}"))?;
    Ok(What::Image { name, kind, platter })
}
