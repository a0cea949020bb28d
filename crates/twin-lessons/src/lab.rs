//! The lessons for a command line: papers in lines, what became of filled ones, and pages repeated.

use serde_json::{Value, json};

use crate::exercise::{chapters, exercise, grade};
use crate::session::Session;

/// Turns of a session's runtime between two questions whether to go on.
const TURNS: u64 = 5000;

/// A paper in lines for people, with its hints if they are wanted.
pub fn in_words(paper: &Value, hints: bool) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (chapter, seed) = (&paper["chapter"], text(&paper["seed"]));
    let mut lines = vec![format!("Chapter {chapter}: {}, variant {seed}", text(&paper["title"]))];
    for one in all(&paper["exercises"]) {
        let (id, title) = (text(&one["id"]), text(&one["title"]));
        lines.push(format!("\n{id} {title}\n\n{}\n", text(&one["text"])));
        for part in all(&one["parts"]) {
            let choices: Vec<String> = all(&part["choices"]).iter().map(text).collect();
            let choices = match choices.is_empty() {
                true => String::new(),
                false => format!(" ({})", choices.join(" | ")),
            };
            lines.push(format!("  {}: {}{choices}", text(&part["name"]), text(&part["label"])));
        }
        for hint in all(&one["hints"]).iter().filter(|_| hints) {
            lines.push(format!("  hint: {}", text(hint)));
        }
        lines.extend(one["known"].as_str().map(|known| format!("  {known}")));
    }
    lines.push(format!(
        "\ntwinfs lab {chapter} --seed {seed} --json > answers.json writes a file for the answers; \
         twinfs lab grade answers.json checks it"
    ));
    lines.join("\n")
}

/// How right the answers of a filled paper are: `right` of `of`, and each exercise with its parts.
///
/// # Errors
/// If it is no paper, or its answers are none.
pub fn graded(paper: &Value) -> Result<Value, String> {
    let seed = match &paper["seed"] {
        Value::String(seed) => seed.clone(),
        Value::Number(seed) => seed.to_string(),
        _ => return Err("has no seed: begin with twinfs lab CHAPTER --json".into()),
    };
    let Some(chapter) = paper["chapter"].as_u64() else {
        return Err("has no chapter: begin with twinfs lab CHAPTER --json".into());
    };
    let chapter = chapters().iter().find(|one| u64::from(one.number) == chapter);
    let chapter = chapter.ok_or("there are no exercises of that chapter")?;
    let (mut right, mut of, mut exercises) = (0, 0, Vec::new());
    for one in chapter.exercises {
        let result = grade(one.id, &seed, &paper["answers"][one.id])?;
        let mut parts = Vec::new();
        for (name, is_right, _) in &result.parts {
            (right, of) = (right + u64::from(*is_right), of + 1);
            parts.push(json!({"name": name, "right": is_right}));
        }
        exercises.push(json!({"id": one.id, "right": result.is_right(), "parts": parts}));
    }
    Ok(
        json!({"chapter": chapter.number, "seed": seed, "right": right, "of": of, "exercises": exercises}),
    )
}

/// What [`graded`] found, in lines for people.
pub fn grade_in_words(graded: &Value) -> String {
    let mut lines = Vec::new();
    for one in graded["exercises"].as_array().into_iter().flatten() {
        let id = one["id"].as_str().unwrap_or_default();
        let parts = one["parts"].as_array().into_iter().flatten();
        let wrong = parts.filter(|part| part["right"] == false);
        let wrong: Vec<&str> = wrong.filter_map(|part| part["name"].as_str()).collect();
        let title = exercise(id).map_or("", |exercise| exercise.title);
        let verdict = match wrong.is_empty() {
            true => "right".into(),
            false => format!("not right: {}", wrong.join(", ")),
        };
        lines.push(format!("{id} {title}: {verdict}"));
    }
    lines.push(format!("{} of {} answers are right", graded["right"], graded["of"]));
    lines.join("\n")
}

/// What was done on a page, done again: lines of the shell of a session.
#[derive(Default)]
pub struct Page {
    session: Session,
    refused: u64,
}

impl Page {
    /// A new volume with these settings.
    ///
    /// # Errors
    /// If there cannot be one.
    pub fn make(settings: &str) -> Result<Page, String> {
        let mut page = Page::default();
        page.call(&json!({"do": "make", "settings": settings}))?;
        Ok(page)
    }

    /// Does what a line says, in pieces as long as `goes_on`, and returns what it printed.
    ///
    /// # Errors
    /// If the line is not understood.
    pub fn line(
        &mut self,
        line: &str,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<String>, String> {
        let mut answer = self.call(&json!({"do": "begin", "line": line}))?;
        while answer["done"] != true && goes_on() {
            answer = self.call(&json!({"do": "go", "turns": TURNS}))?;
        }
        let said = answer["output"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let failed = answer["failed"].as_str();
        self.refused += u64::from(failed.is_some());
        Ok(said.chain(failed).map(String::from).collect())
    }

    /// What came of all lines: how many were `refused`, the time `now_ns`, the `digest` of events and that of the
    /// `platter`.
    ///
    /// # Errors
    /// Those of a session that cannot be looked at.
    pub fn end(&mut self) -> Result<Value, String> {
        let view = self.call(&json!({"do": "view"}))?;
        let part = |name: &str| view[name].as_str().unwrap_or_default();
        Ok(json!({
            "refused": self.refused, "now_ns": view["now_ns"], "digest": part("digest"), "platter": part("platter"),
        }))
    }

    /// The content of the device.
    pub fn image(&self) -> Vec<u8> {
        self.session.image()
    }

    fn call(&mut self, command: &Value) -> Result<Value, String> {
        let answer = self.session.call(&command.to_string());
        let answer: Value = serde_json::from_str(&answer).map_err(|why| why.to_string())?;
        match answer["ok"] == true {
            true => Ok(answer),
            false => Err(answer["error"].as_str().unwrap_or_default().into()),
        }
    }
}
