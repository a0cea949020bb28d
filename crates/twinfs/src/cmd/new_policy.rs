//! `twinfs new-policy`: a crate for a policy of one's own.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use twin_cli::{Outcome, say, usage};
use twin_policy::{file_of, new_module};

use crate::cli::NewPolicy;

pub(crate) fn run(args: &NewPolicy) -> Outcome {
    let name = args.name.as_str();
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) || !name.chars().all(fits) {
        let rule = "letters, digits, - and _, with a letter first";
        return Err(usage(format!("{name:?} is no name of a crate: take {rule}")));
    }
    let files = new_module(name, &args.kind).ok_or_else(|| usage("there is no such kind"))?;
    let root = Path::new(name);
    fs::create_dir(root).map_err(|error| format!("{name}: {error}"))?;
    for (path, text) in files {
        let path = root.join(path);
        let above = path.parent().unwrap_or(root);
        let written = fs::create_dir_all(above).and_then(|()| fs::write(&path, text));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let file = file_of(name);
    say(format!(
        "{name}/src/lib.rs is a {} policy to begin with, and {name}/README.md says how to use it. \
         `cargo build --release` in {name} makes {file}",
        args.kind
    ))?;
    Ok(ExitCode::SUCCESS)
}
