//! Exercises: chapters, seeded variants, right answers, grading.
//!
//! Contract: a variant is a function of the exercise and the seed alone. Its answers are computed by the code that
//! mounts: disk queues and models, layouts on a simulated disk, checkers, policies, the NFS server. Every part has one
//! right answer. What a solver needs is in [`Question::given`].

mod ch37;
mod ch39;
mod ch40;
mod ch41;
mod ch42;
mod ch43;
mod ch44;
mod ch45;
mod ch49;
mod real;

use serde_json::{Map, Value, json};
use twin_rt::Rng;

/// A chapter of the book.
pub struct Chapter {
    /// Its number in "Operating Systems: Three Easy Pieces".
    pub number: u32,
    /// The title.
    pub title: &'static str,
    /// What its exercises are about, in a sentence.
    pub about: &'static str,
    /// The exercises.
    pub exercises: &'static [Exercise],
}

/// An exercise, of which a seed makes a variant.
pub struct Exercise {
    /// The chapter, a point and a number.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    make: fn(&mut Rng) -> Made,
}

type Made = Result<Question, String>;

/// A variant of an exercise.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The text, for display.
    pub text: String,
    /// The numbers of the variant, for a program that solves it.
    pub given: Value,
    /// What is asked.
    pub parts: Vec<Part>,
    /// Hints, from the gentle one to the almost complete one.
    pub hints: Vec<String>,
    /// A number that the book gives for a variant of its own.
    pub known: Option<&'static str>,
    /// The settings of a volume, and lines for its shell, with which one can see it.
    pub attempt: Vec<String>,
}

/// A part of a question, with its own answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The name in files of answers.
    pub name: &'static str,
    /// What is asked, for display.
    pub label: String,
    /// The right answer.
    pub answer: String,
    /// The answers from which one is chosen; none if it is written.
    pub choices: Vec<&'static str>,
}

impl Part {
    fn new(name: &'static str, label: impl Into<String>, answer: impl ToString) -> Part {
        Part { name, label: label.into(), answer: answer.to_string(), choices: Vec::new() }
    }

    fn chosen(
        name: &'static str,
        label: impl Into<String>,
        answer: &'static str,
        choices: &[&'static str],
    ) -> Part {
        Part { choices: choices.to_vec(), ..Part::new(name, label, answer) }
    }

    /// Whether an answer is the right one. Case, spaces and the separators of lists do not matter, nor does a fraction
    /// of nothing behind a number.
    pub fn accepts(&self, answer: &str) -> bool {
        normal(answer) == normal(&self.answer)
    }
}

/// An answer without what does not matter.
fn normal(answer: &str) -> String {
    let words = answer.split(|letter: char| letter.is_whitespace() || matches!(letter, ',' | ';'));
    let word = |word: &str| {
        let word = word.trim_end_matches('.').to_lowercase();
        match word.split_once('.') {
            Some((whole, fraction)) if fraction.chars().all(|digit| digit == '0') => whole.into(),
            Some((whole, fraction)) if fraction.chars().all(|digit| digit.is_ascii_digit()) => {
                format!("{whole}.{}", fraction.trim_end_matches('0'))
            }
            _ => word,
        }
    };
    words.filter(|word| !word.is_empty()).map(word).collect::<Vec<_>>().join(" ")
}

/// All chapters.
pub fn chapters() -> &'static [Chapter] {
    &[
        ch37::CHAPTER,
        ch39::CHAPTER,
        ch40::CHAPTER,
        ch41::CHAPTER,
        ch42::CHAPTER,
        ch43::CHAPTER,
        ch44::CHAPTER,
        ch45::CHAPTER,
        ch49::CHAPTER,
    ]
}

/// The exercise with this name.
///
/// # Errors
/// If there is none.
pub fn exercise(id: &str) -> Result<&'static Exercise, String> {
    let mut all = chapters().iter().flat_map(|chapter| chapter.exercises);
    all.find(|exercise| exercise.id == id).ok_or_else(|| format!("there is no exercise {id}"))
}

impl Exercise {
    /// The variant for a seed: a number, or any text as a student's name.
    ///
    /// # Errors
    /// If the code that computes the answers fails, which is a fault of ours.
    pub fn variant(&self, seed: &str) -> Result<Question, String> {
        let mut rng = Rng::stream(number(seed), self.id);
        (self.make)(&mut rng)
    }
}

/// A seed as a number.
fn number(seed: &str) -> u64 {
    let seed = seed.trim();
    seed.parse().unwrap_or_else(|_| {
        let mut digest = twin_rt::EventDigest::default();
        seed.to_lowercase().bytes().for_each(|byte| digest.add(&[byte.into()]));
        digest.value()
    })
}

/// How the answers to one exercise were.
#[derive(Clone, Debug, PartialEq)]
pub struct Grade {
    /// The exercise.
    pub id: &'static str,
    /// For each part its name, whether the answer is right, and the right answer.
    pub parts: Vec<(&'static str, bool, String)>,
}

impl Grade {
    /// True if every part is right.
    pub fn is_right(&self) -> bool {
        self.parts.iter().all(|(_, right, _)| *right)
    }
}

/// Grades the answers to an exercise: an object with an answer for each part. What is missing is wrong.
///
/// # Errors
/// If there is no such exercise.
pub fn grade(id: &str, seed: &str, answers: &Value) -> Result<Grade, String> {
    let exercise = exercise(id)?;
    let question = exercise.variant(seed)?;
    let given = |name: &str| match &answers[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(list) => list
            .iter()
            .map(|one| one.as_str().map_or_else(|| one.to_string(), String::from))
            .collect::<Vec<_>>()
            .join(" "),
        other => other.to_string(),
    };
    let parts = question.parts.iter().map(|part| {
        let right = part.accepts(&given(part.name));
        (part.name, right, part.answer.clone())
    });
    Ok(Grade { id: exercise.id, parts: parts.collect() })
}

/// The paper of a chapter for a seed, with places for the answers: what `twinfs lab` writes and grades.
///
/// # Errors
/// If there is no such chapter.
pub fn paper(chapter: u32, seed: &str) -> Result<Value, String> {
    let numbers =
        || chapters().iter().map(|one| one.number.to_string()).collect::<Vec<_>>().join(", ");
    let found = chapters().iter().find(|one| one.number == chapter);
    let chapter = found.ok_or_else(|| format!("there are exercises for chapters {}", numbers()))?;
    let (mut exercises, mut answers) = (Vec::new(), Map::new());
    for exercise in chapter.exercises {
        let question = exercise.variant(seed)?;
        let blanks: Map<String, Value> =
            question.parts.iter().map(|part| (part.name.to_string(), json!(""))).collect();
        answers.insert(exercise.id.into(), Value::Object(blanks));
        exercises.push(shown(exercise, &question));
    }
    Ok(json!({
        "chapter": chapter.number, "title": chapter.title, "seed": seed, "exercises": exercises, "answers": answers,
    }))
}

/// A variant without its answers.
fn shown(exercise: &Exercise, question: &Question) -> Value {
    let part = |part: &Part| {
        let mut shown = json!({"name": part.name, "label": part.label});
        if !part.choices.is_empty() {
            shown["choices"] = json!(part.choices);
        }
        shown
    };
    json!({
        "ok": true,
        "id": exercise.id,
        "title": exercise.title,
        "text": question.text,
        "given": question.given,
        "parts": question.parts.iter().map(part).collect::<Vec<_>>(),
        "hints": question.hints,
        "known": question.known,
        "try": question.attempt,
    })
}

pub(crate) fn listed() -> Value {
    let chapter = |one: &Chapter| {
        let ids: Vec<&str> = one.exercises.iter().map(|exercise| exercise.id).collect();
        json!({"number": one.number, "title": one.title, "about": one.about, "exercises": ids})
    };
    json!({"ok": true, "chapters": chapters().iter().map(chapter).collect::<Vec<_>>()})
}

pub(crate) fn variant(id: &str, seed: &str) -> Result<Value, String> {
    let exercise = exercise(id)?;
    Ok(shown(exercise, &exercise.variant(seed)?))
}

pub(crate) fn graded(id: &str, seed: &str, answers: &Value, reveal: bool) -> Result<Value, String> {
    let grade = grade(id, seed, answers)?;
    let part = |(name, right, answer): &(&str, bool, String)| {
        let mut part = json!({"name": name, "right": right});
        if reveal {
            part["answer"] = json!(answer);
        }
        part
    };
    let parts: Vec<Value> = grade.parts.iter().map(part).collect();
    Ok(json!({"ok": true, "right": grade.is_right(), "parts": parts}))
}

/// Hints from texts.
fn hints(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| String::from(*text)).collect()
}

/// A list with spaces.
fn spaced<T: ToString>(list: impl IntoIterator<Item = T>) -> String {
    list.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_in_an_answer_does_not_matter() {
        let part = Part::new("a", "", "795");
        assert!(part.accepts(" 795.0 ") && !part.accepts("796") && !part.accepts(""));
        assert!(Part::new("a", "", "7 8 30").accepts("7, 8,30"));
        assert!(Part::new("a", "", "2.5").accepts("2.50"));
        assert!(Part::new("a", "", "Yes").accepts("yes"));
        assert!(!Part::new("a", "", "7 8 30").accepts("7 30 8"));
    }

    #[test]
    fn every_variant_is_the_same_each_time_and_grades_its_own_answers_as_right() {
        for exercise in chapters().iter().flat_map(|chapter| chapter.exercises) {
            for seed in ["1", "7", "Ada"] {
                let question =
                    exercise.variant(seed).unwrap_or_else(|why| panic!("{}: {why}", exercise.id));
                assert_eq!(question, exercise.variant(seed).unwrap());
                let answers: Map<String, Value> = question
                    .parts
                    .iter()
                    .map(|part| (part.name.to_string(), json!(part.answer)))
                    .collect();
                let graded = grade(exercise.id, seed, &Value::Object(answers)).unwrap();
                assert!(graded.is_right(), "{} {seed}", exercise.id);
                assert!(!grade(exercise.id, seed, &json!({})).unwrap().is_right());
                assert!(!question.hints.is_empty(), "{}", exercise.id);
            }
        }
    }

    #[test]
    fn a_chapter_has_three_to_six_exercises() {
        for chapter in chapters() {
            assert!((3..=6).contains(&chapter.exercises.len()), "{}", chapter.number);
        }
    }
}
