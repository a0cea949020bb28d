//! The values of options that are names in a registry, with their explanations, for the help of the
//! command line.

/// The placement policies, from their registry.
pub(crate) fn placements() -> clap::builder::PossibleValuesParser {
    let values = twin_clean::placement::REGISTRY.iter();
    clap::builder::PossibleValuesParser::new(
        values.map(|e| clap::builder::PossibleValue::new(e.name).help(e.about)),
    )
}

/// The victim policies of bare volumes, from their registry.
pub(crate) fn volume_victims() -> clap::builder::PossibleValuesParser {
    let values = twin_clean::victim::REGISTRY.iter();
    clap::builder::PossibleValuesParser::new(
        values.map(|e| clap::builder::PossibleValue::new(e.name).help(e.about)),
    )
}

/// The foreign formats of traces, from their registry.
pub(crate) fn foreign_formats() -> clap::builder::PossibleValuesParser {
    let values = twin_trace::readers::REGISTRY.iter();
    clap::builder::PossibleValuesParser::new(
        values.map(|e| clap::builder::PossibleValue::new(e.name).help(e.about)),
    )
}

/// The formats of block traces, from their registry.
pub(crate) fn block_formats() -> clap::builder::PossibleValuesParser {
    let values = twin_trace::block::REGISTRY.iter();
    clap::builder::PossibleValuesParser::new(
        values.map(|e| clap::builder::PossibleValue::new(e.name).help(e.about)),
    )
}

/// What a comparison judges by, from its registry.
pub(crate) fn measures() -> clap::builder::PossibleValuesParser {
    let values = twin_lab::MEASURES.iter();
    clap::builder::PossibleValuesParser::new(
        values.map(|e| clap::builder::PossibleValue::new(e.name).help(e.about)),
    )
}
