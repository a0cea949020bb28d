//! `cargo xtask book` and `cargo xtask nightly book`: the book on one page, built and tried in a browser.
//!
//! Contract: the page is one file, `target/book/twinfs.html`, of at most [`MOST_BYTES`]: the program for WebAssembly
//! (compressed, as text), the style and the scripts of the folder `book`. Nothing else in the project needs it, and a
//! build of the workspace needs no target for WebAssembly. The standard library for that target is rustup's if it has
//! one; otherwise, on Debian, compilers and sources come as packages that are unpacked below `target/book`, and the
//! library is built with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::totals::Totals;

/// The most bytes of the page.
const MOST_BYTES: usize = 3 << 20;
const TARGET: &str = "wasm32-unknown-unknown";
/// The scripts, in the order in which they stand in the page.
const SCRIPTS: &[&str] =
    &["core.js", "words.js", "map.js", "disk.js", "panels.js", "crash.js", "lessons.js", "main.js"];
/// Debian's compiler for browsers, with the sources of its standard library.
const PACKAGES: &[&str] =
    &["libstd-rust-web-1.96", "libstd-rust-web-dev", "rustc-web", "rust-web-src", "libllvm22"];

/// Builds the page and returns its path.
///
/// # Errors
/// If there is no compiler for the target and none can be had, the build fails, or the page is too large.
pub(crate) fn page(root: &Path) -> Result<PathBuf, String> {
    let wasm = program(root)?;
    let size = fs::metadata(&wasm).map_err(|why| format!("{}: {why}", wasm.display()))?.len();
    let packed = compressed(&wasm)?;
    let text = base64(&packed);
    let read = |name: &str| {
        let path = root.join("book").join(name);
        fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
    };
    let style = read("style.css")?;
    let scripts: Vec<String> = SCRIPTS.iter().map(|name| read(name)).collect::<Result<_, _>>()?;
    let script = scripts.join("\n");
    let page = read("page.html")?
        .replace("/*STYLE*/", &style)
        .replace("/*SCRIPT*/", &script)
        .replace("/*WASM*/", &text);
    println!("program    {:>9} bytes, compressed {}, as text {}", size, packed.len(), text.len());
    println!("style      {:>9} bytes", style.len());
    println!("scripts    {:>9} bytes", script.len());
    println!("page       {:>9} bytes of at most {MOST_BYTES}", page.len());
    if page.len() > MOST_BYTES {
        return Err(format!("the page is too large: {} bytes", page.len()));
    }
    let path = root.join("target/book/twinfs.html");
    fs::write(&path, page).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(path)
}

/// Builds the page and runs it in a browser.
///
/// # Errors
/// If the page cannot be built.
pub(crate) fn night(root: &Path) -> Result<Totals, String> {
    let page = page(root)?;
    let mut test = Command::new("python3");
    test.arg(root.join("book/test.py")).arg(&page).arg(root.join("target/book")).current_dir(root);
    println!("book: {test:?}");
    let status = test.status().map_err(|why| format!("python3: {why}"))?;
    Ok(Totals::one(status.success()))
}

/// Compiles the program and returns its file.
fn program(root: &Path) -> Result<PathBuf, String> {
    let dir = root.join("target/book");
    fs::create_dir_all(&dir).map_err(|why| format!("{}: {why}", dir.display()))?;
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.args(["build", "--locked", "-p", "twin-wasm", "--profile", "book", "--target", TARGET]);
    cargo.current_dir(root).env("CARGO_TARGET_DIR", dir.join("build"));
    if !has_target(root) {
        let compiler = debian_compiler(&dir)?;
        let linker = rust_lld(root)?;
        cargo.args(["-Z", "build-std=std,panic_abort"]);
        // The compiler is no nightly one; this lets it take the options of building a standard library.
        cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", compiler);
        cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    }
    must(&mut cargo)?;
    Ok(dir.join("build").join(TARGET).join("book/twin_wasm.wasm"))
}

/// Whether the compiler of this folder has a standard library for the target.
fn has_target(root: &Path) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]).current_dir(root);
    let Ok(output) = rustc.output() else { return false };
    let dir = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let is_std = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("libstd");
    fs::read_dir(dir).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_std)))
}

/// Debian's compiler, unpacked but not installed: a script that starts it.
fn debian_compiler(dir: &Path) -> Result<PathBuf, String> {
    let (rust, packages) = (dir.join("rust"), dir.join("packages"));
    let script = dir.join("rustc");
    if rust.join("usr/bin/rustc").exists() && script.exists() {
        return Ok(script);
    }
    let else_ = "or get the target where there is rustup: rustup target add wasm32-unknown-unknown";
    fs::create_dir_all(&packages).map_err(|why| format!("{}: {why}", packages.display()))?;
    must(Command::new("apt-get").arg("download").args(PACKAGES).current_dir(&packages))
        .map_err(|why| format!("{why}: apt-get update first, {else_}"))?;
    let found = fs::read_dir(&packages).map_err(|why| why.to_string())?;
    for package in found.filter_map(|entry| Some(entry.ok()?.path())) {
        must(Command::new("dpkg").arg("-x").arg(&package).arg(&rust))?;
    }
    // The sources are where cargo looks for them, by a link that does not lead out of the folder.
    let sources = rust.join("usr/src");
    let version = fs::read_dir(&sources).map_err(|why| why.to_string())?;
    let version = version.filter_map(|entry| Some(entry.ok()?.file_name())).next();
    let version = version.ok_or("the package of the sources holds none")?;
    let link = rust.join("usr/lib/rustlib/src/rust");
    let _ = fs::remove_file(&link);
    let to = Path::new("../../../src").join(version);
    std::os::unix::fs::symlink(to, &link).map_err(|why| format!("{}: {why}", link.display()))?;
    let usr = rust.join("usr");
    let text = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH={0}/lib/x86_64-linux-gnu exec {0}/bin/rustc \"$@\"\n",
        usr.display()
    );
    fs::write(&script, text).map_err(|why| format!("{}: {why}", script.display()))?;
    must(Command::new("chmod").arg("+x").arg(&script))?;
    Ok(script)
}

/// The linker that comes with the compiler of this folder.
fn rust_lld(root: &Path) -> Result<PathBuf, String> {
    let mut rustc = Command::new("rustc");
    let output = rustc.args(["--print", "target-libdir"]).current_dir(root).output();
    let output = output.map_err(|why| format!("rustc: {why}"))?;
    let lib = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let lld = lib.parent().map(|dir| dir.join("bin/rust-lld")).filter(|path| path.exists());
    lld.ok_or_else(|| "the compiler has no rust-lld: install it through rustup".into())
}

fn compressed(path: &Path) -> Result<Vec<u8>, String> {
    let mut gzip = Command::new("gzip");
    let output = gzip.args(["-9", "-n", "-c"]).arg(path).output();
    let output = output.map_err(|why| format!("gzip: {why}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err("gzip failed".into()) }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize] as char;
            text.push(if place <= group.len() { letter } else { '=' });
        }
    }
    text
}

fn must(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|why| format!("{name}: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {command:?}")) }
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_become_the_text_that_browsers_decode() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!(
            [of(""), of("M"), of("Ma"), of("Man")],
            ["", "TQ==", "TWE=", "TWFu"].map(String::from)
        );
    }
}
