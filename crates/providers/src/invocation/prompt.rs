//! The text that reaches the model: the part before the prompt, the prompt, and the part after it.

use bowline_protocol::{Attachment, Message, Role};

use crate::manifest::run::Blanks;

/// The parts of a prompt.
#[derive(Debug, Default)]
pub(super) struct PromptBody {
    /// The part before it, such as a system prompt.
    pub(super) before: Vec<String>,
    /// Files that are mentioned right behind it.
    pub(super) mentions: Vec<String>,
    /// The part after it, such as further instructions.
    pub(super) after: Vec<String>,
}

impl PromptBody {
    /// Puts the parts together, with blank lines between them.
    pub(super) fn text(&self, context: &[Message], prompt: &str) -> String {
        let mut said = conversation(context);
        said.push_str(prompt);
        for mention in &self.mentions {
            said.push('\n');
            said.push_str(mention);
        }
        let parts = self.before.iter().map(String::as_str).chain([said.as_str()]);
        let parts: Vec<&str> = parts.chain(self.after.iter().map(String::as_str)).collect();
        parts.join("\n\n")
    }
}

/// Writes an earlier conversation in the form of the adapter protocol: the user's messages bare, the others'
/// under their names.
fn conversation(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        match message.role {
            Role::System => text.push_str("[System]\n"),
            Role::Assistant => text.push_str("[Assistant]\n"),
            Role::Tool => text.push_str("[Tool]\n"),
            Role::User => {}
        }
        text.push_str(&message.content);
        text.push_str(if message.role == Role::User { "\n" } else { "\n\n" });
    }
    text
}

/// Writes a path so that it can be mentioned in a prompt, if that can be done.
pub(crate) fn mentioned(path: &str, blanks: Option<Blanks>) -> Result<String, String> {
    if path.contains(['\n', '\r']) {
        return Err(format!("a path with a line break cannot be mentioned in a prompt: {path:?}"));
    }
    if !path.contains(char::is_whitespace) {
        return Ok(path.to_owned());
    }
    match blanks {
        Some(Blanks::Quotes) if !path.contains('"') => Ok(format!("\"{path}\"")),
        Some(Blanks::Backslash) => Ok(path.replace(' ', "\\ ")),
        Some(Blanks::Quotes) | None => {
            Err(format!("a path with a space cannot be mentioned in a prompt: `{path}`"))
        }
    }
}

/// Returns whether a file is an image, by its media type or its name.
pub fn is_image(file: &Attachment) -> bool {
    image_type(file).is_some()
}

/// Returns the media type of an image.
pub(crate) fn image_type(file: &Attachment) -> Option<String> {
    if let Some(media) = &file.media_type {
        return media.starts_with("image/").then(|| media.clone());
    }
    let ending = file.path.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    match ending.as_str() {
        "jpg" => Some("image/jpeg".to_owned()),
        "png" | "jpeg" | "gif" | "webp" | "bmp" => Some(format!("image/{ending}")),
        _ => None,
    }
}
