//! Fields that never lose their line: a value of another kind than expected counts as absent.
//!
//! Everything is read in one pass and borrows from the line where it can. Only what is no JSON, and a key that occurs
//! twice, make a line unreadable here; `lenient` takes care of those.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use bowline_protocol::Excerpt;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What a value becomes; `Default` stands for every kind of value that is not expected.
trait Pick<'de>: Default {
    fn text(_: &str) -> Self {
        Self::default()
    }

    fn borrowed(text: &'de str) -> Self {
        Self::text(text)
    }

    fn number(_: i64) -> Self {
        Self::default()
    }

    fn float(_: f64) -> Self {
        Self::default()
    }

    fn flag(_: bool) -> Self {
        Self::default()
    }

    fn map<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
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

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(T::number(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok(i64::try_from(number).map_or_else(|_| T::default(), T::number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        Ok(T::float(number))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<T, E> {
        Ok(T::flag(flag))
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
pub(crate) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
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

impl<'de: 'a, 'a> Pick<'de> for Text<'a> {
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
    fn number(number: i64) -> Self {
        Self(Some(number))
    }

    fn float(number: f64) -> Self {
        Self((number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64))
    }
}

/// Yes or no.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flag(pub(crate) Option<bool>);

impl Pick<'_> for Flag {
    fn flag(flag: bool) -> Self {
        Self(Some(flag))
    }
}

/// An object, or nothing.
#[derive(Clone, Debug)]
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Pick<'de> for Object<T> {
    fn map<A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Self(Some(value)))
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

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any(PhantomData))
    }
}

macro_rules! loose {
    ($($name:ty $(where $bound:ident)?),+ $(,)?) => {$(
        impl<'de $(, $bound: Deserialize<'de>)?> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Any(PhantomData))
            }
        }
    )+};
}

loose!(Head, Number, Flag, Object<T> where T, List<T> where T);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Line<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        head: Head,
        number: Number,
        #[serde(borrow)]
        inner: Object<Inner<'a>>,
        #[serde(borrow)]
        list: List<Text<'a>>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Inner<'a> {
        #[serde(borrow)]
        text: Text<'a>,
    }

    fn read(text: &str) -> Line<'_> {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn expected_kinds_are_read() {
        let line = read(r#"{"text":"a\n","head":"b","number":3.0,"inner":{"text":"c"},"list":["d",1]}"#);
        assert_eq!(line.text.get(), Some("a\n"));
        assert_eq!(line.head.0, Some(Excerpt::of("b")));
        assert_eq!(line.number.0, Some(3));
        assert_eq!(line.inner.0.expect("an object").text.get(), Some("c"));
        assert_eq!(line.list.0.iter().map(Text::or_empty).collect::<Vec<_>>(), ["d", ""]);
    }

    #[test]
    fn other_kinds_are_absent() {
        for other in ["null", "true", "-1.5", "18446744073709551615", "[1,[2]]", r#"[{"a":{}}]"#] {
            let text = format!(r#"{{"text":{other},"head":{other},"number":{other},"inner":{other}}}"#);
            let line = read(&text);
            assert!(line.text.get().is_none() && line.head.0.is_none() && line.number.0.is_none(), "{other}");
            assert!(line.inner.0.is_none(), "{other}");
        }
        assert!(read(r#"{"list":{"a":1}}"#).list.0.is_empty());
    }
}
