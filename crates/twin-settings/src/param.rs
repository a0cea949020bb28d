//! Parameters: the settings of a component that are used once, to make it, such as a workload.
//!
//! A [`Key`](crate::Key) sets a field of a struct. For parameters there is no struct: a component
//! lists its parameters with their defaults, and its maker gets them by name from [`Values`].

use crate::key::{Unit, decimal};
use crate::{SettingsError, grammar, value};

/// A parameter of a component.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The name of the parameter.
    pub name: &'static str,
    /// A description in one line, without the unit, for display.
    pub about: &'static str,
    unit: Unit,
    default: &'static str,
}

impl Param {
    /// A parameter; `default` is in the notation of users.
    pub const fn new(
        name: &'static str,
        default: &'static str,
        unit: Unit,
        about: &'static str,
    ) -> Param {
        Param { name, about, unit, default }
    }

    /// The notation of its values, for display.
    pub fn form(&self) -> String {
        self.unit.form()
    }

    /// The default value, in the notation of users.
    pub fn default(&self) -> &'static str {
        self.default
    }

    fn read(&self, text: &str) -> Result<Value, SettingsError> {
        let read = match self.unit {
            Unit::YesNo => value::yes_no(text).map(Value::YesNo),
            Unit::Decimal(..) => decimal(&self.unit, text).map(Value::Decimal),
            _ => self.unit.whole(text).map(Value::Whole),
        };
        read.map_err(|error| error.within(self.name))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Whole(u64),
    Decimal(f64),
    YesNo(bool),
}

/// The values of a component's parameters.
#[derive(Clone, Debug)]
pub struct Values(Vec<(&'static Param, Value)>);

impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        let name = |(param, value): &(&'static Param, Value)| (param.name, *value);
        self.0.iter().map(name).eq(other.0.iter().map(name))
    }
}

impl Values {
    /// The defaults of these groups of parameters.
    ///
    /// # Panics
    /// If a default is not a possible value of its parameter, which is an error of the program.
    pub fn of(params: &[&'static [Param]]) -> Values {
        let all = params.iter().flat_map(|group| group.iter());
        let default = |param: &'static Param| match param.read(param.default) {
            Ok(value) => (param, value),
            Err(error) => panic!("the default of a parameter is wrong: {error}"),
        };
        Values(all.map(default).collect())
    }

    /// Applies the settings in `text`: `key=value,key=value`.
    ///
    /// # Errors
    /// The first wrong setting. The settings before it have been applied.
    pub fn apply(&mut self, text: &str) -> Result<(), SettingsError> {
        for setting in grammar::settings(text)? {
            self.set(setting.key, setting.value)?;
        }
        Ok(())
    }

    /// Sets one parameter.
    ///
    /// # Errors
    /// If there is no parameter with this name, the text is not a value of it, or the value is out
    /// of range.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingsError> {
        let names: Vec<&str> = self.names().collect();
        match self.0.iter_mut().find(|(param, _)| param.name == name) {
            Some((param, value)) => *value = param.read(text)?,
            None => return Err(SettingsError::unknown("setting", name, names)),
        }
        Ok(())
    }

    /// The names of all parameters.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|(param, _)| param.name)
    }

    /// True if there is a parameter with this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// The value of a parameter that is a whole number: a count, bytes, nanoseconds or percent.
    ///
    /// # Panics
    /// If the component has no such parameter, which is an error of the program.
    pub fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Whole(number) => number,
            other => panic!("the parameter {name} is {other:?}, not a whole number"),
        }
    }

    /// The value of a parameter that is a decimal number.
    ///
    /// # Panics
    /// If the component has no such parameter, which is an error of the program.
    pub fn decimal(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Decimal(number) => number,
            other => panic!("the parameter {name} is {other:?}, not a decimal number"),
        }
    }

    /// The value of a parameter that is yes or no.
    ///
    /// # Panics
    /// If the component has no such parameter, which is an error of the program.
    pub fn yes(&self, name: &str) -> bool {
        match self.value(name) {
            Value::YesNo(yes) => yes,
            other => panic!("the parameter {name} is {other:?}, neither yes nor no"),
        }
    }

    fn value(&self, name: &str) -> Value {
        match self.0.iter().find(|(param, _)| param.name == name) {
            Some((_, value)) => *value,
            None => panic!("the parameter {name} is used but not declared"),
        }
    }

    /// All values, in the notation of [`apply`](Self::apply).
    pub fn text(&self) -> String {
        self.pairs(|_, _| true)
    }

    /// The values that differ from the defaults, in the notation of [`apply`](Self::apply).
    pub fn text_of_changed(&self) -> String {
        self.pairs(|param, value| param.read(param.default) != Ok(value))
    }

    fn pairs(&self, wanted: impl Fn(&Param, Value) -> bool) -> String {
        let chosen = self.0.iter().filter(|(param, value)| wanted(param, *value));
        let pair = |(param, value): &(&'static Param, Value)| {
            let value = match value {
                Value::Whole(number) => param.unit.print(*number),
                Value::Decimal(number) => number.to_string(),
                Value::YesNo(yes) => String::from(if *yes { "yes" } else { "no" }),
            };
            format!("{}={value}", param.name)
        };
        chosen.map(pair).collect::<Vec<_>>().join(",")
    }
}

/// The help for several parameters, one line for each, which begins with `indent`.
pub fn help_of(params: &[Param], indent: &str) -> String {
    let line = |param: &Param| {
        let Param { name, about, default, .. } = param;
        format!("{indent}{name:<18} {about} ({}; default {default})\n", param.form())
    };
    params.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &[Param] = &[
        Param::new("files", "10", Unit::number(1, 1 << 20), "files"),
        Param::new("size", "5K", Unit::bytes(0, 1 << 30), "bytes of each"),
        Param::new("skew", "0.5", Unit::Decimal(0.0, 2.0), "how uneven"),
        Param::new("think", "50us", Unit::MICROSECONDS, "mean time between operations"),
        Param::new("fsync", "no", Unit::YesNo, "each is made durable"),
    ];

    fn values(text: &str) -> Result<Values, SettingsError> {
        let mut values = Values::of(&[PARAMS]);
        values.apply(text).map(|()| values)
    }

    #[test]
    fn what_is_not_set_has_its_default() {
        let values = values("size=4K,fsync=yes,think=20").unwrap();
        assert_eq!((values.number("files"), values.number("size")), (10, 4096));
        assert_eq!((values.decimal("skew"), values.yes("fsync")), (0.5, true));
        assert_eq!(values.number("think"), 20_000);
        assert_eq!(values.text_of_changed(), "size=4K,think=20us,fsync=yes");
    }

    #[test]
    fn the_text_of_values_reads_back() {
        let first = values("files=77,skew=1.25").unwrap();
        assert_eq!(values(&first.text()), Ok(first));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let error = |text| values(text).unwrap_err().to_string();
        assert!(error("fles=1").contains("did you mean \"files\"?"));
        assert!(error("files=0").contains("not between 1 and"));
        assert!(error("skew=3").contains("not between 0 and 2"));
        assert!(error("fsync=maybe").contains("neither yes nor no"));
        assert!(error("size=k").contains("size:"));
    }

    #[test]
    fn help_names_each_with_its_form_and_default() {
        let help = help_of(PARAMS, "  ");
        assert!(help.contains("  size               bytes of each (bytes; default 5K)"), "{help}");
    }
}
