//! One request: read, recorded, answered according to the scenario.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::address::{Address, ApiOperation};
use crate::apis::{self, Answer, Api, ParsedRequest, ResponseShape, WireError};
use crate::body::{BodyEnding, BodyPiece, BrokenOff, PacedBody};
use crate::ledger::{Ledger, LedgerEntry, OpenEntry, RequestFacts, RequestOutcome, ScenarioChoice};
use crate::pick::{self, AttemptCounts};
use crate::reply::{self, TextValues};
use crate::scenario::{Fault, FaultKind, FaultTime, MidwayFault, Reply, ReplyText, Scenario, StepAction};
use crate::{listing, masked};

/// The longest request body. Prompts of a megabyte are ordinary; so are some images.
const LONGEST: usize = 256 * 1024 * 1024;

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) attempts: Mutex<AttemptCounts>,
}

type ServedResponse = Result<Response<PacedBody>, BrokenOff>;

/// Answers a request. An error closes the connection.
pub(crate) async fn request(shared: Arc<ServerState>, request: Request<Incoming>) -> ServedResponse {
    let (head, incoming) = request.into_parts();
    let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
    let address = Address::read(path, query, speaks(&head.headers));
    let (bytes, unread) = match Limited::new(incoming, LONGEST).collect().await {
        Ok(body) => (body.to_bytes(), None),
        Err(error) => (hyper::body::Bytes::new(), Some(error.to_string())),
    };
    let parsed = parsed(&head.headers, &bytes, unread);
    let body = match &parsed {
        Ok(value) => value.clone(),
        Err(_) => Value::String(String::from_utf8_lossy(&bytes).into_owned()),
    };
    let asked = match address.operation {
        ApiOperation::Generate(api) => Some(asked(api, &address, &body)),
        ApiOperation::CountTokens(_)
        | ApiOperation::Models(_)
        | ApiOperation::Model(_)
        | ApiOperation::Version
        | ApiOperation::Ledger
        | ApiOperation::Root
        | ApiOperation::Unknown => None,
    };
    if address.operation == ApiOperation::Ledger {
        return ledger(&shared, query);
    }
    let headers = head.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), masked::header(name.as_str(), &value))
    });
    let ticket = shared.ledger.open(LedgerEntry {
        seq: 0,
        at: Timestamp::now(),
        ended_at: None,
        method: head.method.to_string(),
        path: masked::path(&head.uri.to_string()),
        route: address.route.clone(),
        headers: headers.collect(),
        operation: address.operation,
        facts: asked.as_ref().map(RequestFacts::of),
        body: Arc::new(body),
        choice: None,
        called: Vec::new(),
        status: None,
        usage: None,
        outcome: RequestOutcome::Open,
    });
    // A response to HEAD has no body (RFC 9110).
    if head.method == Method::HEAD {
        ticket.status(200);
        let body = PacedBody::send(Vec::new(), BodyEnding::Good, None, ticket);
        return respond(200, "application/json", &[], body);
    }
    match (address.operation, asked) {
        (ApiOperation::Generate(api), Some(asked)) if head.method == Method::POST => match parsed {
            Ok(_) => generate(&shared, api, &asked, &head.headers, &address, ticket).await,
            Err(error) => refuse(api, StatusCode::BAD_REQUEST, &error, ticket),
        },
        // Some programs try a WebSocket first. After this response they go on without one.
        // After 426 the captured one falls back at once. After 404 it retried for 12 s first.
        (ApiOperation::Generate(api), _) if head.headers.contains_key("upgrade") => {
            refuse(api, StatusCode::UPGRADE_REQUIRED, "WebSockets are not supported: use POST", ticket)
        }
        (ApiOperation::Generate(api), _) => {
            refuse(api, StatusCode::METHOD_NOT_ALLOWED, "this address needs POST", ticket)
        }
        (ApiOperation::CountTokens(api), _) => document(200, &listing::tokens(api, bytes.len()), ticket),
        (ApiOperation::Models(api), _) => document(200, &listing::models(api), ticket),
        (ApiOperation::Model(api), _) => {
            document(200, &listing::model(api, address.model.as_deref().unwrap_or_default()), ticket)
        }
        (ApiOperation::Version, _) => document(200, &json!({ "version": "0.0.0-simulated" }), ticket),
        (ApiOperation::Root, _) => document(200, &json!({ "simulator": "bowline" }), ticket),
        (ApiOperation::Unknown | ApiOperation::Ledger, _) => {
            let error = format!("bowline simulate does not serve {} {}", head.method, head.uri.path());
            document(404, &json!({ "error": { "message": error, "type": "not_found" } }), ticket)
        }
    }
}

/// Guesses the API from the headers, for addresses that several APIs have.
fn speaks(headers: &HeaderMap) -> Api {
    if headers.contains_key("anthropic-version") || headers.contains_key("x-api-key") {
        Api::AnthropicMessages
    } else if headers.contains_key("x-goog-api-key") {
        Api::GoogleGenerate
    } else {
        Api::OpenaiChat
    }
}

/// Parses the body. A request without a body is `null`.
fn parsed(headers: &HeaderMap, bytes: &[u8], unread: Option<String>) -> Result<Value, String> {
    match (unread, bytes.is_empty()) {
        (Some(error), _) => Err(format!("the body could not be read: {error}")),
        (None, true) => Ok(Value::Null),
        (None, false) => serde_json::from_slice(bytes).map_err(|error| not_json(headers, &error)),
    }
}

fn not_json(headers: &HeaderMap, error: &serde_json::Error) -> String {
    match headers.get("content-encoding") {
        Some(encoding) => format!(
            "the body is encoded as `{}`, which the simulator does not read",
            String::from_utf8_lossy(encoding.as_bytes())
        ),
        None => format!("the body is not JSON: {error}"),
    }
}

/// Reads a request, with the facts of its address.
fn asked(api: Api, address: &Address, body: &Value) -> ParsedRequest {
    let mut asked = apis::read(api, body);
    asked.shape = address.shape.unwrap_or(asked.shape);
    asked.model = address.model.clone().or(asked.model);
    asked
}

async fn generate(
    shared: &ServerState,
    api: Api,
    asked: &ParsedRequest,
    headers: &HeaderMap,
    address: &Address,
    ticket: OpenEntry,
) -> ServedResponse {
    let header = headers.get("x-bowline-scenario").and_then(|value| value.to_str().ok());
    let route = address.route.as_deref();
    let picked = pick::scenario(&shared.scenarios, asked, header, route);
    let (name, by) = match &picked {
        Ok(picked) => (&shared.scenarios[picked.scenario].name, picked.by),
        Err(unknown) => (&unknown.name, unknown.by),
    };
    let mut choice = ScenarioChoice {
        scenario: name.clone(),
        picked_by: by,
        step: None,
        side: pick::side(api, asked),
        fault: None,
        unknown: picked.is_err(),
    };
    let (number, at) = (ticket.seq(), Timestamp::now().as_second());
    if choice.side.is_some() {
        ticket.choose(choice);
        return answer(api, asked, reply::side_answer(asked, number, at), Duration::ZERO, ticket);
    }
    let picked = match picked {
        Ok(picked) => picked,
        Err(unknown) => {
            ticket.choose(choice);
            let error =
                format!("there is no scenario `{}`; `bowline simulate --list` lists them", unknown.name);
            return refuse(api, StatusCode::BAD_REQUEST, &error, ticket);
        }
    };
    let scenario = &shared.scenarios[picked.scenario];
    // In a block of its own: the guard of the lock must not live across the `await` below.
    let step = {
        let mut attempts = shared.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.step(scenario, &picked, asked, route)
    };
    choice.step = Some(step + 1);
    let step = &scenario.steps[step];
    if let StepAction::Fault(fault) = &step.act {
        choice.fault = Some(fault.kind);
    }
    ticket.choose(choice);
    if !step.wait.is_zero() {
        tokio::time::sleep(step.wait).await;
    }
    match &step.act {
        StepAction::Reply(reply) => {
            let names = TextValues::of(scenario, &picked.values, asked);
            answer(api, asked, reply::answer(reply, &names, asked, number, at), reply.every, ticket)
        }
        StepAction::Fault(fault) => fail(api, asked, fault, number, at, ticket).await,
    }
}

/// Sends an answer.
fn answer(
    api: Api,
    asked: &ParsedRequest,
    mut answer: Answer,
    every: Duration,
    ticket: OpenEntry,
) -> ServedResponse {
    // The ledger gets only the numbers that this API can express, so that a test can compare it with the program's report.
    answer.usage = apis::sayable(api, answer.usage);
    ticket.status(200);
    ticket.usage(answer.usage);
    ticket.called(answer.calls.iter().map(|call| call.tool.clone()).collect());
    if asked.shape == ResponseShape::Whole {
        // A whole response takes as long as the stream would.
        let pause = every * u32::try_from(answer.deltas.len()).unwrap_or(u32::MAX);
        let bytes = apis::whole(api, &answer).to_string().into_bytes();
        let length = bytes.len() as u64;
        let pieces = vec![BodyPiece { pause, bytes: bytes.into() }];
        return respond(
            200,
            "application/json",
            &[],
            PacedBody::send(pieces, BodyEnding::Good, Some(length), ticket),
        );
    }
    let pieces = apis::frames(api, asked.shape, &answer).into_iter().map(|frame| BodyPiece {
        pause: if frame.delta { every } else { Duration::ZERO },
        bytes: frame.text.into(),
    });
    let body = PacedBody::send(pieces.collect(), BodyEnding::Good, None, ticket);
    respond(200, content_type(asked.shape), &[("cache-control", "no-cache".to_owned())], body)
}

/// The text of an answer that goes wrong.
const HALF: &str = "This answer begins as it should, goes on for a while, and would have come to a good end.";

/// Plays a fault.
async fn fail(
    api: Api,
    asked: &ParsedRequest,
    fault: &Fault,
    number: u64,
    at: i64,
    ticket: OpenEntry,
) -> ServedResponse {
    let half = Reply { say: ReplyText::Text { text: HALF.to_owned(), repeat: 1 }, ..Reply::default() };
    let answer = reply::answer(&half, &TextValues::default(), asked, number, at);
    match fault.kind.when() {
        FaultTime::Closed => {
            ticket.end(RequestOutcome::BrokenOff);
            Err(BrokenOff::Closed)
        }
        // The connection is already accepted, so that the nearest thing to a refusal is a reset: RST instead of FIN.
        FaultTime::Refused => {
            ticket.end(RequestOutcome::BrokenOff);
            Err(BrokenOff::Reset)
        }
        // The client leaves, and this is dropped together with the ticket.
        FaultTime::Never => std::future::pending().await,
        FaultTime::Midway(what) if asked.shape == ResponseShape::Whole => {
            midway_whole(api, what, fault, &answer, ticket)
        }
        FaultTime::Midway(what) => midway(api, asked.shape, what, fault, &answer, ticket),
        FaultTime::Answered => {
            let in_stream = fault.kind == FaultKind::ContextOverflow && asked.shape != ResponseShape::Whole;
            if in_stream
                && fault.status.is_none()
                && let Some(frames) = apis::overflow_frames(api, fault, &answer)
            {
                ticket.status(200);
                let body = PacedBody::send(pieces(&frames), BodyEnding::Good, None, ticket);
                return respond(200, content_type(asked.shape), &[], body);
            }
            said(apis::problem(api, fault, &answer.model), ticket)
        }
    }
}

/// Plays a fault in the middle of one document.
fn midway_whole(
    api: Api,
    what: MidwayFault,
    fault: &Fault,
    answer: &Answer,
    ticket: OpenEntry,
) -> ServedResponse {
    let text = apis::whole(api, answer).to_string();
    let half = || vec![BodyPiece::now(text.as_bytes()[..text.len() / 2].to_vec())];
    let (pieces, ending, length) = match what {
        MidwayFault::HangAfterHeaders => (Vec::new(), BodyEnding::Hang, text.len()),
        MidwayFault::Hang => (half(), BodyEnding::Hang, text.len()),
        // The announced length is that of the whole document, so the client sees the connection end too early.
        MidwayFault::Cut => (half(), BodyEnding::Cut, text.len()),
        // The announced length is right, so only the client's JSON parser can notice.
        MidwayFault::Garbage => (half(), BodyEnding::Good, text.len() / 2),
        // There is no stream that could carry the error.
        MidwayFault::StreamError => {
            let fault = Fault { kind: FaultKind::ServerError, ..fault.clone() };
            return said(apis::problem(api, &fault, &answer.model), ticket);
        }
    };
    ticket.status(200);
    respond(200, "application/json", &[], PacedBody::send(pieces, ending, Some(length as u64), ticket))
}

/// Plays a fault in the middle of a stream.
fn midway(
    api: Api,
    shape: ResponseShape,
    what: MidwayFault,
    fault: &Fault,
    answer: &Answer,
    ticket: OpenEntry,
) -> ServedResponse {
    ticket.status(200);
    let frames = apis::frames(api, shape, answer);
    let deltas: Vec<usize> =
        frames.iter().enumerate().filter(|(_, frame)| frame.delta).map(|(at, _)| at).collect();
    let middle = deltas.get(deltas.len() / 2).copied().unwrap_or(frames.len() / 2);
    let (before, behind) = frames.split_at(middle);
    let mut sent = pieces(before);
    let ending = match what {
        MidwayFault::HangAfterHeaders => {
            sent.clear();
            BodyEnding::Hang
        }
        MidwayFault::Hang => BodyEnding::Hang,
        MidwayFault::Cut => BodyEnding::Cut,
        MidwayFault::StreamError => {
            sent.push(BodyPiece::now(apis::broken_off(api, fault, answer).text));
            BodyEnding::Good
        }
        MidwayFault::Garbage => {
            // Half of a frame, and the delimiter that ends it. The other half never comes.
            let broken = behind.first().map_or("", |frame| frame.text.trim_end());
            let cut = broken.char_indices().nth(broken.chars().count() / 2).map_or(0, |(at, _)| at);
            sent.push(BodyPiece::now(format!("{}\n\n", &broken[..cut])));
            sent.extend(pieces(behind.get(1..).unwrap_or_default()));
            BodyEnding::Good
        }
    };
    respond(200, content_type(shape), &[], PacedBody::send(sent, ending, None, ticket))
}

fn pieces(frames: &[apis::Frame]) -> Vec<BodyPiece> {
    frames.iter().map(|frame| BodyPiece::now(frame.text.clone())).collect()
}

fn content_type(shape: ResponseShape) -> &'static str {
    match shape {
        ResponseShape::Whole | ResponseShape::Array => "application/json",
        ResponseShape::Events => "text/event-stream; charset=utf-8",
        ResponseShape::Lines => "application/x-ndjson",
    }
}

/// Refuses a request that no scenario is responsible for.
fn refuse(api: Api, status: StatusCode, message: &str, ticket: OpenEntry) -> ServedResponse {
    let fault = Fault {
        kind: FaultKind::BadRequest,
        message: Some(format!("bowline simulate: {message}")),
        status: Some(status.as_u16()),
        retry_after: None,
    };
    said(apis::problem(api, &fault, ""), ticket)
}

/// Sends an error.
fn said(problem: WireError, ticket: OpenEntry) -> ServedResponse {
    ticket.status(problem.status);
    let length = problem.body.len() as u64;
    let body = PacedBody::send(vec![BodyPiece::now(problem.body)], BodyEnding::Good, Some(length), ticket);
    respond(problem.status, problem.content_type, &problem.headers, body)
}

/// Sends a document.
fn document(status: u16, value: &Value, ticket: OpenEntry) -> ServedResponse {
    ticket.status(status);
    let text = value.to_string();
    let length = text.len() as u64;
    let body = PacedBody::send(vec![BodyPiece::now(text)], BodyEnding::Good, Some(length), ticket);
    respond(status, "application/json", &[], body)
}

/// Returns the ledger. This request is not in it.
fn ledger(shared: &ServerState, query: &str) -> ServedResponse {
    let route = query.split('&').find_map(|pair| pair.strip_prefix("route="));
    let mut entries = shared.ledger.entries();
    entries.retain(|entry| route.is_none() || entry.route.as_deref() == route);
    let text = serde_json::to_string(&entries)
        .unwrap_or_else(|error| json!({ "error": error.to_string() }).to_string());
    respond(200, "application/json", &[], PacedBody::whole(text))
}

fn respond(
    status: u16,
    content_type: &str,
    headers: &[(&'static str, String)],
    body: PacedBody,
) -> ServedResponse {
    let mut response = Response::builder().status(status).header("content-type", content_type);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(body).map_err(|_| BrokenOff::Closed)
}
