//! Events of simulated runs as lines, and the parsing of their categories.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use twin_rt::{Categories, Category, Rt};
use twin_settings::SettingsError;

/// The receiver of events of a run, and their categories.
#[derive(Clone)]
pub struct EventLog {
    /// The categories to report.
    pub categories: Categories,
    /// Called for each event, with one line, in order. Runs on several threads share it.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl EventLog {
    /// Begins to receive the events of `rt`.
    pub fn begin(&self, rt: &Rt) {
        let tell = Arc::clone(&self.tell);
        rt.log_to(self.categories, Rc::new(move |event| tell(&event.to_string())));
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.categories)
    }
}

/// Parses categories of events: `cleaner,flush`.
///
/// # Errors
/// If there is no such category; the message lists all.
pub fn log_categories(text: &str) -> Result<Categories, SettingsError> {
    let known = Category::ALL.iter().map(|(_, name, _)| *name);
    Categories::parse(text)
        .map_err(|name| SettingsError::unknown("category of events", name, known))
}
