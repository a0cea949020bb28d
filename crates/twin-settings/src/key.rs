//! Typed settings: a key knows its unit, its range, its help and the field that it sets.

use std::fmt::Write;

use crate::registry::{Choice, Choose};
use crate::{SettingsError, grammar, outside, value};

/// A reference to the field that a key sets.
pub enum Slot<'a> {
    /// A number of 64 bits.
    U64(&'a mut u64),
    /// A number of 32 bits.
    U32(&'a mut u32),
    /// A number of the width of an address.
    Usize(&'a mut usize),
    /// A number of 64 bits, or `None` (written `own`), with which the component chooses it.
    Optional(&'a mut Option<u64>),
    /// As `Optional`, with a number of 32 bits.
    Optional32(&'a mut Option<u32>),
    /// A decimal number, such as `0.8`.
    F64(&'a mut f64),
    /// A switch, written `yes` or `no`.
    Bool(&'a mut bool),
    /// A name, or other text.
    Text(&'a mut String),
    /// A component of a registry.
    Choice(&'a mut dyn Choose),
}

impl<'a, M> From<&'a mut Choice<M>> for Slot<'a> {
    fn from(field: &'a mut Choice<M>) -> Self {
        Slot::Choice(field)
    }
}

macro_rules! slots {
    ($($field:ty => $slot:ident),*) => {
        $(impl<'a> From<&'a mut $field> for Slot<'a> {
            fn from(field: &'a mut $field) -> Self {
                Slot::$slot(field)
            }
        })*
    };
}
slots!(u64 => U64, u32 => U32, usize => Usize, Option<u64> => Optional, Option<u32> => Optional32,
    f64 => F64, bool => Bool, String => Text);

/// The notation of a value, and the range of values.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// A whole number in this range.
    Number(u64, u64),
    /// A number of bytes in this range.
    Bytes(u64, u64),
    /// A time. The first number is the unit, in nanoseconds, of a value that is written without
    /// one; the second is the longest time in nanoseconds.
    Time(u64, u64),
    /// A percentage, at most this one.
    Percent(u64),
    /// A decimal number in this range.
    Decimal(f64, f64),
    /// A switch: `yes` or `no`.
    YesNo,
    /// One of several names. The word says what the names are, such as "policy".
    Name(&'static str, fn() -> Vec<&'static str>),
    /// A text; the form is shown in the help.
    Text(&'static str),
}

/// The longest time that can be set: ten years. Sums of such times cannot overflow 64 bits.
const LONGEST_NS: u64 = 10 * 365 * 86_400 * 1_000_000_000;

impl Unit {
    /// A time; a number without a unit is in seconds.
    pub const SECONDS: Unit = Unit::Time(1_000_000_000, LONGEST_NS);
    /// A time; a number without a unit is in milliseconds.
    pub const MILLISECONDS: Unit = Unit::Time(1_000_000, LONGEST_NS);
    /// A time; a number without a unit is in microseconds.
    pub const MICROSECONDS: Unit = Unit::Time(1_000, LONGEST_NS);

    /// A whole number from `least` to `most`.
    pub const fn number(least: u64, most: u64) -> Unit {
        Unit::Number(least, most)
    }

    /// A number of bytes from `least` to `most`.
    pub const fn bytes(least: u64, most: u64) -> Unit {
        Unit::Bytes(least, most)
    }

    /// The notation of values, for display.
    pub(crate) fn form(&self) -> String {
        match self {
            Unit::Number(..) => "number".into(),
            Unit::Bytes(..) => "bytes".into(),
            Unit::Time(..) => "time".into(),
            Unit::Percent(_) => "percent".into(),
            Unit::Decimal(..) => "decimal".into(),
            Unit::YesNo => "yes|no".into(),
            Unit::Name(_, names) => names().join("|"),
            Unit::Text(form) => (*form).into(),
        }
    }

    /// Parses a value of a unit whose values are whole numbers, and checks its range.
    pub(crate) fn whole(&self, text: &str) -> Result<u64, SettingsError> {
        let (value, least, most) = match *self {
            Unit::Number(least, most) => (value::number(text)?, least, most),
            Unit::Bytes(least, most) => (value::bytes(text)?, least, most),
            Unit::Time(bare_ns, most) => (value::nanos(text, bare_ns)?, 0, most),
            Unit::Percent(most) => (value::percent(text)?, 0, most),
            _ => return Err(SettingsError::new(format!("{text:?} is not {}", self.form()))),
        };
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        let (least, most) = (self.print(least), self.print(most));
        Err(SettingsError::new(format!("{text} is not between {least} and {most}")))
    }

    /// A whole number in the notation of this unit.
    pub(crate) fn print(&self, number: u64) -> String {
        match self {
            Unit::Bytes(..) => value::bytes_text(number),
            Unit::Time(..) => value::nanos_text(number),
            Unit::Percent(_) => format!("{number}%"),
            _ => number.to_string(),
        }
    }
}

/// The field that a key sets: a slot with a unit, or functions of its own.
enum Field<T: 'static> {
    Slot(Unit, fn(&mut T) -> Slot<'_>),
    Own {
        form: &'static str,
        set: fn(&mut T, &str) -> Result<(), SettingsError>,
        text: fn(&T) -> String,
    },
}

/// A setting of a `T`.
pub struct Key<T: 'static> {
    /// The name of the key.
    pub name: &'static str,
    /// A description in one line, without the unit, for display.
    pub about: &'static str,
    field: Field<T>,
}

impl<T> Key<T> {
    /// A key that sets one field.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        unit: Unit,
        field: fn(&mut T) -> Slot<'_>,
    ) -> Key<T> {
        Key { name, about, field: Field::Slot(unit, field) }
    }

    /// A key with a notation of its own, which `form` describes. `set` parses a value, and `text`
    /// writes the value so that `set` can parse it.
    pub const fn own(
        name: &'static str,
        about: &'static str,
        form: &'static str,
        set: fn(&mut T, &str) -> Result<(), SettingsError>,
        text: fn(&T) -> String,
    ) -> Key<T> {
        Key { name, about, field: Field::Own { form, set, text } }
    }

    /// The notation of its values, for display.
    pub fn form(&self) -> String {
        match &self.field {
            Field::Slot(unit, _) => unit.form(),
            Field::Own { form, .. } => (*form).into(),
        }
    }

    /// Sets the field in `target` to the value in `text`.
    ///
    /// # Errors
    /// If the text is not a value of this key, or the value is out of range.
    pub fn set(&self, target: &mut T, text: &str) -> Result<(), SettingsError> {
        let result = match &self.field {
            Field::Slot(unit, slot) => fill(slot(target), unit, text),
            Field::Own { set, .. } => set(target, text),
        };
        result.map_err(|error| error.within(self.name))
    }

    /// The value in `target`, in the notation of [`set`](Self::set).
    pub fn text(&self, target: &T) -> String
    where
        T: Clone,
    {
        match &self.field {
            Field::Slot(unit, slot) => print(slot(&mut target.clone()), unit),
            Field::Own { text, .. } => text(target),
        }
    }
}

/// The word with which a user leaves the value to the component.
const OWN: &str = "own";

fn fill(slot: Slot<'_>, unit: &Unit, text: &str) -> Result<(), SettingsError> {
    let narrow =
        |n| u32::try_from(n).map_err(|_| SettingsError::new(format!("{text} is too large")));
    match slot {
        Slot::U64(field) => *field = unit.whole(text)?,
        Slot::U32(field) => *field = narrow(unit.whole(text)?)?,
        Slot::Usize(field) => *field = narrow(unit.whole(text)?)? as usize,
        Slot::Optional(field) if text == OWN => *field = None,
        Slot::Optional(field) => *field = Some(unit.whole(text)?),
        Slot::Optional32(field) if text == OWN => *field = None,
        Slot::Optional32(field) => *field = Some(narrow(unit.whole(text)?)?),
        Slot::F64(field) => *field = decimal(unit, text)?,
        Slot::Bool(field) => *field = value::yes_no(text)?,
        Slot::Text(field) => {
            if let Unit::Name(what, names) = unit
                && !names().contains(&text)
            {
                // The module that a path names adds its name when it is loaded.
                match outside::loaded(text)? {
                    None => return Err(SettingsError::unknown(what, text, names())),
                    Some(loaded) if !names().contains(&text) => {
                        return Err(outside::wrong_kind(text, loaded.kind, what));
                    }
                    Some(_) => {}
                }
            }
            *field = text.into();
        }
        Slot::Choice(field) => field.choose(text)?,
    }
    Ok(())
}

pub(crate) fn decimal(unit: &Unit, text: &str) -> Result<f64, SettingsError> {
    let value = value::decimal(text)?;
    match *unit {
        Unit::Decimal(least, most) if !(least..=most).contains(&value) => {
            Err(SettingsError::new(format!("{text} is not between {least} and {most}")))
        }
        _ => Ok(value),
    }
}

fn print(slot: Slot<'_>, unit: &Unit) -> String {
    let own = || String::from(OWN);
    match slot {
        Slot::U64(field) => unit.print(*field),
        Slot::U32(field) => unit.print((*field).into()),
        Slot::Usize(field) => unit.print(*field as u64),
        Slot::Optional(field) => field.map_or_else(own, |n| unit.print(n)),
        Slot::Optional32(field) => field.map_or_else(own, |n| unit.print(n.into())),
        Slot::F64(field) => field.to_string(),
        Slot::Bool(true) => "yes".into(),
        Slot::Bool(false) => "no".into(),
        Slot::Text(field) => field.clone(),
        Slot::Choice(field) => field.name().into(),
    }
}

/// Applies the settings in `text`: `key=value,key=value`.
///
/// # Errors
/// The first wrong setting. The settings before it have been applied.
pub fn apply<T>(target: &mut T, keys: &[Key<T>], text: &str) -> Result<(), SettingsError> {
    for setting in grammar::settings(text)? {
        set(target, keys, setting.key, setting.value)?;
    }
    Ok(())
}

/// Sets one key.
///
/// # Errors
/// If there is no such key, or the value is wrong.
pub fn set<T>(
    target: &mut T,
    keys: &[Key<T>],
    key: &str,
    value: &str,
) -> Result<(), SettingsError> {
    let found = keys.iter().find(|known| known.name == key);
    let found = found.ok_or_else(|| {
        SettingsError::unknown("setting", key, keys.iter().map(|known| known.name))
    })?;
    found.set(target, value)
}

/// The settings in which `target` differs from `default`, in the notation of [`apply`].
pub fn text_of<T: Clone>(target: &T, default: &T, keys: &[Key<T>]) -> String {
    let texts = keys.iter().map(|key| (key.name, key.text(target), key.text(default)));
    let changed = texts.filter(|(_, text, default)| text != default);
    changed.map(|(name, text, _)| format!("{name}={text}")).collect::<Vec<_>>().join(",")
}

/// The help for all keys, one line for each: its name, its meaning, its notation and its value in
/// `default`.
pub fn help<T: Clone>(keys: &[Key<T>], default: &T) -> String {
    let mut out = String::new();
    for key in keys {
        let Key { name, about, .. } = key;
        let (form, text) = (key.form(), key.text(default));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:<20} {about} [{form}; {text}]");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct All {
        count: u32,
        bytes: u64,
        age_ns: u64,
        minfree: u32,
        skew: f64,
        eager: bool,
        policy: String,
        rate: Option<u64>,
        place: (u32, u32),
    }

    const START: fn() -> All = || All {
        count: 1,
        bytes: 4096,
        age_ns: 30_000_000_000,
        minfree: 10,
        skew: 0.5,
        eager: false,
        policy: "lru".into(),
        rate: None,
        place: (1, 2),
    };

    const KEYS: &[Key<All>] = &[
        Key::new("count", "things", Unit::number(1, 100), |a| (&mut a.count).into()),
        Key::new("bytes", "bytes", Unit::bytes(1024, 1 << 30), |a| (&mut a.bytes).into()),
        Key::new("age", "age", Unit::MILLISECONDS, |a| (&mut a.age_ns).into()),
        Key::new("minfree", "kept free", Unit::Percent(50), |a| (&mut a.minfree).into()),
        Key::new("skew", "skew", Unit::Decimal(0.0, 2.0), |a| (&mut a.skew).into()),
        Key::new("eager", "eager", Unit::YesNo, |a| (&mut a.eager).into()),
        Key::new("policy", "policy", Unit::Name("policy", || vec!["lru", "fifo"]), |a| {
            (&mut a.policy).into()
        }),
        Key::new("rate", "rate", Unit::bytes(1, 1 << 40), |a| (&mut a.rate).into()),
        Key::own(
            "place",
            "row and column",
            "row/column",
            |a, text| {
                let [row, column] = value::list(text, "row/column")?;
                let narrow = |text| value::number(text).map(|n| n as u32);
                a.place = (narrow(row)?, narrow(column)?);
                Ok(())
            },
            |a| format!("{}/{}", a.place.0, a.place.1),
        ),
    ];

    #[test]
    fn every_kind_of_field_is_set_and_read_back() {
        let mut all = START();
        let text = "count=7,bytes=64K,age=500us,minfree=5%,skew=0.9,eager=yes,policy=fifo,rate=10M,place=3/4";
        apply(&mut all, KEYS, text).unwrap();
        assert_eq!((all.count, all.bytes, all.age_ns, all.minfree), (7, 65_536, 500_000, 5));
        assert_eq!((all.rate, all.place, all.eager), (Some(10 << 20), (3, 4), true));
        assert_eq!(text_of(&all, &START(), KEYS), text);
        let mut again = START();
        apply(&mut again, KEYS, &text_of(&all, &START(), KEYS)).unwrap();
        assert_eq!(again, all);
        apply(&mut all, KEYS, "rate=own").unwrap();
        assert_eq!(all.rate, None);
    }

    #[test]
    fn what_is_wrong_is_told_with_the_key_and_what_would_be_right() {
        for (text, words) in [
            ("count=0", "count: 0 is not between 1 and 100"),
            ("bytes=2G", "bytes: 2G is not between 1K and 1G"),
            ("age=3 weeks", "age: \"3 weeks\" is not a time"),
            ("minfree=60", "minfree: 60 is not between 0% and 50%"),
            ("skew=3", "skew: 3 is not between 0 and 2"),
            ("eager=1", "eager: \"1\" is neither yes nor no"),
            ("policy=lur", "policy: there is no policy called \"lur\"; did you mean \"lru\"?"),
            ("place=3", "place: \"3\" is not row/column"),
            ("conut=3", "there is no setting called \"conut\"; did you mean \"count\"?"),
            ("count", "\"count\" is not key=value"),
        ] {
            let error = apply(&mut START(), KEYS, text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn help_tells_notation_meaning_and_default() {
        let help = help(KEYS, &START());
        assert!(help.contains("bytes                bytes [bytes; 4K]"), "{help}");
        assert!(help.contains("[lru|fifo; lru]") && help.contains("[row/column; 1/2]"), "{help}");
    }
}
