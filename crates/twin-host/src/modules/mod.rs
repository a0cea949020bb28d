//! Modules: policies in shared libraries, loaded by their path where a name of a policy is expected.
//!
//! Contract: what a module says of itself is checked before anything of it is called, and what its policy answers is
//! checked each time: nothing that it answers makes the program do what is undefined. (What its code does by itself is
//! its own affair: it is native code with all rights of the program.) A policy that panics or answers nonsense is called
//! no more: a plain one goes on in its place, on a mount and in a simulation alike, and the fault is
//! [reported](outside::report_fault), with which a command ends.
//!
//! A library is loaded from a copy in memory. What was read is what runs and what its digest is of, and a file that is
//! built anew changes nothing under a mount. It is never unloaded, as its functions may be in use anywhere.
//!
//! [`load_policies`] has paths loaded from then on; [`library`] opens a file; the other files make a policy of each
//! kind from the hooks of a module.

mod cleaning;
mod fault;
mod flush;
mod library;
mod placement;
mod queue;
mod replacement;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use twin_clean::trigger::TriggerSpec;
use twin_clean::victim::VictimSpec;
use twin_policy::twinfs::kind;
use twin_settings::outside::{self, Loaded};
use twin_settings::{Registry, SettingsError};

pub(crate) use fault::say_to;
use library::Library;

/// The modules of the process, by the path as it was given.
static MODULES: Mutex<Vec<(String, Loaded)>> = Mutex::new(Vec::new());

/// Has the path of a module stand for the policy in it, wherever the name of a policy is expected.
pub fn load_policies() {
    outside::load_paths_by(load);
}

fn load(path: &str) -> Result<Loaded, SettingsError> {
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = modules.iter().find(|(known, _)| known == path) {
        return Ok(known.clone());
    }
    let (library, digest) = Library::open(path).map_err(SettingsError::new)?;
    let loaded = Loaded { kind: add(path, library)?, digest };
    modules.push((path.into(), loaded.clone()));
    Ok(loaded)
}

/// Adds the policy of a module to the registry of its kind; returns how the registry calls it.
fn add(path: &str, library: &'static Library) -> Result<&'static str, SettingsError> {
    fn put<M>(
        registry: &'static Registry<M>,
        library: &Library,
        maker: M,
    ) -> Result<&'static str, SettingsError> {
        let about = format!("{} (module {}): {}", library.name, library.path, library.about);
        registry.add(&library.path, &about, maker)?;
        Ok(registry.what())
    }
    use twin_clean::{placement as of_placement, trigger as of_trigger, victim as of_victim};
    let source = format!("module {path}");
    match library.kind {
        kind::REPLACEMENT => {
            let make = replacement::maker(library);
            put(&twin_cache::replacement::REGISTRY, library, twin_cache::Policy::from_outside(make))
        }
        kind::FLUSH => {
            let spec = flush::spec(library).map_err(SettingsError::new)?;
            put(&twin_cache::flush::REGISTRY, library, spec)
        }
        kind::VICTIM => {
            let spec = VictimSpec::from_outside(&source, cleaning::victims(library));
            put(&of_victim::REGISTRY, library, spec)
        }
        kind::PLACEMENT => {
            let spec = placement::spec(library).map_err(SettingsError::new)?;
            put(&of_placement::REGISTRY, library, spec)
        }
        kind::TRIGGER => {
            let spec = TriggerSpec::from_outside(&source, cleaning::triggers(library));
            put(&of_trigger::REGISTRY, library, spec)
        }
        kind::QUEUE => {
            let maker: twin_disk::queue::Maker = Box::leak(Box::new(queue::maker(library)));
            put(&twin_disk::queue::REGISTRY, library, maker)
        }
        other => Err(SettingsError::new(format!(
            "{path}: a policy of kind {other}, which this twinfs does not know"
        ))),
    }
}
