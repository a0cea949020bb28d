//! Events of simulated runs, as lines; and the categories as users write them.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use twin_rt::{Categories, Category, Rt};
use twin_settings::SettingsError;

/// Who is told of the events of a run, and of which.
#[derive(Clone)]
pub struct EventLog {
    /// Which.
    pub categories: Categories,
    /// Told of each, as one line, in the order in which they happen. Runs on several threads share it.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl EventLog {
    /// From now on.
    pub(crate) fn begin(&self, rt: &Rt) {
        let tell = Arc::clone(&self.tell);
        rt.log_to(self.categories, Rc::new(move |event| tell(&event.to_string())));
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.categories)
    }
}

/// Categories of events, as users write them: `cleaner,flush`.
///
/// # Errors
/// If there is no such category; the message lists all.
pub fn log_categories(text: &str) -> Result<Categories, SettingsError> {
    let known = Category::ALL.iter().map(|(_, name, _)| *name);
    Categories::parse(text)
        .map_err(|name| SettingsError::unknown("category of events", name, known))
}
