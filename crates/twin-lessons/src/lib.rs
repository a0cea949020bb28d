//! Lessons: a volume in memory that one works in step by step, and exercises with checked answers.
//!
//! Main types: [`Session`] (a simulated volume behind commands and answers in plain data: the book on one page is a
//! thin shell over it), [`Exercise`] (a question that a seed varies, with hints and the right answers, which the real
//! code has computed); [`lab`] has both for a command line. Start at [`Session::call`]; for exercises at [`chapters`].
//!
//! ```
//! use twin_lessons::Session;
//!
//! let mut session = Session::default();
//! session.call(r#"{"do":"make","settings":"vsfs:size=4M,disk=hp97560"}"#);
//! let answer = session.call(r#"{"do":"run","line":"write a 20K"}"#);
//! assert!(answer.contains("\"ok\":true"), "{answer}");
//! ```
//!
//! Everything here is a pure function of the commands: no clock, no file, no thread.

mod exercise;
pub mod lab;
mod session;
mod volume;

pub use exercise::{Chapter, Exercise, Grade, Part, Question, chapters, exercise, grade, paper};
pub use session::Session;
pub use volume::script;
