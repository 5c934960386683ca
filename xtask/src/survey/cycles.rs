//! Cycles between the modules at the root of a crate: how many of them can reach each other both ways.

use std::collections::{BTreeMap, BTreeSet};

use super::{Figure, Source};

/// Counts the largest cycle of each crate.
pub(super) fn figures(sources: &[Source]) -> Vec<Figure> {
    let packages: BTreeSet<&str> = sources.iter().map(|source| &*source.package).collect();
    let figure = |package: &str| {
        let of_package: Vec<&Source> = sources.iter().filter(|source| source.package == package).collect();
        let arrows = arrows(&of_package);
        let cycle = largest_cycle(&arrows);
        Figure {
            what: format!("modules of {package} in one cycle, of {}", arrows.len()),
            value: cycle.len() as f64,
            limit: limit(package),
            worst: cycle.join(", "),
        }
    };
    packages.into_iter().map(figure).filter(|figure| figure.value > 0.0).collect()
}

/// The largest cycle of each crate when it was last made smaller, a line each. A crate that is not listed has none.
const LIMITS: &str = include_str!("cycles.txt");

/// Returns how large a cycle a crate may have.
fn limit(package: &str) -> f64 {
    let lines = LIMITS.lines().filter_map(|line| line.split_once(' '));
    let listed = lines.filter(|(name, _)| *name == package).find_map(|(_, limit)| limit.parse().ok());
    listed.unwrap_or(0.0)
}

/// Which modules use which others.
pub(crate) type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns which modules at the root use which others.
fn arrows<'a>(sources: &[&'a Source]) -> Arrows<'a> {
    let roots: BTreeSet<&str> =
        sources.iter().map(|source| source.module()).filter(|name| !["lib", "main"].contains(name)).collect();
    let mut arrows: Arrows<'a> = roots.iter().map(|root| (*root, BTreeSet::new())).collect();
    for source in sources {
        let Some(from) = arrows.get_mut(source.module()) else { continue };
        let code: Vec<&str> =
            source.text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let used = used(&code.join("\n"));
        let used = roots.iter().filter(|root| used.contains(**root) && **root != source.module());
        from.extend(used);
    }
    arrows
}

/// Returns the names that stand directly behind `crate::`, also those in braces.
fn used(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    for (at, word) in code.match_indices("crate::") {
        let rest = &code[at + word.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(name(rest));
            continue;
        };
        let mut depth = 0_u32;
        let mut first = 0;
        for (place, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    names.insert(name(&list[first..place]));
                    first = place + 1;
                    if letter == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    names
}

/// Returns the largest set of modules that all reach each other.
pub fn largest_cycle<'a>(arrows: &Arrows<'a>) -> Vec<&'a str> {
    let reached = |from: &'a str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            for to in arrows.get(next).into_iter().flatten() {
                if seen.insert(*to) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> = arrows.keys().map(|from| (*from, reached(from))).collect();
    let cycle = |from: &'a str| -> Vec<&'a str> {
        let both = reach[from].iter().filter(|to| reach.get(**to).is_some_and(|back| back.contains(from)));
        both.copied().collect()
    };
    arrows.keys().map(|from| cycle(from)).max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cycle_is_found_through_braces_and_folders() {
        let sources = [
            Source::new("x", "a.rs", "use crate::{Error, b::{C, D}, d};\n"),
            Source::new("x", "b/inner.rs", "use crate::c::E;\n// crate::d\n"),
            Source::new("x", "c.rs", "fn f() { crate::a::g() }\n"),
            Source::new("x", "d.rs", "\n"),
            Source::new("x", "lib.rs", "use crate::a;\n"),
        ];
        let figures = figures(&sources);
        assert_eq!((figures.len(), figures[0].value), (1, 3.0));
        assert_eq!(figures[0].what, "modules of x in one cycle, of 4");
        assert_eq!(figures[0].worst, "a, b, c");
    }
}
