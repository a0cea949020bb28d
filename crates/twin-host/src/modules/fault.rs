//! What is said of a policy that panicked or answered nonsense.

use std::sync::{Mutex, PoisonError};

use twin_settings::outside;

use crate::words::{Grade, Words};

/// A function that tells people something.
type Say = Box<dyn Fn(Grade, &str) + Send>;

/// Who is told at once when a policy fails: the log of a daemon. Commands end with the words anyway.
static SAY: Mutex<Option<Say>> = Mutex::new(None);

/// Has faults of policies said to the log of a daemon at once.
pub(crate) fn say_to(words: &Words) {
    let say: Say = Box::new(words.from_elsewhere());
    *SAY.lock().unwrap_or_else(PoisonError::into_inner) = Some(say);
}

/// The policy of this name in the module at `path` is called no more.
pub(super) fn broke(path: &str, name: &str, what: &str) {
    let words = format!("{path}: the policy {name} {what}");
    if outside::report_fault(&words) {
        let say = SAY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(say) = &*say {
            let more =
                "a plain policy goes on in its place, and nothing is lost; mount again without it";
            say(Grade::Error, &format!("{words}: {more}"));
        }
    }
}
