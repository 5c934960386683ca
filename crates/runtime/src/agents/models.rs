//! The models that an agent offers: the program's own list, cached for a day, else the list of its manifest.
//!
//! An empty list never replaces a cached list with models. If the program cannot be queried, the last cached list is used, and
//! the result contains its time and the error.

use std::time::Duration;

use bowline_protocol::{Category, Code, Remedy, Request, RequestField, Timestamp};
use bowline_providers::ask::{AccountReport, Subject};
use bowline_providers::invocation::Refusal;
use bowline_providers::manifest::Manifest;
use bowline_providers::models::{ModelObjection, objection};
use serde::{Deserialize, Serialize};

use crate::agents::answer_cache::AnswerCache;
use crate::agents::detect::{self, Ask, Breadth, Found, Stamp};
use crate::agents::profile::Profile;
use crate::agents::roster::{Roster, RosterError};
use crate::system::clock;
use crate::system::surroundings::Surroundings;

pub use bowline_providers::models::Model;

/// How long a list is good.
const GOOD_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a list is better than none.
const WORTH_KEEPING: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The models of an agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Models {
    /// The provider.
    pub provider: String,
    /// The profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The models, in the program's order.
    pub models: Vec<Model>,
    /// The source of the list.
    pub source: ListSource,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Why the program was not queried, or did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The source of a list of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListSource {
    /// The program, less than a day ago.
    Program,
    /// The program, longer ago than that, or another version of it.
    Kept,
    /// Its manifest.
    Manifest,
}

/// A cached list.
#[derive(Serialize, Deserialize)]
struct CachedModels {
    /// The program that reported it.
    program: String,
    models: Vec<Model>,
}

/// Returns the models that a provider offers.
///
/// ```no_run
/// # async fn example() -> Result<(), bowline::Error> {
/// for model in bowline::models("codex").await?.models {
///     println!("{}: {}", model.id, model.efforts.join(" "));
/// }
/// # Ok(()) }
/// ```
///
/// Needs a tokio runtime.
pub async fn models(provider: &str) -> Result<Models, RosterError> {
    let manifest = Roster::default().find(provider)?;
    Ok(of(manifest, None, &Surroundings::from_env(), &Ask::at_length()).await)
}

/// Returns the models that a provider offers, with a profile and in surroundings of the caller's choice.
///
/// Needs a tokio runtime.
pub async fn of(
    manifest: &'static Manifest,
    profile: Option<&Profile>,
    surroundings: &Surroundings,
    ask: &Ask,
) -> Models {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let cache = AnswerCache::with(ask, surroundings, "models");
    let key = key(manifest, surroundings);
    let now = clock::wall();
    let of = |models, source, at, trouble| {
        let (provider, profile) = (manifest.name.clone(), profile.map(|profile| profile.name.clone()));
        Models { provider, profile, models, source, at, trouble }
    };
    let told = match detect::find_anywhere(manifest, None, surroundings).await {
        Ok(found) => {
            let kept = cache.as_ref().and_then(|cache| cache.get::<CachedModels>(&key, GOOD_FOR, now));
            if let Some((kept, at)) = kept.filter(|(kept, _)| kept.program == program(&found)) {
                return of(kept.models, ListSource::Program, Some(at), None);
            }
            asked(&found, surroundings, ask).await
        }
        Err(missing) => Err(format!("{missing}: {}", missing.kind)),
    };
    match told {
        Ok(Some(kept)) => {
            if let Some(cache) = &cache {
                cache.put(&key, &kept, now);
            }
            of(kept.models, ListSource::Program, Some(now), None)
        }
        told => match cache.as_ref().and_then(|cache| cache.last::<CachedModels>(&key, WORTH_KEEPING, now)) {
            Some((kept, at)) => of(kept.models, ListSource::Kept, Some(at), told.err()),
            None => of(declared(manifest), ListSource::Manifest, None, told.err()),
        },
    }
}

/// Returns the known models without running a program: the last list that it reported with this profile, else its
/// manifest's.
pub fn known(manifest: &Manifest, profile: Option<&Profile>, surroundings: &Surroundings) -> Vec<Model> {
    let surroundings = &*Profile::seen(profile, manifest, surroundings);
    let cache = AnswerCache::of(surroundings, "models");
    let key = key(manifest, surroundings);
    let kept = cache.and_then(|cache| cache.get::<CachedModels>(&key, GOOD_FOR, clock::wall()));
    kept.map_or_else(|| declared(manifest), |(kept, _)| kept.models)
}

/// Rejects a model that is known to be retired, or to lack the requested effort.
pub(crate) fn admit(
    manifest: &Manifest,
    request: &Request,
    surroundings: &Surroundings,
) -> Result<(), Refusal> {
    let Some(id) = &request.model else { return Ok(()) };
    let list = known(manifest, None, surroundings);
    let Some(objection) = objection(&list, id, request.effort.as_deref(), clock::wall()) else {
        return Ok(());
    };
    Err(match objection {
        ModelObjection::Retired(instead) => {
            let remedy = match instead {
                Some(instead) => Remedy::set(RequestField::Model.value(instead)),
                None => Remedy::ListModels { provider: manifest.name.clone() },
            };
            let reason = "the model is retired and answers no more";
            let refusal =
                Refusal::unsupported(&manifest.name, RequestField::Model.value(id.as_str()), reason);
            let (category, code) = (Category::NotFound, Code::ModelNotFound);
            Refusal { category, code, ..refusal }.remedies([remedy])
        }
        ModelObjection::Effort(known) => {
            let effort = RequestField::Effort.value(request.effort.as_deref().unwrap_or_default());
            let reason = format!("the model `{id}` does not know it");
            let refusal = Refusal::unsupported(&manifest.name, effort, reason);
            Refusal { code: Code::InvalidRequest, ..refusal }.hint(format!("it knows {}", known.join(", ")))
        }
    })
}

/// Returns the models of a manifest, without the entry that stands for the default.
fn declared(manifest: &Manifest) -> Vec<Model> {
    manifest.models.iter().filter(|model| model.id != manifest.default_model).cloned().collect()
}

/// Queries the program; none if its manifest has no such query.
async fn asked(
    found: &Found,
    surroundings: &Surroundings,
    ask: &Ask,
) -> Result<Option<CachedModels>, String> {
    match ask.about(Subject::Models, Breadth::All, found, surroundings).await {
        Some(Ok(AccountReport::Models(models))) if models.is_empty() => Err("it listed no models".to_owned()),
        Some(Ok(AccountReport::Models(models))) => Ok(Some(CachedModels { program: program(found), models })),
        Some(Err(error)) => Err(crate::system::causes::in_full(&error)),
        Some(Ok(AccountReport::Login(_) | AccountReport::Limits(_))) | None => Ok(None),
    }
}

/// Which program it is, as far as the file tells.
fn program(found: &Found) -> String {
    let file = found.native.as_ref().unwrap_or(&found.real);
    Stamp::text(file)
}

/// Another directory of settings is another account, which may have other models.
fn key(manifest: &Manifest, surroundings: &Surroundings) -> String {
    let home = manifest.auth.home.as_ref().and_then(|home| surroundings.get(&home.env));
    format!("{} {}", manifest.name, home.unwrap_or_default().display())
}

#[cfg(test)]
mod tests {
    use bowline_providers::catalogue;

    use super::*;

    #[test]
    fn what_is_known_not_to_work_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let surroundings = Surroundings::of([("BOWLINE_HOME", dir.path())]);
        let manifest = catalogue::built_in().find(|it| it.ask.models.is_some()).unwrap();
        let model = |id: &str| Model { id: id.into(), ..Model::default() };
        let models = vec![
            Model { retired: true, replaced_by: Some("new".into()), ..model("old") },
            Model { efforts: vec!["low".into(), "high".into()], ..model("new") },
        ];
        let cache = AnswerCache::of(&surroundings, "models").unwrap();
        cache.put(
            &key(manifest, &surroundings),
            &CachedModels { program: String::new(), models },
            clock::wall(),
        );
        let admit = |model: &str, effort: Option<&str>| {
            let (model, effort) = (Some(model.to_owned()), effort.map(str::to_owned));
            let request = Request { model, effort, ..Request::default() };
            let refused = super::admit(manifest, &request, &surroundings).err()?;
            Some((refused.setting().to_string(), refused.advice().unwrap_or_default(), refused.category))
        };
        let retired = ("model = old".to_owned(), "set `model = new`".to_owned(), Category::NotFound);
        assert_eq!(admit("old", None), Some(retired));
        let effort = ("effort = ultra".to_owned(), "it knows low, high".to_owned(), Category::Validation);
        assert_eq!(admit("new", Some("ultra")), Some(effort));
        assert_eq!(admit("new", Some("high")), None);
        assert_eq!(admit("newest", Some("ultra")), None, "an unknown model may be new");
    }
}
