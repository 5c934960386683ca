//! The server, spoken to as a client writes it: bytes over loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_protocol::{Json, McpServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Barrier, Notify};

use super::mcp::CALLS;
use super::{HostServer, HostTool, HostToolError};

/// Panics if something takes longer than a slow machine needs.
async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .unwrap_or_else(|_| panic!("{what} takes too long"))
}

fn schema() -> Json {
    Json::parse(r#"{"type": "object", "properties": {"city": {"type": "string"}}}"#).expect("JSON")
}

fn tool<F>(name: &str, call: impl Fn(Json) -> F + Send + Sync + 'static) -> HostTool
where
    F: Future<Output = super::CallResult> + Send + 'static,
{
    HostTool::new(name, format!("About {name}"), schema(), call)
}

fn echo() -> HostTool {
    tool("echo", |input| async move { Ok(input.as_str().to_owned()) })
}

/// A client of a server.
struct Client {
    host: String,
    authorization: String,
}

impl Client {
    fn of(server: &HostServer) -> Self {
        let McpServer::Http { url, headers } = server.address() else { panic!("not over HTTP") };
        let host = url.strip_prefix("http://").and_then(|it| it.strip_suffix("/mcp")).expect("an address");
        Self { host: host.to_owned(), authorization: headers["Authorization"].clone() }
    }

    async fn connect(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).await.expect("a connection");
        stream.write_all(bytes.as_bytes()).await.expect("a request");
        stream
    }

    /// Sends bytes and returns the status, the head and the body.
    async fn raw(&self, bytes: &str) -> (u16, String, String) {
        let mut stream = self.connect(bytes).await;
        let mut text = String::new();
        soon("the response", stream.read_to_string(&mut text)).await.expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, head.to_ascii_lowercase(), body.to_owned())
    }

    fn request(&self, headers: &str, body: &str) -> String {
        let Self { host, authorization } = self;
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    async fn send(&self, message: &Value) -> Value {
        let (status, _, body) = self.raw(&self.request("", &message.to_string())).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    async fn call(&self, id: u64, tool: &str, arguments: &Value) -> Value {
        self.send(&call(id, tool, arguments)).await
    }
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

fn said(response: &Value) -> (&str, bool) {
    let text = response["result"]["content"][0]["text"].as_str();
    (text.unwrap_or_else(|| panic!("{response}")), response["result"]["isError"] == true)
}

async fn serve(tools: impl IntoIterator<Item = HostTool>) -> (HostServer, Client) {
    let tools: Vec<HostTool> = tools.into_iter().collect();
    let server = HostServer::start(&tools).await.expect("a server");
    let client = Client::of(&server);
    (server, client)
}

#[tokio::test]
async fn a_client_shakes_hands_lists_and_calls() {
    let (server, client) = serve([echo()]).await;
    for (wanted, chosen) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2025-11-25"),
        ("3000-01-01", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": wanted, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let (status, head, body) = client.raw(&client.request("", &message.to_string())).await;
        let response: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(
            (status, &response["id"], &response["result"]["protocolVersion"]),
            (200, &json!(0), &json!(chosen))
        );
        assert!(
            head.contains("mcp-session-id: ") && head.contains("content-type: application/json"),
            "{head}"
        );
        assert_eq!(response["result"]["capabilities"], json!({"tools": {}}));
    }
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let (status, _, body) =
        client.raw(&client.request("MCP-Protocol-Version: 2025-06-18\r\n", &initialized)).await;
    assert_eq!((status, body.as_str()), (202, ""));
    let pong = client.send(&json!({"jsonrpc": "2.0", "id": "a", "method": "ping"})).await;
    assert_eq!(pong, json!({"jsonrpc": "2.0", "id": "a", "result": {}}));
    let list = client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})).await;
    let schema: Value = schema().read().expect("JSON");
    assert_eq!(
        list["result"]["tools"],
        json!([{"name": "echo", "description": "About echo", "inputSchema": schema}])
    );
    let done = client.call(2, "echo", &json!({"city": "Bern"})).await;
    assert_eq!(said(&done), (r#"{"city":"Bern"}"#, false));
    let batch = json!([call(3, "echo", &json!({})), {"jsonrpc": "2.0", "method": "x"}, {"jsonrpc": "2.0", "id": 4, "method": "ping"}]);
    let ids: Vec<Value> =
        client.send(&batch).await.as_array().expect("a batch").iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids, [3, 4]);
    server.close().await;
    assert!(TcpStream::connect(&client.host).await.is_err(), "the listener is still there");
}

#[tokio::test]
async fn requests_of_others_are_refused_before_their_body_is_read() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let count = tool("count", move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(String::new()) }
    });
    let (_server, client) = serve([count]).await;
    let body = call(1, "count", &json!({})).to_string();
    let good = client.request("", &body);
    let token = client.authorization.clone();
    assert_eq!(token.len(), "Bearer ".len() + 64, "256 bits");
    let wrong_last = format!("{}{}", &token[..token.len() - 1], if token.ends_with('0') { '1' } else { '0' });
    let port = client.host.rsplit(':').next().expect("a port");
    let cases = [
        (good.replace(&token, &wrong_last), 401),
        (good.replace(&token, &token.replace("Bearer", "bearer")), 401),
        (good.replace(&format!("Authorization: {token}\r\n"), ""), 401),
        (good.replace(&format!("Host: {}", client.host), "Host: evil.example"), 403),
        (good.replace(&format!("Host: {}", client.host), "Host: 127.0.0.1"), 403),
        (good.replace(&format!("Host: {}\r\n", client.host), ""), 403),
        (good.replace("POST /mcp", "POST http://evil.example/mcp"), 403),
        (good.replace("Accept:", "Origin: http://127.0.0.1\r\nAccept:"), 403),
        (good.replace("Accept:", "Origin: null\r\nAccept:"), 403),
        (good.replace("POST /mcp", "POST /"), 404),
        (good.replace("POST /mcp", "GET /mcp"), 405),
        (good.replace("POST /mcp", "DELETE /mcp"), 405),
        (good.replace("Content-Type: application/json", "Content-Type: text/plain"), 415),
        // Nothing of these bodies is sent, so the refusal does not depend on them.
        (format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Length: 9999\r\n\r\n", client.host), 401),
        (
            good.replace(
                &format!("Content-Length: {}", body.len()),
                "MCP-Protocol-Version: 1999-01-01\r\nContent-Length: 2",
            ),
            400,
        ),
        (client.request("", "{"), 400),
    ];
    for (request, expected) in cases {
        let (status, _, said) = client.raw(&request).await;
        assert_eq!(status, expected, "{request}\n{said}");
        assert!(!said.contains(&token["Bearer ".len()..]), "{said}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    let (status, _, _) = client.raw(&good.replace(&client.host, &format!("localhost:{port}"))).await;
    assert_eq!((status, calls.load(Ordering::Relaxed)), (200, 1));
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let (_server, client) = serve([echo()]).await;
    let long = "x".repeat(3 << 20);
    assert_eq!(said(&client.call(1, "echo", &json!({"long": long})).await).0.len(), long.len() + 11);
    let head = client.request("", "").replace("Content-Length: 0", "Content-Length: 9000000");
    assert_eq!(client.raw(&head).await.0, 413, "by its announced length");
    let head = client.request("", "").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let chunk = format!("{:x}\r\n{}\r\n", 5 << 20, "x".repeat(5 << 20));
    let mut stream = client.connect(&head).await;
    let (mut reading, mut writing) = stream.split();
    // The server may close the connection while the chunk is being written.
    let (_, text) = tokio::join!(writing.write_all(chunk.as_bytes()), async {
        let mut text = vec![0; 64];
        let read = reading.read(&mut text).await.expect("a response");
        String::from_utf8_lossy(&text[..read]).into_owned()
    });
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
}

#[tokio::test]
async fn mistakes_are_errors_of_the_protocol_and_failures_errors_of_the_tool() {
    let fails = tool("fails", |input| async move {
        let number: u8 = input.read()?;
        Ok(number.to_string())
    });
    let panics =
        tool("panics", |_| -> std::future::Ready<super::CallResult> { panic!("secret of the host") });
    let panics_later = tool("panics-later", |_| async {
        tokio::task::yield_now().await;
        panic!("secret of the host")
    });
    let (_server, client) = serve([echo(), fails, panics, panics_later]).await;
    for (message, code) in [
        (call(1, "nothing", &json!({})), -32602),
        (call(1, "echo", &json!([1])), -32602),
        (call(1, "echo", &json!("text")), -32602),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}), -32602),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}), -32601),
        (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}), -32600),
        (json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}), -32600),
        (json!("ping"), -32600),
        (json!([]), -32600),
    ] {
        let response = client.send(&message).await;
        assert_eq!(response["error"]["code"], json!(code), "{message}: {response}");
    }
    let no_input = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}});
    assert_eq!(said(&client.send(&no_input).await), ("{}", false));
    let (text, failed) = {
        let response = client.call(2, "fails", &json!({})).await;
        (said(&response).0.to_owned(), said(&response).1)
    };
    assert!(failed && text.contains("invalid type"), "{text}");
    for name in ["panics", "panics-later"] {
        let response = client.call(3, name, &json!({})).await;
        assert_eq!(said(&response), ("the tool failed: it panicked", true));
    }
    assert_eq!(said(&client.call(4, "echo", &json!({})).await), ("{}", false), "the server goes on");
}

#[tokio::test]
async fn calls_run_at_once_up_to_a_limit() {
    let both = Arc::new(Barrier::new(2));
    let meets = tool("meets", move |_| {
        let both = both.clone();
        async move {
            both.wait().await;
            Ok("met".to_owned())
        }
    });
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counts, seen) = (running.clone(), most.clone());
    let counted = tool("counted", move |_| {
        let (running, most) = (counts.clone(), seen.clone());
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(50)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(String::new())
        }
    });
    let (_server, client) = serve([meets, counted]).await;
    let nothing = json!({});
    let calls = async { tokio::join!(client.call(1, "meets", &nothing), client.call(1, "meets", &nothing)) };
    let (one, two) = soon("two calls", calls).await;
    assert_eq!((said(&one).0, said(&two).0), ("met", "met"));
    let client = Arc::new(client);
    let mut calls = tokio::task::JoinSet::new();
    for id in 0..40 {
        let client = client.clone();
        calls.spawn(async move { client.call(id, "counted", &json!({})).await });
    }
    let all = soon("many calls", calls.join_all()).await;
    assert!(all.iter().all(|response| said(response) == ("", false)));
    assert_eq!(most.load(Ordering::SeqCst), CALLS);
}

/// Returns a tool that hangs, and what is notified when a call of it begins and is dropped.
fn hanging() -> (HostTool, Arc<Notify>, Arc<AtomicUsize>) {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (begins, drops) = (begun.clone(), dropped.clone());
    let hangs = tool("hangs", move |_| {
        let (begins, dropped) = (begins.clone(), Dropped(drops.clone()));
        async move {
            let _dropped = dropped;
            begins.notify_one();
            std::future::pending().await
        }
    });
    (hangs, begun, dropped)
}

async fn until(count: &AtomicUsize, expected: usize) {
    soon("the drop of the call", async {
        while count.load(Ordering::SeqCst) < expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_running_call_is_dropped_at_the_end_of_the_server() {
    let (hangs, begun, dropped) = hanging();
    let (server, client) = serve([hangs.clone()]).await;
    let _stream = client.connect(&client.request("", &call(1, "hangs", &json!({})).to_string())).await;
    soon("the call", begun.notified()).await;
    soon("the end", server.close()).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1, "it is gone when the server is");
    let (server, client) = serve([hangs]).await;
    let _stream = client.connect(&client.request("", &call(1, "hangs", &json!({})).to_string())).await;
    soon("the call", begun.notified()).await;
    drop(server);
    until(&dropped, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_blocks_its_thread_does_not_hold_up_the_end() {
    let (begun, (go, wait)) = (Arc::new(Notify::new()), std::sync::mpsc::channel::<()>());
    let (begins, wait) = (begun.clone(), std::sync::Mutex::new(wait));
    let blocks = tool("blocks", move |_| {
        begins.notify_one();
        // Until the sender is dropped.
        let _ = wait.lock().expect("one call").recv();
        std::future::ready(Ok(String::new()))
    });
    let (server, client) = serve([blocks]).await;
    let _stream = client.connect(&client.request("", &call(1, "blocks", &json!({})).to_string())).await;
    soon("the call", begun.notified()).await;
    soon("the end", server.close()).await;
    drop(go);
}

#[tokio::test]
async fn a_client_cancels_its_call_by_a_notification_or_by_leaving() {
    let (hangs, begun, dropped) = hanging();
    let (_server, client) = serve([hangs]).await;
    let request = client.request("Mcp-Session-Id: one\r\n", &call(7, "hangs", &json!({})).to_string());
    let calling = client.raw(&request);
    let cancelling = async {
        soon("the call", begun.notified()).await;
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        // The id of another client is another call.
        for (who, gone) in [("two", 0), ("one", 1)] {
            let header = format!("Mcp-Session-Id: {who}\r\n");
            assert_eq!(client.raw(&client.request(&header, &cancelled.to_string())).await.0, 202);
            until(&dropped, gone).await;
        }
    };
    let ((status, _, body), ()) = tokio::join!(calling, cancelling);
    assert!(status == 200 && body.contains("cancelled"), "{status} {body}");
    let stream = client.connect(&request).await;
    soon("the call", begun.notified()).await;
    drop(stream);
    until(&dropped, 2).await;
}

#[test]
fn tools_that_no_agent_could_call_are_errors() {
    let is = |task: crate::Task| task.check_tools().map_err(|error| error.to_string());
    let task = || crate::task("hi").provider("claude");
    let named = |name: &str| tool(name, |_| async { Ok(String::new()) });
    assert_eq!(is(task()), Ok(()));
    assert_eq!(is(task().tool(named("get_weather-2"))), Ok(()));
    for name in ["", "two words", "naïve", "mcp.tool", &"x".repeat(41)] {
        let error = task().tool(named(name)).check_tools().expect_err(name);
        assert!(matches!(error, HostToolError::Name { .. }), "{error}");
    }
    assert_eq!(is(task().tool(echo()).tool(echo())), Err("two tools have the name `echo`".to_owned()));
    let text = HostTool::new("text", "", Json::parse(r#"{"type": "string"}"#).expect("JSON"), |_| async {
        Ok(String::new())
    });
    assert!(is(task().tool(text)).expect_err("no object").contains("\"type\": \"object\""));
    let server = || McpServer::Http { url: "http://localhost/mcp".to_owned(), headers: Default::default() };
    assert_eq!(is(task().mcp_server("bowline", server())), Ok(()), "without tools the name is free");
    for both in [
        task().mcp_server("bowline", server()).tool(echo()),
        task().tool(echo()).mcp_server("bowline", server()),
    ] {
        assert!(matches!(both.check_tools(), Err(HostToolError::ServerName)));
    }
}
