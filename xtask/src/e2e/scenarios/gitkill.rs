//! The daemon is killed during commits to several repositories: no repository has garbage in it,
//! and all commits before the last one are there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::bench::Bench;
use super::super::rng::Rng;
use super::super::volume::Volume;
use super::super::{Outcome, Scenario, Stop, tools};
use crate::clock::pause_ms;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "gitkill",
    about: "kill -9 of the daemon under git, 3 times (20 in the full form), on FFS unless --mkfs says otherwise; git fsck after each",
    limit_s: (180, 600),
    run,
};

/// Number of repositories with concurrent commits.
const REPOSITORIES: usize = 3;
/// The author, and fsync for everything: without fsync nothing is guaranteed.
const SETTINGS: [&str; 8] = [
    "-c",
    "user.name=e2e",
    "-c",
    "user.email=e2e@example.org",
    "-c",
    "core.fsync=all",
    "-c",
    "gc.auto=0",
];

fn run(bench: &Bench) -> Outcome {
    tools::need_fuse()?;
    tools::need(bench, &[("git", "git")])?;
    if bench.mkfs.iter().any(|word| word == "async") {
        return Err(Stop::Skipped("ordering async promises nothing of fsync".into()));
    }
    let mut rng = Rng::new(bench.seed);
    let mut volume = Volume::make_of(bench, "ffs", "1G")?;
    volume.mount()?;
    let mut repositories = Vec::new();
    for n in 0..REPOSITORIES {
        let dir = volume.dir().join(format!("repository-{n}"));
        bench.run(Command::new("git").args(["init", "--quiet"]).arg(&dir))?;
        repositories.push(Repository { dir, commits: Vec::new(), begun: 0 });
    }
    bench.run(Command::new("sync").arg("-f").arg(volume.dir()))?;
    let kills = bench.size(3, 20);
    for kill in 1..=kills {
        let told = |why: String| format!("kill {kill} of {kills}, seed {}: {why}", bench.seed);
        let when_ms = 700 + rng.below(1500) as u64;
        commit_until_killed(bench, &mut volume, &mut repositories, when_ms).map_err(told)?;
        volume.mount().map_err(|why| told(format!("the next mount: {why}")))?;
        for repository in &mut repositories {
            repository.verify(bench).map_err(told)?;
        }
        volume.umount_and_check().map_err(told)?;
        volume.mount().map_err(told)?;
    }
    volume.umount_and_check()?;
    let commits: usize = repositories.iter().map(|repository| repository.commits.len()).sum();
    match commits {
        0 => Err(Stop::from("nothing was committed".to_string())),
        _ => Ok(format!("{kills} kills, {commits} commits kept, fsck clean each time")),
    }
}

/// Time limit for git to notice that the daemon is gone.
const GRACE_MS: u64 = 500;

/// Commits to all repositories, and kills the daemon after a while.
fn commit_until_killed(
    bench: &Bench,
    volume: &mut Volume<'_>,
    repositories: &mut [Repository],
    when_ms: u64,
) -> Result<(), String> {
    let killed = AtomicBool::new(false);
    let work = |repository: &mut Repository| {
        let error = repository.commit_on(bench);
        (error, killed.load(Ordering::SeqCst))
    };
    let ends: Vec<(String, bool)> = thread::scope(|scope| {
        let running: Vec<_> =
            repositories.iter_mut().map(|repository| scope.spawn(|| work(repository))).collect();
        pause_ms(when_ms);
        killed.store(true, Ordering::SeqCst);
        volume.kill9();
        // git does not end by itself if reading a directory fails, so it is stopped.
        pause_ms(GRACE_MS);
        bench.kill_running();
        let panicked = |_| ("a thread panicked".into(), false);
        running.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    match ends.into_iter().find(|(_, killed)| !killed) {
        None => Ok(()),
        Some((error, _)) => Err(format!("before the kill: {error}")),
    }
}

/// A repository on the mount.
struct Repository {
    dir: PathBuf,
    /// The commits that git reported, oldest first.
    commits: Vec<String>,
    /// Commits that were begun.
    begun: usize,
}

impl Repository {
    /// Commits again and again until that fails, and says how it failed.
    fn commit_on(&mut self, bench: &Bench) -> String {
        loop {
            match self.commit(bench) {
                Ok(head) => self.commits.push(head),
                Err(error) => return error,
            }
        }
    }

    fn commit(&mut self, bench: &Bench) -> Result<String, String> {
        self.begun += 1;
        let nth = self.begun;
        for file in 0..5 {
            // Contents of several lengths, none of which compresses well.
            let lines = (nth * 7 + file * 131) % 1500 + 1;
            let text: String =
                (0..lines).map(|line| format!("{nth} {file} {line} {}\n", line * nth)).collect();
            let path = self.dir.join(format!("file-{file}"));
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.git(bench, &["add", "--all"])?;
        self.git(bench, &["commit", "--quiet", "--message", &nth.to_string()])?;
        if nth % 7 == 6 {
            self.git(bench, &["repack", "-adq"])?;
        }
        self.head(bench)
    }

    fn git(&self, bench: &Bench, words: &[&str]) -> Result<String, String> {
        bench.run(Command::new("git").arg("-C").arg(&self.dir).args(SETTINGS).args(words))
    }

    fn head(&self, bench: &Bench) -> Result<String, String> {
        self.git(bench, &["rev-parse", "HEAD"]).map(|head| head.trim().into())
    }

    /// Checks that nothing is damaged, and that all commits are there except possibly the last one:
    /// git does not fsync the name of a branch.
    fn verify(&mut self, bench: &Bench) -> Result<(), String> {
        remove_locks(&self.dir.join(".git"))?;
        let name = self.dir.display();
        let Some(last) = self.commits.len().checked_sub(2).map(|nth| &self.commits[nth]) else {
            return Ok(());
        };
        self.git(bench, &["fsck", "--full", "--no-dangling"])?;
        self.git(bench, &["merge-base", "--is-ancestor", last, "HEAD"])
            .map_err(|error| format!("{name}: commit {last} is not in the branch: {error}"))?;
        self.git(bench, &["reset", "--quiet", "--hard"])?;
        Ok(())
    }
}

/// Removes the lock files of a git process that was killed.
fn remove_locks(dir: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", dir.display());
    for entry in fs::read_dir(dir).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.is_dir() {
            remove_locks(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            fs::remove_file(&path).map_err(told)?;
        }
    }
    Ok(())
}
