//! Texts that real programs print, from the error tables of the facts about them, and what we make of each.
//!
//! Long ones are shortened, and where the tables leave words out (the server's own, mostly) some were filled in.
//! Only the words are judged here. A dialect that knows the status or the program's own error name says more.

use super::{check, of_report, of_text};
use crate::failure::Report;

#[track_caller]
fn check_all(table: &[(&str, &str)]) {
    for (text, expect) in table {
        // The same words mean the same, wherever they were said.
        check(&of_text(text), expect);
        check(&of_report(&Report::of(*text)), expect);
    }
}

#[test]
fn claude_code() {
    check_all(&[
        ("API Error: 400 messages.0: unexpected role", "validation/invalid_request"),
        ("Invalid API key · Fix external API key", "authentication/invalid_credentials"),
        ("Not logged in · Please run /login", "authentication/not_logged_in"),
        (
            "Failed to authenticate. API Error: 403 Your API key does not have permission to use the specified resource.",
            "authentication/forbidden",
        ),
        (
            "There's an issue with the selected model (nope). It may not exist or you may not have access to it.",
            "not_found/model_not_found",
        ),
        ("There’s an issue with the selected model (nope).", "not_found/model_not_found"),
        (
            "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed the request over the limit.",
            "validation/request_too_large",
        ),
        ("API Error: Request rejected (429) · slow down", "rate_limit/rate_limited"),
        ("You've hit your 5-hour limit · resets 9:45am (UTC)", "quota/usage_limit"),
        ("You’ve hit your limit · resets 2:10pm (Europe/Moscow)", "quota/usage_limit"),
        ("Claude AI usage limit reached|1766502000", "quota/usage_limit"),
        (
            "API Error: 500 Internal server error. This is a server-side issue, usually temporary",
            "server/server_error",
        ),
        ("API Error: Repeated 529 Overloaded errors. The API is at capacity", "rate_limit/overloaded"),
        ("Credit balance is too low", "quota/billing"),
        (
            "Prompt is too long · the request is ~250000 tokens (limit 200000) but this conversation is only ~2481 tokens",
            "validation/context_overflow",
        ),
        (
            "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
            "network/connection_failed",
        ),
        (
            "API Error: Connection to the API was lost (ECONNRESET). This is usually temporary",
            "network/connection_lost",
        ),
        ("Connection to the API was lost", "network/connection_lost"),
        ("Request timed out", "timeout/timed_out"),
        ("API Error: Claude Code's safeguards flagged this message", "validation/refused"),
        ("Reached maximum number of turns (2)", "validation/max_turns"),
        ("Reached maximum budget ($0.012)", "configuration/budget"),
        (
            "No conversation found with session ID: 11111111-2222-3333-4444-555555555555",
            "not_found/session_not_found",
        ),
        (
            "Error: --resume requires a valid session ID or session title when used with --print. Provided value \"no-such\" is not a UUID and does not match any session title.",
            "not_found/session_not_found",
        ),
        ("error: unknown option '--no-such-flag'", "configuration/flag_rejected"),
        (
            "Error: When using --print, --output-format=stream-json requires --verbose",
            "configuration/flag_rejected",
        ),
        (
            "error: option '--output-format <format>' argument 'xml' is invalid. Allowed choices are text, json, stream-json.",
            "configuration/flag_rejected",
        ),
        ("Error: Invalid session ID. Must be a valid UUID.", "validation/invalid_request"),
        (
            "Error: Session ID aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee is already in use.",
            "validation/invalid_request",
        ),
        ("Error: Invalid MCP configuration:\nMCP config file not found: /home/u/x", "not_found/not_found"),
        (
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
            "configuration/bad_config",
        ),
        (
            "Error: Input must be provided either through stdin or as a prompt argument when using --print",
            "validation/invalid_request",
        ),
        (
            "Error parsing streaming input line (type=unknown, 16 chars): SyntaxError",
            "validation/invalid_request",
        ),
        ("Error: Expected message role 'user', got 'undefined'", "validation/invalid_request"),
        ("Authentication required", "authentication/not_logged_in"),
    ]);
}

#[test]
fn codex() {
    check_all(&[
        (r#"{"error": {"message": "bad", "type": "invalid_request_error"}}"#, "validation/invalid_request"),
        (
            "unexpected status 401 Unauthorized: Incorrect API key provided: sk-fake., url: http://127.0.0.1:8765/v1/responses",
            "authentication/invalid_credentials",
        ),
        (
            "unexpected status 403 Forbidden: You do not have access to this resource., request id: req_fake",
            "authentication/forbidden",
        ),
        (
            "exceeded retry limit, last status: 429 Too Many Requests, request id: req_fake",
            "rate_limit/rate_limited",
        ),
        ("The requested model 'nope' does not exist.", "not_found/model_not_found"),
        ("Quota exceeded. Check your plan and billing details.", "quota/quota_exhausted"),
        (
            "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro) or try again at May 18th, 2033 3:33 AM.",
            "quota/usage_limit",
        ),
        ("We’re currently experiencing high demand, which may cause temporary errors.", "server/overloaded"),
        ("Selected model is at capacity. Please try a different model.", "server/overloaded"),
        (
            "unexpected status 502 Bad Gateway: <html><body><h1>502 Bad Gateway</h1></body></html>",
            "server/server_error",
        ),
        (
            "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.",
            "validation/context_overflow",
        ),
        (
            "rate limit exceeded: Rate limit reached for gpt-5. Please try again in 0.5s.",
            "rate_limit/rate_limited",
        ),
        (
            "stream disconnected before completion: An error occurred while processing your request.",
            "network/connection_lost",
        ),
        (
            "stream disconnected before completion: stream closed before response.completed",
            "network/connection_lost",
        ),
        ("stream disconnected before completion: idle timeout waiting for SSE", "timeout/timed_out"),
        (
            "stream disconnected before completion: failed to lookup address information: Try again",
            "network/connection_failed",
        ),
        ("Invalid prompt: we've limited access to this content", "validation/invalid_request"),
        ("Incomplete response returned, reason: max_output_tokens", "validation/max_output"),
        ("Connection failed: error sending request", "network/connection_failed"),
        ("Missing environment variable: `FAKE_KEY`.", "authentication/not_logged_in"),
        (
            "Not inside a trusted directory and --skip-git-repo-check was not specified.",
            "configuration/untrusted_folder",
        ),
        (
            "Error loading config.toml:\n/home/u/.codex/config.toml:1:11: invalid basic string",
            "configuration/bad_config",
        ),
        ("Error: Model provider `nosuch` not found", "not_found/not_found"),
        (
            "Error: thread/resume: thread/resume failed: no rollout found for thread id 00000000-0000-0000-0000-000000000000 (code -32600)",
            "not_found/session_not_found",
        ),
        ("Error: No such file or directory (os error 2)", "not_found/not_found"),
        (
            "Output schema file bad.json is not valid JSON: key must be a string at line 1 column 2",
            "validation/invalid_request",
        ),
        ("No prompt provided via stdin.", "validation/invalid_request"),
        (
            "Failed to read prompt from stdin: input is not valid UTF-8 (invalid byte at offset 10).",
            "validation/invalid_request",
        ),
        (
            "Error: turn/start: Input exceeds the maximum length of 1048576 characters. (code -32602), data: {\"input_error_code\":\"input_too_large\"}",
            "validation/request_too_large",
        ),
        (
            "error: unexpected argument '--color' found\n\n  tip: a similar argument exists",
            "configuration/flag_rejected",
        ),
        (
            "Error: thread/start: required MCP servers failed to initialize: broken: gone",
            "configuration/bad_config",
        ),
        ("Error: thread 01a1de38 already has an active writer (code -32600)", "validation/invalid_request"),
        ("Error: stdin is not a terminal", "configuration/flag_rejected"),
        ("Not logged in", "authentication/not_logged_in"),
        ("thread 'main' panicked at src/main.rs:1:1", "unknown/crashed"),
        (
            "WARNING: could not create PATH aliases: Refusing to create helper binaries under temporary dir",
            "unknown/unknown",
        ),
    ]);
}

#[test]
fn gemini_and_qwen() {
    check_all(&[
        (
            r#"[API Error: {"error":{"code":401,"message":"Request had invalid authentication credentials.","status":"UNAUTHENTICATED"}}]"#,
            "authentication/invalid_credentials",
        ),
        // The words say 400 before they say that the key is wrong; the table of the protocol is not overruled.
        (
            r#"[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
            "validation/invalid_request",
        ),
        (
            r#"[API Error: {"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
            "validation/context_overflow",
        ),
        (
            "[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try again later.",
            "quota/usage_limit",
        ),
        (
            "Attempt 1 failed: You exceeded your current quota, please check your plan and billing details. Please retry in 2s.",
            "quota/quota_exhausted",
        ),
        (
            r#"[API Error: {"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}]"#,
            "server/server_error",
        ),
        (
            "Attempt 1 failed. Retrying with backoff... Error: exception TypeError: fetch failed",
            "network/connection_failed",
        ),
        ("[API Error: terminated]", "network/connection_lost"),
        ("Invalid auth method selected.", "authentication/not_logged_in"),
        (
            "Please set an Auth method in your /home/u/.gemini/settings.json or specify one of the following environment variables",
            "authentication/not_logged_in",
        ),
        ("Gemini API key is missing or not configured.", "configuration/bad_config"),
        (
            "No input provided via stdin. Input can be provided by piping data into gemini or using the --prompt option.",
            "validation/invalid_request",
        ),
        (
            "Error resuming session: Invalid session identifier \"99999999-2222-4333-8444-555555555555\".",
            "not_found/session_not_found",
        ),
        (
            "Error starting session: Session ID \"11111111-2222-4333-8444-555555555555\" already exists.",
            "validation/invalid_request",
        ),
        (
            "Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust`",
            "configuration/untrusted_folder",
        ),
        ("ModelNotFoundError: Requested entity was not found.", "not_found/model_not_found"),
        ("[API Error: Connection error. (cause: fetch failed)]", "network/connection_failed"),
        (
            "[API Error: 400 This model's maximum context length is 8192 tokens. However, your messages resulted in 99999 tokens.]",
            "validation/context_overflow",
        ),
        ("[API Error: 401 Incorrect API key provided: sk-fake.]", "authentication/invalid_credentials"),
        (
            "[API Error: 404 The model `nope` does not exist or you do not have access to it.]",
            "not_found/model_not_found",
        ),
        (
            "Retrying in 60s (attempt 1/10): [API Error: 429 Rate limit reached for fake-model in organization org-fake on requests per min. Please try again in 2s.]",
            "rate_limit/rate_limited",
        ),
        (
            "[API Error: 500 The server had an error while processing your request. Sorry about that!]",
            "server/server_error",
        ),
        ("[API Error: Upstream overloaded]", "rate_limit/overloaded"),
        ("No auth type is selected. Please configure an auth type", "authentication/not_logged_in"),
        (
            "No saved session found with ID 99999999-2222-4333-8444-555555555555.",
            "not_found/session_not_found",
        ),
        (
            "Reached max session turns for this session. Increase the number of turns by specifying maxSessionTurns in settings.json.",
            "validation/max_turns",
        ),
        ("Operation cancelled.", "unknown/cancelled"),
    ]);
}

#[test]
fn pi_opencode_copilot_and_grok() {
    check_all(&[
        (
            r#"401: {"message":"Incorrect API key provided: sk-fake.","type":"invalid_request_error","code":"invalid_api_key"}"#,
            "authentication/invalid_credentials",
        ),
        (
            r#"429: {"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota"}"#,
            "quota/quota_exhausted",
        ),
        (
            r#"500: {"message":"The server had an error while processing your request.","type":"server_error"}"#,
            "server/server_error",
        ),
        ("Connection error.", "network/connection_failed"),
        ("terminated", "network/connection_lost"),
        (
            "No API key found for the selected model.\n\nUse /login to log into a provider",
            "authentication/not_logged_in",
        ),
        ("No session found matching '99999999-2222-4333-8444-555555555555'", "not_found/session_not_found"),
        ("Incorrect API key provided: sk-fake.", "authentication/invalid_credentials"),
        (
            "Rate limit reached for fake-model in organization org-fake on requests per min. Please try again in 2s.",
            "rate_limit/rate_limited",
        ),
        (
            "Cannot connect to API: Unable to connect. Is the computer able to access the url?",
            "network/connection_failed",
        ),
        ("Unexpected server error. Check server logs for details.", "server/server_error"),
        ("ProviderModelNotFoundError: fake/nope", "not_found/model_not_found"),
        ("Error: Session not found", "not_found/session_not_found"),
        (
            "Authentication failed with provider at http://127.0.0.1:8899/v1 (HTTP 401).",
            "authentication/invalid_credentials",
        ),
        ("Error: No authentication information found.", "authentication/not_logged_in"),
        (
            "Could not connect to local model provider at http://127.0.0.1:1/v1.\n  Check that the service is running",
            "network/connection_failed",
        ),
        (
            "Last error: Failed native model HTTP request: error decoding response body: error reading a body from connection: unexpected EOF during chunk size line",
            "network/connection_lost",
        ),
        // The words say 429 and nothing that the protocol knows as a quota; with the status, it is one.
        (
            "Last error: 429 You exceeded your current quota, please check your plan",
            "rate_limit/rate_limited",
        ),
        ("❌ Error: API key required. Set GROK_API_KEY environment variable", "authentication/not_logged_in"),
        (
            "Sorry, I encountered an error: Grok API error: 401 Incorrect API key provided: sk-fake.",
            "authentication/invalid_credentials",
        ),
        ("sh: 1: grok: command not found", "not_found/not_installed"),
        ("Error: spawn claude ENOENT", "not_found/not_installed"),
        ("ENOENT: no such file or directory, open 'x'", "not_found/not_found"),
    ]);
}

#[test]
fn a_list_of_options_is_not_a_list_of_failures() {
    let qwen = "Unknown arguments: such-flag, suchFlag\nUsage: qwen [options] [command]\n\nOptions:\n\
        \x20     --fallback-model  Fallback model(s) for capacity errors (429/503/529), repeatable  [array]\n\
        \x20 -h, --help            Show help  [boolean]\n";
    let opencode = "opencode run [message..]\n\nrun opencode with a message\n\nOptions:\n\
        \x20 -h, --help      show help  [boolean]\n\x20     --timeout   how long to wait  [number]\n";
    let asked = "Error: No prompt provided via stdin.\n\nOptions:\n  -h, --help  show help\n";
    check(&of_text(qwen), "configuration/flag_rejected");
    check(&of_text(opencode), "configuration/flag_rejected");
    check(&of_text(asked), "validation/invalid_request");
}

/// A word that stands in another one says nothing.
#[test]
fn words_inside_other_words() {
    check_all(&[
        ("SyntaxError: Unterminated string in JSON at position 17", "unknown/unknown"),
        ("unterminated string literal (detected at line 3)", "unknown/unknown"),
        ("missing closing quotation mark", "unknown/unknown"),
        ("ResizeObserver error: the loop was cut", "unknown/unknown"),
        ("the vector cannot grow to that capacity", "unknown/unknown"),
        ("the stream was terminated.", "network/connection_lost"),
        ("TypeError: terminated", "network/connection_lost"),
        ("your quota is used up", "quota/quota_exhausted"),
        ("quotas: 0 left", "quota/quota_exhausted"),
        ("upstream server error", "server/server_error"),
        ("we are at capacity", "server/overloaded"),
    ]);
}
