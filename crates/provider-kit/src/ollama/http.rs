//! The part of HTTP/1.1 that one request over plain TCP needs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use super::address::Address;
use crate::Error;

/// The time limit of a connection.
const CONNECT: Duration = Duration::from_secs(3);

/// The longest line of a head, and the most lines.
const LINE: u64 = 64 * 1024;
const LINES: usize = 200;

/// The response of a server.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Body,
}

/// Sends a GET request.
pub(super) fn get(address: &Address, path: &str, patience: Duration) -> Result<Reply, Error> {
    ask(address, "GET", path, None, patience)
}

/// Sends a POST request.
pub(super) fn post(address: &Address, path: &str, body: &Value, patience: Duration) -> Result<Reply, Error> {
    ask(address, "POST", path, Some(body.to_string()), patience)
}

fn ask(
    address: &Address,
    method: &str,
    path: &str,
    body: Option<String>,
    patience: Duration,
) -> Result<Reply, Error> {
    let failed = |error: io::Error| {
        let refused = error.kind() == io::ErrorKind::ConnectionRefused;
        let hint = if refused { "; is `ollama serve` running?" } else { "" };
        let told =
            if is_timeout(&error) { "it did not respond in time".to_owned() } else { error.to_string() };
        Error::new(format!("could not reach Ollama at {address}: {told}{hint}"))
    };
    let mut stream = connect(address, patience).map_err(failed)?;
    let mut head = format!(
        "{method} {}{path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nConnection: close\r\n",
        address.prefix,
        address.authority()
    );
    if let Some(body) = &body {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let sent = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.unwrap_or_default().as_bytes()));
    // A server may reject a request before it has read all of it.
    match sent {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    read(BufReader::new(stream)).map_err(failed)
}

fn connect(address: &Address, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for place in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, CONNECT.min(patience)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Reads the head of a response.
fn read(mut stream: BufReader<TcpStream>) -> io::Result<Reply> {
    let bad =
        |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("the response is not HTTP: {why}"));
    loop {
        let first = line(&mut stream)?;
        let mut words = first.split_whitespace();
        let status = match (words.next(), words.next().map(str::parse::<u16>)) {
            (Some(version), Some(Ok(status))) if version.starts_with("HTTP/1.") => status,
            _ => return Err(bad(&format!("{first:?}"))),
        };
        let (mut length, mut chunked) = (None, false);
        for count in 0.. {
            let header = line(&mut stream)?;
            if header.is_empty() {
                break;
            }
            if count == LINES {
                return Err(bad("its head has no end"));
            }
            let Some((name, value)) = header.split_once(':') else { return Err(bad(&format!("{header:?}"))) };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse().map_err(|_| bad("its length is not a number"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.to_ascii_lowercase().contains("chunked");
            }
        }
        // An interim response (1xx) is not the final one.
        if (100..200).contains(&status) {
            continue;
        }
        let left = match (chunked, length) {
            (true, _) => Left::Chunk { left: 0, begun: false },
            (false, Some(length)) => Left::Bytes(length),
            (false, None) => Left::UntilClosed,
        };
        return Ok(Reply { status, body: Body { stream, left } });
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut text = String::new();
    stream.take(LINE).read_line(&mut text)?;
    if !text.ends_with('\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
    }
    Ok(text.trim_end().to_owned())
}

/// The body of a response. A premature end is an error.
pub(super) struct Body {
    stream: BufReader<TcpStream>,
    left: Left,
}

/// The rest of a body.
enum Left {
    Bytes(u64),
    Chunk { left: u64, begun: bool },
    UntilClosed,
    Nothing,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = match &mut self.left {
            Left::Nothing | Left::Bytes(0) => return Ok(0),
            Left::UntilClosed => return self.stream.read(buffer),
            Left::Bytes(left) => *left,
            Left::Chunk { left: 0, begun } => {
                // Every chunk but the first is preceded by a line end.
                if std::mem::replace(begun, true) {
                    line(&mut self.stream)?;
                }
                let size = line(&mut self.stream)?;
                let size = size.split(';').next().unwrap_or_default().trim();
                let size = u64::from_str_radix(size, 16)
                    .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a chunk has no length"))?;
                if size == 0 {
                    self.left = Left::Nothing;
                    return Ok(0);
                }
                self.left = Left::Chunk { left: size, begun: true };
                size
            }
            Left::Chunk { left, .. } => *left,
        };
        let room = usize::try_from(most).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.stream.read(&mut buffer[..room])?;
        if count == 0 && room > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed"));
        }
        match &mut self.left {
            Left::Bytes(left) | Left::Chunk { left, .. } => *left -= count as u64,
            Left::UntilClosed | Left::Nothing => {}
        }
        Ok(count)
    }
}
