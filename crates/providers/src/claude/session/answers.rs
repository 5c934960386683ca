//! The program's answers to our control requests.

use bowline_protocol::kinds::{ContextGauge, Level, Notice, OptionState, OptionsAdvertised};
use bowline_protocol::{Excerpt, Kind};

use super::super::dialect::Claude;
use super::super::wire::{ClaudeObject, text};
use crate::dialect::Output;

impl Claude {
    /// Handles an answer, which shows by its fields what it answers.
    pub(crate) fn response(&mut self, response: &ClaudeObject<'_>, out: &mut Output<'_>) {
        // Responses to interrupts, costs, settings and versions: for the client that sent the request.
        out.quiet();
        // A refused control request (`unsupported_request`, `bypass_not_launched`) does not end the turn.
        if let Some(error) = response.text("error") {
            let code = response.text("error_code").map(String::from);
            let text = Excerpt::with_limit(&error, 4096).text;
            return out.emit(Kind::Notice(Notice { level: Level::Warn, text, code }));
        }
        let Some(answer) = response.object("response") else { return };
        let options = options(&answer);
        if !options.is_empty() {
            return out.emit(Kind::OptionsAdvertised(OptionsAdvertised { options }));
        }
        if let (Some(used), window) = (answer.count("totalTokens"), answer.count("maxTokens")) {
            return out.emit(Kind::ContextGauge(ContextGauge { used, window }));
        }
        if let Some(model) = answer.text("model") {
            return self.changed_model(&model, None, out);
        }
        self.servers.tell(&answer.objects("mcpServers"), out);
    }
}

/// Reads the settings that `initialize` and `list_models` offer.
fn options(answer: &ClaudeObject<'_>) -> Vec<OptionState> {
    let models = answer.objects("models");
    let models: Vec<String> =
        models.iter().filter_map(|model| model.text("value")).map(String::from).collect();
    let styles = answer.array("available_output_styles");
    let styles: Vec<String> = styles.into_iter().filter_map(text).map(String::from).collect();
    let style = answer.text("output_style").map(String::from);
    [("model", models, None), ("output_style", styles, style)]
        .into_iter()
        .filter(|(_, choices, _)| !choices.is_empty())
        .map(|(id, choices, current)| OptionState { id: id.into(), choices, current })
        .collect()
}
