//! The prompts of the client on their way to the program, and how they are written.
//!
//! The program reports by their uuid what becomes of them: a `command_lifecycle` line when one is queued, begins, and is over, and
//! a replay when it joins the conversation. In a tool the replay of a steer comes first, in text its `started` (2.1.325).

use bowline_protocol::{PromptId, Timestamp};
use serde_json::{Value, json};

use crate::base64;
use crate::conversation::Conversation;
use crate::dialect::{AckToken, HostPrompt};
use crate::invocation::{image_type, mentioned};
use crate::manifest::run::Blanks;

/// The prompts that the program has not finished.
#[derive(Debug, Default)]
pub(super) struct OwnPrompts {
    sent: Vec<OwnPrompt>,
    count: u64,
}

/// A prompt that was sent.
#[derive(Debug)]
pub(super) struct OwnPrompt {
    uuid: String,
    /// The orders that wait for the acknowledgement of the program.
    pub(super) token: Option<AckToken>,
    /// The prompt, as long as it is a steer that the program has not read.
    pub(super) unread: Option<HostPrompt>,
}

impl OwnPrompts {
    /// Records a prompt that is sent now, and returns its uuid.
    pub(super) fn add(
        &mut self,
        name: &str,
        unread: Option<HostPrompt>,
        token: Option<AckToken>,
        now: Timestamp,
    ) -> String {
        self.count += 1;
        let uuid = uuid(name, self.count, now);
        self.sent.push(OwnPrompt { uuid: uuid.clone(), token, unread });
        uuid
    }

    /// Returns the prompt with this uuid.
    pub(super) fn find(&mut self, uuid: &str) -> Option<&mut OwnPrompt> {
        self.sent.iter_mut().find(|prompt| prompt.uuid == uuid)
    }

    /// Forgets the prompt with this uuid, and returns it.
    pub(super) fn take(&mut self, uuid: &str) -> Option<OwnPrompt> {
        let place = self.sent.iter().position(|prompt| prompt.uuid == uuid)?;
        Some(self.sent.remove(place))
    }

    /// Returns the uuid of a steer that the program has not read.
    pub(super) fn unread(&self, id: &PromptId) -> Option<String> {
        let is = |prompt: &&OwnPrompt| prompt.unread.as_ref().is_some_and(|unread| unread.id == *id);
        self.sent.iter().find(is).map(|prompt| prompt.uuid.clone())
    }
}

/// Makes a uuid in the form of version 4 from the prompt's id, its number in this process, and the time, so that a process that
/// resumes the session does not repeat one: the program may drop a message whose uuid it knows.
fn uuid(name: &str, count: u64, now: Timestamp) -> String {
    // FNV-1a: the same on every machine and in every release of the compiler, unlike the hasher of the standard library.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // 48 bits of milliseconds, as in version 7 of uuids: enough until the year 10889.
    let millis = now.as_millis().cast_unsigned() & 0xffff_ffff_ffff;
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        millis >> 16,
        millis & 0xffff,
        count & 0xfff,
        count >> 12 & 0xfff,
        hash & 0xffff_ffff_ffff,
    )
}

/// Writes the line of a prompt.
pub(super) fn line(uuid: &str, content: &Value) -> Vec<u8> {
    let message = json!({ "role": "user", "content": content });
    let line = json!({ "type": "user", "message": message, "parent_tool_use_id": null, "uuid": uuid });
    format!("{line}\n").into_bytes()
}

/// Writes the content of a prompt: a text, or blocks if there are images. The agent reads other files itself.
pub(super) fn content(prompt: &HostPrompt, talk: &Conversation) -> Result<Value, &'static str> {
    let mut text = prompt.text.clone();
    let mut images = Vec::new();
    for file in &prompt.attachments {
        let kind = image_type(file).filter(|kind| ACCEPTED_IMAGES.contains(&kind.as_str()));
        if let (Some(bytes), Some(kind)) = (prompt.images.get(&file.path), kind) {
            let source = json!({ "type": "base64", "media_type": kind, "data": base64::encode(bytes) });
            images.push(json!({ "type": "image", "source": source }));
            continue;
        }
        let path = mentioned(&talk.absolute(&file.path), Some(Blanks::Quotes))
            .map_err(|_| "the name of an attached file cannot be written in a prompt")?;
        // `@` makes the program read the file itself, under its own rules for reading.
        text.push_str("\n\n@");
        text.push_str(&path);
    }
    if images.is_empty() {
        return Ok(json!(text));
    }
    images.insert(0, json!({ "type": "text", "text": text }));
    Ok(json!(images))
}

/// The images that the Messages API takes.
const ACCEPTED_IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];
