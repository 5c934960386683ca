//! Reads sources into types, the types that they use, and the items that a module exports.
//!
//! Names are resolved by the imports of their file, and then by the crate: a type name is unique in its crate.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "few kinds of items are read of a foreign enum with many"
)]

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

use super::{CRATES, TypeUses};
use crate::File;

/// A type of our crates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TypeKey {
    /// Its folder in `crates/`.
    pub(super) package: String,
    pub(super) name: String,
}

impl TypeKey {
    fn new(package: &str, name: &str) -> Self {
        Self { package: package.to_owned(), name: name.to_owned() }
    }
}

/// A function that is exported.
#[derive(Debug)]
pub(super) struct FreeFunction {
    pub(super) name: String,
    pub(super) uses: TypeUses,
}

/// The names that a crate exports.
#[derive(Debug, Default)]
pub(super) struct Surface {
    pub(super) types: BTreeSet<TypeKey>,
    pub(super) functions: Vec<FreeFunction>,
}

/// A module: the crate's folder, and the path inside it.
type ModulePath = (String, Vec<String>);

/// One leaf of a tree of imports.
struct ImportLeaf {
    path: Vec<String>,
    /// Its name here; `*` for all names of a module.
    name: String,
    is_public: bool,
}

/// A module's items and imports.
#[derive(Default)]
struct ModuleItems {
    items: Vec<Item>,
    imports: Vec<ImportLeaf>,
}

/// All modules of the crates, without their tests.
#[derive(Default)]
pub(super) struct Sources {
    modules: BTreeMap<ModulePath, ModuleItems>,
    uses: BTreeMap<TypeKey, TypeUses>,
    /// By the name that one crate gives it: the type of another crate.
    passed_on: BTreeMap<TypeKey, TypeKey>,
}

impl Sources {
    /// Reads the crates of the library.
    pub(super) fn read(files: &[File]) -> Self {
        let mut sources = Self::default();
        for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
            let parts = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
            let Some((package, path)) = parts.filter(|(package, _)| is_ours(package)) else { continue };
            let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
            let path = if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() };
            let parsed = syn::parse_file(&file.text).unwrap_or_else(|error| panic!("{}: {error}", file.path));
            sources.add((package.to_owned(), path), parsed.items);
        }
        sources.declare();
        sources.find_passed_on();
        sources.collect_uses();
        sources
    }

    /// Returns the types that the public parts of a type use.
    pub(super) fn uses(&self, key: &TypeKey) -> Option<&TypeUses> {
        self.uses.get(key)
    }

    /// Returns everything that a crate exports.
    pub(super) fn surface(&self, package: &str) -> Surface {
        let mut surface = Surface::default();
        self.exports(&(package.to_owned(), Vec::new()), &mut BTreeSet::new(), &mut surface);
        surface
    }

    /// Adds a module, with the modules inside it, and the items inside of its macros.
    fn add(&mut self, module: ModulePath, items: Vec<Item>) {
        let mut own = ModuleItems::default();
        let mut open = items;
        while let Some(item) = open.pop() {
            match item {
                Item::Use(item) => {
                    let is_public = is_public(&item.vis);
                    leaves(&item.tree, &mut Vec::new(), is_public, &mut own.imports);
                }
                Item::Macro(item) if item.ident.is_none() => {
                    match syn::parse2::<syn::File>(item.mac.tokens.clone()) {
                        Ok(parsed) => open.extend(parsed.items),
                        // A list of names, such as that of the ids.
                        Err(_) => own.items.push(Item::Macro(item)),
                    }
                }
                Item::Mod(item) if is_for_tests(&item.attrs) => drop(item),
                Item::Mod(mut item) => {
                    if let Some((_, items)) = item.content.take() {
                        let mut path = module.1.clone();
                        path.push(item.ident.to_string());
                        self.add((module.0.clone(), path), items);
                    }
                    own.items.push(Item::Mod(item));
                }
                item => own.items.push(item),
            }
        }
        self.modules.insert(module, own);
    }

    /// Enters every declared type.
    fn declare(&mut self) {
        for ((package, _), module) in &self.modules {
            for item in &module.items {
                for name in declared(item) {
                    self.uses.entry(TypeKey::new(package, &name)).or_default();
                }
            }
        }
    }

    /// Collects for every type the types in its public parts.
    fn collect_uses(&mut self) {
        let mut all = Vec::new();
        for (path, module) in &self.modules {
            for item in &module.items {
                let mut found = TypePaths { sources: self, module: path, uses: TypeUses::new() };
                let owner = match item {
                    Item::Impl(item) => {
                        let syn::Type::Path(own) = &*item.self_ty else { continue };
                        let Some(own) = own.path.segments.last() else { continue };
                        found.visit_impl_surface(item);
                        own.ident.to_string()
                    }
                    item => {
                        found.visit_item(item);
                        declared(item).into_iter().next().unwrap_or_default()
                    }
                };
                all.push((TypeKey::new(&path.0, &owner), found.uses));
            }
        }
        for (key, found) in all {
            if let Some(uses) = self.uses.get_mut(&key) {
                uses.extend(found.into_iter().filter(|used| *used != key));
            }
        }
    }

    /// Adds what a module exports.
    fn exports(&self, path: &ModulePath, seen: &mut BTreeSet<ModulePath>, surface: &mut Surface) {
        let Some(module) = self.modules.get(path).filter(|_| seen.insert(path.clone())) else { return };
        for item in &module.items {
            match item {
                Item::Mod(inner) if is_public(&inner.vis) => {
                    self.exports(&joined(path, &[inner.ident.to_string()]), seen, surface);
                }
                Item::Fn(function) if is_public(&function.vis) => {
                    self.export_function(path, function, surface)
                }
                Item::Macro(_) => {}
                item if is_exported(item) => {
                    surface.types.extend(declared(item).iter().map(|name| TypeKey::new(&path.0, name)));
                }
                _ => {}
            }
        }
        for leaf in module.imports.iter().filter(|leaf| leaf.is_public) {
            self.export_leaf(path, leaf, seen, surface);
        }
    }

    /// Adds what one `pub use` exports: a type, all of a module, or a function.
    fn export_leaf(
        &self,
        path: &ModulePath,
        leaf: &ImportLeaf,
        seen: &mut BTreeSet<ModulePath>,
        surface: &mut Surface,
    ) {
        let Some(target) = self.absolute(path, &leaf.path) else { return };
        if let Some(module) = target.1.last().filter(|last| *last == "*").and(target.1.split_last()) {
            return self.exports(&(target.0.clone(), module.1.to_vec()), seen, surface);
        }
        // A module and a function may share a name.
        self.exports(&target, seen, surface);
        let Some((name, parents)) = target.1.split_last() else { return };
        if is_type_name(name) {
            surface.types.extend(self.declared_as(&target.0, name));
            return;
        }
        let Some(parent) = self.modules.get(&(target.0.clone(), parents.to_vec())) else { return };
        for item in &parent.items {
            if let Item::Fn(function) = item
                && function.sig.ident == name
            {
                self.export_function(&(target.0.clone(), parents.to_vec()), function, surface);
            }
        }
    }

    fn export_function(&self, path: &ModulePath, function: &syn::ItemFn, surface: &mut Surface) {
        let mut found = TypePaths { sources: self, module: path, uses: TypeUses::new() };
        found.visit_signature(&function.sig);
        surface.functions.push(FreeFunction { name: function.sig.ident.to_string(), uses: found.uses });
    }

    /// Resolves the path of a type in a module, if it is a type of ours.
    fn resolve(&self, module: &ModulePath, path: &[String]) -> Option<TypeKey> {
        let name = path.iter().position(|part| is_type_name(part))?;
        let path = &path[..=name];
        let imports = &self.modules.get(module)?.imports;
        if let Some(leaf) = imports.iter().find(|leaf| leaf.name == path[0]) {
            let whole: Vec<String> = leaf.path.iter().chain(&path[1..]).cloned().collect();
            let (package, path) = self.absolute(module, &whole)?;
            return self.declared_as(&package, path.last()?);
        }
        let (package, path) = if path.len() == 1 {
            // The standard library's types have no import; neither have those of the module itself, or of a glob.
            (module.0.clone(), path.to_vec())
        } else {
            self.absolute(module, path)?
        };
        self.declared_as(&package, path.last()?)
    }

    /// Returns the type with this name: of the crate, or of one whose names the crate exports as its own.
    fn declared_as(&self, package: &str, name: &str) -> Option<TypeKey> {
        let own = TypeKey::new(package, name);
        let original = self.passed_on.get(&own);
        Some(&own).filter(|key| self.uses.contains_key(key)).or(original).cloned()
    }

    /// Finds the types of other crates that a crate exports.
    fn find_passed_on(&mut self) {
        let mut all = BTreeMap::new();
        for (path, module) in &self.modules {
            for leaf in module.imports.iter().filter(|leaf| leaf.is_public) {
                let Some((owner, target)) = self.absolute(path, &leaf.path) else { continue };
                let Some(name) = target.last().filter(|_| owner != path.0) else { continue };
                all.insert(TypeKey::new(&path.0, &leaf.name), TypeKey::new(&owner, name));
            }
        }
        self.passed_on = all;
    }

    /// Returns the crate of a path and the path inside it; nothing if it belongs to another package.
    fn absolute(&self, module: &ModulePath, path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        if let Some((_, package)) = CRATES.iter().find(|(name, _)| name == first) {
            return Some(((*package).to_owned(), rest.to_vec()));
        }
        match &**first {
            "crate" => Some((module.0.clone(), rest.to_vec())),
            "self" => Some(joined(module, rest)),
            "super" => {
                let parent = module.1.split_last().map_or(Vec::new(), |(_, parent)| parent.to_vec());
                self.absolute(&(module.0.clone(), parent), &[&["self".to_owned()], rest].concat())
            }
            name => {
                let child = joined(module, &[name.to_owned()]);
                let is_own = self.modules.contains_key(&child) || path.len() == 1;
                is_own.then(|| joined(module, path))
            }
        }
    }
}

/// Collects the types of the public parts of an item.
struct TypePaths<'a> {
    sources: &'a Sources,
    module: &'a ModulePath,
    uses: TypeUses,
}

impl TypePaths<'_> {
    /// Visits the public methods of a type, or the associated types of a trait's implementation.
    fn visit_impl_surface(&mut self, item: &syn::ItemImpl) {
        for inner in &item.items {
            match inner {
                syn::ImplItem::Fn(function) if is_public(&function.vis) => {
                    self.visit_signature(&function.sig)
                }
                syn::ImplItem::Type(associated) => self.visit_type(&associated.ty),
                _ => {}
            }
        }
    }
}

impl Visit<'_> for TypePaths<'_> {
    fn visit_path(&mut self, path: &syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.uses.extend(self.sources.resolve(self.module, &names));
        visit::visit_path(self, path);
    }

    fn visit_field(&mut self, field: &syn::Field) {
        self.visit_type(&field.ty);
    }

    fn visit_fields_named(&mut self, fields: &syn::FieldsNamed) {
        fields.named.iter().filter(|field| is_public(&field.vis)).for_each(|field| self.visit_field(field));
    }

    fn visit_fields_unnamed(&mut self, fields: &syn::FieldsUnnamed) {
        fields.unnamed.iter().filter(|field| is_public(&field.vis)).for_each(|field| self.visit_field(field));
    }

    // The fields of a variant have no visibility of their own.
    fn visit_variant(&mut self, variant: &syn::Variant) {
        variant.fields.iter().for_each(|field| self.visit_field(field));
    }

    // Bodies and attributes are no part of a signature.
    fn visit_block(&mut self, _: &syn::Block) {}

    fn visit_expr(&mut self, _: &syn::Expr) {}

    fn visit_attribute(&mut self, _: &syn::Attribute) {}
}

/// Returns the types that an item declares.
fn declared(item: &Item) -> Vec<String> {
    let one = match item {
        Item::Struct(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Macro(item) => {
            let words = item.mac.tokens.clone().into_iter().map(|token| token.to_string());
            return words.filter(|word| is_type_name(word)).collect();
        }
        _ => return Vec::new(),
    };
    vec![one.to_string()]
}

fn is_exported(item: &Item) -> bool {
    let visibility = match item {
        Item::Struct(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Union(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        _ => return false,
    };
    is_public(visibility)
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_ours(package: &str) -> bool {
    CRATES.iter().any(|(_, ours)| *ours == package)
}

/// Returns whether a name has the form of a type: `Event`, not `event` or `LIMIT`.
fn is_type_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && (name.len() == 1 || name.contains(|letter: char| letter.is_ascii_lowercase()))
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let is_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
    attributes
        .iter()
        .any(|attribute| attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test))
}

fn joined(module: &ModulePath, path: &[String]) -> ModulePath {
    (module.0.clone(), [&module.1, path].concat())
}

/// Flattens a tree of imports.
fn leaves(tree: &UseTree, before: &mut Vec<String>, is_public: bool, all: &mut Vec<ImportLeaf>) {
    let mut leaf = |last: Option<String>, name: String| {
        let path = before.iter().cloned().chain(last.filter(|last| last != "self")).collect();
        all.push(ImportLeaf { path, name, is_public });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves(&path.tree, before, is_public, all);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            let name = before.last().cloned().unwrap_or_default();
            leaf(None, name);
        }
        UseTree::Name(name) => leaf(Some(name.ident.to_string()), name.ident.to_string()),
        UseTree::Rename(name) => leaf(Some(name.ident.to_string()), name.rename.to_string()),
        UseTree::Glob(_) => leaf(Some("*".to_owned()), "*".to_owned()),
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves(tree, before, is_public, all);
            }
        }
    }
}
