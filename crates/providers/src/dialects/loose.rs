//! Fields of foreign JSON that may hold anything.
//!
//! Readers of hot lines borrow from the line and parse it once. A derived reader would refuse the whole line because one
//! field is a number where it was a string yesterday; these types take whatever is there and say what it was.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A field that should hold a text, a number or a truth.
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

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor(PhantomData))
    }
}

struct FieldVisitor<'a>(PhantomData<&'a str>);

impl<'de: 'a, 'a> Visitor<'de> for FieldVisitor<'a> {
    type Value = Field<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Field<'a>, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Field<'a>, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Field<'a>, E> {
        Ok(Field::Text(Cow::Owned(text)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Field<'a>, E> {
        Ok(Field::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Field<'a>, E> {
        Ok(u64::try_from(number).map_or(Field::Number(number as f64), Field::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Field<'a>, E> {
        Ok(Field::Number(number))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Field<'a>, E> {
        Ok(Field::Truth(truth))
    }

    fn visit_unit<E>(self) -> Result<Field<'a>, E> {
        Ok(Field::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Field<'a>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field<'a>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Nothing)
    }
}

/// A field that should hold an object: its default when it holds anything else.
#[derive(Debug, Default)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Object<T>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Object::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Object<T>, E> {
        Ok(Object::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Object<T>, E> {
        Ok(Object::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Object<T>, E> {
        Ok(Object::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Object<T>, E> {
        Ok(Object::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Object<T>, E> {
        Ok(Object::default())
    }

    fn visit_unit<E>(self) -> Result<Object<T>, E> {
        Ok(Object::default())
    }
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
        name: Field<'a>,
        #[serde(borrow)]
        inner: Object<Inner<'a>>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Inner<'a> {
        #[serde(borrow)]
        count: Field<'a>,
    }

    #[test]
    fn a_field_of_another_kind_does_not_lose_the_line() {
        for odd in ["1", "-1", "1.5", "true", "null", "[1,[2]]", "{\"a\":{}}", "\"x\""] {
            let text = format!("{{\"name\":{odd},\"inner\":{odd},\"new\":{odd}}}");
            let line: Line<'_> =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(line.inner.0.count, Field::Nothing);
            assert_eq!(line.name.text().is_some(), odd.starts_with('"'));
        }
        let line: Line<'_> =
            serde_json::from_str(r#"{"name":"a\"b","inner":{"count":3.0}}"#).expect("a line");
        assert_eq!((line.name.str(), line.inner.0.count.whole()), ("a\"b", Some(3)));
    }

    #[test]
    fn plain_text_is_borrowed() {
        let line: Line<'_> = serde_json::from_str(r#"{"name":"plain"}"#).expect("a line");
        assert!(matches!(line.name, Field::Text(Cow::Borrowed("plain"))));
    }
}
