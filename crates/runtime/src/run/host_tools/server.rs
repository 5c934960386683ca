//! The transport of the server for the tools: MCP's "streamable HTTP" on 127.0.0.1, each response one JSON document.
//!
//! Every process of the machine can connect, and so can a page in the user's browser. A request is answered only with the token of the
//! run, only if it is addressed to this host by its number (a page behind a rebound DNS name sends another `Host`), and never with an
//! `Origin`, which browsers send. There are no event streams and no resumption: the protocol makes both optional.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bowline_protocol::McpServer;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use super::HostTool;
use super::mcp::{self, ToolDesk, VERSIONS};

/// The path of the server.
const PATH: &str = "/mcp";

/// The longest body of a request, in bytes.
const LONGEST: usize = 4 << 20;
const TOO_LONG: &str = "a request has at most 4 MiB";

/// How many connections may be open; further ones wait. A call has a connection of its own.
const CONNECTIONS: usize = 64;

/// How long a client may take to send the head of a request, and the body. A connection without the token lasts no longer.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// How long the end of a run waits for functions that do not yield.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// The id that `initialize` gives a client: the ids of its requests are its own.
const CLIENT: &str = "mcp-session-id";

/// A running server for the tools of a run. Dropping it ends the server and every call.
#[derive(Debug)]
pub(crate) struct HostServer {
    address: SocketAddr,
    token: String,
    /// Dropped to end the server.
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

/// The values that all connections share.
struct ServedTools {
    desk: ToolDesk,
    /// The accepted `Host` headers.
    hosts: [String; 2],
    /// The hash of the accepted `Authorization` header. Hashes are compared, so the time of a comparison shows nothing of the token.
    authorization: [u8; 32],
}

impl HostServer {
    /// Starts a server on a free port.
    pub(super) async fn start(tools: &[HostTool]) -> io::Result<Self> {
        let token = random_hex::<32>()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServedTools {
            desk: ToolDesk::new(tools),
            hosts: [address.to_string(), format!("localhost:{}", address.port())],
            authorization: hash(bearer(&token).as_bytes()),
        });
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, shared, stopped));
        Ok(Self { address, token, stop: Some(stop), serving })
    }

    /// Describes the server for the agent.
    pub(crate) fn address(&self) -> McpServer {
        let headers = [("Authorization".to_owned(), bearer(&self.token))].into();
        McpServer::Http { url: format!("http://{}{PATH}", self.address), headers }
    }

    /// Ends the server, and waits until every call is dropped.
    pub(crate) async fn close(mut self) {
        drop(self.stop.take());
        match tokio::time::timeout(CLOSE_WITHIN, &mut self.serving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the server for the tools ended early");
            }
            // A future that does not yield cannot be dropped. The end of the run does not wait for it.
            Err(_) => tracing::warn!("a tool blocks its thread, and goes on after the end of its run"),
        }
    }
}

impl Drop for HostServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns random bytes of the kernel as hexadecimal digits.
fn random_hex<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    // Up to 256 bytes come at once, also if a signal arrives (getrandom(2)).
    let filled = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    if filled != BYTES {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn serve(listener: TcpListener, shared: Arc<ServedTools>, mut stopped: oneshot::Receiver<()>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
            listener.accept().await.map(|(stream, _)| (stream, permit))
        };
        tokio::select! {
            accepted = accepted => match accepted {
                Ok((stream, permit)) => {
                    let shared = shared.clone();
                    connections.spawn(async move {
                        connection(stream, shared).await;
                        drop(permit);
                    });
                }
                // Without free descriptors accept(2) fails at once (EMFILE), and the loop would use a whole CPU.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
            _ = &mut stopped => break,
        }
    }
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, shared: Arc<ServedTools>) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    // One request for each connection: an idle one would keep its place, and a client that sends on one while it is being closed for
    // its age sees an error. A client that leaves drops its call.
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error = &error as &dyn std::error::Error, "a client of the tools left");
    }
}

type HostResponse = Response<Full<Bytes>>;

async fn answer(shared: &ServedTools, request: Request<Incoming>) -> HostResponse {
    let (head, body) = request.into_parts();
    if let Some(refusal) = turned_down(shared, &head) {
        return refusal;
    }
    if body.size_hint().lower() > LONGEST as u64 {
        // Not after the first 4 MiB of it: the client may wait for a sign before it sends the body.
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, TOO_LONG);
    }
    let body = match tokio::time::timeout(BODY_WITHIN, Limited::new(body, LONGEST).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, TOO_LONG);
        }
        Ok(Err(_)) => return refusal(StatusCode::BAD_REQUEST, "the body could not be read"),
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 30 s"),
    };
    let Ok(message) = serde_json::from_slice::<Value>(&body) else {
        return document(
            StatusCode::BAD_REQUEST,
            &mcp::error(&Value::Null, mcp::NOT_JSON, "the body is not JSON"),
        );
    };
    let version = head.headers.get("mcp-protocol-version").map(|version| version.as_bytes());
    let begins = message["method"] == "initialize";
    if !begins && version.is_some_and(|it| VERSIONS.iter().all(|known| known.as_bytes() != it)) {
        let text = format!("this server supports the protocol versions {}", VERSIONS.join(", "));
        return document(StatusCode::BAD_REQUEST, &mcp::error(&message["id"], mcp::INVALID, &text));
    }
    let client = head.headers.get(CLIENT).and_then(|id| id.to_str().ok());
    let Some(response) = shared.desk.answer(client, message).await else {
        let mut accepted = Response::new(Full::default());
        *accepted.status_mut() = StatusCode::ACCEPTED;
        return accepted;
    };
    let mut response = document(StatusCode::OK, &response);
    if begins
        && let Ok(id) = random_hex::<16>()
        && let Ok(id) = HeaderValue::from_str(&id)
    {
        response.headers_mut().insert(CLIENT, id);
    }
    response
}

/// Returns why a request is not answered. Its body is not read then.
fn turned_down(shared: &ServedTools, head: &Parts) -> Option<HostResponse> {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    // A request to a proxy has the whole address in its first line; this server is not a proxy.
    if head.uri.authority().is_some() || !host.is_some_and(|host| shared.hosts.iter().any(|it| it == host)) {
        return Some(refusal(StatusCode::FORBIDDEN, "the request is for another host"));
    }
    if head.headers.contains_key(ORIGIN) {
        return Some(refusal(StatusCode::FORBIDDEN, "requests of web pages are not answered"));
    }
    let given = head.headers.get(AUTHORIZATION).map(|given| hash(given.as_bytes()));
    let differs =
        |given: [u8; 32]| given.iter().zip(&shared.authorization).fold(0, |all, (a, b)| all | (a ^ b)) != 0;
    if given.is_none_or(differs) {
        let mut refusal = refusal(StatusCode::UNAUTHORIZED, "the token of the run is missing or wrong");
        refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return Some(refusal);
    }
    if head.uri.path() != PATH {
        return Some(refusal(StatusCode::NOT_FOUND, "the path is /mcp"));
    }
    // GET would open a stream of the server's own messages, of which there are none; DELETE would end a session.
    if head.method != Method::POST {
        let mut refusal = refusal(StatusCode::METHOD_NOT_ALLOWED, "this address takes POST");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return Some(refusal);
    }
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Some(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has to be application/json"));
    }
    None
}

fn refusal(status: StatusCode, reason: &str) -> HostResponse {
    let mut response = Response::new(Full::from(format!("{reason}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn document(status: StatusCode, value: &Value) -> HostResponse {
    let mut response = Response::new(Full::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
