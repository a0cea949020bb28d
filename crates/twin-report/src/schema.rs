//! The documented schema of answers, and whether a value is as it says.
//!
//! Contract: the schema is [JSON Schema](https://json-schema.org) of 2020-12, of which this understands
//! what the schema uses: `type`, `const`, `enum`, `minLength`, `required`, `properties`, `items`,
//! `additionalProperties`, `allOf`, `if`, `then` and `$ref` to a definition. Any other word is a mistake
//! in the schema and found as one.

use serde_json::Value;

/// The schema, as `docs/results.schema.json` has it.
pub const SCHEMA_TEXT: &str = include_str!("../../../docs/results.schema.json");

/// Words of a schema that restrict nothing.
const SILENT: [&str; 5] = ["$schema", "title", "description", "$defs", "then"];

/// Where a value is not as a schema says; empty if it is.
pub fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "answer", &mut found);
    found
}

fn check(whole: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (word, rule) in schema.as_object().into_iter().flatten() {
        match word.as_str() {
            "type" if !has_type(rule, value) => {
                found.push(format!("{at}: not of type {rule}: {value}"))
            }
            "const" if rule != value => found.push(format!("{at}: not {rule}: {value}")),
            "enum" if !rule.as_array().is_some_and(|all| all.contains(value)) => {
                found.push(format!("{at}: none of {rule}: {value}"));
            }
            "minLength"
                if value.as_str().map_or(0, str::len) < rule.as_u64().unwrap_or(0) as usize =>
            {
                found.push(format!("{at}: too short: {value}"));
            }
            "required" => {
                let lacks = |name: &&str| value.is_object() && value.get(name).is_none();
                let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
                found.extend(names.filter(lacks).map(|name| format!("{at}: without {name}")));
            }
            "properties" => members(whole, rule, value, at, found),
            "additionalProperties" if *rule == Value::Bool(false) => {
                let known = |name: &str| schema["properties"].get(name).is_some();
                let names = value.as_object().into_iter().flatten().map(|(name, _)| name);
                let unknown = names.filter(|name| !known(name));
                found.extend(unknown.map(|name| format!("{at}: {name} is not documented")));
            }
            "items" => {
                for (nth, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(whole, rule, item, &format!("{at}[{nth}]"), found);
                }
            }
            "allOf" => {
                let all = rule.as_array().into_iter().flatten();
                all.for_each(|one| check(whole, one, value, at, found));
            }
            "if" => {
                let mut others = Vec::new();
                check(whole, rule, value, at, &mut others);
                if others.is_empty() {
                    check(whole, &schema["then"], value, at, found);
                }
            }
            "$ref" => {
                match rule.as_str().and_then(|place| whole.pointer(place.trim_start_matches('#'))) {
                    Some(definition) => check(whole, definition, value, at, found),
                    None => found.push(format!("{at}: the schema has no {rule}")),
                }
            }
            "type" | "const" | "enum" | "minLength" | "additionalProperties" => {}
            word if SILENT.contains(&word) => {}
            word => found.push(format!("{at}: the schema has the unknown word {word}")),
        }
    }
}

fn members(whole: &Value, rules: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, rule) in rules.as_object().into_iter().flatten() {
        if let Some(member) = value.get(name) {
            check(whole, rule, member, &format!("{at}.{name}"), found);
        }
    }
}

fn has_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    };
    match rule {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;
    use serde_json::json;

    fn schema() -> Value {
        serde_json::from_str(SCHEMA_TEXT).unwrap()
    }

    fn answer(row: Value) -> Value {
        let mut report = Report::answer("cache", "t");
        report.set_verdict("lru misses the least.", "");
        report.add_rows([row]);
        report.whole()
    }

    #[test]
    fn an_answer_is_as_documented() {
        let row = json!({ "policy": "lru", "size_bytes": 1, "requests": 2, "misses": 1, "miss_share": 0.5 });
        assert_eq!(problems(&schema(), &answer(row)), [""; 0]);
    }

    #[test]
    fn each_fault_of_an_answer_is_found() {
        let row = json!({ "policy": 7, "size": 1, "requests": 2, "misses": 1, "miss_share": 0.5 });
        let mut answer = answer(row);
        answer["verdict"] = "".into();
        let found = problems(&schema(), &answer);
        for word in
            ["policy: not of type", "size is not documented", "without size_bytes", "too short"]
        {
            assert!(found.iter().any(|one| one.contains(word)), "{word}: {found:?}");
        }
        assert_eq!(found.len(), 4, "{found:?}");
        answer["command"] = "guess".into();
        assert!(problems(&schema(), &answer).iter().any(|one| one.contains("none of")));
    }

    #[test]
    fn a_word_that_is_not_understood_is_a_mistake() {
        assert_eq!(problems(&json!({ "pattern": "a" }), &json!("b")).len(), 1);
    }
}
