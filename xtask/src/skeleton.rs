//! `cargo xtask skeleton NAME`: a file system with holes, for whoever wants to build one.
//!
//! Contract: a new crate `crates/NAME` is the very simple file system without the bodies of [`HOLES`]. It builds, its
//! tests are those of vsfs, and each of them fails until the holes are filled that it needs. What is here is taken from
//! vsfs at the moment of the call, so it cannot become old. Nothing that exists is written over.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rust::Rust;

/// A function that is left out.
struct Hole {
    file: &'static str,
    function: &'static str,
    milestone: u32,
    hint: &'static str,
}

const fn hole(
    milestone: u32,
    file: &'static str,
    function: &'static str,
    hint: &'static str,
) -> Hole {
    Hole { file, function, milestone, hint }
}

/// What is left out, by milestone.
const HOLES: &[Hole] = &[
    hole(
        1,
        "format.rs",
        "inode_place",
        "the block of the table that an inode is in, and the byte in that block",
    ),
    hole(
        2,
        "bitmap.rs",
        "set",
        "change the bit, note its block as dirty, keep the count and the lowest free number",
    ),
    hole(
        2,
        "bitmap.rs",
        "take",
        "the first free number from near on, or else the first of all; it is used from now on",
    ),
    hole(
        3,
        "space.rs",
        "reserve",
        "all of the bytes or NoSpace; nothing becomes dirty that was not reserved",
    ),
    hole(3, "space.rs", "release", "give back; more than was in use is a sign of damage"),
    hole(
        3,
        "layout.rs",
        "place",
        "a block that has a place keeps it; a new one gets one near the block before it",
    ),
    hole(
        3,
        "layout.rs",
        "free_block",
        "give back the space and the block; a block that was free already is damage",
    ),
    hole(
        4,
        "inodes.rs",
        "pick",
        "a free number, its block of the table in memory, and the next generation",
    ),
    hole(4, "inodes.rs", "free", "write a free inode that keeps its generation, and clear the bit"),
    hole(
        4,
        "write_back.rs",
        "send",
        "neighbours in one request; wait for all; a failure stops the volume",
    ),
    hole(
        4,
        "layout.rs",
        "sync_all",
        "write all that is dirty, then flush the device: only then is it durable",
    ),
    hole(
        4,
        "layout.rs",
        "close",
        "write until nothing is dirty; the state in the superblock comes last",
    ),
    hole(
        5,
        "check.rs",
        "compare_bitmaps",
        "make the bitmaps anew from inodes and pointers, and compare",
    ),
];

/// Writes the skeleton and returns what to do with it.
///
/// # Errors
/// If the name does not fit, the crate exists, or vsfs has changed so that a hole is not found.
pub(crate) fn write(root: &Path, name: &str) -> Result<String, String> {
    let fits =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    if !name.starts_with(|first: char| first.is_ascii_lowercase())
        || !name.chars().all(fits)
        || name == "vsfs"
    {
        return Err(format!(
            "{name:?}: take lower-case letters, digits and _, with a letter first"
        ));
    }
    let (from, to) = (root.join("crates/vsfs"), root.join("crates").join(name));
    if to.exists() {
        return Err(format!("{}: exists already", to.display()));
    }
    let mut files = vec![PathBuf::from("Cargo.toml")];
    for folder in ["src", "tests"] {
        let listed = fs::read_dir(from.join(folder)).map_err(|why| format!("{folder}: {why}"))?;
        files.extend(
            listed.filter_map(|entry| Some(Path::new(folder).join(entry.ok()?.file_name()))),
        );
    }
    for file in files {
        let path = from.join(&file);
        let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let text = renamed(&with_holes(&file, &text)?, name);
        let path = to.join(&file);
        let above = path.parent().unwrap_or(&to);
        let written = fs::create_dir_all(above).and_then(|()| fs::write(&path, text));
        written.map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(format!(
        "crates/{name} is a file system with {} holes in five milestones. `grep -rn unimplemented crates/{name}/src` lists \
         them, `cargo test -p {name}` says what is missing; docs/recipes/build-your-own.md has the plan",
        HOLES.len()
    ))
}

/// The text of a file of vsfs without the bodies of its holes.
fn with_holes(file: &Path, text: &str) -> Result<String, String> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let holes = HOLES.iter().filter(|hole| file.starts_with("src") && hole.file == name);
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let functions = Rust::parse(text)?.functions();
    // From the last to the first, so that the numbers of lines above stay right.
    let mut places = Vec::new();
    for hole in holes {
        let found = functions.iter().find(|function| function.name == hole.function);
        let found = found.ok_or_else(|| format!("{name} has no function {}", hole.function))?;
        places.push((found.line, found.lines, hole));
    }
    places.sort_by_key(|(line, ..)| std::cmp::Reverse(*line));
    for (line, count, hole) in places {
        let (first, last) = (line - 1, line - 1 + count - 1);
        let open = (first..last).find(|at| lines[*at].ends_with('{'));
        let open =
            open.ok_or_else(|| format!("{name}: {} has no body of its own", hole.function))?;
        let indent = lines[last].len() - lines[last].trim_start().len() + 4;
        let body = format!(
            "{:indent$}unimplemented!(\"milestone {}: {}\")",
            "", hole.milestone, hole.hint
        );
        lines.splice(open + 1..last, [body]);
    }
    Ok(lines.join("\n") + "\n")
}

/// The same text for a crate of another name.
fn renamed(text: &str, name: &str) -> String {
    text.replace("name = \"vsfs\"", &format!("name = \"{name}\""))
        .replace("use vsfs::", &format!("use {name}::"))
        .replace("vsfs::VSFS", &format!("{name}::VSFS"))
        .replace("publish = true", "publish = false")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn every_hole_is_found_in_vsfs_and_leaves_source_that_parses() {
        let mut count = 0;
        let mut files: Vec<&str> = HOLES.iter().map(|hole| hole.file).collect();
        files.dedup();
        files.sort_unstable();
        files.dedup();
        for file in files {
            let path = Path::new("src").join(file);
            let text = fs::read_to_string(tree::root().join("crates/vsfs").join(&path)).unwrap();
            let left = with_holes(&path, &text).unwrap();
            count += left.matches("unimplemented!(\"milestone").count();
            assert!(Rust::parse(&left).is_ok() && left.len() < text.len(), "{file}");
        }
        assert_eq!(count, HOLES.len());
    }
}
