//! The address of a request: the route in front, the API and its operation.
//!
//! The end of the path determines the API, so a base address may have any prefix.

use serde::Serialize;

use crate::apis::{Api, Shape};

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The part behind `/r/`, which names the client and may select the scenario.
    pub(crate) route: Option<String>,
    pub(crate) operation: Operation,
    /// The model, if the path has it.
    pub(crate) model: Option<String>,
    /// The shape of the response, if the path has it.
    pub(crate) shape: Option<Shape>,
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "api")]
pub enum Operation {
    /// An answer of the model.
    Generate(Api),
    /// The number of tokens of a text.
    CountTokens(Api),
    /// The list of models.
    Models(Api),
    /// One of the models.
    Model(Api),
    /// The version of the server, in one API.
    Version,
    /// The ledger of this simulator.
    Ledger,
    /// A check whether the server is there.
    Root,
    /// Anything else: not served.
    Unknown,
}

impl Operation {
    /// Returns the API, if the operation belongs to one.
    pub fn api(self) -> Option<Api> {
        match self {
            Self::Generate(api) | Self::CountTokens(api) | Self::Models(api) | Self::Model(api) => Some(api),
            Self::Version => Some(Api::OllamaChat),
            Self::Ledger | Self::Root | Self::Unknown => None,
        }
    }
}

impl Address {
    /// Parses a path and its query. `speaks` is the API that the headers suggest, for paths that several APIs have.
    pub(crate) fn read(path: &str, query: &str, speaks: Api) -> Self {
        let (route, path) = match path.strip_prefix("/r/") {
            Some(rest) => {
                let (route, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(route.to_owned()), rest)
            }
            None => (None, path),
        };
        let path = path.trim_end_matches('/');
        let (operation, model, shape) = operation(path, query, speaks);
        Self { route, operation, model, shape }
    }
}

fn operation(path: &str, query: &str, speaks: Api) -> (Operation, Option<String>, Option<Shape>) {
    let plain = |operation| (operation, None, None);
    if path.is_empty() {
        return plain(Operation::Root);
    }
    if path == "/_bowline/ledger" {
        return plain(Operation::Ledger);
    }
    for (end, operation) in [
        ("/messages", Operation::Generate(Api::AnthropicMessages)),
        ("/messages/count_tokens", Operation::CountTokens(Api::AnthropicMessages)),
        ("/responses", Operation::Generate(Api::OpenaiResponses)),
        ("/chat/completions", Operation::Generate(Api::OpenaiChat)),
        ("/api/chat", Operation::Generate(Api::OllamaChat)),
        ("/api/generate", Operation::Generate(Api::OllamaGenerate)),
        ("/api/tags", Operation::Models(Api::OllamaChat)),
        ("/api/version", Operation::Version),
        ("/v1beta/models", Operation::Models(Api::GoogleGenerate)),
        ("/models", Operation::Models(speaks)),
    ] {
        if path.ends_with(end) {
            return plain(operation);
        }
    }
    let Some((before, last)) = path.rsplit_once("/models/") else { return plain(Operation::Unknown) };
    let api = if before.ends_with("/v1beta") { Api::GoogleGenerate } else { speaks };
    match last.rsplit_once(':') {
        Some((model, verb)) => {
            let sse = query.split('&').any(|pair| pair == "alt=sse");
            let streamed = if sse { Shape::Events } else { Shape::Array };
            let (operation, shape) = match verb {
                "generateContent" => (Operation::Generate(Api::GoogleGenerate), Some(Shape::Whole)),
                "streamGenerateContent" => (Operation::Generate(Api::GoogleGenerate), Some(streamed)),
                "countTokens" => (Operation::CountTokens(Api::GoogleGenerate), None),
                _ => (Operation::Unknown, None),
            };
            (operation, Some(model.to_owned()), shape)
        }
        None => (Operation::Model(api), Some(last.to_owned()), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, route: Option<&str>, operation: Operation) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let address = Address::read(path, query, Api::OpenaiChat);
        assert_eq!((address.route.as_deref(), address.operation), (route, operation), "{path}");
    }

    #[test]
    fn an_api_is_known_by_the_end_of_the_path() {
        check("/v1/messages?beta=true", None, Operation::Generate(Api::AnthropicMessages));
        check("/r/a~1/v1/messages/count_tokens", Some("a~1"), Operation::CountTokens(Api::AnthropicMessages));
        check("/r/x/v1/responses", Some("x"), Operation::Generate(Api::OpenaiResponses));
        check("/any/base/v1/chat/completions", None, Operation::Generate(Api::OpenaiChat));
        check("/v1/models", None, Operation::Models(Api::OpenaiChat));
        check("/v1beta/models", None, Operation::Models(Api::GoogleGenerate));
        check("/v1/models/some-model", None, Operation::Model(Api::OpenaiChat));
        check("/api/chat", None, Operation::Generate(Api::OllamaChat));
        check("/r/only", Some("only"), Operation::Root);
        check("/v1/embeddings", None, Operation::Unknown);
    }

    #[test]
    fn the_path_may_say_the_model_and_the_shape() {
        for (verb, shape) in [
            ("generateContent", Shape::Whole),
            ("streamGenerateContent", Shape::Array),
            ("streamGenerateContent?key=k&alt=sse", Shape::Events),
        ] {
            let path = format!("/r/x/v1beta/models/m-1:{verb}");
            let (path, query) = path.split_once('?').unwrap_or((&path, ""));
            let address = Address::read(path, query, Api::OpenaiChat);
            assert_eq!((address.model.as_deref(), address.shape), (Some("m-1"), Some(shape)), "{verb}");
        }
    }
}
