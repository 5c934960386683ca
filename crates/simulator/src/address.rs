//! The address of a request: the route in front, the API and its operation.
//!
//! The end of the path determines the API, so a base address may have any prefix.

use serde::Serialize;

use crate::apis::{Api, ResponseShape};

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The part behind `/r/`, which names the client and may select the scenario.
    pub(crate) route: Option<String>,
    pub(crate) operation: ApiOperation,
    /// The model, if the path has it.
    pub(crate) model: Option<String>,
    /// The shape of the response, if the path has it.
    pub(crate) shape: Option<ResponseShape>,
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "api")]
pub enum ApiOperation {
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

impl ApiOperation {
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

fn operation(path: &str, query: &str, speaks: Api) -> (ApiOperation, Option<String>, Option<ResponseShape>) {
    let plain = |operation| (operation, None, None);
    if path.is_empty() {
        return plain(ApiOperation::Root);
    }
    if path == "/_bowline/ledger" {
        return plain(ApiOperation::Ledger);
    }
    for (end, operation) in [
        ("/messages", ApiOperation::Generate(Api::AnthropicMessages)),
        ("/messages/count_tokens", ApiOperation::CountTokens(Api::AnthropicMessages)),
        ("/responses", ApiOperation::Generate(Api::OpenaiResponses)),
        ("/chat/completions", ApiOperation::Generate(Api::OpenaiChat)),
        ("/api/chat", ApiOperation::Generate(Api::OllamaChat)),
        ("/api/generate", ApiOperation::Generate(Api::OllamaGenerate)),
        ("/api/tags", ApiOperation::Models(Api::OllamaChat)),
        ("/api/version", ApiOperation::Version),
        ("/v1beta/models", ApiOperation::Models(Api::GoogleGenerate)),
        ("/models", ApiOperation::Models(speaks)),
    ] {
        if path.ends_with(end) {
            return plain(operation);
        }
    }
    let Some((before, last)) = path.rsplit_once("/models/") else { return plain(ApiOperation::Unknown) };
    let api = if before.ends_with("/v1beta") { Api::GoogleGenerate } else { speaks };
    match last.rsplit_once(':') {
        Some((model, verb)) => {
            let sse = query.split('&').any(|pair| pair == "alt=sse");
            let streamed = if sse { ResponseShape::Events } else { ResponseShape::Array };
            let (operation, shape) = match verb {
                "generateContent" => {
                    (ApiOperation::Generate(Api::GoogleGenerate), Some(ResponseShape::Whole))
                }
                "streamGenerateContent" => (ApiOperation::Generate(Api::GoogleGenerate), Some(streamed)),
                "countTokens" => (ApiOperation::CountTokens(Api::GoogleGenerate), None),
                _ => (ApiOperation::Unknown, None),
            };
            (operation, Some(model.to_owned()), shape)
        }
        None => (ApiOperation::Model(api), Some(last.to_owned()), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, route: Option<&str>, operation: ApiOperation) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let address = Address::read(path, query, Api::OpenaiChat);
        assert_eq!((address.route.as_deref(), address.operation), (route, operation), "{path}");
    }

    #[test]
    fn an_api_is_known_by_the_end_of_the_path() {
        check("/v1/messages?beta=true", None, ApiOperation::Generate(Api::AnthropicMessages));
        check(
            "/r/a~1/v1/messages/count_tokens",
            Some("a~1"),
            ApiOperation::CountTokens(Api::AnthropicMessages),
        );
        check("/r/x/v1/responses", Some("x"), ApiOperation::Generate(Api::OpenaiResponses));
        check("/any/base/v1/chat/completions", None, ApiOperation::Generate(Api::OpenaiChat));
        check("/v1/models", None, ApiOperation::Models(Api::OpenaiChat));
        check("/v1beta/models", None, ApiOperation::Models(Api::GoogleGenerate));
        check("/v1/models/some-model", None, ApiOperation::Model(Api::OpenaiChat));
        check("/api/chat", None, ApiOperation::Generate(Api::OllamaChat));
        check("/r/only", Some("only"), ApiOperation::Root);
        check("/v1/embeddings", None, ApiOperation::Unknown);
    }

    #[test]
    fn the_path_may_say_the_model_and_the_shape() {
        for (verb, shape) in [
            ("generateContent", ResponseShape::Whole),
            ("streamGenerateContent", ResponseShape::Array),
            ("streamGenerateContent?key=k&alt=sse", ResponseShape::Events),
        ] {
            let path = format!("/r/x/v1beta/models/m-1:{verb}");
            let (path, query) = path.split_once('?').unwrap_or((&path, ""));
            let address = Address::read(path, query, Api::OpenaiChat);
            assert_eq!((address.model.as_deref(), address.shape), (Some("m-1"), Some(shape)), "{verb}");
        }
    }
}
