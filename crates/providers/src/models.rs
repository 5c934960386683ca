//! A model, as a program or a manifest names it.

mod suited;

use bowline_protocol::Timestamp;
use serde::{Deserialize, Serialize};

pub use suited::suited;

/// A model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name that the program wants.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// It is a name for whatever model is meant by it at the time; absent means that it is pinned. Empty where the program
    /// does not say which one that is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_of: Option<String>,
    /// Its purpose, in the program's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// It is the default model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// The program does not show it to people.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// How much it can be asked to think; empty where nothing is known of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub efforts: Vec<String>,
    /// How much it thinks unless asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_effort: Option<String>,
    /// The model to use in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// It answers no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retired: bool,
    /// From when on it answers no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retires_at: Option<Timestamp>,
}

impl Model {
    /// Returns whether it answers no more.
    pub fn is_retired(&self, now: Timestamp) -> bool {
        self.retired || self.retires_at.is_some_and(|at| at <= now)
    }
}

/// Why a model cannot be used as it was asked for, found before anything is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelObjection {
    /// It answers no more; the model to use instead, where that is known.
    Retired(Option<String>),
    /// It knows only these efforts.
    Effort(Vec<String>),
}

/// Looks for a reason not to use a model. One that is not on the list may be new: there is no reason against it.
pub fn objection(list: &[Model], id: &str, effort: Option<&str>, now: Timestamp) -> Option<ModelObjection> {
    let model = list.iter().find(|model| model.id == id)?;
    if model.is_retired(now) {
        return Some(ModelObjection::Retired(model.replaced_by.clone()));
    }
    let unknown = |effort: &&str| !model.efforts.is_empty() && !model.efforts.iter().any(|it| it == effort);
    effort.filter(unknown).map(|_| ModelObjection::Effort(model.efforts.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_objected_to() {
        let now = Timestamp::from_seconds(1_000);
        let model = |id: &str| Model { id: id.into(), ..Model::default() };
        let list = [
            Model { efforts: vec!["low".into(), "high".into()], ..model("thinks") },
            Model { retired: true, replaced_by: Some("thinks".into()), ..model("gone") },
            Model { retires_at: Some(Timestamp::from_seconds(1_000)), ..model("going") },
            Model { retires_at: Some(Timestamp::from_seconds(1_001)), ..model("staying") },
        ];
        let check = |id: &str, effort| objection(&list, id, effort, now);
        assert_eq!(check("thinks", Some("high")), None);
        assert_eq!(check("thinks", None), None);
        let known = vec!["low".to_owned(), "high".to_owned()];
        assert_eq!(check("thinks", Some("ultra")), Some(ModelObjection::Effort(known)));
        assert_eq!(check("gone", None), Some(ModelObjection::Retired(Some("thinks".into()))));
        assert_eq!(check("going", Some("low")), Some(ModelObjection::Retired(None)));
        assert_eq!(check("staying", Some("whatever")), None);
        assert_eq!(check("new", Some("ultra")), None);
    }
}
