//! `twinfs arena`: a policy judged on a task.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use twin_arena::{Evaluation, Mounted, Reference, Task, Traces, Wanted, task};
use twin_clean::volume::trace::Trace;
use twin_cli::progress::Progress;
use twin_cli::{Failure, Outcome, Printer, say, usage};
use twin_host::Interrupts;
use twin_lab::Workload;
use twin_mount::input::{Accessed, accesses_of};
use twin_real::experiment::{By, Plan, experiment};
use twin_real::replay::Target;
use twin_studies::{caches, volume};
use twin_trace::replay::Pace;
use twin_trace::{Reader, block, readers};

use super::workload::{SHIPPED_TRACE, of_file};
use crate::cli::Arena;
use crate::measuring::runner;

/// The seed of a mount's workload: none that a search has seen.
const MOUNT_SEED: u64 = 0x006d_6f75_6e74;

pub(crate) fn run(args: &Arena, interrupts: &Interrupts) -> Outcome {
    if args.list {
        say(task::built_in().collect::<Vec<_>>().join("\n").as_str())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (name, text) = text_of(args.task.as_deref().unwrap_or_default())?;
    let task =
        Task::parse(&name, &text).map_err(|why| usage(format!("{name}: {}", why.trim_end())))?;
    if args.show {
        say(text.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let policy = args.policy.as_deref().ok_or_else(|| usage("a policy is needed"))?;
    let mut printer = Printer::of(&args.output, interrupts)?;
    let known = args.reference.as_deref().map(read_reference).transpose()?.unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = args.threads.unwrap_or(cores).max(1);
    let arena = twin_arena::Arena::new(
        task,
        Box::new(Opening(args.traces.clone())),
        threads,
        known.clone(),
    );
    // A name that does not exist is the caller's mistake, not a result.
    arena.mounted(policy).map_err(usage)?;
    let bar = Progress::waiting("policies are judged");
    let wanted = Wanted { held_out: args.held_out };
    let evaluation =
        arena.evaluate(policy, wanted, &|| interrupts.check().map_err(|f| f.to_string()));
    bar.finish();
    interrupts.check()?;
    let evaluation = evaluation?;
    if let Some(path) = &args.reference
        && arena.reference() != known
    {
        write_reference(path, &arena.reference())?;
    }
    for left_out in &evaluation.left_out {
        twin_host::note!("twinfs: left out: {left_out}");
    }
    let mounted = mounted(args, &arena, &evaluation, interrupts)?;
    printer.print(&evaluation.report(&mounted))?;
    Ok(match evaluation.refused {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    })
}

/// The name and the file of a task.
fn text_of(task: &str) -> Result<(String, String), Failure> {
    if let Some(text) = task::built_in_text(task) {
        return Ok((task.into(), text.into()));
    }
    let path = Path::new(task);
    if !path.is_file() {
        let known = task::built_in();
        let error = twin_settings::SettingsError::unknown("task", task, known);
        return Err(usage(format!("{error}, or the path of a file")));
    }
    let text = twin_host::text_of_file(path)?;
    Ok((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), text))
}

/// What is known of the program's policies; nothing if there is no such file yet.
fn read_reference(path: &Path) -> Result<Reference, Failure> {
    let in_file = |why: &dyn std::fmt::Display| Failure::from(format!("{}: {why}", path.display()));
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| in_file(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Reference::default()),
        Err(error) => Err(in_file(&error)),
    }
}

fn write_reference(path: &Path, reference: &Reference) -> Result<(), Failure> {
    let in_file = |why: &dyn std::fmt::Display| Failure::from(format!("{}: {why}", path.display()));
    let text = serde_json::to_vec(reference).map_err(|error| in_file(&error))?;
    // Several searches may share it, and one may be killed: it is there as a whole or not at all.
    let new = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, text).map_err(|error| in_file(&error))?;
    std::fs::rename(&new, path).map_err(|error| in_file(&error))
}

/// Recordings below a directory, and the one that comes with the program.
struct Opening(PathBuf);

impl Opening {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Traces for Opening {
    fn missing(&self, path: &str) -> Option<String> {
        let is_there = path == task::SHIPPED || self.path(path).is_file();
        (!is_there).then(|| format!("it is not in {}", self.0.display()))
    }

    fn accesses(&self, path: &str) -> Result<caches::Input, String> {
        if path == task::SHIPPED {
            let reader = Reader::new(std::io::Cursor::new(SHIPPED_TRACE));
            return Ok(caches::Input::Operations(Box::new(reader.map_err(|e| e.to_string())?)));
        }
        let path = self.path(path);
        let found = accesses_of(&path, None)?;
        let open = || File::open(&path).map_err(|error| error.to_string());
        Ok(match found {
            Accessed::Operations => {
                let reader = Reader::new(std::io::BufReader::new(open()?));
                caches::Input::Operations(Box::new(reader.map_err(|error| error.to_string())?))
            }
            Accessed::Foreign(name) => {
                let path = path.clone();
                let source =
                    readers::open_again(name, readers::Again::new(move || File::open(&path)));
                caches::Input::Operations(source.map_err(|error| error.to_string())?)
            }
            Accessed::Blocks(name) => {
                let source = block::open(name, open()?).map_err(|error| error.to_string())?;
                caches::Input::Requests(source)
            }
        })
    }

    fn writes(&self, path: &str) -> Result<Trace, String> {
        if path == task::SHIPPED {
            return Err("it is no block trace".into());
        }
        let file = File::open(self.path(path)).map_err(|error| error.to_string())?;
        volume::read_trace(file, None).map(|(trace, _)| trace)
    }

    fn workload(&self, path: &str) -> Result<Workload, String> {
        if path == task::SHIPPED {
            return Ok(Workload::Trace(Arc::from(SHIPPED_TRACE)));
        }
        of_file(&self.path(path), None).map_err(|failure| failure.why)
    }
}

/// What mounts show of the policy and of the best of the program's.
fn mounted(
    args: &Arena,
    arena: &twin_arena::Arena,
    evaluation: &Evaluation,
    interrupts: &Interrupts,
) -> Result<Mounted, Failure> {
    let not = |why: &str| Ok(Mounted::Not(why.into()));
    let (Some(mount), Some(best)) = (&arena.task().mount, evaluation.best()) else {
        return not("the task has no mount");
    };
    if !args.mount {
        return not("--mount was not given");
    } else if !evaluation.passed() {
        return not("the stages before were not worth it");
    } else if !rustix::process::geteuid().is_root() {
        return not("only root can make the devices and mounts");
    } else if !Path::new("/dev/fuse").exists() {
        return not("there is no /dev/fuse");
    }
    let mut targets = Vec::new();
    for policy in [evaluation.policy.as_str(), best] {
        let Some(text) = arena.mounted(policy)? else { return not("the task has no mount") };
        match Target::parse(&text) {
            Ok(target) => targets.push(target),
            Err(why) => return Ok(Mounted::Failed(why.to_string())),
        }
    }
    if targets[0].name() == targets[1].name() {
        return not("it is the best of the registry itself");
    }
    let workload = Workload::Generated(mount.workload.clone(), MOUNT_SEED);
    let plan = Plan {
        targets: &targets,
        workload: &workload,
        operations: 0,
        pace: Pace::Asap,
        by: By::Finish,
        base: args.at.as_deref().unwrap_or(Path::new("/var/tmp")),
        runs: mount.runs.max(2),
        caches: BTreeMap::new(),
        machine: None,
    };
    let measured = match experiment(&runner(interrupts)?, plan) {
        Ok(measured) => measured,
        Err(why) => {
            interrupts.check()?;
            return Ok(Mounted::Failed(why));
        }
    };
    let values = |target: &Target| measured.values_of(&target.name());
    Ok(match (values(&targets[0]), values(&targets[1])) {
        (Ok(own), Ok(best)) => Mounted::Seconds { own, best, words: measured.words() },
        (Err(why), _) | (_, Err(why)) => Mounted::Failed(why),
    })
}
