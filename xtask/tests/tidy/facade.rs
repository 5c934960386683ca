//! The library as embedders see it: every type that a public signature of `bowline` contains has a name in `bowline`.
//!
//! The rule starts at the public items of `crates/runtime/src/lib.rs` and follows `pub use` into the other crates. Of every type
//! found it reads the public fields, variants, methods and associated types. [`sources`] reads the files; this module decides.
//! Types of other packages, such as tokio's, do not count.

mod sources;

use std::collections::{BTreeMap, BTreeSet};

use sources::{Sources, TypeKey};

use crate::{File, Violation};

/// The crates whose types can reach a signature of the library, by the name that `use` has for them.
const CRATES: &[(&str, &str)] = &[
    ("bowline", "runtime"),
    ("bowline_engine", "engine"),
    ("bowline_process", "process"),
    ("bowline_protocol", "protocol"),
    ("bowline_providers", "providers"),
];

/// The crate that embedders use.
const FACADE: &str = "runtime";

/// Finds types of public signatures that `bowline` does not export. Returns also how many types it exports.
pub(crate) fn unnamed(files: &[File]) -> (usize, Vec<Violation>) {
    let sources = Sources::read(files);
    let surface = sources.surface(FACADE);
    let mut missing: BTreeMap<TypeKey, String> = BTreeMap::new();
    let functions = surface.functions.iter().map(|function| (&function.name, &function.uses));
    let types = surface.types.iter().filter_map(|key| Some((&key.name, sources.uses(key)?)));
    for (user, uses) in functions.chain(types) {
        for used in uses.iter().filter(|used| !surface.types.contains(*used)) {
            missing.entry(used.clone()).or_insert_with(|| user.clone());
        }
    }
    let place = File::new("crates/runtime/src/lib.rs", "");
    let what = |(TypeKey { package, name }, user)| {
        place.violation(1, format!("`{user}` uses `{name}` of crates/{package}: export it"))
    };
    (surface.types.len(), missing.into_iter().map(what).collect())
}

/// The types that one item uses.
type TypeUses = BTreeSet<TypeKey>;

#[test]
fn a_type_without_a_public_name_is_caught() {
    let check = |lib: &str, inner: &str, protocol: &str| {
        let files = [
            File::new("crates/runtime/src/lib.rs", lib),
            File::new("crates/runtime/src/inner.rs", inner),
            File::new("crates/protocol/src/lib.rs", "mod ids;\npub mod kinds;\npub use ids::Id;"),
            File::new("crates/protocol/src/ids.rs", "ids! { /// An id.\n Id, }"),
            File::new("crates/protocol/src/kinds.rs", protocol),
        ];
        unnamed(&files).1.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let place = "crates/runtime/src/lib.rs:1: ";
    let kinds = "part! { pub struct Note { pub id: crate::Id, hidden: Secret } pub enum Sort { One(Note) } }";
    // By a field behind a module of another crate, and behind a macro.
    let found = check("pub use bowline_protocol::kinds;", "", kinds);
    assert_eq!(found, [format!("{place}`Note` uses `Id` of crates/protocol: export it")]);
    assert!(check("pub use bowline_protocol::{kinds::*, Id as NoteId};", "", kinds).is_empty());
    let lib = "mod inner;\npub use inner::start;";
    // By a function, with a renamed import and inside other types.
    let inner =
        "use bowline_protocol::kinds::Sort as Kind;\npub fn start(all: Vec<Option<Kind>>) -> impl Sized {}";
    assert_eq!(
        check(lib, inner, kinds),
        [format!("{place}`start` uses `Sort` of crates/protocol: export it")]
    );
    // By a method; a private one does not count.
    let lib = "pub mod inner;";
    let inner = "pub struct Run;\nstruct Own;\nimpl Run { pub fn kind(&self) -> super::inner::Gone {} fn own(&self) -> Own {} }";
    assert!(check(lib, inner, kinds).is_empty(), "the compiler finds a type that does not exist");
    let inner = "pub struct Run;\nimpl Run { pub fn own(&self) -> Box<dyn Own> {} }\nmod deep { pub trait Own {} }\nuse deep::Own;";
    assert_eq!(check(lib, inner, kinds), [format!("{place}`Run` uses `Own` of crates/runtime: export it")]);
    let inner = "pub struct Run;\nimpl Iterator for Run { type Item = bowline_protocol::Id; }";
    assert_eq!(check(lib, inner, kinds), [format!("{place}`Run` uses `Id` of crates/protocol: export it")]);
}
