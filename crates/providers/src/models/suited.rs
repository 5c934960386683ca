//! Which model of a list suits a hint, by the words that makers put into the names of their models.
//!
//! A manifest names models for hints where its maker's list is the same for all users. Programs that offer the models of
//! many makers, or those of their user's settings, have no such list: what they report is all that is known. Deliberately absent:
//! prices and measurements, which the router weighs itself.

use bowline_protocol::Timestamp;

use super::Model;

/// The words for each hint, the most specific first. A `*` at the end stands for any more letters.
const WORDS: [(&str, &[&str]); 6] = [
    ("fast", &["flash", "haiku", "mini", "fast", "turbo", "small", "lite", "nano"]),
    ("cheap", &["lite", "nano", "mini", "free", "haiku", "flash", "small"]),
    ("capable", &["opus", "max", "ultra", "pro", "large", "plus", "sonnet"]),
    ("codegen", &["code*", "devstral*", "sonnet"]),
    ("agentic", &["opus", "sonnet", "max", "pro", "large", "plus"]),
    ("long-context", &["long", "10m", "2m", "1m"]),
];

/// Finds the model of a list that suits a hint, by its proper name. Among equals the first of the list is taken; models that
/// are hidden, retired or stand for no choice are passed over.
pub fn suited<'a>(list: &'a [Model], hint: &str, now: Timestamp) -> Option<&'a Model> {
    let (_, words) = WORDS.iter().find(|(known, _)| *known == hint)?;
    let usable = |model: &&Model| !model.hidden && !model.is_retired(now) && model.id != "default";
    words.iter().find_map(|word| list.iter().filter(usable).find(|model| has(&model.id, word)))
}

/// Returns whether a name has a word: between separators, with a number behind it or not.
fn has(id: &str, word: &str) -> bool {
    let id = id.to_ascii_lowercase();
    let mut parts = id.split(|c: char| !c.is_ascii_alphanumeric());
    parts.any(|part| match word.strip_suffix('*') {
        Some(begin) => part.starts_with(begin),
        None => part == word || part.trim_end_matches(|c: char| c.is_ascii_digit()) == word,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_models_tell_what_they_are_good_for() {
        let list: Vec<Model> = [
            "default",
            "openai/gpt-5-mini",
            "anthropic/claude-opus-4-5",
            "google/gemini-3-flash",
            "qwen3-coder-plus",
            "x/nano-old",
        ]
        .iter()
        .map(|id| Model { id: (*id).to_owned(), retired: id.ends_with("old"), ..Model::default() })
        .collect();
        let check = |hint: &str| suited(&list, hint, Timestamp::EPOCH).map(|model| model.id.as_str());
        assert_eq!(check("fast"), Some("google/gemini-3-flash"));
        assert_eq!(check("cheap"), Some("openai/gpt-5-mini"), "what is retired is passed over");
        assert_eq!(check("capable"), Some("anthropic/claude-opus-4-5"));
        assert_eq!(check("codegen"), Some("qwen3-coder-plus"));
        assert_eq!(check("long-context"), None);
        assert_eq!(check("poetry"), None, "a word of the user's own");
    }

    #[test]
    fn a_part_of_a_word_is_no_word() {
        assert!(!has("gemini-3", "mini") && !has("promax", "pro"));
        assert!(has("m-Flash2", "flash") && has("codex-1", "code*"));
    }
}
