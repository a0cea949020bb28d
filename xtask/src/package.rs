//! `cargo xtask package`: what is installed where nothing is built, below `target/package`.
//!
//! Contract: the package for Debian has what `cargo build --release` makes and the folder `packaging` describes, nothing
//! else; which library it needs is read from the program. dpkg-deb packs it, tar the static programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{cargo, target_dir};

/// The programs, as packages of cargo, with the names of their programs.
const PROGRAMS: &[(&str, &str)] = &[("twinfs", "twinfs"), ("twin-papers", "twinfs-reproduce")];
/// The target of programs that need no library.
const STATIC: &str = "x86_64-unknown-linux-musl";
/// Files that are installed as they are: where from, where to, with which mode.
const FILES: &[(&str, &str, u32)] = &[
    ("packaging/systemd/twinfs@.service", "usr/lib/systemd/system", 0o644),
    ("packaging/systemd/twinfs-serve@.service", "usr/lib/systemd/system", 0o644),
    ("packaging/grafana.json", "usr/share/twinfs", 0o644),
    ("packaging/debian/copyright", "usr/share/doc/twinfs", 0o644),
    ("LICENSE-APACHE", "usr/share/doc/twinfs", 0o644),
    ("LICENSE-MIT", "usr/share/doc/twinfs", 0o644),
    ("README.md", "usr/share/doc/twinfs", 0o644),
    ("CHANGELOG.md", "usr/share/doc/twinfs", 0o644),
    ("packaging/debian/prerm", "DEBIAN", 0o755),
    ("packaging/debian/postinst", "DEBIAN", 0o755),
    ("packaging/debian/postrm", "DEBIAN", 0o755),
];
/// Completions: the shell, and the file.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/twinfs"),
    ("zsh", "usr/share/zsh/vendor-completions/_twinfs"),
    ("fish", "usr/share/fish/vendor_completions.d/twinfs.fish"),
];

/// Builds the package for Debian from the release build, and returns its path.
///
/// # Errors
/// If something does not build, or dpkg-deb is missing.
pub(crate) fn debian(root: &Path) -> Result<PathBuf, String> {
    build(root, None)?;
    let release = target_dir(root).join("release");
    let stage = root.join("target/package/stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(|why| format!("{}: {why}", stage.display()))?;
    }
    for (_, program) in PROGRAMS {
        install(&release.join(program), &stage.join("usr/bin"), 0o755)?;
    }
    for (file, dir, mode) in FILES {
        install(&root.join(file), &stage.join(dir), *mode)?;
    }
    let helper = stage.join("usr/sbin/mount.fuse.twinfs");
    make_parent(&helper)?;
    symlink("../bin/twinfs", &helper).map_err(|why| format!("{}: {why}", helper.display()))?;
    let program = release.join("twinfs");
    let manual = stage.join("usr/share/man/man1");
    fs::create_dir_all(&manual).map_err(|why| format!("{}: {why}", manual.display()))?;
    output(Command::new(&program).arg("man").arg(&manual))?;
    let pages = fs::read_dir(&manual).map_err(|why| format!("{}: {why}", manual.display()))?;
    let pages: Vec<PathBuf> = pages.flatten().map(|page| page.path()).collect();
    // The same bytes whenever it is packed.
    output(Command::new("gzip").args(["-9", "-n"]).args(&pages))?;
    for (shell, file) in COMPLETIONS {
        let script = output(Command::new(&program).args(["completions", shell]))?;
        write(&stage.join(file), &script)?;
    }
    let (version, architecture) = (version(root)?, architecture()?);
    write(&stage.join("DEBIAN/control"), &control(&version, &architecture, &program, &stage)?)?;
    let package = root.join(format!("target/package/twinfs_{version}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    output(pack.args(["--root-owner-group", "--build"]).arg(&stage).arg(&package))?;
    Ok(package)
}

/// Builds the programs without any library, and packs them.
///
/// # Errors
/// If the target is missing, or something does not build.
pub(crate) fn without_libraries(root: &Path) -> Result<PathBuf, String> {
    if output(Command::new("musl-gcc").arg("--version")).is_err() {
        return Err("musl-gcc is missing: apt-get install musl-tools".into());
    }
    let _ = Command::new("rustup").args(["target", "add", STATIC]).status();
    build(root, Some(STATIC))?;
    let (version, architecture) = (version(root)?, architecture()?);
    let package = format!("target/package/twinfs-static-{version}-{architecture}.tar.gz");
    let package = root.join(package);
    make_parent(&package)?;
    let release = target_dir(root).join(STATIC).join("release");
    let mut pack = Command::new("tar");
    pack.args(["--owner=0", "--group=0", "-czf"]).arg(&package).arg("-C").arg(release);
    output(pack.args(PROGRAMS.iter().map(|(_, program)| program)))?;
    Ok(package)
}

fn build(root: &Path, target: Option<&str>) -> Result<(), String> {
    let mut command = cargo(root, &["build", "--release", "--locked", "--bins"]);
    PROGRAMS.iter().for_each(|(package, _)| {
        command.args(["-p", package]);
    });
    if let Some(target) = target {
        command.args(["--target", target]);
    }
    let status = command.status().map_err(|why| format!("cargo: {why}"))?;
    if status.success() { Ok(()) } else { Err("the programs do not build".into()) }
}

fn control(
    version: &str,
    architecture: &str,
    program: &Path,
    stage: &Path,
) -> Result<String, String> {
    let libc = newest_libc(&output(Command::new("objdump").arg("-T").arg(program))?);
    let size = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(stage))?;
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    Ok(format!(
        "Package: twinfs\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: the twinfs authors <twinfs@localhost>\n\
         Installed-Size: {size}\nDepends: libc6 (>= {libc}), libgcc-s1\nRecommends: fuse3\nSection: admin\nPriority: optional\n\
         Description: file system with a twin: mount it, or simulate it\n \
         Log-structured, FFS and simple layouts, mounted through FUSE or served over NFS,\n \
         and simulated by the same code: what would this workload do on that design and\n \
         that disk? With a laboratory for power failures.\n"
    ))
}

/// The newest version of the C library whose symbols a program uses, from the words of objdump.
fn newest_libc(symbols: &str) -> String {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let parts: Vec<u32> =
            rest[..end].split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        Some(parts)
    });
    let newest = versions.max().unwrap_or_default();
    newest.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

fn version(root: &Path) -> Result<String, String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"));
    let manifest = manifest.map_err(|why| format!("Cargo.toml: {why}"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    line.and_then(|rest| rest.strip_suffix('"'))
        .map(String::from)
        .ok_or("no version in Cargo.toml".into())
}

fn architecture() -> Result<String, String> {
    output(Command::new("dpkg").arg("--print-architecture")).map(|word| word.trim().to_owned())
}

/// Copies a file into a directory.
fn install(file: &Path, dir: &Path, mode: u32) -> Result<(), String> {
    let to = dir.join(file.file_name().unwrap_or_default());
    make_parent(&to)?;
    let text = |why: std::io::Error| format!("{}: {why}", file.display());
    fs::copy(file, &to).map_err(text)?;
    fs::set_permissions(&to, fs::Permissions::from_mode(mode)).map_err(text)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    make_parent(path)?;
    fs::write(path, text).map_err(|why| format!("{}: {why}", path.display()))
}

fn make_parent(path: &Path) -> Result<(), String> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|why| format!("{}: {why}", parent.display()))
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|why| format!("{name}: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts_by_its_numbers() {
        let symbols =
            "0 DF *UND* (GLIBC_2.9) pipe2\n0 DF *UND* (GLIBC_2.34) main\n(GLIBC_2.2.5) read";
        assert_eq!(newest_libc(symbols), "2.34");
        assert_eq!(newest_libc("nothing"), "");
    }

    #[test]
    fn each_file_of_the_package_is_there_and_its_dashboard_is_json() {
        let root = crate::tree::root();
        for (file, _, _) in FILES {
            assert!(root.join(file).is_file(), "{file}");
        }
        let board = fs::read_to_string(root.join("packaging/grafana.json")).unwrap();
        assert_eq!(board.matches('{').count(), board.matches('}').count());
        let known = fs::read_to_string(root.join("crates/twin-show/src/prometheus.rs")).unwrap();
        for name in board.split("twinfs_").skip(1) {
            let name: String =
                name.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            assert!(
                known.contains(&format!("\"{name}\"")) || known.contains(&format!("twinfs_{name}")),
                "{name}"
            );
        }
    }
}
