//! Interrupts: SIGINT, SIGTERM and SIGHUP end a command within a second.
//!
//! Contract: a command that would leave nothing behind ends at once. One that has made something for
//! itself (scratch files, mounts, loop devices, a page that is not written yet) has [`GRACE`] to end by
//! itself, because it then undoes all in order; after that its children are killed, what it has
//! registered is undone here, on the thread of the signals, and the process ends whatever its other
//! threads do. A second signal ends it at once. The exit status is 128 and the number of the signal, as
//! that of shells: 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP.
//!
//! Mounts in the foreground and recordings do not use this: they unmount in order, however long that
//! takes.

mod handler;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

pub use handler::on_interrupt;

/// How long a command has to end by itself.
const GRACE: Duration = Duration::from_millis(200);

/// What is undone after an interrupt; it may find that it has been done already.
type Undo = Box<dyn Fn() + Send>;

#[derive(Default)]
struct Shared {
    stop: Arc<AtomicBool>,
    /// The number of the first signal; 0 before it.
    signal: AtomicI32,
    undo: Mutex<(u64, BTreeMap<u64, Undo>)>,
    /// Held while things are undone.
    undoing: Mutex<()>,
}

/// The interrupts of this process. Clones are the same.
#[derive(Clone, Default)]
pub struct Interrupts(Arc<Shared>);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interrupts {
    /// Begins to listen. Must come before any thread is started.
    ///
    /// # Errors
    /// If the host refuses a descriptor or a thread.
    pub fn listen() -> Result<Interrupts, String> {
        let interrupts = Interrupts::default();
        let shared = Arc::clone(&interrupts.0);
        let handler = move |signal: i32| {
            if shared.stop.swap(true, Ordering::SeqCst) {
                std::process::exit(128 + signal);
            }
            shared.signal.store(signal, Ordering::SeqCst);
            let is_idle = locked(&shared.undo).1.is_empty();
            Interrupts(Arc::clone(&shared)).end(is_idle);
        };
        on_interrupt(handler).map_err(|error| format!("signals: {error}"))?;
        Ok(interrupts)
    }

    /// The flag that an interrupt sets.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.stop)
    }

    /// That nothing has interrupted.
    ///
    /// # Errors
    /// If something has.
    pub fn check(&self) -> Result<(), String> {
        if self.0.stop.load(Ordering::Relaxed) { Err("interrupted".into()) } else { Ok(()) }
    }

    /// The exit status, if there was an interrupt. Waits until all is undone.
    pub fn status(&self) -> Option<u8> {
        if !self.0.stop.load(Ordering::SeqCst) {
            return None;
        }
        let _done = locked(&self.0.undoing);
        u8::try_from(128 + self.0.signal.load(Ordering::SeqCst)).ok()
    }

    /// Makes something that is undone after an interrupt for as long as the second result lives. No interrupt comes between the
    /// two, and after one nothing is made: what is made then nobody would undo. `make` must not ask for anything of these.
    ///
    /// # Errors
    /// If there was an interrupt, or `make` fails.
    pub fn made<T>(
        &self,
        make: impl FnOnce() -> Result<T, String>,
        how: impl Fn() + Send + 'static,
    ) -> Result<(T, Undoing), String> {
        // Who handles a signal says so first, and then waits for this to see whether there is something to undo.
        let mut undo = locked(&self.0.undo);
        self.check()?;
        let made = make()?;
        Ok((made, self.noted(&mut undo, Box::new(how))))
    }

    /// Has this done after an interrupt for as long as the result lives.
    pub fn undo(&self, how: impl Fn() + Send + 'static) -> Undoing {
        self.noted(&mut locked(&self.0.undo), Box::new(how))
    }

    fn noted(&self, (last, undo): &mut (u64, BTreeMap<u64, Undo>), how: Undo) -> Undoing {
        *last += 1;
        undo.insert(*last, how);
        Undoing { shared: Arc::clone(&self.0), number: *last }
    }

    /// Interrupts what has these, as SIGINT would, but the process goes on: a program that carries out commands
    /// as calls has children of its own, which are left alone.
    pub fn interrupt(&self) {
        if !self.0.stop.swap(true, Ordering::SeqCst) {
            self.0.signal.store(libc::SIGINT, Ordering::SeqCst);
            let _undoing = locked(&self.0.undoing);
            self.undo_all();
        }
    }

    /// Undoes all, with `undoing` locked. What was made last goes first. What undoes may end what it was for, and
    /// with that its own place here, so nothing else is locked meanwhile.
    fn undo_all(&self) {
        let last = || locked(&self.0.undo).1.pop_last();
        while let Some((_, how)) = last() {
            how();
        }
    }

    /// Ends the process.
    fn end(&self, is_idle: bool) -> ! {
        if !is_idle {
            pause(GRACE);
        }
        let _undoing = locked(&self.0.undoing);
        if !is_idle {
            kill_children();
            self.undo_all();
        }
        // A bar may stand in this line.
        let line = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
        crate::note!("{line}twinfs: interrupted");
        std::process::exit(128 + self.0.signal.load(Ordering::SeqCst));
    }
}

/// Something that an interrupt undoes until this is dropped.
pub struct Undoing {
    shared: Arc<Shared>,
    number: u64,
}

impl std::fmt::Debug for Undoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Undoing({})", self.number)
    }
}

impl Drop for Undoing {
    fn drop(&mut self) {
        locked(&self.shared.undo).1.remove(&self.number);
    }
}

/// Kills the children of this process; those that lead a group of processes with all of it.
fn kill_children() {
    let me = std::process::id().to_string();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name, in parentheses, may contain anything.
        let Some((front, rest)) = text.rsplit_once(')') else { continue };
        let mut fields = rest.split_whitespace().skip(1);
        let (parent, group) = (fields.next(), fields.next());
        let pid = front.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        let (true, Some(pid)) = (parent == Some(&me), pid) else { continue };
        let leads = group == Some(&pid.as_raw_nonzero().to_string());
        let _ = match leads {
            true => kill_process_group(pid, Signal::KILL),
            false => kill_process(pid, Signal::KILL),
        };
    }
}

/// Waits outside of any runtime.
#[allow(clippy::disallowed_methods)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interrupt that came between a directory and the note that it has to go left the directory.
    #[test]
    fn nothing_is_made_that_an_interrupt_does_not_undo() {
        let interrupts = Interrupts::default();
        let there = Arc::new(AtomicBool::new(false));
        let (made, gone) = (Arc::clone(&there), Arc::clone(&there));
        let making = interrupts.clone();
        std::thread::scope(|scope| {
            let (begun, begins) = std::sync::mpsc::channel();
            let maker = scope.spawn(move || {
                let make = || {
                    begun.send(()).map_err(|e| e.to_string())?;
                    pause(Duration::from_millis(20));
                    made.store(true, Ordering::SeqCst);
                    Ok(())
                };
                making.made(make, move || gone.store(false, Ordering::SeqCst)).map(|(_, kept)| kept)
            });
            begins.recv().unwrap();
            interrupts.interrupt();
            assert!(maker.join().unwrap().is_ok());
        });
        assert!(!there.load(Ordering::SeqCst), "it was undone");
        let make = || {
            there.store(true, Ordering::SeqCst);
            Ok(())
        };
        let late = interrupts.made(make, || {});
        assert_eq!(late.map(|_| ()), Err("interrupted".into()));
        assert!(!there.load(Ordering::SeqCst), "nothing was made");
    }

    #[test]
    fn what_is_over_is_not_undone() {
        let interrupts = Interrupts::default();
        let first = interrupts.undo(|| {});
        let second = interrupts.undo(|| {});
        drop(first);
        assert_eq!(locked(&interrupts.0.undo).1.len(), 1);
        drop(second);
        assert!(locked(&interrupts.0.undo).1.is_empty());
        assert_eq!((interrupts.status(), interrupts.check()), (None, Ok(())));
    }
}
