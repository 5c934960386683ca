//! Fields of foreign JSON that may hold anything.
//!
//! Readers of hot lines borrow from the line and read it once. A derived reader would refuse the whole line because one
//! field is a number where it was a string yesterday; these types take whatever is there, and what is of another kind
//! than expected counts as absent. Only what is no JSON, and a key that occurs twice, make a line unreadable here;
//! `lenient` takes care of those.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bowline_protocol::Excerpt;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The conversion of a value; `Default` stands for every unexpected kind of value.
pub(crate) trait Pick<'de>: Default {
    /// Handles a text that had to be unescaped.
    fn text(_: &str) -> Self {
        Self::default()
    }

    /// Handles a text as it stands in the line.
    fn borrowed(text: &'de str) -> Self {
        Self::text(text)
    }

    /// Handles a whole number that is not negative.
    fn whole(_: u64) -> Self {
        Self::default()
    }

    /// Handles a whole number below zero.
    fn negative(_: i64) -> Self {
        Self::default()
    }

    /// Takes any other number.
    fn float(_: f64) -> Self {
        Self::default()
    }

    /// Handles a truth.
    fn truth(_: bool) -> Self {
        Self::default()
    }

    /// Handles an object.
    fn map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        // serde requires that a visitor consumes the whole map, or the rest of the line cannot be read.
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    /// Handles an array.
    fn seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// Reads a value of any kind.
pub(crate) fn pick<'de, T: Pick<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Any(PhantomData))
}

struct Any<T>(PhantomData<T>);

impl<'de, T: Pick<'de>> Visitor<'de> for Any<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::text(text))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T, E> {
        Ok(T::borrowed(text))
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok(T::whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(u64::try_from(number).map_or_else(|_| T::negative(number), T::whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        Ok(T::float(number))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<T, E> {
        Ok(T::truth(truth))
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<T, A::Error> {
        T::seq(seq)
    }
}

/// A text.
#[derive(Clone, Debug, Default)]
pub(crate) struct LooseText<'a>(pub(crate) Option<Cow<'a, str>>);

impl LooseText<'_> {
    /// Returns the text.
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns the text; an absent one is empty.
    pub(crate) fn or_empty(&self) -> &str {
        self.get().unwrap_or_default()
    }

    /// Returns the text as a value of its own, unless it is absent or empty.
    pub(crate) fn owned(&self) -> Option<String> {
        self.get().filter(|text| !text.is_empty()).map(str::to_owned)
    }
}

impl<'de: 'a, 'a> Pick<'de> for LooseText<'a> {
    fn text(text: &str) -> Self {
        Self(Some(Cow::Owned(text.to_owned())))
    }

    fn borrowed(text: &'de str) -> Self {
        Self(Some(Cow::Borrowed(text)))
    }
}

/// The beginning of a text of which no more is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head(pub(crate) Option<Excerpt>);

impl Pick<'_> for Head {
    fn text(text: &str) -> Self {
        Self(Some(Excerpt::of(text)))
    }
}

/// A whole number. Some JSON writers have only floats.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Number(pub(crate) Option<i64>);

impl Pick<'_> for Number {
    fn whole(number: u64) -> Self {
        Self(i64::try_from(number).ok())
    }

    fn negative(number: i64) -> Self {
        Self(Some(number))
    }

    fn float(number: f64) -> Self {
        // Below 2^53 a float holds every whole number exactly.
        Self((number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64))
    }
}

/// Yes or no.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LooseFlag(pub(crate) Option<bool>);

impl Pick<'_> for LooseFlag {
    fn truth(flag: bool) -> Self {
        Self(Some(flag))
    }
}

/// A field that may hold a text, a number or a truth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Field<'a> {
    /// It is not there, or null, or an array or object.
    #[default]
    Nothing,
    /// A text.
    Text(Cow<'a, str>),
    /// A whole number that is not negative.
    Whole(u64),
    /// Any other number.
    Number(f64),
    /// A truth.
    Truth(bool),
}

impl Field<'_> {
    /// Returns the text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Nothing | Self::Whole(_) | Self::Number(_) | Self::Truth(_) => None,
        }
    }

    /// Returns the text, or an empty one.
    pub(crate) fn str(&self) -> &str {
        self.text().unwrap_or_default()
    }

    /// Returns the text as its owner's.
    pub(crate) fn string(&self) -> Option<String> {
        self.text().map(str::to_owned)
    }

    /// Returns the whole number. Some JSON writers have only floats.
    pub(crate) fn whole(&self) -> Option<u64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Number(number)
                if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(number) =>
            {
                Some(*number as u64)
            }
            Self::Nothing | Self::Text(_) | Self::Number(_) | Self::Truth(_) => None,
        }
    }

    /// Returns the whole number if it fits.
    pub(crate) fn small(&self) -> Option<u32> {
        self.whole().and_then(|number| u32::try_from(number).ok())
    }

    /// Returns the number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Nothing | Self::Text(_) | Self::Truth(_) => None,
        }
    }

    /// Returns the truth.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Self::Truth(truth) => Some(*truth),
            Self::Nothing | Self::Text(_) | Self::Whole(_) | Self::Number(_) => None,
        }
    }
}

impl<'de: 'a, 'a> Pick<'de> for Field<'a> {
    fn text(text: &str) -> Self {
        Self::Text(Cow::Owned(text.to_owned()))
    }

    fn borrowed(text: &'de str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    fn whole(number: u64) -> Self {
        Self::Whole(number)
    }

    fn negative(number: i64) -> Self {
        Self::Number(number as f64)
    }

    fn float(number: f64) -> Self {
        Self::Number(number)
    }

    fn truth(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

/// An object whose fields have their defaults when it is anything else.
#[derive(Debug, Default)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de> + Default> Pick<'de> for Object<T> {
    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Self)
    }
}

/// An object, or nothing.
#[derive(Clone, Debug)]
pub(crate) struct Maybe<T>(pub(crate) Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Pick<'de> for Maybe<T> {
    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Self(Some(value)))
    }
}

/// A large object, or nothing. Not `Maybe<Box<T>>`, which moves the object twice before it is in its box.
#[derive(Clone, Debug)]
pub(crate) struct Boxed<T>(pub(crate) Option<Box<T>>);

impl<T> Default for Boxed<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Pick<'de> for Boxed<T> {
    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        match T::deserialize(MapAccessDeserializer::new(map)) {
            Ok(value) => Ok(Self(Some(Box::new(value)))),
            Err(error) => Err(error),
        }
    }
}

/// The members of an array; anything else has none.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Pick<'de> for List<T> {
    fn seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = seq.next_element()? {
            members.push(member);
        }
        Ok(Self(members))
    }
}

/// Makes types readable that say with [`Pick`] what they take.
macro_rules! picked {
    ($(impl<$($a:lifetime)? $($t:ident $(: $bound:ident)?)?> $name:ty;)+) => {$(
        impl<'de $(: $a, $a)? $(, $t: serde::Deserialize<'de> $(+ $bound)?)?> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::dialects::loose_json::pick(deserializer)
            }
        }
    )+};
}
pub(crate) use picked;

picked! {
    impl<'a> LooseText<'a>;
    impl<'a> Field<'a>;
    impl<> Head;
    impl<> Number;
    impl<> LooseFlag;
    impl<T: Default> Object<T>;
    impl<T> Maybe<T>;
    impl<T> Boxed<T>;
    impl<T> List<T>;
}

/// Reads a part of a line that was left as it stands; what has another form counts as empty.
pub(crate) fn part<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Line<'a> {
        #[serde(borrow)]
        text: LooseText<'a>,
        head: Head,
        number: Number,
        flag: LooseFlag,
        #[serde(borrow)]
        field: Field<'a>,
        #[serde(borrow)]
        object: Object<Inner<'a>>,
        #[serde(borrow)]
        maybe: Maybe<Inner<'a>>,
        #[serde(borrow)]
        list: List<LooseText<'a>>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Inner<'a> {
        #[serde(borrow)]
        text: LooseText<'a>,
    }

    fn read(text: &str) -> Line<'_> {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn expected_kinds_are_read() {
        let line = read(
            r#"{"text":"a\n","head":"b","number":3.0,"flag":true,"field":-7,"object":{"text":"c"},"maybe":{"text":"d"},"list":["e",1]}"#,
        );
        assert_eq!(line.text.get(), Some("a\n"));
        assert_eq!(line.head.0, Some(Excerpt::of("b")));
        assert_eq!((line.number.0, line.flag.0), (Some(3), Some(true)));
        assert_eq!((line.field.number(), line.field.whole()), (Some(-7.0), None));
        assert_eq!(line.object.0.text.get(), Some("c"));
        assert_eq!(line.maybe.0.expect("an object").text.get(), Some("d"));
        assert_eq!(line.list.0.iter().map(LooseText::or_empty).collect::<Vec<_>>(), ["e", ""]);
        assert_eq!(read(r#"{"number":-1}"#).number.0, Some(-1));
    }

    #[test]
    fn a_field_of_another_kind_is_absent_and_does_not_lose_the_line() {
        for other in ["null", "-1.5", "18446744073709551615", "[1,[2]]", r#"[{"a":{}}]"#] {
            let text = format!(
                r#"{{"text":{other},"head":{other},"number":{other},"flag":{other},"object":{other},"maybe":{other},"new":{other}}}"#
            );
            let line = read(&text);
            assert!(line.text.get().is_none() && line.head.0.is_none() && line.number.0.is_none(), "{other}");
            assert!(line.flag.0.is_none() && line.maybe.0.is_none(), "{other}");
            assert!(line.object.0.text.get().is_none(), "{other}");
        }
        let line = read(r#"{"list":{"a":1},"text":true,"number":"3","maybe":"x","object":1,"field":[1]}"#);
        assert!(line.list.0.is_empty() && line.text.get().is_none() && line.number.0.is_none());
        assert!(line.maybe.0.is_none() && line.object.0.text.get().is_none());
        assert_eq!(line.field, Field::Nothing);
    }

    #[test]
    fn plain_text_is_borrowed() {
        let line = read(r#"{"text":"plain","field":"plain"}"#);
        assert!(matches!(line.text.0, Some(Cow::Borrowed("plain"))));
        assert!(matches!(line.field, Field::Text(Cow::Borrowed("plain"))));
    }
}
