//! The values of options that are names in a registry, with their explanations, for the help of the
//! command line.

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error, error::ErrorKind};
use twin_rt::{Order, order};
use twin_settings::{Choice, Registry, RegistryEntry};

/// A policy of a registry, or the path of a module that holds one. The help shows the names of the registry.
pub(crate) struct Policies<M: 'static>(&'static Registry<M>);

impl<M> Clone for Policies<M> {
    fn clone(&self) -> Self {
        Policies(self.0)
    }
}

impl<M: Send + Sync> TypedValueParser for Policies<M> {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        let name = StringValueParser::new().parse_ref(command, arg, value)?;
        match self.0.reach(&name) {
            Ok(entry) => Ok(entry.name.into()),
            Err(error) => {
                let option = arg.map(ToString::to_string).unwrap_or_default();
                let words = format!("invalid value '{name}' for '{option}': {error}\n");
                Err(Error::raw(ErrorKind::InvalidValue, words).with_cmd(command))
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value =
            |entry: &'static RegistryEntry<M>| PossibleValue::new(entry.name).help(entry.about);
        Some(Box::new(self.0.iter().map(value)))
    }
}

/// The placement policies, from their registry.
pub(crate) fn placements() -> Policies<twin_clean::placement::PlacementSpec> {
    Policies(&twin_clean::placement::REGISTRY)
}

/// The victim policies of bare volumes, from their registry.
pub(crate) fn volume_victims() -> Policies<twin_clean::victim::VictimSpec> {
    Policies(&twin_clean::victim::REGISTRY)
}

/// A replacement policy for a cache.
pub(crate) fn replacement(name: &str) -> Result<&'static str, String> {
    policies(name)?;
    let entry = twin_cache::replacement::for_cache(name).map_err(|error| error.to_string())?;
    Ok(entry.name)
}

/// A replacement policy for a study, which may know the future.
pub(crate) fn policies(name: &str) -> Result<&'static str, String> {
    let entry = twin_cache::replacement::REGISTRY.reach(name).map_err(|error| error.to_string())?;
    Ok(entry.name)
}

/// A disk model.
pub(crate) fn disks(name: &str) -> Result<&'static str, String> {
    let entry = twin_sim::model::REGISTRY.get(name).map_err(|error| error.to_string())?;
    Ok(entry.name)
}

/// The help of `--replacement`, with all policies.
pub(crate) fn replacement_help() -> String {
    let all = twin_cache::replacement::REGISTRY.iter().filter(|entry| !entry.needs_future());
    let all = all.map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    format!(
        "Which clean block leaves the cache when it is full: {all}. docs/caching.md explains them"
    )
}

/// Names with a line each for the help.
pub(crate) fn choices(
    all: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> PossibleValuesParser {
    let value = |(name, about)| PossibleValue::new(name).help(about);
    all.into_iter().map(value).collect::<Vec<_>>().into()
}

/// The foreign formats of traces, from their registry.
pub(crate) fn foreign_formats() -> PossibleValuesParser {
    choices(twin_trace::readers::REGISTRY.abouts())
}

/// The formats of block traces, from their registry.
pub(crate) fn block_formats() -> PossibleValuesParser {
    choices(twin_trace::block::REGISTRY.abouts())
}

/// What a comparison judges by, from its registry.
pub(crate) fn measures() -> PossibleValuesParser {
    choices(twin_verdict::MEASURES.abouts())
}

/// The queue of a mount's device.
pub(crate) fn disk_queue(text: &str) -> Result<twin_host::QueueChoice, String> {
    twin_host::QueueChoice::parse(text).map_err(|error| error.to_string())
}

/// The help of --queue, with all queues.
pub(crate) fn disk_queue_help() -> String {
    format!(
        "The order of requests that wait for the device: {}. With auto a disk that rotates, as the \
         kernel says, has a queue that sorts, and any other device none. As NAME:depth=N the device \
         gets N requests at once, not as many as the kernel says it takes",
        twin_host::QueueChoice::names().join(", ")
    )
}

/// The order of a mount's tasks.
pub(crate) fn task_order(text: &str) -> Result<Choice<Order>, String> {
    Choice::named(&order::REGISTRY, text).map_err(|error| error.to_string())
}

/// The order of a mount's tasks, unless another is chosen.
pub(crate) fn task_order_default() -> &'static str {
    order::REGISTRY.default_entry().name
}

/// The help of --order, with all orders.
pub(crate) fn task_order_help() -> String {
    let orders = order::REGISTRY.abouts().into_iter();
    let orders: Vec<String> = orders.map(|(name, about)| format!("{name} ({about})")).collect();
    format!("The order of the daemon's tasks that could run (docs/media.md): {}", orders.join("; "))
}
