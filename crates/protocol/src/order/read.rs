//! Reads orders. `serde` would read an enum with a tag through a buffer, which loses the exact text of an input ([`Json`]), and
//! would accept unknown fields in an order that has none.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

use super::{ApprovalVerdict, SessionOrder};
use crate::Json;

impl<'de> Deserialize<'de> for SessionOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = OrderFields::deserialize(deserializer)?;
        let tag: String = fields.required("order")?;
        let order = match tag.as_str() {
            "prompt" => Self::Prompt {
                text: fields.required("text")?,
                attachments: fields.or_default("attachments")?,
                when_busy: fields.or_default("when_busy")?,
                from: fields.or_default("from")?,
            },
            "send_offered" => Self::SendOffered { prompt: fields.required("prompt")? },
            "dequeue" => Self::Dequeue { prompt: fields.or_default("prompt")? },
            "interrupt" => Self::Interrupt,
            "decide" => Self::Decide {
                approval: fields.or_default("approval")?,
                verdict: fields.required("verdict")?,
            },
            "reply" => {
                Self::Reply { question: fields.or_default("question")?, answers: fields.required("answers")? }
            }
            "set_option" => {
                Self::SetOption { option: fields.required("option")?, value: fields.required("value")? }
            }
            "set_control" => Self::SetControl { mode: fields.required("mode")? },
            "compact" => Self::Compact,
            "start" => Self::Start { child: fields.required("child")? },
            "stop" => Self::Stop,
            "kill" => Self::Kill,
            unknown => return Err(D::Error::unknown_variant(unknown, ORDERS)),
        };
        fields.end(&tag)?;
        Ok(order)
    }
}

const ORDERS: &[&str] = &[
    "prompt",
    "send_offered",
    "dequeue",
    "interrupt",
    "decide",
    "reply",
    "set_option",
    "set_control",
    "compact",
    "start",
    "stop",
    "kill",
];

impl<'de> Deserialize<'de> for ApprovalVerdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = OrderFields::deserialize(deserializer)?;
        let tag: String = fields.required("decision")?;
        let verdict = match tag.as_str() {
            // `null` is a JSON value, too, but no agent has such an input.
            "allow" => Self::Allow { input: fields.or_default::<Option<Json>, _>("input")? },
            "allow_for_session" => Self::AllowForSession,
            "deny" => Self::Deny { message: fields.or_default("message")? },
            unknown => return Err(D::Error::unknown_variant(unknown, DECISIONS)),
        };
        fields.end(&tag)?;
        Ok(verdict)
    }
}

const DECISIONS: &[&str] = &["allow", "allow_for_session", "deny"];

/// The fields of an object, each as its author wrote it.
struct OrderFields(BTreeMap<String, Box<RawValue>>);

impl OrderFields {
    fn required<T: DeserializeOwned, E: Error>(&mut self, name: &'static str) -> Result<T, E> {
        let text = self.0.remove(name).ok_or_else(|| E::missing_field(name))?;
        read(name, &text)
    }

    fn or_default<T: DeserializeOwned + Default, E: Error>(&mut self, name: &'static str) -> Result<T, E> {
        self.0.remove(name).map_or_else(|| Ok(T::default()), |text| read(name, &text))
    }

    /// Refuses fields that were not taken.
    fn end<E: Error>(self, tag: &str) -> Result<(), E> {
        match self.0.into_keys().next() {
            Some(field) => Err(E::custom(format_args!("`{tag}` has no field `{field}`"))),
            None => Ok(()),
        }
    }
}

fn read<T: DeserializeOwned, E: Error>(name: &str, text: &RawValue) -> Result<T, E> {
    serde_json::from_str(text.get()).map_err(|error| E::custom(format_args!("`{name}`: {error}")))
}

impl<'de> Deserialize<'de> for OrderFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = OrderFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderFields, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
            // The program that checked the order may have read the other one of the two.
            if fields.contains_key(&name) {
                return Err(de::Error::custom(format_args!("the field `{name}` occurs twice")));
            }
            fields.insert(name, value);
        }
        Ok(OrderFields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::ControlMode;
    use crate::{ApprovalId, ChildRequest, PermissionMode, PromptId, QuestionId, WhenBusy};

    #[test]
    fn every_order_is_read_as_it_was_written() {
        let input = Json::parse(r#"{"b":1,"a":123456789012345678901234567890,"b":2}"#).unwrap();
        let decide = |verdict| SessionOrder::Decide { approval: Some(ApprovalId::from("a1")), verdict };
        let orders = [
            SessionOrder::Prompt {
                text: "hi".to_owned(),
                attachments: Vec::new(),
                when_busy: WhenBusy::Steer,
                from: Some("me".to_owned()),
            },
            SessionOrder::SendOffered { prompt: PromptId::from("p1") },
            SessionOrder::Dequeue { prompt: None },
            SessionOrder::Interrupt,
            decide(ApprovalVerdict::Allow { input: Some(input) }),
            decide(ApprovalVerdict::Allow { input: None }),
            decide(ApprovalVerdict::AllowForSession),
            decide(ApprovalVerdict::Deny { message: Some("no".to_owned()) }),
            SessionOrder::Reply { question: Some(QuestionId::from("q1")), answers: vec!["x".to_owned()] },
            SessionOrder::SetOption { option: "model".to_owned(), value: "m".to_owned() },
            SessionOrder::SetControl { mode: ControlMode::HumanLed },
            SessionOrder::Compact,
            SessionOrder::Start {
                child: ChildRequest {
                    provider: "alpha".to_owned(),
                    prompt: "Go".to_owned(),
                    model: Some("m".to_owned()),
                    effort: None,
                    permission: Some(PermissionMode::Edit),
                    name: Some("helper".to_owned()),
                },
            },
            SessionOrder::Stop,
            SessionOrder::Kill,
        ];
        for order in orders {
            let text = serde_json::to_string(&order).unwrap();
            assert_eq!(serde_json::from_str::<SessionOrder>(&text).unwrap(), order, "{text}");
        }
    }

    #[test]
    fn what_is_not_an_order_is_refused() {
        let check = |text: &str, expected: &str| {
            let error = serde_json::from_str::<SessionOrder>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        check(r#"{"order":"interrupt","x":1}"#, "`interrupt` has no field `x`");
        check(r#"{"order":"prompt","text":"a","text":"b"}"#, "the field `text` occurs twice");
        check(r#"{"order":"prompt"}"#, "missing field `text`");
        check(r#"{"order":"prompt","text":1}"#, "`text`: invalid type");
        check(r#"{"order":"dance"}"#, "unknown variant `dance`");
        check(r#"{"order":"start","child":{"provider":"a","prompt":"b","cwd":"/"}}"#, "unknown field `cwd`");
        check(r#"{"text":"a"}"#, "missing field `order`");
        check(r#"{"order":"decide","verdict":{"decision":"allow_for_session","x":2}}"#, "has no field `x`");
        check(r#"{"order":"decide","verdict":{"decision":"maybe"}}"#, "unknown variant `maybe`");
        check(r#"[]"#, "expected an object");
    }
}
