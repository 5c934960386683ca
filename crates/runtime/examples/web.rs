//! A web service: start a run, and follow its events as server-sent events, also after the connection broke.
//!
//! `cargo run -p bowline --example web -- claude 127.0.0.1:8080`, then:
//!
//! ```text
//! curl -d "Audit this repository" http://127.0.0.1:8080/runs       prints the path of the run
//! curl -N http://127.0.0.1:8080/runs/s-20261115-083000123-000g40zz
//! curl -N -H "Last-Event-ID: 7" http://127.0.0.1:8080/runs/s-20261115-083000123-000g40zz
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bowline::SessionId;
use bowline::journal::{Home, Reader};
use bowline::roster::Roster;
use tokio::runtime::Handle;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The largest prompt that a client may send.
const LIMIT: u64 = 1 << 20;

/// The parts of an HTTP request that this service needs.
struct HttpRequest {
    /// Method and path, as in `GET /runs/s-1`.
    target: String,
    last_event: u64,
    body: String,
}

fn read(stream: &TcpStream) -> Result<HttpRequest> {
    let mut reader = BufReader::new(stream.take(2 * LIMIT));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let target = line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let (mut last_event, mut length) = (0, 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_ascii_lowercase().as_str() {
            "last-event-id" => last_event = value.trim().parse()?,
            "content-length" => length = value.trim().parse::<u64>()?.min(LIMIT),
            _ => {}
        }
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    Ok(HttpRequest { target, last_event, body })
}

/// Starts a run and returns its session. The run belongs to the service: it goes on without a client.
fn start(prompt: String, provider: &str, home: &Home, runtime: &Handle) -> Result<SessionId> {
    let task =
        bowline::task(prompt).provider(provider).roster(Roster::from_env()).home(home.clone()).key("web");
    let turn = runtime.block_on(task.start())?;
    let session = turn.session().clone();
    turn.detach();
    Ok(session)
}

/// Sends the events behind `last_event`, those on file first, until the run is over. The id of each is its number, so that a
/// browser's `EventSource` reconnects where it was.
fn follow(stream: &mut TcpStream, mut reader: Reader, last_event: u64) -> Result<()> {
    reader.seek(last_event.saturating_add(1))?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
    loop {
        let live = reader.is_live()?;
        while let Some(event) = reader.next_event()? {
            write!(stream, "id: {}\ndata: {}\n\n", event.seq, serde_json::to_string(&event)?)?;
        }
        if !live {
            // `EventSource` reconnects after every end; this event means that the client can close.
            return Ok(stream.write_all(b"event: end\ndata:\n\n")?);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn serve(mut stream: TcpStream, provider: &str, home: &Home, runtime: &Handle) -> Result<()> {
    let request = read(&stream)?;
    let (status, text) = match request.target.split_once(" /runs") {
        Some(("POST", "")) => match start(request.body, provider, home, runtime) {
            Ok(session) => ("201 Created", format!("/runs/{session}\n")),
            Err(error) => ("500 Internal Server Error", format!("{error}\n")),
        },
        // `session_dir` refuses ids that are no file names.
        Some(("GET", path)) => match home.session_dir(&SessionId::from(path.trim_start_matches('/'))) {
            Ok(dir) if dir.is_dir() => return follow(&mut stream, Reader::open(&dir)?, request.last_event),
            _ => ("404 Not Found", String::new()),
        },
        _ => ("404 Not Found", String::new()),
    };
    let length = text.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}")?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    bowline::init();
    let mut args = std::env::args().skip(1);
    let provider = args.next().unwrap_or_else(|| "claude".to_owned());
    let listener = TcpListener::bind(args.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned()))?;
    let (home, runtime) = (Home::from_env()?, Handle::current());
    println!("http://{}", listener.local_addr()?);
    for stream in listener.incoming().flatten() {
        let (provider, home, runtime) = (provider.clone(), home.clone(), runtime.clone());
        std::thread::spawn(move || {
            if let Err(error) = serve(stream, &provider, &home, &runtime) {
                eprintln!("error: {error}");
            }
        });
    }
    Ok(())
}
